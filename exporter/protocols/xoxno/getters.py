"""Compares our numbers with XOXNO's own getters of its pools (docs/protocols/xoxno.md, "Getters").

Only ``get_bulk_indexes`` brings the indexes to the time of the call. The getters of a single pool use the stored ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import vec
from exporter.ledger.source import ContractCall
from exporter.protocols.base import ComputedPool, ProtocolReading
from exporter.protocols.protocol import GetterCall, Getters, NoGetter, Pairs
from exporter.protocols.xoxno.layout import RAY, HubMarket, hub_asset

_BULK = "get_bulk_indexes"


def _hub_market(computed: ComputedPool) -> HubMarket:
    market: HubMarket = computed.pool.state
    return market


def _supplied(market: HubMarket) -> int:
    return _half_up(market, market.state.supplied, market.state.supply_index)


def _borrowed(market: HubMarket) -> int:
    return _half_up(market, market.state.borrowed, market.state.borrow_index)


def _half_up(market: HubMarket, shares: int, index: int) -> int:
    """A stored amount in base units of the token. It takes two divisions, and each rounds half up."""
    unit = market.unit
    return ((shares * index + RAY // 2) // RAY + unit // 2) // unit


def _revenue(market: HubMarket) -> int:
    return market.state.revenue * market.state.supply_index // RAY // market.unit


_SINGLE: Mapping[str, tuple[str, Callable[[ComputedPool], object]]] = {
    "get_borrow_rate": ("stored_borrow_apr", lambda computed: computed.row["stored_borrow_apr"]),
    "get_borrowed_amount": ("stored total_borrowed", lambda computed: _borrowed(_hub_market(computed))),
    "get_deposit_rate": ("stored_supply_apr", lambda computed: computed.row["stored_supply_apr"]),
    "get_reserves": ("cash", lambda computed: _hub_market(computed).state.cash),
    "get_revenue": ("stored revenue", lambda computed: _revenue(_hub_market(computed))),
    "get_supplied_amount": ("stored total_supplied", lambda computed: _supplied(_hub_market(computed))),
    "get_utilisation": ("stored_utilization", lambda computed: computed.row["stored_utilization"]),
}
"""The field that each getter of a single pool gives, and how the exporter computes it. Each getter gives one i128."""


def calls(reading: ProtocolReading) -> Iterator[GetterCall | NoGetter]:
    """The calls to make for all pools, and the reason for each market none of whose pools could be read."""
    with_pools = {pool.market.address for pool in reading.pools}
    for market in reading.markets:
        if market.address not in with_pools:
            yield NoGetter(market.address, "none of its pools could be read")
    for pool in reading.pools:
        hub_market: HubMarket = pool.state
        key = hub_asset(pool.pool).value()
        for function in (*_SINGLE, _BULK):
            call = ContractCall(hub_market.pool_contract, function, (vec(key) if function == _BULK else key,))
            yield GetterCall(pool.market.address, pool.pool, call)


def fields(asked: GetterCall, value: ScVal, computed: ComputedPool, time: int) -> Pairs:  # noqa: ARG001
    """The fields in a getter's result, next to our own. Raises `DecodeError`."""
    if asked.call.function == _BULK:
        items: Sequence[ScVal] = expect(value, scval.VEC, _BULK) or ()
        if len(items) != 1:
            raise DecodeError(f"{_BULK} gave {len(items)} results for a pool")
        fields = Fields.of(items[0], _BULK)
        return {
            "borrow_index": (computed.row["borrow_index"], fields.i128("borrow_index")),
            "supply_index": (computed.row["supply_index"], fields.i128("supply_index")),
        }
    name, ours = _SINGLE[asked.call.function]
    return {name: (ours(computed), expect(value, scval.I128, asked.call.function))}


GETTERS = Getters(calls=calls, fields=fields)
