"""Blend's own view of a reserve: ``get_reserve`` of v2 pools, accrued to the time of the call, without the totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporter import exact
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.source import ContractCall
from exporter.protocols.base import NoView, ProtocolReading, ProtocolViews, Row, ViewCall

RATE_SCALE = 10**12
_SHARES = ("b_supply", "d_supply")
_CONFIG = ("util", "r_base", "r_one", "r_two", "r_three", "reactivity")


class BlendViews(ProtocolViews):
    """The view functions of Blend."""

    def calls(self, reading: ProtocolReading) -> Iterator[ViewCall | NoView]:
        for market in reading.markets:
            if market.version != "v2":
                yield NoView(market.address, f"Blend {market.version} pools have no view of a reserve")
        for pool in reading.pools:
            if pool["version"] == "v2":
                call = ContractCall(pool["market"], "get_reserve", (address(pool["pool"]),))
                yield ViewCall(pool["market"], pool["pool"], call)

    def fields(self, asked: ViewCall, value: ScVal, row: Row, time: int) -> Mapping[str, tuple[object, object]]:  # noqa: ARG002
        reserve = Fields.of(value, "get_reserve")
        data, config = reserve.struct("data"), reserve.struct("config")
        b_rate, d_rate = data.i128("b_rate"), data.i128("d_rate")
        supplied = data.i128("b_supply") * b_rate // RATE_SCALE
        borrowed = exact.ceil_divide(data.i128("d_supply") * d_rate, RATE_SCALE)
        return {
            "token_address": (row["token_address"], reserve.address("asset")),
            "decimals": (10 ** row["decimals"], reserve.i128("scalar")),
            "accrued_to": (time, data.u64("last_time")),
            "supply_index": (row["supply_index"], b_rate),
            "borrow_index": (row["borrow_index"], d_rate),
            "rate_modifier": (row["rate_modifier"], data.i128("ir_mod")),
            "backstop_credit": (row["backstop_credit"], data.i128("backstop_credit")),
            "total_supplied": (row["total_supplied"], supplied),
            "total_borrowed": (row["total_borrowed"], borrowed),
            "utilization_bps": (row["utilization_bps"], exact.utilization_bps(borrowed, supplied)),
            **{name: (row["raw"][name], data.i128(name)) for name in _SHARES},
            **{name: (row["raw"][name], config.u32(name)) for name in _CONFIG},
        }
