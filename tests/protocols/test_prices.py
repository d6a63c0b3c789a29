"""From quotes to published prices and values, exactly."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter import exact
from exporter.exact import printed_price
from exporter.ledger.oracles import Quote
from exporter.protocols.prices import ABSURD_COLLATERAL, ABSURD_PRICE, price_frame, with_values

LARGEST = 10**38 - 1
INT128_MAX = 2**127 - 1


def quote(price: int | None, decimals: int | None = 7, timestamp: int | None = 1000) -> Quote:
    """A quote of token T at oracle O."""
    return Quote("O", "T", decimals, price, timestamp)


def row_of(given_: Quote, failure: str | None = None) -> dict[str, object]:
    """The row of one quote, judged by a protocol that gives this failure."""
    return price_frame([given_], lambda _: failure).row(0, named=True)


class TestPrintedPrice:
    """A price as text."""

    @given(st.integers(1, INT128_MAX), st.integers(0, 38))
    def test_is_the_price(self, price: int, decimals: int) -> None:
        """What is printed is the price itself, with that many digits behind the point."""
        text = printed_price(price, decimals)

        assert Fraction(price, 10**decimals) == Fraction(text)
        assert decimals == len(text.partition(".")[2])


class TestPriceFrame:
    """One row a quote."""

    def test_invalid(self) -> None:
        """A price that the protocol refuses is all nulls with the protocol's reason: none is ever zero."""
        row = row_of(quote(5), "the price is too old")

        expected = {"oracle": "O", "token_address": "T", "price_reason": "the price is too old", "price_is_known": True}
        assert expected == {name: value for name, value in row.items() if value is not None}

    @pytest.mark.parametrize("given_", [quote(None), quote(5, decimals=None)], ids=["no price", "no decimals"])
    def test_never_half(self, given_: Quote) -> None:
        """A protocol that forgets to refuse what is not a price does not get one published."""
        row = row_of(given_)

        assert ("the oracle gave no price", None, None) == (
            row["price_reason"],
            row["oracle_price"],
            row["oracle_price_usd"],
        )

    @pytest.mark.parametrize(
        ("given_", "reason"),
        [
            (quote(LARGEST), "valid"),
            (quote(LARGEST + 1), "the price 1" + "0" * 38 + " is too large: it has more than 38 digits"),
            (quote(INT128_MAX), f"the price {INT128_MAX} is too large: it has more than 38 digits"),
            (quote(1, timestamp=2**63 - 1), "valid"),
            (quote(1, timestamp=2**63), f"the price's time {2**63} is beyond any time"),
            (quote(1, timestamp=2**64 - 1), f"the price's time {2**64 - 1} is beyond any time"),
        ],
    )
    def test_what_a_history_cannot_hold(self, given_: Quote, reason: str) -> None:
        """A number the history has no room for is not a price, so that it costs the pool its price and not its row."""
        row = row_of(given_)

        assert reason == row["price_reason"]
        assert (reason == "valid") == (row["oracle_price"] is not None)


Pool = tuple[str, int, int, int, int | None, int]
"""Market, total supplied, plain collateral, token decimals, price or None, oracle decimals."""


def valued(*pools: Pool) -> pl.DataFrame:
    """Pools with their values."""
    prices = [pool[4] for pool in pools]
    frame = pl.DataFrame(
        [
            pl.Series("market", [pool[0] for pool in pools], dtype=pl.String),
            exact.column([pool[1] for pool in pools], "total_supplied"),
            exact.column([pool[2] for pool in pools], "total_collateral"),
            exact.column([pool[1] // 3 for pool in pools], "total_borrowed"),
            *(
                exact.column([None if pool[2] else pool[1] // 2 for pool in pools], f"available_to_{action}")
                for action in ("withdraw", "supply", "borrow")
            ),
            *(exact.column([0] * len(pools), f"{side}_cap") for side in ("supply", "borrow")),
            pl.Series("decimals", [pool[3] for pool in pools], dtype=pl.Int64),
            exact.column(prices, "oracle_price"),
            pl.Series("oracle_decimals", [None if pool[4] is None else pool[5] for pool in pools], dtype=pl.Int64),
            pl.Series("price_timestamp", [None if price is None else 1000 for price in prices], dtype=pl.Int64),
            pl.Series("oracle_price_usd", [None if price is None else "x" for price in prices], dtype=pl.String),
            pl.Series("price_reason", ["no price" if price is None else "valid" for price in prices], dtype=pl.String),
        ]
    )
    return with_values(frame)


def true_value(pool: Pool) -> int:
    """The value in cents as docs/api.md, "Numbers", defines it: floor((supplied + collateral) * price * 100)."""
    _, supplied, collateral, decimals, price, oracle_decimals = pool
    assert price is not None
    return floor(Fraction(supplied + collateral, 10**decimals) * Fraction(price, 10**oracle_decimals) * 100)


amounts = st.one_of(st.integers(0, LARGEST), st.integers(0, 10**20), st.integers(LARGEST - 5, LARGEST))
pools_strategy = st.tuples(
    st.sampled_from(["M1", "M2"]),
    amounts,
    st.one_of(st.just(0), st.integers(0, 10**20)),
    st.integers(0, 18),
    st.one_of(st.none(), amounts.filter(bool)),
    st.integers(0, 38),
)


class TestValues:
    """The value of a pool in US cents."""

    @given(st.lists(pools_strategy, max_size=6))
    @example([("M1", LARGEST, 0, 0, 1, 2), ("M1", 1, 0, 0, 1, 2)])
    def test_exact(self, pools: list[Pool]) -> None:
        """Each value is the exact one; where a market's sum has more than 38 digits, prices above an n-th of it go."""
        frame = valued(*pools)
        for market in ("M1", "M2"):
            rows = frame.filter(frame["market"] == market)
            inside = [pool for pool in pools if pool[0] == market]
            true = {place: true_value(pool) for place, pool in enumerate(inside) if pool[4] is not None}
            single = {place: value for place, value in true.items() if value <= INT128_MAX}
            most = LARGEST // len(single) if sum(single.values()) > LARGEST else LARGEST
            expected = [true[place] if true.get(place, LARGEST + 1) <= most else None for place in range(len(inside))]

            assert expected == rows["tvl_usd_cents"].to_list()
            assert sum(value for value in expected if value is not None) <= LARGEST

    @given(st.lists(pools_strategy, max_size=6))
    def test_price_and_values_go_together(self, pools: list[Pool]) -> None:
        """A pool has a value exactly when it has a price; each of its parts has one of its own, rounded apart."""
        for pool, row in zip(pools, valued(*pools).iter_rows(named=True), strict=True):
            has = row["tvl_usd_cents"] is not None
            names = ("oracle_price", "oracle_decimals", "price_timestamp", "oracle_price_usd")
            assert [has] * 4 == [row[name] is not None for name in names]
            assert has == (row["price_reason"] == "valid")
            market, supplied, collateral, *scale = pool
            parts = {
                "supplied": supplied,
                "borrowed": supplied // 3,
                "available": None if collateral else supplied // 2,
            }
            for name, amount in parts.items():
                part: Any = (market, amount, 0, *scale)
                assert (true_value(part) if has and amount is not None else None) == row[f"{name}_usd_cents"]

    def test_collateral_of_39_digits_has_no_value(self) -> None:
        """Plain collateral that cannot be given exactly has no value in money, whatever the price."""
        frame = valued(("M", 5, 10**38, 38, 1, 0), ("M", 5, 10**38 - 6, 38, 1, 0))

        assert [None, 99] == frame["tvl_usd_cents"].to_list()
        assert [ABSURD_COLLATERAL, "valid"] == frame["price_reason"].to_list()
        assert [None, "x"] == frame["oracle_price_usd"].to_list()

    @pytest.mark.parametrize("name", ["total_borrowed", "available_to_withdraw"])
    def test_a_part_whose_value_does_not_fit(self, name: str) -> None:
        """A price by which what is borrowed or available alone has 39 digits is as absurd as one for the whole."""
        pools = valued(("M", 1, 0, 0, 10**7, 7), ("M", 1, 0, 0, 10**7, 7))
        frame = with_values(pools.with_columns(exact.column([0, 10**36], name)))

        assert ["valid", ABSURD_PRICE] == frame["price_reason"].to_list()
        assert [100, None] == frame["supplied_usd_cents"].to_list()
