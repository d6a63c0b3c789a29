"""The exact way from quotes to published prices and values."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.exact import decimal_text
from exporter.ledger.oracles import Quote
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import PriceLimits
from exporter.protocols.numbers import PoolFrameRow, SpokeTerms
from exporter.protocols.prices import (
    ABSURD_COLLATERAL,
    ABSURD_PRICE,
    NO_ORACLE,
    NOT_ASKED,
    Price,
    judge,
    set_price,
    set_values,
    spokes_with_price,
    within_limits,
)
from exporter.protocols.protocol import WithoutPrice

LARGEST = 10**38 - 1
INT128_MAX = 2**127 - 1


def quote(price: int | None, decimals: int | None = 7, timestamp: int | None = 1000) -> Quote:
    """A quote of token T at oracle O."""
    return Quote("O", "T", decimals, price, timestamp)


@given(st.integers(1, INT128_MAX), st.integers(0, 38))
def test_a_printed_price_is_the_price(price: int, decimals: int) -> None:
    """The printed price is exact, with that many digits after the point."""
    text = decimal_text(price, decimals)

    assert Fraction(price, 10**decimals) == Fraction(text)
    assert decimals == len(text.partition(".")[2])


class TestJudge:
    """A price, or why there is none."""

    def test_a_refused_price_is_null_with_the_protocols_reason(self) -> None:
        """A price that the protocol refuses is all nulls with the protocol's reason: none is ever zero."""
        assert Price("the price is too old", True, None, None, None) == judge(
            quote(5), lambda _: "the price is too old"
        )

    @pytest.mark.parametrize(
        ("given_", "reason"),
        [
            # What a protocol forgets to refuse is not a price either.
            (quote(None), "the oracle gave no price"),
            (quote(5, decimals=None), "the oracle gave no price"),
            # A number the history has no room for costs the pool its price and not its row.
            (quote(LARGEST), "valid"),
            (quote(LARGEST + 1), "the price 1" + "0" * 38 + " is too large: it has more than 38 digits"),
            (quote(1, timestamp=2**63 - 1), "valid"),
            (quote(1, timestamp=2**63), f"the price's time {2**63} is beyond any time"),
        ],
    )
    def test_what_is_not_refused(self, given_: Quote, reason: str) -> None:
        """Price, decimals and time are those of the quote, or none is given."""
        given = (given_.price, given_.decimals, given_.timestamp) if reason == "valid" else (None, None, None)
        found = judge(given_, lambda _: None)

        assert (reason, *given) == (found.reason, found.price, found.decimals, found.timestamp)


SPOKE = SpokeTerms(
    spoke=1,
    deprecated=False,
    paused=False,
    frozen=False,
    can_supply=True,
    can_withdraw=True,
    can_borrow=True,
    can_repay=True,
    can_liquidate=True,
    can_be_seized=True,
    available_to_supply=5,
    available_to_borrow=5,
    collateral_factor_bps=0,
    liquidation_threshold_bps=0,
    liquidation_bonus_bps=0,
    supply_cap=0,
    borrow_cap=0,
    can_be_collateral=True,
    can_be_borrowed=True,
)


@pytest.mark.parametrize(
    ("price", "expected", "reason"),
    [
        (Price("valid", True, 5, 7, 1_000), (True, True, 5, 5), None),
        (
            within_limits(Price("valid", True, 5, 7, 1_000), PriceLimits(60), 1_061),
            (False, None, 0, None),
            "of 1 minute; as ever",
        ),
        (Price("no decimals", True, 5, None, 1_000), (False, None, 0, None), "of the token: no decimals; as ever"),
        (NO_ORACLE, (False, None, 0, None), "no valid price of the token: the market has no oracle; as ever"),
        (NOT_ASKED, (None, None, None, None), "is not known: the market's oracle was not asked"),
    ],
)
def test_gates_without_a_price(price: Price, expected: tuple[object, ...], reason: str | None) -> None:
    """Gates of a pool and its spokes close if the market refuses; if it may not refuse, open ones are not known."""
    without_price = WithoutPrice({"can_borrow": False, "can_supply": None}, "as ever")
    row: dict[str, Any] = {"can_borrow": None, "can_supply": True, "can_withdraw": True, "can_reason": None}
    set_price(cast(PoolFrameRow, row), price, without_price)
    (spoke,) = spokes_with_price((SPOKE,), price, without_price)

    assert expected == (spoke.can_borrow, spoke.can_supply, spoke.available_to_borrow, spoke.available_to_supply)
    assert (expected[0] if reason else None, expected[1], True) == (
        row["can_borrow"],
        row["can_supply"],
        row["can_withdraw"],
    )
    assert reason is row["can_reason"] is None or row["can_reason"].endswith(reason)


@pytest.mark.parametrize(
    ("protocol", "closed", "unknown"),
    [
        ("alula", {"can_borrow", "can_liquidate"}, set()),
        ("blend", {"can_borrow", "can_liquidate"}, set()),
        ("k2", {"can_withdraw", "can_borrow", "can_liquidate"}, {"can_supply"}),
        ("peridot", set(), {"can_borrow", "can_liquidate"}),
        ("slender", set(), {"can_borrow", "can_liquidate"}),
        ("xoxno", {"can_borrow", "can_liquidate"}, set()),
    ],
)
def test_what_a_missing_price_closes(protocol: str, closed: set[str], unknown: set[str]) -> None:
    """Each protocol's contracts refuse without a price what its page says; what they may refuse is not known."""
    gates = PROTOCOLS[protocol].prices.without_price.gates

    assert (closed, unknown) == ({name for name in gates if gates[name] is False}, gates.keys() - closed)


Pool = tuple[str, int, int, int, int | None, int]
"""Market, total supplied, plain collateral, token decimals, price or None, oracle decimals."""


def valued(*pools: Pool, **changes: int) -> list[dict[str, Any]]:
    """Pools with their values."""
    rows = []
    for market, supplied, collateral, decimals, price, oracle_decimals in pools:
        row: dict[str, Any] = {"market": market, "total_supplied": supplied, "total_collateral": collateral}
        row |= {"decimals": decimals, "total_borrowed": supplied // 3, "supply_cap": 0, "borrow_cap": 0}
        for action in ("withdraw", "supply", "borrow"):
            row[f"available_to_{action}"] = None if collateral else supplied // 2
        given = Price("no price") if price is None else Price("valid", True, price, oracle_decimals, 1_000)
        set_price(cast(PoolFrameRow, row), given, WithoutPrice())
        rows.append(row)
    rows[-1:] = [row | changes for row in rows[-1:]]
    set_values(cast(list[PoolFrameRow], rows))
    return rows


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
    def test_values_are_exact_and_no_sum_exceeds_38_digits(self, pools: list[Pool]) -> None:
        """Each value is exact; if a market's sum has more than 38 digits, prices above an n-th of it are removed."""
        for market in ("M1", "M2"):
            rows = [row for row in valued(*pools) if row["market"] == market]
            inside = [pool for pool in pools if pool[0] == market]
            true = {place: true_value(pool) for place, pool in enumerate(inside) if pool[4] is not None}
            single = {place: value for place, value in true.items() if value <= INT128_MAX}
            most = LARGEST // len(single) if sum(single.values()) > LARGEST else LARGEST
            expected = [true[place] if true.get(place, LARGEST + 1) <= most else None for place in range(len(inside))]

            assert expected == [row["tvl_usd_cents"] for row in rows]
            assert sum(value for value in expected if value is not None) <= LARGEST

    def test_collateral_of_39_digits_has_no_value(self) -> None:
        """Plain collateral that cannot be given exactly has no value in money, whatever the price."""
        rows = valued(("M", 5, 10**38, 38, 1, 0), ("M", 5, 10**38 - 6, 38, 1, 0), ("M", 5, 10**38, 38, None, 0))

        assert [(None, ABSURD_COLLATERAL, None), (99, "valid", "1"), (None, "no price", None)] == [
            (row["tvl_usd_cents"], row["price_reason"], row["oracle_price_usd"]) for row in rows
        ]

    @pytest.mark.parametrize("name", ["total_borrowed", "available_to_withdraw"])
    def test_a_part_whose_value_does_not_fit(self, name: str) -> None:
        """A price by which what is borrowed or available alone has 39 digits is as absurd as one for the whole."""
        rows = valued(("M", 1, 0, 0, 10**7, 7), ("M", 1, 0, 0, 10**7, 7), **{name: 10**36})

        assert [("valid", 100), (ABSURD_PRICE, None)] == [
            (row["price_reason"], row["supplied_usd_cents"]) for row in rows
        ]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (None, "valid"),
        (PriceLimits(), "valid"),
        (PriceLimits(60), "valid"),
        (PriceLimits(59), "the price is 1 minute old, more than the market's own limit of 59 seconds"),
        (PriceLimits(decimals=7), "valid"),
        (PriceLimits(decimals=14), "the market's oracle has 7 decimals, and the market takes 14 only"),
        (PriceLimits(refuses_future=True), "valid"),
    ],
)
def test_what_a_market_itself_takes(limits: PriceLimits | None, reason: str) -> None:
    """A price is refused for its age or its oracle's decimals if the market has a limit of its own."""
    assert reason == within_limits(Price("valid", True, 5, 7, 1_000), limits, 1_060).reason


def test_a_price_of_the_future() -> None:
    """A market may refuse one of after the ledger that its protocol takes."""
    price = Price("valid", True, 5, 7, 1_000)

    assert "valid" == within_limits(price, PriceLimits(60), 999).reason
    assert "the price is of 1 second after the ledger, which the market refuses" == (
        within_limits(price, PriceLimits(refuses_future=True), 999).reason
    )
