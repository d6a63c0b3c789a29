"""Yields on one basis: the accrued annual rate of each row, compounded daily, and with the reward that is funded."""

from __future__ import annotations

from decimal import Decimal, localcontext

import polars as pl

from exporter.protocols.compute import with_comparable_yields


def pools(*rows: tuple[int, int, int, int | None]) -> pl.DataFrame:
    """Rows of supply rate, borrow rate, decimals of both, and the reward's yield."""
    names = ("accrued_supply_apr", "accrued_borrow_apr", "apr_decimals", "supply_reward_apr_bps")
    schema = {**dict.fromkeys(names[:2], pl.Int128()), **dict.fromkeys(names[2:], pl.Int64()), "position": pl.Int64()}
    return pl.DataFrame([(*row, place) for place, row in enumerate(rows)], schema=schema, orient="row")


def daily(rate: str) -> int:
    """The floor in basis points, in decimals of a thousand digits."""
    with localcontext(prec=1_000):
        return int(((1 + Decimal(rate) / 365) ** 365 - 1) * 10_000)


def test_one_rate_is_one_yield_whatever_its_decimals() -> None:
    """5 % is 5.12 % compounded daily in every protocol; rows keep their order."""
    found = with_comparable_yields(pools((500, 1_000, 4, None), (5 * 10**25, 10**26, 27, None), (500_000, 0, 7, 0)))

    assert [512, 512, 512] == [daily("0.05")] * 3 == found["comparable_supply_apy_bps"].to_list()
    assert [1_051, 1_051, 0] == [daily("0.1"), daily("0.1"), 0] == found["comparable_borrow_apy_bps"].to_list()
    assert [0, 1, 2] == found["position"].to_list()


def test_the_total_has_the_reward_that_is_known() -> None:
    """A reward of null, which is not funded or has no price, adds nothing."""
    found = with_comparable_yields(pools((500, 0, 4, 130), (500, 0, 4, None), (0, 0, 4, 0)))
    assert [642, 512, 0] == found["total_supply_apy_bps"].to_list()


def test_no_rows_have_the_columns_too() -> None:
    """A protocol whose pools are all unread costs nothing."""
    assert {"comparable_supply_apy_bps", "total_supply_apy_bps"} <= {*with_comparable_yields(pools()).columns}
