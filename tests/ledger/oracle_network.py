"""A network of price oracles behind a router; their prices move one after another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import cycle, islice
from random import Random

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import code_key, decode_contract_data, instance_key, variant_key
from exporter.ledger.codec.scval_encode import VOID, address, encode_scval, i128, symbol, u32, vec
from exporter.ledger.source import ContractCall, RawEntry
from exporter.localnet.chain import DEFAULT_WINDOW, Chain, Change
from exporter.localnet.network import LocalNetwork, Simulation
from tests.localnet.routed import CODE, ROUTER, RoutedAnswers
from tests.protocols.made_ledger import Written, contract, entry, instance, price_data

LIFE = 1_000_000
QUIET: Written = entry(contract("a quiet contract"), symbol("Quiet"), VOID)
"""An entry that never changes, and pins a reading to a ledger."""


class FeedKind(Enum):
    """What an oracle has of a token."""

    NORMAL = "a price"
    CONSTANT = "a price that is always of now"
    MISSING = "no price"
    UNKNOWN = "nothing, so that the call traps"


@dataclass(slots=True)
class Feed:
    """What the oracle at an address says of a token."""

    oracle: str
    token: str
    kind: FeedKind
    price: int

    @property
    def key(self) -> bytes:
        """The LedgerKey XDR of its price."""
        return variant_key(self.oracle, "Price", address(self.token))

    def entry(self, time: int) -> Written:
        """Its entry as written at a time: PriceData, a number alone where the price is constant, or void."""
        values = {FeedKind.NORMAL: price_data(self.price, time), FeedKind.CONSTANT: i128(self.price)}
        return entry(self.oracle, vec(symbol("Price"), address(self.token)), values.get(self.kind, VOID))


class _OracleAnswers:
    """``decimals()`` and ``lastprice(asset)`` of every oracle."""

    def simulate(self, chain: Chain, ledger: int, call: ContractCall) -> Simulation:
        """Answer one call on the state of a ledger."""
        keys = [instance_key(call.contract)]
        if call.function == "lastprice":
            ((_, (_, (_, token))),) = call.arguments
            keys.append(variant_key(call.contract, "Price", address(token)))
        footprint = {key: chain.entry(key, ledger) for key in keys}
        if footprint[keys[0]] is None:
            return Simulation(None, "HostError: Error(Storage, MissingValue)", {})
        if call.function == "decimals":
            return Simulation(encode_scval(u32(7)), None, footprint)
        found = footprint[keys[-1]]
        if call.function != "lastprice" or found is None:
            error = "Contract, #2" if call.function == "lastprice" else "WasmVm, MissingValue"
            return Simulation(None, f"HostError: Error({error})\n\nEvent log (newest first):\n", {})
        value = decode_contract_data(found.data).value
        if value[0] == scval.I128:
            value = price_data(value[1], chain.close_time(ledger))
        return Simulation(encode_scval(value), None, footprint)


class OracleNetwork(LocalNetwork):
    """Five oracles with feeds of 24 tokens, three of them odd ones; a few prices move with each ledger."""

    def __init__(self, seed: int = 0, prices_per_ledger: int = 3, window: int = DEFAULT_WINDOW) -> None:
        self._moving = prices_per_ledger
        self.oracles = [contract(f"oracle {number}") for number in range(5)]
        odd = [FeedKind.CONSTANT, FeedKind.MISSING, FeedKind.UNKNOWN]
        self.feeds = [
            Feed(oracle, contract(f"token {token}"), FeedKind.NORMAL, 10**7 + token)
            for oracle in self.oracles
            for token in range(24)
        ]
        for number, feed in enumerate(self.feeds[5::40]):
            feed.kind = odd[number % len(odd)]
        self._normal = [feed for feed in self.feeds if feed.kind is FeedKind.NORMAL]
        self._next = islice(cycle(self._normal), Random(seed).randrange(len(self._normal)), None)
        time = 1_790_000_000
        written = [QUIET, instance(ROUTER, None, CODE), *(instance(oracle, None, CODE) for oracle in self.oracles)]
        written += [feed.entry(time) for feed in self.feeds if feed.kind is not FeedKind.UNKNOWN]
        written += [(code_key(CODE), b"\0\0\0\7\0\0\0\0" + CODE + b"\0\0\0\0")]
        entries = {key: RawEntry(data, 90, LIFE) for key, data in written}
        chain = Chain(entries, start_ledger=100, start_time=time, window=window)
        super().__init__(chain, "a network of oracles", 23, RoutedAnswers(_OracleAnswers()))

    def advance(self) -> int:
        """Close a ledger in which some prices move, the next ones in their order."""
        count = min(self._moving, len(self._normal))
        return self.move([next(self._next) for _ in range(count)])

    def move(self, feeds: list[Feed]) -> int:
        """Close a ledger in which these prices move."""
        time = self.chain.close_time(self.chain.latest) + 5
        for feed in feeds:
            feed.price += 1
        return self.chain.close([Change(*feed.entry(time), LIFE) for feed in feeds], close_time=time)
