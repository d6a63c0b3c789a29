"""The one rule of the best rates: what counts, in which order, and why nothing does."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from exporter.best import best_of_tokens, in_order, why_none_of_tokens, with_ranks

ROW: dict[str, Any] = {
    "pool": "first",
    "market": "one",
    "token_address": "token",
    "listed": True,
    "oracle_price": 10**7,
    "oracle_decimals": 7,
    "can_supply": True,
    "can_borrow": True,
    "tvl_usd_cents": 100_000,
    "supplied_usd_cents": 100_000,
    "borrowed_usd_cents": 0,
    "available_to_supply_usd_cents": None,
    "available_to_borrow_usd_cents": 100_000,
    "total_supply_apy_bps": 500,
    "comparable_borrow_apy_bps": 900,
    "borrow_reward_apr_bps": None,
    "ledger_close_time": 1_000_000,
    "price_timestamp": 1_000_000 - 86_400,
    "shortfall": None,
}


ROW_OF_A_MARKET = {"listed": True, "token_address": "token", "price_timestamp": 1_000_000, "tvl_usd_cents": 100_000} | {
    "oracle_price": 10**12,
    "oracle_decimals": 7,
}


def ranked(*changes: dict[str, Any]) -> pl.DataFrame:
    """Rows that differ from one that just counts on both sides."""
    return with_ranks(pl.DataFrame([ROW | change for change in changes], infer_schema_length=None))


@pytest.mark.parametrize(
    ("changes", "supply", "borrow"),
    [
        ({}, None, None),
        ({"listed": False}, "not listed", "not listed"),
        ({"listed": None}, None, None),
        ({"shortfall": 0}, None, None),
        ({"shortfall": 1, "can_supply": False}, "insolvent", "insolvent"),
        ({"can_supply": False, "can_borrow": None}, "closed", "not known"),
        ({"tvl_usd_cents": None}, "no price", "no price"),
        ({"price_timestamp": 1_000_000 - 86_401}, "old price", "old price"),
        ({"price_timestamp": None}, None, None),
        ({"tvl_usd_cents": 99_999}, "too small", "too small"),
        ({"available_to_supply_usd_cents": 99_999}, "no room", None),
        ({"available_to_borrow_usd_cents": 99_999}, None, "no room"),
        ({"available_to_borrow_usd_cents": None, "borrowed_usd_cents": 1}, None, "no room"),
    ],
)
def test_each_condition_alone_leaves_a_pool_out(
    changes: dict[str, Any], supply: str | None, borrow: str | None
) -> None:
    """Each condition alone leaves a pool out, at its very limit, and says which."""
    row = ranked({}, changes).row(1, named=True)
    assert (supply, borrow) == (row["no_supply"], row["no_borrow"])


@pytest.mark.parametrize(
    ("price", "decimals", "others", "odd"),
    [
        (20_000_000, 7, (10**7, 10**7), False),  # exactly twice
        (20_000_001, 7, (10**7, 10**7), True),
        (5_000_000, 7, (10**7, 10**7), False),  # exactly half
        (4_999_999, 7, (10**7, 10**7), True),
        (3 * 10**14, 14, (10**7, 3 * 10**7), False),  # the median of two is their mean, here 2; other decimals
        (4 * 10**14 + 1, 14, (10**7, 3 * 10**7), True),
        (10**13, 7, (10**7,), False),  # one other says nothing
        (10**13, 7, (), False),
        (10**7, 7, (10**7, 10**7, 10**13), False),  # the median, not the mean
        (10**37, 0, (10**37, 10**37), True),  # beyond 128 bits in the decimals of the others
    ],
)
def test_a_price_far_from_other_markets_is_odd(price: int, decimals: int, others: tuple[int, ...], odd: bool) -> None:
    """A price of more than twice, or less than half, of the median of two or more other listed markets is odd."""
    rows = [{"market": f"other {number}", "oracle_price": other} for number, other in enumerate(others)]
    row = ranked({"oracle_price": price, "oracle_decimals": decimals}, *rows).row(0, named=True)

    assert ["odd price" if odd else None] * 2 == [row["no_supply"], row["no_borrow"]]


@pytest.mark.parametrize(
    "other",
    [
        {"listed": False},
        {"market": "one"},
        {"token_address": "another"},
        {"price_timestamp": 1_000_000 - 86_401},
        {"oracle_price": None, "oracle_decimals": None, "tvl_usd_cents": None},
    ],
)
def test_who_says_what_a_price_should_be(other: dict[str, Any]) -> None:
    """Only fresh prices of the same token in other listed markets count: one of these with one more says nothing."""
    rows = [{"market": "second", "oracle_price": 10**12}, {"market": "third", "oracle_price": 10**12} | other]

    assert ranked({}, *rows)["no_supply"][0] is None
    assert "odd price" == ranked({}, rows[0], rows[1] | {"market": "third"} | ROW_OF_A_MARKET)["no_supply"][0]


def test_a_market_counts_once() -> None:
    """Many pools of one market with one price are one voice."""
    pools = [{"market": "loud", "pool": str(number), "oracle_price": 10**12} for number in range(9)]

    assert [None] * 10 == ranked({}, *pools)["no_supply"].to_list()


def test_a_funded_reward_wins() -> None:
    """Lending adds the reward and borrowing subtracts it; of equals the larger pool is first."""
    rows = ranked(
        {"pool": "plain"},
        {"pool": "rewarded", "total_supply_apy_bps": 640, "borrow_reward_apr_bps": 1_000},
        {"pool": "large", "tvl_usd_cents": 10**9},
        {"pool": "shut", "total_supply_apy_bps": 10**6, "can_supply": False, "can_borrow": False},
    )
    for side in ("supply", "borrow"):
        assert ["rewarded", "large", "plain"] == in_order(rows, side)["pool"].to_list()
        assert ["rewarded"] == best_of_tokens(rows, side)["pool"].to_list()
    assert -100 == rows["borrow_rank_bps"][1]


def test_the_reason_is_that_of_the_pool_that_comes_closest() -> None:
    """A token whose pools are closed or too small has none because it is too small."""
    rows = ranked({"can_supply": False}, {"tvl_usd_cents": 5}, {"token_address": "another"})

    assert ["another"] == best_of_tokens(rows, "supply")["token_address"].to_list()
    closest = why_none_of_tokens(rows, "supply").select("token_address", "no_supply")
    assert [(ROW["token_address"], "too small")] == closest.rows()
