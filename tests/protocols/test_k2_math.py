"""K2's math against the vectors of docs/protocols/k2.md; test_contract_states has what its own code computed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from exporter.errors import ExactOverflowError
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval_encode import symbol, u128
from exporter.protocols.k2 import math
from exporter.protocols.k2.layout import (
    Configuration,
    Emission,
    Emissions,
    RateParameters,
    decode_configuration,
    shown_parameters,
)
from tests.protocols.judged import closed, published
from tests.protocols.world import contract

Reserve = dict[str, int]

RAY = 10**27
DAY, YEAR = 86_400, 31_536_000
NOW = 1_800_000_000

MODEL = 0, 8 * RAY // 10, 4 * RAY // 100, 6 * RAY // 10
"""The example of K2's documentation: base 0, optimum 80 %, slopes 4 and 60 %."""

NO_BITS = Configuration(**dict.fromkeys(Configuration.__struct_fields__, 0))

OPEN: Reserve = {
    "liquidity_index": RAY,
    "variable_borrow_index": RAY,
    "current_liquidity_rate": RAY // 10,
    "current_variable_borrow_rate": RAY // 10,
    "last_update_timestamp": NOW - DAY,
    "total_supply_scaled": 1_000 * 10**7,
    "total_debt_scaled": 500 * 10**7,
    "decimals": 7,
    "ltv": 7_500,
    "active": 1,
    "borrowing_enabled": 1,
    "cash": 500 * 10**7,
}


def row_of(reserve: Reserve) -> dict[str, Any]:
    """What is published about one reserve, with who may do what."""
    return published("k2", reserve, NOW)


@pytest.mark.parametrize(
    ("utilization", "model", "percent"),
    [
        *((20 * times, MODEL, times) for times in range(5)),
        (90, MODEL, 34),
        (100, MODEL, 64),
        # An optimum of 0 or of 1 divides by nothing.
        (0, (0, 0, *MODEL[2:]), 0),
        (100, (0, 0, *MODEL[2:]), 64),
        (100, (0, RAY, *MODEL[2:]), 4),
    ],
)
def test_borrow_rate_of_the_docs(utilization: int, model: tuple[int, ...], percent: int) -> None:
    """The docs' example, and models with one slope."""
    assert percent * RAY // 100 == math.variable_borrow_rate(utilization * RAY // 100, *model)


def test_supply_rate_of_the_docs() -> None:
    """10 % x 80 % x (1 - 20 %) = 6.4 %."""
    assert 64 * RAY // 1_000 == math.liquidity_rate(RAY // 10, 8 * RAY // 10, 2_000)


@pytest.mark.parametrize(
    ("rate", "seconds", "expected"),
    [
        (RAY // 10, 30 * DAY, 1008253045486897700926205808),
        (RAY // 10, YEAR, 1105162042821782412575504000),
        (RAY // 20, DAY, 1000136995684207123907444230),
        (RAY // 20, YEAR, 1051265681539063650421944000),
        (RAY // 10, 1, RAY + RAY // 10 // YEAR),
    ],
)
def test_the_factor_of_debt_floors_each_small_power(rate: int, seconds: int, expected: int) -> None:
    """The factor of debt, with the floors of the small powers kept."""
    assert expected == math.compound_interest(rate, seconds)


@pytest.mark.parametrize(("rate", "expected"), [(RAY // 10, 1_051), (RAY, 16_666), (2**127 - 1, 2**53 - 1)])
def test_debt_grows_by_the_contracts_factor_of_a_year(rate: int, expected: int) -> None:
    """Debt grows by the contract's own factor of a year: 1.10516... at 10 % (3.1, vectors)."""
    assert expected == math.borrow_apy_bps(rate)


def test_a_last_update_in_milliseconds_is_refused() -> None:
    """A day is 86,400 of the clock; a last update in milliseconds is refused, not taken for one of now."""
    day, now = row_of(OPEN), row_of(OPEN | {"last_update_timestamp": NOW})
    assert (1000273972602739726027397260, RAY) == (day["supply_index"], now["supply_index"])
    assert (1000274010136131111741806860, RAY) == (day["borrow_index"], now["borrow_index"])
    with pytest.raises(ExactOverflowError, match="time since the last update"):
        row_of(OPEN | {"last_update_timestamp": NOW * 1_000})


def test_limits_that_no_recorded_reserve_sets_are_decoded() -> None:
    """Bits that no recorded reserve sets are at the positions in docs/protocols/k2.md."""
    words = {"data_low": u128(7 << 71), "data_high": u128(5 | 6 << 64)}
    stored = Fields(((symbol(name), word) for name, word in words.items()), "configuration")

    assert replace(NO_BITS, min_remaining_debt=7, borrow_cap=5, supply_cap=6) == decode_configuration(stored)


@pytest.mark.parametrize(("borrow_cap", "ceiling"), [(506, 505), (505, 506), (505, 0)])
def test_caps_bound_the_available_amounts(borrow_cap: int, ceiling: int) -> None:
    """The lower limit of debt counts; caps bound what is available, and the supply what can be withdrawn."""
    caps = {"supply_cap": 1_007, "borrow_cap": borrow_cap, "debt_ceiling": ceiling, "last_update_timestamp": NOW}
    row = row_of(OPEN | caps | {"cash": 2**127 - 1})

    assert (1_007 * 10**7, 505 * 10**7) == (row["supply_cap"], row["borrow_cap"])
    assert (7 * 10**7, 5 * 10**7) == (row["available_to_supply"], row["available_to_borrow"])
    assert row["total_supplied"] == row["available_to_withdraw"]
    below = row_of(OPEN | caps | {"supply_cap": 999, "borrow_cap": 499})
    assert (0, 0) == (below["available_to_supply"], below["available_to_borrow"])


@pytest.mark.parametrize(("missing", "shortfall"), [(0, 0), (10**6, 0), (10**6 + 1, 10**6 + 1)])
def test_what_is_missing_beyond_rounding_is_the_shortfall(missing: int, shortfall: int) -> None:
    """Suppliers are owed 1,000 tokens and 500 are lent; up to one part in 10,000 of the supply is rounding."""
    now = {"last_update_timestamp": NOW}
    assert shortfall == row_of(OPEN | now | {"cash": 500 * 10**7 - missing})["shortfall"]


def test_limits_that_are_shown() -> None:
    """A cap or a ceiling of 0 limits nothing; nothing else has such a value."""
    model = RateParameters(**dict.fromkeys(RateParameters.__struct_fields__, 0))
    shown = shown_parameters(replace(NO_BITS, supply_cap=5), model, 0)

    assert ["borrow_cap", "debt_ceiling"] == [item.name for item in shown if item.no_limit]


@pytest.mark.parametrize("limit", ["supply_cap", "borrow_cap", "debt_ceiling"])
def test_limits_that_the_contract_cannot_compute_with(limit: str) -> None:
    """A limit of more than 128 bits in base units fails what it limits (checked_mul); of 128 bits it is one."""
    amount = "available_to_supply" if limit == "supply_cap" else "available_to_borrow"
    below, above = (row_of(OPEN | {limit: tokens, "decimals": 38}) for tokens in (3, 4))

    assert 0 < below[amount]
    assert 0 == above[amount]


@pytest.mark.parametrize(
    ("changes", "status", "gates"),
    [
        ({}, "active", ""),
        ({"router_paused": 1}, "active", "supply withdraw borrow repay liquidate"),
        ({"paused": 1}, "paused", "supply withdraw borrow repay liquidate"),
        ({"active": 0}, "inactive", "supply withdraw borrow repay liquidate"),
        ({"frozen": 1}, "frozen", "supply borrow"),
        ({"ltv": 0}, "active", ""),
        ({"frozen": 1, "paused": 1}, "paused", "supply withdraw borrow repay liquidate"),
        ({"borrowing_enabled": 0}, "borrowing_disabled", "borrow"),
    ],
)
def test_each_flag_closes_the_contracts_own_operations(changes: Reserve, status: str, gates: str) -> None:
    """What each flag closes (kinetic-router/src/validation.rs)."""
    row = row_of(OPEN | changes)

    assert (status, gates) == (row["pool_status"], closed(row))
    assert ("ltv" not in changes, "borrowing_enabled" not in changes) == (
        row["can_be_collateral"],
        row["can_be_borrowed"],
    )


P, Q = contract("P"), contract("Q")


@pytest.mark.parametrize(
    ("supply", "borrow", "token", "expected"),
    [
        (None, (), None, (None, None, "unread")),
        ((), None, None, (0, None, "no_emissions")),
        ((Emission(P, 0, 0),), (), None, (0, None, "expired")),
        ((Emission(P, 5, NOW),), (), None, (0, None, "expired")),
        ((Emission(P, 5, NOW + 1),), (), P, (5, NOW + 1, "valid")),
        ((Emission(P, 5, 0), Emission(Q, 6, NOW)), (), P, (5, None, "valid")),
        ((Emission(P, 5, 0), Emission(Q, 6, 0)), (), None, (None, None, "several_tokens")),
        ((Emission(P, 5, 0),), (Emission(Q, 6, 0),), None, (None, None, "several_tokens")),
        ((), (Emission(Q, 6, 0),), Q, (0, None, "no_emissions")),
    ],
)
def test_rewards_at_a_time(
    supply: Emissions, borrow: Emissions, token: str | None, expected: tuple[int | None, int | None, str]
) -> None:
    """What has not ended counts, to the second before its end; amounts of two tokens, also of both sides, do not."""
    rewards = math.rewards_at(supply, borrow, NOW)

    assert (token, *expected) == (
        rewards.reward_token,
        rewards.supply_reward_per_second,
        rewards.supply_reward_expiration,
        rewards.supply_reward_reason,
    )
