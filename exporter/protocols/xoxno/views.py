"""XOXNO's own views of its pools (docs/protocols/xoxno.md, "Views").

``get_bulk_indexes`` alone brings the indexes to now; the views of a single pool use the stored ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import vec
from exporter.ledger.source import ContractCall
from exporter.protocols.base import Compared, NoView, ProtocolReading, ProtocolViews, Row, ViewCall
from exporter.protocols.xoxno.layout import RAY, RAY_DECIMALS, hub_asset

POOLS_PER_CALL = 64
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
        found: dict[str, dict[str, list[str]]] = {market.address: {} for market in reading.markets}
        for raw in reading.pools:
            found[raw["market"]].setdefault(raw["pool_contract"], []).append(raw["pool"])
        for market, contracts in found.items():
            if not contracts:
                yield NoView(market, "none of its pools could be read")
            for contract, pools in contracts.items():
                for start in range(0, len(pools), POOLS_PER_CALL):
                    some = tuple(pools[start : start + POOLS_PER_CALL])
                    keys = vec(*(hub_asset(pool).value() for pool in some))
                    yield ViewCall(market, some, ContractCall(contract, _BULK, (keys,)))
                for pool in pools:
                    for function in _SINGLE:
                        call = ContractCall(contract, function, (hub_asset(pool).value(),))
                        yield ViewCall(market, (pool,), call)

    def fields(self, asked: ViewCall, value: ScVal, row: Row, time: int) -> Mapping[str, tuple[object, object]]:  # noqa: ARG002
        name, ours = _SINGLE[asked.call.function]
        return {name: (ours(row), expect(value, scval.I128, asked.call.function))}

    def compare(self, asked: ViewCall, value: ScVal, rows: Mapping[str, Row], time: int) -> Iterator[Compared]:
        if asked.call.function != _BULK:
            yield from super().compare(asked, value, rows, time)
            return
        items = expect(value, scval.VEC, _BULK) or ()
        if len(items) != len(asked.pools):
            raise DecodeError(f"{_BULK} gave {len(items)} results for {len(asked.pools)} pools")
        for pool, item in zip(asked.pools, items, strict=True):
            fields = Fields.of(item, _BULK)
            for name in ("borrow_index", "supply_index"):
                if pool in rows:
                    yield Compared(asked.market, pool, name, rows[pool][name], fields.i128(name))
