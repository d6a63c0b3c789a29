"""K2's math against the vectors of docs/protocols/k2.md; test_contract_states has what its own code computed."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.errors import ExactOverflowError
from exporter.protocols.k2 import math
from exporter.protocols.k2.layout import BITS, shown_parameters
from exporter.protocols.k2.rewards import Emission, Emissions, of_reserve
from tests.protocols.judged import closed, published
from tests.protocols.world import contract

Reserve = dict[str, int]

RAY = 10**27
DAY, YEAR = 86_400, 31_536_000
NOW = 1_800_000_000
SUPPLY, DEBT = 1_000 * 10**7, 500 * 10**7

# The example of K2's documentation
MODEL = {
    "base_variable_borrow_rate": 0,
    "optimal_utilization_rate": 8 * RAY // 10,
    "variable_rate_slope1": 4 * RAY // 100,
    "variable_rate_slope2": 6 * RAY // 10,
}

# At 5 percent for suppliers and 10 percent for borrowers
STATE = {
    "liquidity_index": RAY,
    "variable_borrow_index": RAY,
    "current_liquidity_rate": 5 * RAY // 100,
    "current_variable_borrow_rate": RAY // 10,
}
RESERVE: Reserve = {
    **STATE,
    **MODEL,
    "last_update_timestamp": NOW - 100,
    "reserve_factor": 2_000,
    "total_supply_scaled": SUPPLY,
    "total_debt_scaled": DEBT,
}


@pytest.mark.parametrize(("utilization", "percent"), [(0, 0), (20, 1), (40, 2), (60, 3), (80, 4), (90, 34), (100, 64)])
def test_borrow_rate_of_the_docs(utilization: int, percent: int) -> None:
    """The docs' example, base 0, slopes 4 and 60 %, optimum 80 %."""
    assert percent * RAY // 100 == math.variable_borrow_rate(utilization * RAY // 100, *MODEL.values())


def test_supply_rate_of_the_docs() -> None:
    """10 % x 80 % x (1 - 20 %) = 6.4 %."""
    assert 64 * RAY // 1_000 == math.liquidity_rate(RAY // 10, 8 * RAY // 10, 2_000)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, RAY), (DAY, 1000273972602739726027397260), (30 * DAY, 1008219178082191780821917808), (YEAR, 11 * RAY // 10)],
)
def test_linear_interest(seconds: int, expected: int) -> None:
    """The factor of supply at 10 %."""
    assert expected == math.linear_interest(RAY // 10, seconds)


@pytest.mark.parametrize(
    ("rate", "seconds", "expected"),
    [
        (RAY // 10, DAY, 1000274010136131111741806860),
        (RAY // 10, 30 * DAY, 1008253045486897700926205808),
        (RAY // 10, YEAR, 1105162042821782412575504000),
        (RAY // 20, DAY, 1000136995684207123907444230),
        (RAY // 20, YEAR, 1051265681539063650421944000),
        (RAY // 10, 0, RAY),
        (RAY // 10, 1, RAY + RAY // 10 // YEAR),
        (0, YEAR, RAY),
    ],
)
def test_compound_interest(rate: int, seconds: int, expected: int) -> None:
    """The factor of debt, with the floors of the small powers kept."""
    assert expected == math.compound_interest(rate, seconds)


@pytest.mark.parametrize(
    ("rate", "expected"), [(0, (0, 0)), (RAY // 10, (1_000, 1_051)), (RAY // 20, (500, 512)), (RAY, (10_000, 16_666))]
)
def test_yields(rate: int, expected: tuple[int, int]) -> None:
    """Supply earns the rate, debt the contract's own factor of a year: 1.10516... at 10 % (3.1, vectors)."""
    assert expected == (math.supply_apy_bps(rate), math.borrow_apy_bps(rate))


def test_seconds_clock() -> None:
    """A day is 86,400 of the clock; a last update in milliseconds is refused, not taken for one of now."""
    assert 1000274010136131111741806860 == row_of(OPEN | {"last_update_timestamp": NOW - DAY})["borrow_index"]
    assert RAY == row_of(OPEN | {"last_update_timestamp": NOW})["borrow_index"]
    with pytest.raises(ExactOverflowError, match="time since the last update"):
        row_of(OPEN | {"last_update_timestamp": NOW * 1_000})


@pytest.mark.parametrize(("optimal", "expected"), [(0, 61), (RAY, 4)])
def test_models_with_one_slope(optimal: int, expected: int) -> None:
    """An optimum of 0 or of 1 divides by nothing: at full utilization the rate is that of the only slope."""
    slopes = 4 * RAY // 100, 57 * RAY // 100

    assert expected * RAY // 100 == math.variable_borrow_rate(RAY, 0, optimal, *slopes)
    assert 0 == math.variable_borrow_rate(0, 0, optimal, *slopes)


OPEN: Reserve = {
    **dict.fromkeys((*BITS, "router_paused", "debt_ceiling"), 0),
    **RESERVE,
    "decimals": 7,
    "ltv": 7_500,
    "liquidation_threshold": 8_000,
    "liquidation_bonus": 500,
    "active": 1,
    "borrowing_enabled": 1,
    "cash": SUPPLY - DEBT,
}


def row_of(reserve: Reserve) -> dict[str, Any]:
    """What is published of one reserve, with who may do what."""
    return published("k2", {**reserve, "supply_emissions": (), "borrow_emissions": ()}, NOW)


def test_terms() -> None:
    """A loan-to-value of 0 rules collateral out, the lower limit of debt counts, caps bound what is available."""
    capped = row_of(OPEN | {"ltv": 0, "supply_cap": 7, "borrow_cap": 6, "debt_ceiling": 5, "cash": 2**127 - 1})
    assert (7 * 10**7, 5 * 10**7, False) == (capped["supply_cap"], capped["borrow_cap"], capped["can_be_collateral"])
    assert (0, 0) == (capped["available_to_supply"], capped["available_to_borrow"])  # both are above it already
    assert capped["total_supplied"] == capped["available_to_withdraw"]  # whatever else the aToken holds
    assert 6 * 10**7 == row_of(OPEN | {"borrow_cap": 6})["borrow_cap"]


def test_limits_that_are_shown() -> None:
    """A cap or a ceiling of 0 limits nothing; nothing else has such a value."""
    shown = shown_parameters(dict.fromkeys(BITS, 0) | {"supply_cap": 5}, MODEL, 0)

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
        ({"borrowing_enabled": 0}, "borrowing_disabled", "borrow"),
    ],
)
def test_gates(changes: Reserve, status: str, gates: str) -> None:
    """What each flag closes (kinetic-router/src/validation.rs)."""
    row = row_of(OPEN | changes)

    assert (status, gates) == (row["pool_status"], closed(row))


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
    row = of_reserve(supply, borrow, NOW)
    names = ("per_second", "expiration", "reason")

    assert (token, *expected) == (row["reward_token"], *(row[f"supply_reward_{name}"] for name in names))
