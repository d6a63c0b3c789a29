"""The made Alula pools: the contract's own vectors, and operations that keep within its rules."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.deployments.local import made_address
from exporter.localnet.alula_pool import (
    ADD_COLLATERAL,
    BORROW,
    DEPOSIT,
    Curve,
    NoResultError,
    Pool,
    PoolConfig,
    apy,
    multiplier,
    next_modifier,
)
from tests import alula_judge as judge

YEAR = 31_556_926


def pool(config: PoolConfig | None = None, **fields: int) -> Pool:
    """A pool of the default configuration of the contract's tests, with these fields."""
    made = Pool(made_address("a token"), "TKN", "Token", 7, config or PoolConfig(), 0)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def judged(made: Pool) -> dict[str, int]:
    """The pool as the judge takes one."""
    curve = {name: getattr(made.config.curve, name) for name in Curve.__slots__}
    amounts = (
        "total_available", "total_borrowed", "take_rate_fees_sum", "total_j_tokens", "total_d_tokens",
        "interest_rate_modifier_bps", "last_accrual_timestamp", "borrow_apr_bps", "supply_apr_bps",
    )  # fmt: skip
    return {name: getattr(made, name) for name in amounts} | curve | {
        "take_rate_bps": made.config.take_rate_bps,
        "target_utilization_ratio_bps": made.config.target_utilization_bps,
        "ir_reactivity_constant": made.config.reactivity,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("apr", "seconds", "expected"),
    [
        (1000, 0, 1000000000000000000),
        (0, YEAR, 1000000000000000000),
        (1000, YEAR, 1105170917873740281),
        (9000, YEAR, 2459603079490413216),
        (1000, 1, 1000000003168876461),
        (15000, 94670778, 90017121668137558205),
    ],
)
def test_multiplier_vectors(apr: int, seconds: int, expected: int) -> None:
    """The growth of a debt is that of the contract's own tests (facts/alula.md 7, of 1 to 12)."""
    assert expected == multiplier(apr, seconds)


def test_yields_and_what_has_none() -> None:
    """Yields are those of facts/alula.md 7, 21 to 25; above 32 or 128 bits there is none."""
    assert [2389, 5683, 8221, 89741, 535981] == [apy(rate) for rate in (2143, 4500, 6000, 23000, 40000)]
    for too_high in (129_704, 10**6, 10**9):
        with pytest.raises(NoResultError):
            apy(too_high)
    with pytest.raises(NoResultError):
        Curve(kink2_ur_bps=10_000).apr(10_000)


def test_modifier_vectors() -> None:
    """The modifier moves as in facts/alula.md 7, 43 to 46."""
    assert 8_500 == next_modifier(10_000, 8_000, 6_500, 100, 100)
    assert 100_000 == next_modifier(10_000, 0, 6_500, 100, 86_400)
    assert 68_500 == next_modifier(10_000, 0, 6_500, 100, 900)
    modifier = 10_000
    for _ in range(6):
        modifier = next_modifier(modifier, 0, 6_500, 100, 100)
    assert 49_000 == modifier
    assert [10_000, 10_001] == [next_modifier(10_000, 6_499, 6_500, 1, seconds) for seconds in (9_999, 10_000)]
    assert 1_000 == next_modifier(1_200, 10_000, 0, 100, 900)


@pytest.mark.parametrize(("seconds", "borrowed", "fees"), [(86_400, 169_638_604, 529), (5, 169_633_310, 0)])
def test_accrual_vector(seconds: int, borrowed: int, fees: int) -> None:
    """Debt and fees grow as in facts/alula.md 7, 47, with the floor of the newest source."""
    flat = PoolConfig(Curve(114, 114, 5_000, 114, 8_000, 114))
    made = pool(flat, total_borrowed=169_633_309, total_available=10**9)
    made.accrue(seconds)

    assert (borrowed, fees, seconds) == (made.total_borrowed, made.take_rate_fees_sum, made.last_accrual_timestamp)
    assert 114 == made.borrow_apr_bps


def test_the_vector_with_the_other_rounding() -> None:
    """The judge, which knows both roundings of the fees, agrees with facts/alula.md 7, 47, on both."""
    flat = PoolConfig(Curve(114, 114, 5_000, 114, 8_000, 114))
    before = judged(pool(flat, total_borrowed=169_633_309, total_available=10**9))

    for seconds, both in ((86_400, (530, 529)), (5, (1, 0))):
        fees = [judge.accrue(before, seconds, take_rate_ceil=up)["take_rate_fees_sum"] for up in (True, False)]
        assert list(both) == fees


@given(
    st.integers(0, 10**30),
    st.integers(0, 10_000),
    st.integers(1_000, 20_000),
    st.integers(0, 10_000_000),
    st.integers(0, 100),
    st.integers(0, 10_000),
)
def test_accrual_equals_the_judge(
    supplied: int, utilization: int, modifier: int, seconds: int, reactivity: int, take_rate: int
) -> None:
    """Accrual, modifier and the noted rates are those of the judge for pools of every kind (4.6, 4.7)."""
    lent = supplied * utilization // 10_000
    config = PoolConfig(Curve(100, 400, 4_000, 1_500, 9_000, 5_000), take_rate_bps=take_rate, reactivity=reactivity)
    made = pool(config, total_available=supplied - lent, total_borrowed=lent, interest_rate_modifier_bps=modifier)
    expected = judge.accrue(judged(made), seconds)
    made.accrue(seconds)

    assert expected == judged(made)


@given(st.integers(0, 2**32), st.integers(0, 8_500), st.booleans(), st.booleans(), st.integers(0, 7))
def test_operations_keep_to_the_rules(
    seed: int, utilization: int, may_deposit: bool, may_borrow: bool, flags: int
) -> None:
    """No operation makes an amount negative, lends beyond the limit, or does what market or pool forbid."""
    random = Random(seed)
    made = pool(replace(PoolConfig(), reactivity=random.randint(0, 20), flags=flags))
    made.deposit(random.randint(10**7, 10**15))
    made.borrow(made.supply * utilization // 10_000)
    assert 1_000 == made.share_rates()[0]
    for step in range(1, 20):
        worth = made.supply * 10**18 // made.total_j_tokens
        operation = made.operate(random, step * 60, may_deposit, may_borrow)
        amounts = [made.available, made.total_borrowed, made.total_collateral, made.total_j_tokens, made.total_d_tokens]
        assert min(amounts) >= 0
        assert step * 60 == made.last_accrual_timestamp
        assert made.supply * 10**18 // made.total_j_tokens >= worth  # no operation costs the other suppliers anything
        if operation == "borrow":
            assert may_borrow
            assert flags & BORROW
            assert made.total_borrowed * 10_000 <= made.supply * 9_000
        elif operation == "deposit":
            assert may_deposit
            assert flags & DEPOSIT
        elif operation == "add_collateral":
            assert may_deposit
            assert flags & ADD_COLLATERAL
