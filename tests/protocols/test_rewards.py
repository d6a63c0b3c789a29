"""Yields of rewards are exact fractions of amounts and prices, floored once, and every null has its reason."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from exporter.exact import JSON_INTEGER_MAX
from exporter.ledger.oracles import PriceKey
from exporter.ledger.tokens import Token
from exporter.protocols.base import Market, ProtocolReading, RewardPrice, TokenOfMarket
from exporter.protocols.numbers import BackstopFrameRow, PoolFrameRow
from exporter.protocols.rewards import UsdPrice, UsdPrices, backstop_frame, set_rewards
from exporter.tables import MAX_DECIMAL, YEAR

PAID: dict[str, Any] = {
    "market": "M",
    "oracle": "O",
    "decimals": 6,
    "oracle_price": 3 * 10**14,
    "oracle_decimals": 14,
    "reward_token": "R",
    "reward_decimals": 2,
    "total_supplied": 5_000_000,
    "total_borrowed": 2_000_000,
    "supply_reward_per_second": 100,
    "supply_reward_reason": "valid",
    "borrow_reward_per_second": 0,
    "borrow_reward_reason": "expired",
}


HALF = RewardPrice("U", 5, 1, "pool")
USD_PRICES = {PriceKey("O", "U"): UsdPrice(2 * 10**7, 7)}


def reading(decimals: int | None = 7, worth: RewardPrice | None = HALF) -> ProtocolReading:
    """One reward token R that is worth half a U."""
    prices = {} if worth is None else {TokenOfMarket("M", "R"): worth}
    return ProtocolReading("made", tokens={"R": Token("R", "RWD", decimals)}, reward_prices=prices)


def computed(
    changes: dict[str, Any], given: ProtocolReading | None = None, prices: UsdPrices | None = None
) -> dict[str, Any]:
    """The row with what follows from it."""
    row = PAID | changes
    set_rewards(cast(PoolFrameRow, row), given or reading(), USD_PRICES if prices is None else prices)
    return row


def test_a_reward_is_a_yearly_amount_and_a_yield() -> None:
    """One base unit a second is 31,536,000 a year; at a dollar for R that is 21 % of five tokens at three dollars."""
    row = computed({})

    assert (YEAR, "RWD", 7) == (row["supply_reward_per_year"], row["reward_symbol"], row["reward_token_decimals"])
    assert (5 * 2 * 10**7, 8, "pool * O") == tuple(row[f"reward_price{end}"] for end in ("", "_decimals", "_source"))
    assert (2102, "valid") == (row["supply_reward_apr_bps"], row["supply_reward_reason"])
    assert (0, 0, "expired") == tuple(row[f"borrow_reward_{end}"] for end in ("per_year", "apr_bps", "reason"))


@given(
    pace=st.integers(1, 2**64),
    extra=st.integers(0, 9),
    total=st.integers(1, 10**30),
    places=st.tuples(st.integers(0, 18), st.integers(0, 18), st.integers(0, 18), st.integers(0, 18)),
    prices=st.tuples(st.integers(1, 10**18), st.integers(1, 10**18), st.integers(1, 10**18)),
)
def test_yields_are_floored_fractions(
    pace: int, extra: int, total: int, places: tuple[int, ...], prices: tuple[int, ...]
) -> None:
    """Whatever the scales, the yield is the exact fraction of the two dollar amounts, floored once to basis points."""
    (rate, quote, price), (of_token, of_price, of_reward, of_quote) = prices, places
    row = computed(
        {
            "supply_reward_per_second": pace,
            "reward_decimals": extra,
            "total_supplied": total,
            "decimals": of_token,
            "oracle_price": price,
            "oracle_decimals": of_price,
        },
        reading(of_reward, RewardPrice("U", rate, 3, "")),
        {PriceKey("O", "U"): UsdPrice(quote, of_quote)},
    )
    paid = Fraction(pace * YEAR, 10 ** (extra + of_reward)) * Fraction(rate * quote, 10 ** (3 + of_quote))
    behind = Fraction(total, 10**of_token) * Fraction(price, 10**of_price)

    assert min(paid / behind * 10_000 // 1, JSON_INTEGER_MAX) == row["supply_reward_apr_bps"]
    assert pace * YEAR // 10**extra == row["supply_reward_per_year"]


@pytest.mark.parametrize(
    ("changes", "given", "prices", "reason"),
    [
        ({"total_supplied": 0}, None, None, "nothing_supplied"),
        ({"oracle_price": None, "oracle_decimals": None}, None, None, "no_token_price"),
        ({}, reading(worth=None), None, "no_reward_price"),
        ({}, reading(decimals=None), None, "no_reward_price"),
        ({}, None, {}, "no_reward_price"),
        ({}, reading(worth=RewardPrice("U", 0)), None, "no_reward_price"),
        ({}, reading(worth=RewardPrice("U", 10**38)), None, "no_reward_price"),
    ],
)
def test_a_yield_that_is_not_known(
    changes: dict[str, Any], given: ProtocolReading | None, prices: UsdPrices | None, reason: str
) -> None:
    """If there is nobody to be paid, or no price, the yield is null with its reason, and the amount stays."""
    row = computed(changes, given, prices)

    assert (None, reason, YEAR) == tuple(row[f"supply_reward_{end}"] for end in ("apr_bps", "reason", "per_year"))
    if reason == "no_reward_price":
        assert (None, None, None) == tuple(row[f"reward_price{end}"] for end in ("", "_decimals", "_source"))


def test_what_is_too_large_is_capped() -> None:
    """A pace that no token can have is published as the largest possible number."""
    row = computed({"supply_reward_per_second": 10**38, "reward_decimals": 0})

    assert (MAX_DECIMAL, JSON_INTEGER_MAX) == (row["supply_reward_per_year"], row["supply_reward_apr_bps"])


def test_the_value_of_a_backstop() -> None:
    """Tokens at their price in USDC, times the price of USDC by the market's own oracle, floored to cents once."""
    given = reading()
    given.markets = [Market("M", "made", "v1", "", "", "O", "", None, ())]
    row = BackstopFrameRow(
        market="M",
        backstop="B",
        emission_token="R",
        emission_decimals=0,
        emission_reason="valid",
        lp_tokens=3_333_333,
        lp_price_usdc=4_481_960,
    )
    rows = [row, replace(row, market="N"), replace(row, lp_price_usdc=None)]
    given.backstops = {str(at): partial(lambda each, _: each, each) for at, each in enumerate(rows)}
    values = backstop_frame(given, {PriceKey("O", "U"): UsdPrice(99_990, 5)}, 0)["value_usd_cents"]

    assert [3_333_333 * 4_481_960 * 99_990 * 100 // 10**19, None, None] == values.to_list()
