"""A ledger of XOXNO Lending for tests: entries of the embedded network's stand-in, changed at will, and its code.

    ledger = XoxnoLedger()
    ledger.add_market("A", [(1, "USDC"), (2, "XLM")])
    ledger.replace(state("A", 1, "USDC", borrowed=0))
    tables = ledger.compute([demanded("A")], [deployment("A", [(1, "USDC"), (2, "XLM")])])

Contracts are named by labels: the controller A has its entries in the pool contract "A pool", and its prices from
"A aggregator". A call runs the stand-in's code, unless its result is set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from exporter.deployments import MARKET, Deployment, KnownPool
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import decode_contract_data, instance_of
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import encode_scval, i128, symbol, u64, vec
from exporter.ledger.source import ContractCall, EntriesAnswer, RawEntry, SimulationAnswer
from exporter.ledger.view import Reading, read_at_one_ledger
from exporter.localnet import xoxno
from exporter.localnet.chain import Chain
from exporter.localnet.network import CODE as STAND_INS
from exporter.localnet.network import LocalNetwork
from exporter.localnet.xoxno import RAY, Answer, HubMarket, Params, Source, price_key
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from exporter.protocols.xoxno import Xoxno
from exporter.protocols.xoxno.layout import PARAMETERS as PARAMETER_NAMES
from tests.localnet.direct_source import DirectSource
from tests.protocols.made_ledger import (
    NOW,
    MadeLedger,
    Raw,
    Written,
    candidate_of,
    changed,
    changed_entry,
    contract,
    instance,
    known,
    token_instance,
)

LEDGER = 1_000
CODE = xoxno.CONTROLLER_WASM_HASH
WAD = 10**18

Pools = Sequence[tuple[int, str]]
"""Hubs with the labels of tokens."""

# 1000 tokens supplied, 10 of them the protocol's, and 500 lent, a hundred seconds ago
STATE: dict[str, int] = {
    "borrow_index": RAY,
    "borrowed": 500 * RAY,
    "cash": 500 * 10**7,
    "revenue": 10 * RAY,
    "supplied": 1_000 * RAY,
    "supply_index": RAY,
    "last_timestamp": (NOW - 100) * 1_000,
}

JUDGED: dict[str, int] = {
    name: value
    for name, value in (asdict(Params()) | {"asset_decimals": 7} | STATE).items()
    if name in (*PARAMETER_NAMES, *STATE)
}
"""The pool of `parameters` and `state`, as the judge takes it."""

PARAMETERS = {name: JUDGED[name] for name in PARAMETER_NAMES if name not in ("asset_decimals", "reserve_factor")}
"""The rates and utilizations of its parameters."""


def pool_id(hub: int, token: str) -> str:
    """The pool id of a token given by label."""
    return f"{hub}-{contract(token)}"


candidate = partial(candidate_of, "xoxno")
demanded = partial(candidate_of, "xoxno", origin=Origin.CONFIGURATION)


def deployment(market: str, pools: Pools = (), pool_contract: str | None = None) -> Deployment:
    """What is known of a controller, with the pools that a list has."""
    roles = {MARKET: market, "pool": pool_contract or f"{market} pool", "price_aggregator": f"{market} aggregator"}
    contracts = tuple(known(label, role) for role, label in roles.items())
    listed = tuple(
        KnownPool(contract(market), pool_id(hub, token), contract(token), "test", contracts[0].date, 7)
        for hub, token in pools
    )
    return Deployment("xoxno", "test", contracts, listed)


def controller(market: str, pool_contract: str | None = None, storage: Mapping[str, Raw] | None = None) -> Written:
    """The instance of a controller; ``storage`` replaces or removes some of its keys, which are enum variants."""
    pool, aggregator = contract(pool_contract or f"{market} pool"), contract(f"{market} aggregator")
    _, data = xoxno.controller_instance(contract(market), pool, contract("nft"), aggregator, 3)
    stored = dict(instance_of(decode_contract_data(data)).storage or ())
    for name, value in (storage or {}).items():
        stored.pop(vec(symbol(name)), None)
        if value is not None:
            stored[vec(symbol(name))] = value
    return instance(contract(market), sorted(stored.items(), key=lambda pair: encode_scval(pair[0])), CODE)


def with_fields(written: Written, changes: Mapping[str, Any]) -> Written:
    """An entry of a struct, changed; an amount is an i128, but a time is a u64."""
    raw = {
        name: (u64(value) if name == "last_timestamp" else i128(value)) if isinstance(value, int) else value
        for name, value in changes.items()
    }
    return changed_entry(written, raw)


def parameters(market: str, hub: int, token: str, /, **changes: Any) -> Written:
    """A ``Params`` entry; a change is an amount, a value of any kind, or None to leave the field out."""
    return with_fields(xoxno.parameters_entry(contract(f"{market} pool"), HubMarket(hub, contract(token), 7)), changes)


def state(market: str, hub: int, token: str, /, **changes: Any) -> Written:
    """A ``State`` entry; changes as for ``parameters``."""
    return with_fields(
        xoxno.state_entry(contract(f"{market} pool"), HubMarket(hub, contract(token), 7, Params(), **STATE)), changes
    )


def spoke(market: str, hub: int, token: str, number: int = 1, /, **changes: bool | int) -> tuple[Written, Written]:
    """What a spoke allows with a hub market, caps of 2000 and of 1000 tokens unless others are given, and its usage."""
    made = HubMarket(hub, contract(token), 7, Params(), **STATE, supply_cap=2_000 * 10**7, borrow_cap=1_000 * 10**7)
    return (
        xoxno.spoke_asset_entry(contract(market), number, made, **changes),
        xoxno.spoke_usage_entry(contract(market), number, made),
    )


def oracle(market: str, token: str, max_age: int = 57_600, **changes: Raw) -> Written:
    """The ``Oracle`` entry of a token, with one source."""
    written = xoxno.oracle_entry(contract(f"{market} aggregator"), contract(token), 7, [Source()], max_age)
    return with_fields(written, changes)


def quote(price: int = 2 * WAD, timestamp: int = NOW, **changes: Raw) -> ScVal:
    """`PriceStatus`: a good price of one source, with changes to it."""
    good = dict.fromkeys(("final_wad", "primary_wad", "secondary_wad"), price)
    status = xoxno.UNUSABLE | good | {"price_timestamp": timestamp, "valid": True}
    return changed(xoxno.price_status(status), changes)


UNUSABLE = xoxno.price_status(xoxno.UNUSABLE)
"""`PriceStatus` of a token that the aggregator does not know, or has no price of."""


def quotes_result(quotes: Mapping[str, ScVal]) -> ScVal:
    """``Map<PriceKey, PriceStatus>``, with the tokens given by label in the order of the map's keys."""
    return (
        scval.MAP,
        tuple((price_key(contract(token)), quotes[token]) for token in sorted(quotes, key=contract)),
    )


def flag(value: bool) -> ScVal:
    """A yes or no."""
    return (scval.BOOL, value)


def quotes_call(aggregator: str, tokens: Sequence[str]) -> ContractCall:
    """The call for the prices of tokens given by label."""
    return ContractCall(contract(aggregator), "quotes", (vec(*(price_key(contract(token)) for token in tokens)),))


class LoggedSource(DirectSource):
    """A network's newest ledger, with results that stand over what its code gives; a text is the error of a call."""

    def __init__(self, network: LocalNetwork, results: Mapping[ContractCall, ScVal | bytes | str]) -> None:
        super().__init__(network)
        self.results = results
        self.calls: list[ContractCall] = []
        self.requests: list[int] = []
        """How many keys each request for entries had."""

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        """The entries, which are logged by their number."""
        self.requests.append(len(keys))
        return await super().read_entries(keys)

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        """The result that was set, or what the code gives."""
        self.calls.append(call)
        result = self.results.get(call)
        if result is None:
            return await super().simulate(call)
        if isinstance(result, str):
            return SimulationAnswer(LEDGER, None, result, (), "set")
        return SimulationAnswer(LEDGER, result if isinstance(result, bytes) else encode_scval(result), None, (), "set")


class XoxnoLedger(MadeLedger):
    """A ledger of its markets."""

    protocol = "xoxno"

    asked: LoggedSource
    """The source of the last reading, with its log."""

    def add_market(self, market: str, pools: Pools = ((1, "USDC"),)) -> None:
        """A controller with hub markets, tokens, and an aggregator that prices all of them at 2 dollars now."""
        aggregator = contract(f"{market} aggregator")
        tokens = dict.fromkeys(token for _, token in pools)
        self.replace(controller(market), xoxno.aggregator_instance(aggregator, map(contract, tokens)))
        for number in (1, 2, 3):
            self.replace(xoxno.hub_entry(contract(market), number), xoxno.spoke_entry(contract(market), number))
        for hub, token in pools:
            self.replace(parameters(market, hub, token), state(market, hub, token), *spoke(market, hub, token))
        for token in tokens:
            self.replace(
                token_instance(token, token.encode()),
                oracle(market, token),
                xoxno.answers_entry(aggregator, contract(token), [Answer(2 * WAD, NOW)]),
            )

    def set_quotes(self, market: str, quotes: Mapping[str, ScVal | str]) -> None:
        """What the aggregator gives for these tokens in this order, and for each alone; a text is the call's error.

        It has an oracle for each of them.
        """
        aggregator = f"{market} aggregator"
        failing = [value for value in quotes.values() if isinstance(value, str)]
        values = {token: value for token, value in quotes.items() if not isinstance(value, str)}
        self.results[quotes_call(aggregator, list(quotes))] = failing[0] if failing else quotes_result(values)
        for token, value in quotes.items():
            self.replace(oracle(market, token))
            alone = value if isinstance(value, str) else quotes_result({token: value})
            self.results[quotes_call(aggregator, [token])] = alone

    def read(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment] = ()) -> Reading[ProtocolReading]:
        """Read through the one-ledger view."""
        entries = {
            key: RawEntry(data, 1, LEDGER + 1 if live_until is None else live_until)
            for key, (data, live_until) in self.entries.items()
        }
        network = LocalNetwork(Chain(entries, start_ledger=LEDGER, start_time=NOW), "a test", 28, STAND_INS)
        source = self.asked = LoggedSource(network, self.results)
        return asyncio.run(read_at_one_ledger(source, lambda view: Xoxno().read(view, candidates, deployments)))
