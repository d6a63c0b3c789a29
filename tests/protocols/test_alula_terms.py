"""Alula's terms: gates of the market and the pool, what the limits leave, and what the configuration says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import i128, u32, u64
from exporter.protocols.alula import terms
from tests.protocols import alula_judge as judge
from tests.protocols.alula_chain import AlulaLedger, candidate, pool, pool_config
from tests.protocols.judged import OPERATIONS
from tests.protocols.made_ledger import NOW, struct_of

HEALTH: dict[str, int] = {
    "supply_limit": 1_200 * 10**7,
    "utilization_ratio_limit_bps": 9_000,
    "withdraw_scarcity_limit_bps": 1_000,
    "open_ltv_bps": 7_000,
    "close_ltv_bps": 7_500,
    "liability_factor_bps": 11_000,
    "liquidation_close_factor_bps": 5_000,
    "max_liquidation_incentive_bps": 800,
}


def config(flags: int | None = 15, /, **health: int) -> ScVal:
    """A configuration with these flags, none without any, and changes to its limits."""
    values = {name: i128(value) for name, value in (HEALTH | health).items()}
    own = struct_of(values | {"withdraw_scarcity_cooldown_s": u64(60)})
    return pool_config(health_config=own, status=struct_of({} if flags is None else {"flags": u32(flags)}))


def row_of(status: str = "Active", **changes: Any) -> dict[str, Any]:
    """The row of the one pool of a market of this status: 1000 tokens supplied, 500 of them lent."""
    ledger = AlulaLedger()
    ledger.add_market("A", ["USDC"], status)
    ledger.replace(pool("A", "USDC", **({"config": config()} | changes)))
    tables = ledger.compute([candidate("A")])
    assert [] == tables.unread
    return tables.pools.row(0, named=True)


@pytest.mark.parametrize(
    ("status", "gates"),
    [
        ("Active", (True, True, True, True, True)),
        ("BorrowFrozen", (True, True, False, True, True)),
        ("BorrowFrozenByAdmin", (False, True, False, True, True)),
        ("DepositFrozen", (False, True, False, True, True)),
        ("DepositFrozenByAdmin", (False, True, False, True, True)),
        ("Frozen", (False, None, False, None, None)),
        ("FrozenByAdmin", (False, None, False, None, None)),
        ("Odd", (None, None, None, None, None)),
    ],
)
def test_gates_of_the_market(status: str, gates: tuple[bool | None, ...]) -> None:
    """Depositing is open in two statuses and borrowing in one; of a frozen market only that much is known."""
    row = row_of(status)

    assert gates == tuple(row[f"can_{name}"] for name in OPERATIONS)
    assert (None in gates) == (row["can_reason"] is not None)


@pytest.mark.parametrize(
    ("flags", "supply", "borrow", "status"),
    [
        (2**32 - 1, True, True, "enabled"),
        (1 | 2 | 4, True, True, "partly_disabled"),
        (14, False, True, "partly_disabled"),
        (13, True, False, "partly_disabled"),
        (16, False, False, "disabled"),
    ],
)
def test_flags_of_the_pool(flags: int, supply: bool, borrow: bool, status: str) -> None:
    """A bit that is not set closes depositing or borrowing in one pool; leaving it stays open."""
    row = row_of(config=config(flags))

    assert (supply, True, borrow, True, True) == tuple(row[f"can_{name}"] for name in OPERATIONS)
    assert (status, borrow) == (row["pool_status"], row["can_be_borrowed"])
    assert status in terms.POOL_STATUSES


@pytest.mark.parametrize(
    ("lock", "locked"),
    [
        ({"bad_debt_request_count": u32(1)}, True),
        ({"bad_debt_lock_d": u64(NOW + 1)}, True),
        ({"bad_debt_lock_d": u64(NOW)}, False),
    ],
)
def test_bad_debt_that_waits(lock: dict[str, Any], locked: bool) -> None:
    """While the insurance fund is asked, and until the lock ends, one can only repay and liquidate."""
    row = row_of(**lock)

    assert [not locked] * 3 == [row[f"can_{name}"] for name in ("supply", "withdraw", "borrow")]
    assert (True, True) == (row["can_repay"], row["can_liquidate"])
    assert ("bad_debt_locked" if locked else "enabled") == row["pool_status"]


@pytest.mark.parametrize(
    ("changes", "amounts"),
    [
        ({}, (500, 400, 200)),
        ({"take_rate_fees_sum": 100 * 10**7}, (400, 309, 300)),  # 900 supplied, 55.56 % lent: 9000 - 5556 parts of it
        ({"take_rate_fees_sum": 600 * 10**7}, (0, 0, 700)),
        ({"total_borrowed": 0}, (500, 450, 700)),
        ({"config": config(utilization_ratio_limit_bps=4_999)}, (500, 0, 200)),
        ({"config": config(utilization_ratio_limit_bps=10_000)}, (500, 500, 200)),
        ({"config": config(supply_limit=999 * 10**7)}, (500, 400, 0)),
        ({"config": config(supply_limit=0)}, (500, 400, None)),
    ],
)
def test_amounts(changes: dict[str, Any], amounts: tuple[int | None, ...]) -> None:
    """What is there, what the limit of utilization leaves of it, and what the limit of supply lets in; whole tokens."""
    row = row_of(**changes)
    found = [row[f"available_to_{name}"] for name in ("withdraw", "borrow", "supply")]

    assert list(amounts) == [None if value is None else value // 10**7 for value in found]


amount = st.integers(0, 10**24)


@settings(max_examples=30, deadline=None)
@given(amount, amount, amount, st.integers(0, 10_000), amount)
def test_amounts_are_the_contracts(available: int, borrowed: int, fees: int, limit: int, cap: int) -> None:
    """Whatever a pool holds, the amounts are those of the contract's own functions."""
    row = row_of(
        total_available=available,
        total_borrowed=borrowed,
        take_rate_fees_sum=fees,
        config=config(utilization_ratio_limit_bps=limit, supply_limit=cap),
    )
    state = {"total_available": available, "total_borrowed": borrowed, "take_rate_fees_sum": fees}

    assert judge.withdrawable(state) == row["available_to_withdraw"]
    assert judge.borrowable(state, limit) == row["available_to_borrow"]
    assert (max(0, cap - row["total_supplied"]) if cap else None) == row["available_to_supply"]


def test_no_limit_and_no_factor() -> None:
    """A limit of 0 is none, and nobody can borrow against what counts for nothing."""
    row = row_of(config=config(supply_limit=0, open_ltv_bps=0))

    assert (None, False) == (row["supply_cap"], row["can_be_collateral"])


def test_numbers_of_any_size_cost_no_pool() -> None:
    """A limit that no contract of Alula's would take is published as the nearest number that can be."""
    huge = dict.fromkeys(HEALTH, 2**127 - 1)
    row, negative = row_of(config=config(**huge)), row_of(config=config(**dict.fromkeys(HEALTH, -(2**127))))

    assert (2**53 - 1, 10**38 - 1) == (row["collateral_factor_bps"], row["supply_cap"])
    assert (0, 0, 0) == tuple(negative[name] for name in ("collateral_factor_bps", "supply_cap", "available_to_borrow"))
