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


def _half_up(dividend: int, divisor: int) -> int:
    return (dividend + divisor // 2) // divisor


def _floor(dividend: int, divisor: int) -> int:
    return dividend // divisor


def _amount(scaled: str, index: str, divide: Callable[[int, int], int] = _half_up) -> Callable[[Row], object]:
    """A stored amount in token base units, by two divisions."""

    def of(row: Row) -> int:
        raw = row["raw"]
        return divide(divide(raw[scaled] * raw[index], RAY), 10 ** (RAY_DECIMALS - raw["asset_decimals"]))

    return of


def _published(name: str) -> Callable[[Row], object]:
    return lambda row: row[name]


_SINGLE: Mapping[str, tuple[str, Callable[[Row], object]]] = {
    "get_borrow_rate": ("stored_borrow_apr", _published("stored_borrow_apr")),
    "get_borrowed_amount": ("stored total_borrowed", _amount("borrowed", "borrow_index")),
    "get_deposit_rate": ("stored_supply_apr", _published("stored_supply_apr")),
    "get_reserves": ("cash", lambda row: row["raw"]["cash"]),
    "get_revenue": ("stored revenue", _amount("revenue", "supply_index", _floor)),
    "get_supplied_amount": ("stored total_supplied", _amount("supplied", "supply_index")),
    "get_utilisation": ("stored_utilization", _published("stored_utilization")),
}
"""By the view of a single pool: the field it gives, and where the exporter has it. All give one i128."""


class XoxnoViews(ProtocolViews):
    """The view functions of XOXNO Lending."""

    def calls(self, reading: ProtocolReading) -> Iterator[ViewCall | NoView]:
        """The indexes of all pools in few calls, and every view of each single pool."""
        contracts: dict[str, str] = {}
        for market, contract in zip(reading.columns["market"], reading.columns["pool_contract"], strict=True):
            contracts[str(market)] = str(contract)
        for market in reading.markets:
            contract = contracts.get(market.address)
            if contract is None:
                yield NoView(market.address, "none of its pools could be read")
                continue
            pools = [
                str(pool)
                for owner, pool in zip(reading.columns["market"], reading.columns["pool"], strict=True)
                if owner == market.address
            ]
            for start in range(0, len(pools), POOLS_PER_CALL):
                some = tuple(pools[start : start + POOLS_PER_CALL])
                keys = vec(*(hub_asset(pool).value() for pool in some))
                yield ViewCall(market.address, some, ContractCall(contract, _BULK, (keys,)))
            for pool in pools:
                for function in _SINGLE:
                    call = ContractCall(contract, function, (hub_asset(pool).value(),))
                    yield ViewCall(market.address, (pool,), call)

    def compare(self, asked: ViewCall, value: ScVal, rows: Mapping[str, Row], time: int) -> Iterator[Compared]:  # noqa: ARG002
        """The projected indexes of the many, or the one number of a single pool's view."""
        if asked.call.function == _BULK:
            items = expect(value, scval.VEC, _BULK) or ()
            if len(items) != len(asked.pools):
                raise DecodeError(f"{_BULK} gave {len(items)} results for {len(asked.pools)} pools")
            for pool, item in zip(asked.pools, items, strict=True):
                fields = Fields.of(item, _BULK)
                for name in ("borrow_index", "supply_index"):
                    if pool in rows:
                        yield Compared(asked.market, pool, name, rows[pool][name], fields.i128(name))
            return
        name, ours = _SINGLE[asked.call.function]
        for pool in asked.pools:
            if pool in rows:
                yield Compared(
                    asked.market, pool, name, ours(rows[pool]), expect(value, scval.I128, asked.call.function)
                )
