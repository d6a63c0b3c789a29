"""Compares our numbers with Blend's own getter of a reserve, ``get_reserve`` of v2 pools.

The getter is accrued to the time of the call and does not have the totals.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter import exact
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.source import ContractCall
from exporter.protocols.base import AnyPool, ComputedPool, ProtocolReading
from exporter.protocols.blend.layout import Reserve
from exporter.protocols.protocol import GetterCall, Getters, NoGetter, Pairs

RATE_SCALE = 10**12


def _reserve(pool: AnyPool) -> Reserve:
    reserve: Reserve = pool.state
    return reserve


def calls(reading: ProtocolReading) -> Iterator[GetterCall | NoGetter]:
    """The calls to make for all reserves of v2, and for each market of v1 the reason why there is none."""
    for market in reading.markets:
        if market.version != "v2":
            yield NoGetter(market.address, f"Blend {market.version} pools have no getter of a reserve")
    for pool in reading.pools:
        if pool.market.version == "v2":
            call = ContractCall(pool.market.address, "get_reserve", (address(pool.pool),))
            yield GetterCall(pool.market.address, pool.pool, call)


def fields(asked: GetterCall, value: ScVal, computed: ComputedPool, time: int) -> Pairs:  # noqa: ARG001
    """The fields in the getter's result, next to our own. Raises `DecodeError`."""
    answer = Fields.of(value, "get_reserve")
    data, config = answer.struct("data"), answer.struct("config")
    row, ours = computed.row, _reserve(computed.pool)
    b_rate, d_rate = data.i128("b_rate"), data.i128("d_rate")
    supplied = data.i128("b_supply") * b_rate // RATE_SCALE
    borrowed = exact.ceil_divide(data.i128("d_supply") * d_rate, RATE_SCALE)
    return {
        "token_address": (row["token_address"], answer.address("asset")),
        "decimals": (10 ** row["decimals"], answer.i128("scalar")),
        "accrued_to": (time, data.u64("last_time")),
        "supply_index": (row["supply_index"], b_rate),
        "borrow_index": (row["borrow_index"], d_rate),
        "rate_modifier": (row["rate_modifier"], data.i128("ir_mod")),
        "backstop_credit": (row["backstop_credit"], data.i128("backstop_credit")),
        "total_supplied": (row["total_supplied"], supplied),
        "total_borrowed": (row["total_borrowed"], borrowed),
        "utilization_bps": (row["utilization_bps"], exact.utilization_bps(borrowed, supplied)),
        "b_supply": (ours.data.b_supply, data.i128("b_supply")),
        "d_supply": (ours.data.d_supply, data.i128("d_supply")),
        "util": (ours.config.util, config.u32("util")),
        "r_base": (ours.config.r_base, config.u32("r_base")),
        "r_one": (ours.config.r_one, config.u32("r_one")),
        "r_two": (ours.config.r_two, config.u32("r_two")),
        "r_three": (ours.config.r_three, config.u32("r_three")),
        "reactivity": (ours.config.reactivity, config.u32("reactivity")),
    }


GETTERS = Getters(calls=calls, fields=fields)
