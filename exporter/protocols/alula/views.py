"""Alula's own view of a market, and of each pool where a refused price fails it (docs/protocols/alula.md, "Views")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.source import ContractCall
from exporter.protocols.alula.layout import STATUS_NAMES
from exporter.protocols.base import Compared, NoView, ProtocolReading, ProtocolViews, Row, ViewCall

_BPS = 10_000
_PRICE_REFUSED = re.compile(r"Error\(Contract, #50[0-2]\)")
"""Unknown, stale, and not above zero (docs/protocols/alula.md, "Views")."""


class AlulaViews(ProtocolViews):
    """The view functions of Alula."""

    def calls(self, reading: ProtocolReading) -> Iterator[ViewCall | NoView]:
        for market in reading.markets:
            each = tuple(
                ViewCall(market.address, (pool,), ContractCall(market.address, "get_pool_data", (address(pool),)))
                for pool in market.members
            )
            yield ViewCall(market.address, market.members, ContractCall(market.address, "get_market_data"), each)

    def compare(self, asked: ViewCall, value: ScVal, rows: Mapping[str, Row], time: int) -> Iterator[Compared]:  # noqa: ARG002
        if asked.call.function == "get_pool_data":
            yield from _pool(asked.market, Fields.of(value, "get_pool_data"), rows, None)
            return
        market = Fields.of(value, "get_market_data")
        state = market.struct("global_state")
        pools = [Fields.of(item, "PoolData") for item in expect(market.required("pools_data"), scval.VEC, "pools_data")]
        found = tuple(pool.struct("pool").address("pool_address") for pool in pools)
        yield Compared(asked.market, None, "pools", asked.pools, found)
        names = list(STATUS_NAMES.values())
        ordinal = state.u32("status")
        said = names[ordinal] if ordinal < len(names) else f"unknown_{ordinal}"
        for row in list(rows.values())[:1]:
            yield Compared(asked.market, None, "status", row["market_status"], said)
            yield Compared(asked.market, None, "oracle", row["oracle"], state.address("oracle"))
        for pool in pools:
            yield from _pool(asked.market, pool, rows, market.u32("oracle_price_decimals"))

    def refused(self, asked: ViewCall, error: str, rows: Mapping[str, Row]) -> Iterator[Compared]:
        row = rows.get(asked.pools[0]) if len(asked.pools) == 1 and not asked.instead else None
        if row is not None and _PRICE_REFUSED.search(error):
            yield Compared(asked.market, asked.pools[0], "oracle_price", row["oracle_price"], None)


def _pool(market: str, view: Fields, rows: Mapping[str, Row], price_decimals: int | None) -> Iterator[Compared]:
    stored, apy = view.struct("pool"), view.struct("apy")
    pool = stored.address("pool_address")
    row = rows.get(pool)
    if row is None:
        return
    supplied, borrowed = view.i128("total_supply"), stored.i128("total_borrowed")
    contract: dict[str, object] = {
        "token_address": stored.address("token_address"),
        "decimals": stored.u32("token_decimals"),
        "supply_apy_bps": apy.u32("supply_bps"),
        "borrow_apy_bps": apy.u32("borrow_bps"),
        "utilization_bps": borrowed * _BPS // supplied if supplied else 0,
        "total_supplied": supplied,
        "total_borrowed": borrowed,
        "total_collateral": stored.i128("total_collateral"),
        "supply_index": view.i128("j_token_rate_floor_bps"),
        "borrow_index": view.i128("d_token_rate_ceil_bps"),
        "rate_modifier": stored.i128("interest_rate_modifier_bps"),
        "backstop_credit": stored.i128("take_rate_fees_sum"),
        "last_accrual_time": stored.u64("last_accrual_timestamp"),
        "oracle_price": view.i128("oracle_asset_price"),
    }
    if price_decimals is not None:
        contract["oracle_decimals"] = price_decimals
    for field, value in contract.items():
        yield Compared(market, pool, field, row[field], value)
