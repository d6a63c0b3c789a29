"""XOXNO's own views of its pools (docs/protocols/xoxno.md, "Views").

``get_bulk_indexes`` alone brings the indexes to now; the views of a single pool use the stored ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import vec
from exporter.ledger.source import ContractCall
from exporter.protocols.base import NoView, ProtocolReading, ProtocolViews, Row, ViewCall
from exporter.protocols.xoxno.layout import RAY, RAY_DECIMALS, hub_asset

_BULK = "get_bulk_indexes"


def _amount(row: Row, shares: str, index: str, half: int = 0) -> int:
    """A stored amount in token base units, by two divisions; each rounds half up, or down without ``half``."""
    raw, unit = row["raw"], 10 ** (RAY_DECIMALS - row["raw"]["asset_decimals"])
    value = (raw[shares] * raw[index] + RAY // 2 * half) // RAY
    return int((value + unit // 2 * half) // unit)


_SINGLE: Mapping[str, tuple[str, Callable[[Row], object]]] = {
    "get_borrow_rate": ("stored_borrow_apr", lambda row: row["stored_borrow_apr"]),
    "get_borrowed_amount": ("stored total_borrowed", lambda row: _amount(row, "borrowed", "borrow_index", 1)),
    "get_deposit_rate": ("stored_supply_apr", lambda row: row["stored_supply_apr"]),
    "get_reserves": ("cash", lambda row: row["raw"]["cash"]),
    "get_revenue": ("stored revenue", lambda row: _amount(row, "revenue", "supply_index")),
    "get_supplied_amount": ("stored total_supplied", lambda row: _amount(row, "supplied", "supply_index", 1)),
    "get_utilisation": ("stored_utilization", lambda row: row["stored_utilization"]),
}
"""By the view of a single pool: the field it gives, and where the exporter has it. All give one i128."""


class XoxnoViews(ProtocolViews):
    """The view functions of XOXNO Lending."""

    def calls(self, reading: ProtocolReading) -> Iterator[ViewCall | NoView]:
        for market in reading.markets:
            if market.address not in {raw["market"] for raw in reading.pools}:
                yield NoView(market.address, "none of its pools could be read")
        for raw in reading.pools:
            key = hub_asset(raw["pool"]).value()
            for function in (*_SINGLE, _BULK):
                call = ContractCall(raw["pool_contract"], function, (vec(key) if function == _BULK else key,))
                yield ViewCall(raw["market"], raw["pool"], call)

    def fields(self, asked: ViewCall, value: ScVal, row: Row, time: int) -> Mapping[str, tuple[object, object]]:  # noqa: ARG002
        if asked.call.function == _BULK:
            items: Sequence[ScVal] = expect(value, scval.VEC, _BULK) or ()
            if len(items) != 1:
                raise DecodeError(f"{_BULK} gave {len(items)} results for a pool")
            fields = Fields.of(items[0], _BULK)
            return {name: (row[name], fields.i128(name)) for name in ("borrow_index", "supply_index")}
        name, ours = _SINGLE[asked.call.function]
        return {name: (ours(row), expect(value, scval.I128, asked.call.function))}
