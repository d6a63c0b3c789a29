"""A ledger of XOXNO Lending for tests, written entry by entry, as `tests.blend_chain` has one of Blend's.

    ledger = XoxnoLedger()
    ledger.add_market("A", [(1, "USDC"), (2, "XLM")])
    ledger.replace(state("A", 1, "USDC", borrowed=0))
    tables = ledger.compute([demanded("A")], [deployment("A", [(1, "USDC"), (2, "XLM")])])

Contracts are named by labels: the controller A has its entries in the pool contract "A pool", and its prices from
"A aggregator". The shapes are those of docs/protocols/xoxno.md, written with nothing but the codec.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from exporter.compute import Tables, compute
from exporter.deployments import MARKET, Deployment, KnownContract, KnownPool
from exporter.ledger import scval
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import address, i128, string, symbol, u32, u64, vec
from exporter.ledger.source import ContractCall
from exporter.ledger.view import Reading, read_at_one_ledger
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from exporter.protocols.xoxno import Xoxno
from tests.blend_chain import (
    NOW,
    BlendLedger,
    BlendSource,
    Raw,
    Written,
    contract,
    entry,
    instance,
    struct_of,
    token_instance,
)

CODE = hashlib.sha256(b"the code of a XOXNO controller").digest()
RAY = 10**27
WAD = 10**18

Pools = Sequence[tuple[int, str]]
"""Hubs with the labels of tokens."""

# docs/protocols/xoxno.md, "Vectors", P1
PARAMETERS: dict[str, int] = {
    "base_borrow_rate": 5 * 10**24, "slope1": 30 * 10**24, "slope2": 95 * 10**24, "slope3": RAY,
    "mid_utilization": 600 * 10**24, "optimal_utilization": 850 * 10**24, "max_utilization": 950 * 10**24,
    "max_borrow_rate": 1_250 * 10**24,
}  # fmt: skip

# 1000 tokens supplied, 10 of them the protocol's, and 500 lent, a hundred seconds ago
STATE: dict[str, int] = {
    "borrow_index": RAY, "borrowed": 500 * RAY, "cash": 500 * 10**7, "revenue": 10 * RAY, "supplied": 1_000 * RAY,
    "supply_index": RAY, "last_timestamp": (NOW - 100) * 1_000,
}  # fmt: skip

JUDGED = PARAMETERS | STATE | {"reserve_factor": 1_500, "asset_decimals": 7}
"""The pool of `parameters` and `state`, as the judge takes it."""


def pool_id(hub: int, token: str) -> str:
    """The pool id of a token given by label."""
    return f"{hub}-{contract(token)}"


def candidate(label: str, pool: str | None = None, origin: Origin = Origin.DEPLOYMENT) -> Candidate:
    """A published address, or a pool of it."""
    return Candidate("xoxno", contract(label), origin, pool)


def demanded(label: str) -> Candidate:
    """An address that the operator named."""
    return candidate(label, origin=Origin.CONFIGURATION)


def deployment(market: str, pools: Pools = (), pool_contract: str | None = None) -> Deployment:
    """What is known of a controller, with the pools that a list has."""
    date = datetime.date(2026, 11, 18)
    roles = {
        MARKET: market,
        "pool": pool_contract or f"{market} pool",
        "price_aggregator": f"{market} aggregator",
    }
    contracts = tuple(KnownContract(contract(label), role, "test", date) for role, label in roles.items())
    known = tuple(
        KnownPool(contract(market), pool_id(hub, token), contract(token), "test", date, 7) for hub, token in pools
    )
    return Deployment("xoxno", "test", contracts, known)


def hub_asset(hub: int, token: str) -> ScVal:
    """`HubAssetKey` of a token given by label."""
    return struct_of({"asset": address(contract(token)), "hub_id": u32(hub)})


def controller(market: str, pool_contract: str | None = None, storage: Mapping[str, Raw] | None = None) -> Written:
    """The instance of a controller; ``storage`` replaces or removes some of its keys, which are enum variants."""
    stored: dict[str, Raw] = {
        "LastHubId": u32(3),
        "LastSpokeId": u32(8),
        "Pool": address(contract(pool_contract or f"{market} pool")),
        "PositionNft": address(contract("nft")),
        "PriceAggregator": address(contract(f"{market} aggregator")),
    }
    stored |= storage or {}
    pairs = [(vec(symbol(key)), value) for key, value in sorted(stored.items()) if value is not None]
    return instance(contract(market), pairs, CODE)


def parameters(market: str, hub: int, token: str, /, **changes: Any) -> Written:
    """A ``Params`` entry; a change is an amount, a value of any kind, or None to leave the field out."""
    fields: dict[str, Raw] = {name: i128(value) for name, value in PARAMETERS.items()}
    fields |= {
        "asset_decimals": u32(7),
        "asset_id": address(contract(token)),
        "flashloan_fee": u32(9),
        "is_flashloanable": (scval.BOOL, True),
        "reserve_factor": u32(1_500),
    }
    for name, value in changes.items():
        fields[name] = i128(value) if isinstance(value, int) else value
    return entry(contract(f"{market} pool"), vec(symbol("Params"), hub_asset(hub, token)), struct_of(fields))


def state(market: str, hub: int, token: str, /, **changes: Any) -> Written:
    """A ``State`` entry; changes as for ``parameters``."""
    fields: dict[str, Raw] = {name: i128(value) for name, value in STATE.items()}
    fields["last_timestamp"] = u64(STATE["last_timestamp"])
    for name, value in changes.items():
        if isinstance(value, int):
            value = u64(value) if name == "last_timestamp" else i128(value)
        fields[name] = value
    return entry(contract(f"{market} pool"), vec(symbol("State"), hub_asset(hub, token)), struct_of(fields))


def price_key(token: str) -> ScVal:
    """`PriceKey` of a token given by label."""
    return vec(symbol("Token"), address(contract(token)))


def oracle(market: str, token: str, max_age: int = 57_600, **changes: Raw) -> Written:
    """`AssetOracle` of a token, with one feed."""
    feed = {"contract": address(contract("feeds")), "feed_id": string(token), "nature": vec(symbol("Market"))}
    source = {"decimals": u32(8), "max_stale_seconds": u64(60), "provider": vec(symbol("RedStone"), struct_of(feed))}
    fields: dict[str, Raw] = {
        "asset_decimals": u32(7),
        "independence": vec(symbol("RequireDisjoint")),
        "max_price_stale_seconds": u64(max_age),
        "max_sanity_price_wad": i128(10**27),
        "min_sanity_price_wad": i128(1),
        "sources": vec(vec(symbol("Feed"), struct_of(source))),
        "tolerance": struct_of({"lower_ratio_bps": u32(9_091), "upper_ratio_bps": u32(11_000)}),
    }
    return entry(contract(f"{market} aggregator"), vec(symbol("Oracle"), price_key(token)), struct_of(fields | changes))


def quote(price: int = 2 * WAD, timestamp: int = NOW, **changes: Raw) -> ScVal:
    """`PriceStatus`: a good price of one source, with changes to it."""
    fields: dict[str, Raw] = {
        "deviation": (scval.BOOL, False),
        "final_wad": i128(price),
        "price_timestamp": u64(timestamp),
        "primary_wad": i128(price),
        "secondary_wad": i128(price),
        "stale": (scval.BOOL, False),
        "valid": (scval.BOOL, True),
    }
    return struct_of(fields | changes)


UNUSABLE = struct_of(
    {name: i128(0) for name in ("final_wad", "primary_wad", "secondary_wad")}
    | dict.fromkeys(("stale", "deviation", "valid"), (scval.BOOL, False))
    | {"price_timestamp": u64(0)}
)
"""`PriceStatus` of a token that the aggregator does not know, or has no price of."""


def quotes_result(quotes: Mapping[str, ScVal]) -> ScVal:
    """``Map<PriceKey, PriceStatus>``, with the tokens given by label in the order of the map's keys."""
    return (scval.MAP, tuple((price_key(token), quotes[token]) for token in sorted(quotes, key=contract)))


def flag(value: bool) -> ScVal:
    """A yes or no."""
    return (scval.BOOL, value)


def quotes_call(aggregator: str, tokens: Sequence[str]) -> ContractCall:
    """The call for the prices of tokens given by label."""
    return ContractCall(contract(aggregator), "quotes", (vec(*map(price_key, tokens)),))


class XoxnoLedger(BlendLedger):
    """Entries and call results of one ledger. Every method that takes a contract takes its label."""

    def add_market(self, market: str, pools: Pools = ((1, "USDC"),)) -> None:  # type: ignore[override]
        """A controller with hub markets, tokens, and an aggregator that prices all of them at 2 dollars now."""
        self.replace(controller(market))
        for hub, token in pools:
            self.replace(
                parameters(market, hub, token), state(market, hub, token), token_instance(token, token.encode())
            )
        ordered = sorted(pools, key=lambda pool: (pool[0], contract(pool[1])))
        self.set_quotes(market, {token: quote() for _, token in ordered})

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
        """Read through the one-ledger view; the source with its log stays in ``source``."""
        source = self.source = BlendSource(self.chain(), self.results)
        return asyncio.run(read_at_one_ledger(source, lambda view: Xoxno().read(view, candidates, deployments)))

    def compute(
        self, candidates: Sequence[Candidate], deployments: Sequence[Deployment] = (), close_time: int = NOW
    ) -> Tables:
        """Read, and compute the tables; the reading stays in ``reading``."""
        reading = self.read(candidates, deployments)
        self.reading = reading.result
        return compute([reading.result], {"xoxno": Xoxno()}, reading.certificate.ledger, close_time)
