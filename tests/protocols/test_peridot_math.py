"""Peridot's math against vectors calculated by hand; test_peridot_real and _states have what its own code wrote."""

from __future__ import annotations

import pytest

from exporter.errors import ExactError, ExactOverflowError
from exporter.protocols.peridot import math
from exporter.protocols.peridot.layout import StoredNumbers
from tests.protocols.judged import plain, published, with_numbers

Vault = dict[str, int]
NOW = 1_800_000_000

PLAIN: Vault = {
    "net_cash": 988 * 10**7,
    "total_borrowed": 500 * 10**7,
    "total_reserves": 10 * 10**7,
    "total_admin_fees": 2 * 10**7,
    "borrow_index": 125 * 10**16,
    "receipt_supply": 10**9,
    "initial_exchange_rate": 10**6,
    "reserve_factor": 100_000,
    "admin_fee": 50_000,
    "base_rate": 20_000,
    "multiplier": 180_000,
    "jump_multiplier": 4_000_000,
    "kink": 800_000,
    "last_update_time": NOW - 86_400,
    "fixed_rate": 70_000,
    "live_cash": 1000 * 10**7,
    "managed_cash": 1000 * 10**7,
    "total_deposited": 1488 * 10**7,
    "boost_rule": 1,
    "boost_quoted": 0,
    "boost_cached": 0,
    "boost_cached_at": 0,
}


def test_a_clock_behind() -> None:
    """Nothing accrues before the last accrual."""
    assert PLAIN["total_borrowed"] == published("peridot", PLAIN | {"last_update_time": NOW + 5}, NOW)["total_borrowed"]


@pytest.mark.parametrize(
    ("borrowed", "cash", "aside", "expected"),
    [(7, 2, 9, (0, False)), (7, 2, 10, (10**6, True)), (1, 0, 0, (10**6, False)), (0, 2, 10, (0, False))],
)
def test_utilization_at_its_edges(borrowed: int, cash: int, aside: int, expected: tuple[int, bool]) -> None:
    """The rate is 0 if as much is set aside as there is, and the model refuses if it is more [calc]."""
    assert expected == math.utilization(borrowed, cash, aside)


def test_more_set_aside_than_there_is() -> None:
    """If the model refuses to answer, the vault takes the rate that it keeps itself; without one it refuses, too."""
    aside = PLAIN | {"total_reserves": 1_600 * 10**7, "boost_rule": 0, "net_cash": -602 * 10**7}
    nothing = aside | {"receipt_supply": 0}

    row = published("peridot", nothing, NOW)
    assert (10**6, 70_000, 0) == tuple(row[n] for n in ("stored_utilization", "stored_borrow_apr", "total_supplied"))
    with pytest.raises(ExactOverflowError, match="more is set aside than there is"):
        published("peridot", nothing | {"fixed_rate": -1}, NOW)


BOOSTED = PLAIN | {
    "net_cash": 988 * 10**7,
    "live_cash": 0,
    "managed_cash": 0,
    "boost_quoted": 1_000 * 10**7,
    "boost_cached": 900 * 10**7,
    "total_deposited": 1_288 * 10**7,
}
"""All of its 1000 of cash is boosted; it was worth 900; by its accounts it is 800."""


def test_a_quote_counts_5_percent_above_known_cash() -> None:
    """A quote counts up to 5 percent above what was known, and an accrual caches all of it [calc].

    A vault of unknown code has numbers if both rules give the same.
    """
    row = published("peridot", BOOSTED | {"boost_rule": 0, "last_update_time": NOW}, NOW)
    alike = BOOSTED | {"boost_rule": 2, "boost_quoted": 900 * 10**7, "boost_cached_at": NOW}

    assert (500 * 10**6 // 1433, 500 * 10**6 // 1488) == (row["stored_utilization"], row["accrued_utilization"])
    assert 500 * 10**6 // 1388 == published("peridot", alike, NOW)["stored_utilization"]


def test_rate_that_the_contract_refuses() -> None:
    """Above 1000 percent a year the contract does not accrue: such a vault has no numbers."""
    now = PLAIN | {"last_update_time": NOW}

    assert 10_000_000 == published("peridot", now | {"base_rate": 9_939_517}, NOW)["stored_borrow_apr"]
    with pytest.raises(ExactError, match="1000 percent"):
        published("peridot", now | {"base_rate": 9_939_518}, NOW)


def test_cash_that_a_vault_implies() -> None:
    """Before its first operation it is what was deposited and set aside, and is neither lent nor boosted [calc]."""
    deposited = {"total_deposited": 100, "total_reserves": 7, "total_admin_fees": 3, "boost_cached": 20}

    def implied(borrowed: int) -> int:
        vault = with_numbers(plain("peridot"), deposited | {"managed_cash": None, "total_borrowed": borrowed})
        numbers: StoredNumbers = vault.state.books.numbers
        return numbers.implied_cash

    assert (50, 0) == (implied(40), implied(91))
