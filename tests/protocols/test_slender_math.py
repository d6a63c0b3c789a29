"""Slender's math against vectors; tests/host has what the deployed code computes of any state.

The vectors marked [test] are those of the contract's own tests; the others are calculated by hand in plain integers.
"""

from __future__ import annotations

import pytest

from exporter.protocols.slender import math
from tests.protocols.judged import closed, published

Numbers = dict[str, int]
NOW = 1_800_000_000
ONE = 10**9

# 1000 tokens supplied for 1000 shares, half of them lent; 10 % for borrowers and 9 % for lenders since a year ago
PLAIN: Numbers = {
    "lender_ar": ONE,
    "lender_ir": 90_000_000,
    "borrower_ar": ONE,
    "borrower_ir": 100_000_000,
    "last_update_timestamp": NOW - 31_557_600,
    "window": 20,
    "s_supply": 1000 * 10**7,
    "debt_supply": 500 * 10**7,
    "cash": 500 * 10**7,
    "fees": 3,
}


@pytest.mark.parametrize(
    ("rate", "prior", "seconds", "accrued"),
    [
        (200_000_000, ONE, 86_400, 1_000_547_570),
        (27_517_810, ONE, 86_400, 1_000_075_339),
        (24_766_029, ONE, 86_400, 1_000_067_805),
        (2**126, 2**126, 0, 2**126),  # a rate of any size does not change in no time
    ],
)
def test_accrued_rates_of_the_contract(rate: int, prior: int, seconds: int, accrued: int) -> None:
    """A day at some rates gives what the contract's own tests expect [test]."""
    assert accrued == math.accrued_rate(prior, rate, seconds)


@pytest.mark.parametrize(
    ("days", "collat_coeff", "debt_coeff"), [(1, 1_000_125_260, 1_000_344_464), (2, 1_000_167_020, 1_000_459_304)]
)
def test_coefficients_of_the_contract(days: int, collat_coeff: int, debt_coeff: int) -> None:
    """100,000,000 supplied, 40,400,000 lent: one and two days later both coefficients are the contract's [test].

    That test lends 40,000,000 and two days later 400,000, each for a share more than the quotient. The rates are what
    the contract then chooses for 40,400,002 of 100,000,000 shares.
    """
    state = {
        "lender_ar": 1_000_206_663,
        "lender_ir": 37_741_909,
        "borrower_ar": 1_000_229_626,
        "borrower_ir": 41_935_455,
        "last_update_timestamp": NOW - days * 86_400,
        "s_supply": 100_000_000,
        "debt_supply": 40_400_002,
        "cash": 59_600_000,
    }
    row = published("slender", PLAIN | state, NOW)

    assert (collat_coeff, debt_coeff) == (row["supply_index"], row["borrow_index"])


@pytest.mark.parametrize(
    ("since", "window", "seconds"), [(19, 20, 0), (20, 20, 20), (59, 20, 40), (-1, 20, 0), (7, 1, 7), (7, 0, 0)]
)
def test_interest_is_added_in_whole_windows_of_time(since: int, window: int, seconds: int) -> None:
    """Interest is added in whole windows of time; none before the last update, nor if windows have no length."""
    assert seconds == math.elapsed_seconds(NOW - since, window, NOW)


TERMS = {
    "paused": 0,
    "grace_ends_at": 0,
    "initial_health": 2_500,
    "ir_scaling_coeff": 9_000,
    "is_active": 1,
    "borrowing_enabled": 1,
    "liquidity_cap": 2_000 * 10**7,
    "util_cap": 9_000,
    "discount": 8_000,
}


@pytest.mark.parametrize(
    ("changes", "status", "gates"),
    [
        ({"paused": 1}, "active", "supply withdraw borrow repay liquidate"),
        ({"grace_ends_at": NOW}, "active", ""),
        ({"grace_ends_at": NOW + 1}, "grace", "withdraw borrow liquidate"),
        ({"is_active": 0}, "inactive", "supply withdraw borrow repay liquidate"),
        ({"borrowing_enabled": 0}, "borrowing_disabled", "borrow"),
    ],
)
def test_pauses_grace_periods_and_flags_close_operations(changes: Numbers, status: str, gates: str) -> None:
    """A pause, its grace period up to its last second, and a reserve's flags close operations."""
    row = published("slender", PLAIN | TERMS | changes, NOW)

    assert (status, gates) == (row["pool_status"], closed(row))


def test_collateral_and_whole_shares() -> None:
    """A reserve that counts for nothing cannot be collateral; a loan worth whole shares needs no further share."""
    for discount in (0, 1):
        row = published("slender", PLAIN | TERMS | {"discount": discount}, NOW)
        assert bool(discount) is row["can_be_collateral"]
    assert 3 * ONE == math.borrowable(ONE, 0, 3 * ONE, 10_000)
