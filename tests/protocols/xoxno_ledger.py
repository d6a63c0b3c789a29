"""A ledger of XOXNO Lending for tests: entries of the recording, changed as a test needs them.

    ledger = XoxnoLedger()
    ledger.add_market("A", [(1, "USDC"), (2, "XLM")])
    ledger.replace(state("A", 1, "USDC", borrowed=0))
    tables = ledger.compute([demanded("A")], [deployment("A", [(1, "USDC"), (2, "XLM")])])

Contracts are named by labels: the controller A has its entries in the pool contract "A pool", and its prices from
"A aggregator", which gives the statuses that are set of tokens, unless the result of a whole call is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from exporter.deployments import MARKET, Deployment, KnownPool
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, encode_scval, i128, struct_map, symbol, u32, u64, vec
from exporter.ledger.source import ContractCall, SimulationAnswer
from exporter.protocols.base import Origin
from tests.entries import code_of, name_of, recorded, recorded_instance
from tests.protocols.made_ledger import (
    NOW,
    MadeLedger,
    MadeSource,
    Raw,
    Written,
    candidate_of,
    changed,
    changed_entry,
    contract,
    entry,
    instance,
    known,
    token_instance,
)

CONTROLLER = recorded_instance("PriceAggregator")
CODE = code_of(CONTROLLER)
RAY = 10**27
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

PARAMETERS: dict[str, int] = {
    "base_borrow_rate": 5 * 10**24,
    "max_borrow_rate": 1_250 * 10**24,
    "max_utilization": 950 * 10**24,
    "mid_utilization": 600 * 10**24,
    "optimal_utilization": 850 * 10**24,
    "slope1": 30 * 10**24,
    "slope2": 95 * 10**24,
    "slope3": RAY,
}
"""The rates and utilizations of its parameters."""

JUDGED: dict[str, int] = PARAMETERS | STATE | {"asset_decimals": 7, "reserve_factor": 1_500}
"""The pool of `parameters` and `state`, as columns."""

ALLOWED: dict[str, bool | int] = {
    "is_collateralizable": True,
    "is_borrowable": True,
    "paused": False,
    "frozen": False,
    "no_seize": False,
    "loan_to_value": 7_500,
    "liquidation_threshold": 7_800,
    "liquidation_bonus": 900,
    "liquidation_fees": 1_200,
    "supply_cap": 2_000 * 10**7,
    "borrow_cap": 1_000 * 10**7,
}
"""What `spoke` allows: the caps are base units, all other numbers basis points."""


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
    stored: dict[str, Raw] = {name_of(key): value for key, value in CONTROLLER.storage or ()}
    stored |= {
        "LastHubId": u32(3),
        "LastSpokeId": u32(4),
        "Pool": address(contract(pool_contract or f"{market} pool")),
        "PriceAggregator": address(contract(f"{market} aggregator")),
    }
    stored |= storage or {}
    pairs = [(vec(symbol(name)), value) for name, value in stored.items() if value is not None]
    return instance(contract(market), sorted(pairs, key=lambda pair: encode_scval(pair[0])), CODE)


def with_fields(written: Written, changes: Mapping[str, Any]) -> Written:
    """An entry of a struct, changed; an amount is an i128, but a time is a u64."""
    raw = {
        name: (u64(value) if name == "last_timestamp" else i128(value)) if isinstance(value, int) else value
        for name, value in changes.items()
    }
    return changed_entry(written, raw)


def hub_asset(hub: int, token: str) -> ScVal:
    """`HubAssetKey` of a token given by label."""
    return struct_map({"asset": address(contract(token)), "hub_id": u32(hub)})


def parameters(market: str, hub: int, token: str, /, **changes: Any) -> Written:
    """A ``Params`` entry; a change is an amount, a value of any kind, or None to leave the field out."""
    key = vec(symbol("Params"), hub_asset(hub, token))
    ours = {"asset_decimals": u32(7), "asset_id": address(contract(token)), "reserve_factor": u32(1_500)}
    return with_fields(entry(contract(f"{market} pool"), key, recorded("Params")), PARAMETERS | ours | changes)


def state(market: str, hub: int, token: str, /, **changes: Any) -> Written:
    """A ``State`` entry; changes as for ``parameters``."""
    key = vec(symbol("State"), hub_asset(hub, token))
    return with_fields(entry(contract(f"{market} pool"), key, recorded("State")), STATE | changes)


def hub(market: str, number: int, active: bool = True) -> Written:
    """Whether a hub is active."""
    return entry(contract(market), vec(symbol("Hub"), u32(number)), struct_map({"is_active": flag(active)}))


def spoke_itself(market: str, number: int, deprecated: bool = False) -> Written:
    """A spoke's own entry."""
    value = changed(recorded("Spoke"), {"is_deprecated": flag(deprecated)})
    return entry(contract(market), vec(symbol("Spoke"), u32(number)), value)


def spoke(market: str, hub: int, token: str, number: int = 1, /, **changes: bool | int) -> tuple[Written, Written]:
    """What a spoke allows with a hub market, and its usage: all that is not the protocol's."""
    allowed = {
        name: flag(value) if isinstance(value, bool) else i128(value) if name.endswith("_cap") else u32(value)
        for name, value in (ALLOWED | changes).items()
    }
    used = {"supplied_scaled_ray": STATE["supplied"] - STATE["revenue"], "borrowed_scaled_ray": STATE["borrowed"]}
    key = (u32(number), hub_asset(hub, token))
    return (
        entry(contract(market), vec(symbol("SpokeAsset"), *key), struct_map(allowed)),
        entry(contract(market), vec(symbol("SpokeUsage"), *key), struct_map({k: i128(v) for k, v in used.items()})),
    )


def price_key(token: str) -> ScVal:
    """``PriceKey::Token`` of a token given by label."""
    return vec(symbol("Token"), address(contract(token)))


def oracle(market: str, token: str, max_age: int = 57_600, **changes: Raw) -> Written:
    """The ``Oracle`` entry of a token."""
    template = recorded("Oracle", "max_price_stale_seconds")
    value = changed(template, {"asset_decimals": u32(7), "max_price_stale_seconds": u64(max_age), **changes})
    return entry(contract(f"{market} aggregator"), vec(symbol("Oracle"), price_key(token)), value)


def _status(price: int, timestamp: int, valid: bool) -> ScVal:
    fields: dict[str, ScVal] = dict.fromkeys(("final_wad", "primary_wad", "secondary_wad"), i128(price))
    return struct_map(
        fields
        | {"price_timestamp": u64(timestamp), "deviation": flag(False), "stale": flag(False), "valid": flag(valid)}
    )


def quote(price: int = 2 * WAD, timestamp: int = NOW, **changes: Raw) -> ScVal:
    """`PriceStatus`: a good price of one source, with changes to it."""
    return changed(_status(price, timestamp, True), changes)


def flag(value: bool) -> ScVal:
    """A yes or no."""
    return (scval.BOOL, value)


UNUSABLE = _status(0, 0, False)
"""`PriceStatus` of a token that the aggregator does not know, or has no price of."""


def quotes_result(quotes: Mapping[str, ScVal]) -> ScVal:
    """``Map<PriceKey, PriceStatus>``, with the tokens given by label in the order of the map's keys."""
    return (
        scval.MAP,
        tuple((price_key(token), quotes[token]) for token in sorted(quotes, key=contract)),
    )


def quotes_call(aggregator: str, tokens: Sequence[str]) -> ContractCall:
    """The call for the prices of tokens given by label."""
    return ContractCall(contract(aggregator), "quotes", (vec(*map(price_key, tokens)),))


class QuotingSource(MadeSource):
    """A made source whose aggregators give ``statuses`` of tokens in a map; a text among them fails the whole call."""

    statuses: Mapping[tuple[str, ScVal], ScVal | str]

    @property
    def requests(self) -> list[int]:
        """How many keys each request for entries had."""
        return [keys for kind, keys, _ in self.log if kind == "entries"]

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        """The result that was set, or what follows from the statuses."""
        if call.function == "quotes" and call not in self.results:
            given = {key: self.statuses.get((call.contract, key), UNUSABLE) for key in call.arguments[0][1]}
            failing = [status for status in given.values() if isinstance(status, str)]
            in_order = sorted(given.items(), key=lambda pair: encode_scval(pair[0]))
            self.results = {**self.results, call: failing[0] if failing else (scval.MAP, tuple(in_order))}
        return await super().simulate(call)


class XoxnoLedger(MadeLedger):
    """A ledger of its markets."""

    protocol = "xoxno"

    asked: QuotingSource
    """The source of the last reading, with its log."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: dict[tuple[str, ScVal], ScVal | str] = {}

    def add_market(self, market: str, pools: Pools = ((1, "USDC"),)) -> None:
        """A controller with hub markets, tokens, and an aggregator that prices all of them at 2 dollars now."""
        tokens = dict.fromkeys(token for _, token in pools)
        self.replace(controller(market))
        for number in (1, 2, 3):
            self.replace(hub(market, number), spoke_itself(market, number))
        for number, token in pools:
            self.replace(parameters(market, number, token), state(market, number, token), *spoke(market, number, token))
        self.replace(*(token_instance(token, token.encode()) for token in tokens))
        self.set_quotes(market, dict.fromkeys(tokens, quote()))

    def set_quotes(self, market: str, quotes: Mapping[str, ScVal | str]) -> None:
        """What the aggregator gives for these tokens; a text is the error of each call for them.

        It has an oracle for each of them.
        """
        for token, status in quotes.items():
            self.replace(oracle(market, token))
            self.statuses[contract(f"{market} aggregator"), price_key(token)] = status

    def opened(self) -> MadeSource:
        """A source whose aggregators give the statuses."""
        self.asked = QuotingSource(self.chain(), self.results)
        self.asked.statuses = self.statuses
        return self.asked
