"""The math of the stand-ins: that of the judges, whose code is another, and of the contracts' own tests."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.deployments.local import made_address
from exporter.localnet.alula import Curve, Pool, PoolConfig
from exporter.localnet.slender import Reserve, borrow_rate
from exporter.localnet.xoxno import YEAR, HubMarket
from tests.judges import alula_judge, xoxno_judge


def alula_judged(made: Pool) -> dict[str, int]:
    """The pool as the judge takes one."""
    amounts = (
        "total_available", "total_borrowed", "take_rate_fees_sum", "total_j_tokens", "total_d_tokens",
        "interest_rate_modifier_bps", "last_accrual_timestamp", "borrow_apr_bps", "supply_apr_bps",
    )  # fmt: skip
    curve = {name: getattr(made.config.curve, name) for name in Curve.__slots__}
    return {name: getattr(made, name) for name in amounts} | curve | {
        "take_rate_bps": made.config.take_rate_bps,
        "target_utilization_ratio_bps": made.config.target_utilization_bps,
        "ir_reactivity_constant": made.config.reactivity,
    }  # fmt: skip


@given(
    st.integers(0, 10**30),
    st.integers(0, 10_000),
    st.integers(1_000, 20_000),
    st.integers(0, 10_000_000),
    st.integers(0, 100),
    st.integers(0, 10_000),
)
def test_alula_accrues_as_the_judge(
    supplied: int, utilization: int, modifier: int, seconds: int, reactivity: int, take_rate: int
) -> None:
    """Accrual, modifier and the noted rates are those of the judge for pools of every kind."""
    lent = supplied * utilization // 10_000
    config = PoolConfig(Curve(100, 400, 4_000, 1_500, 9_000, 5_000), take_rate_bps=take_rate, reactivity=reactivity)
    made = Pool(made_address("a token"), "TKN", "Token", 7, config, 0)
    made.total_available, made.total_borrowed, made.interest_rate_modifier_bps = supplied - lent, lent, modifier
    expected = alula_judge.accrue(alula_judged(made), seconds)
    made.accrue(seconds)

    assert expected == alula_judged(made)


def xoxno_judged(market: HubMarket) -> dict[str, int]:
    """A hub market as the judge takes it."""
    names = ("borrow_index", "borrowed", "cash", "last_timestamp", "revenue", "supplied", "supply_index")
    return asdict(market.params) | {name: getattr(market, name) for name in names} | {"asset_decimals": market.decimals}


@given(milliseconds=st.integers(0, 3 * YEAR), decimals=st.sampled_from([5, 7, 18]))
def test_xoxno_accrues_as_the_judge(milliseconds: int, decimals: int) -> None:
    """Every number of a half-lent market after any time is the judge's."""
    market = HubMarket(1, "C", decimals)
    market.supply(10 ** (decimals + 6))
    market.borrow(5 * 10 ** (decimals + 5))
    expected = xoxno_judge.accrue(xoxno_judged(market), milliseconds)
    market.accrue(milliseconds)

    assert expected == xoxno_judged(market)


def test_slender_accrues_as_in_the_contract_s_tests() -> None:
    """A reserve of the contract's own tests comes to the coefficients that they expect, at each step."""
    day = 86_400
    reserve = Reserve("token", "s", "debt", 9, 0)
    reserve.deposit(100_000_000, day)
    reserve.borrow(40_000_000, day)
    found = [(reserve.collateral_coefficient(time * day), reserve.debt_coefficient(time * day)) for time in (2, 3)]
    reserve.borrow(400_000, 3 * day)
    found += [(reserve.collateral_coefficient(time * day), reserve.debt_coefficient(time * day)) for time in (4, 5)]

    assert [
        (1_000_000_010, 1_000_000_000), (1_000_000_010, 1_000_000_000),
        (1_000_125_260, 1_000_344_464), (1_000_167_020, 1_000_459_304),
    ] == found  # fmt: skip


@pytest.mark.parametrize(
    ("lent", "rate"),
    [
        (0, 0), (20, 27_517_810), (50, 53_966_913), (75, 145_205_089), (80, 199_799_636), (90, 540_574_625),
        (95, 1_524_769_809), (99, 5_000_000_000), (100, 5_000_000_000),
    ],
)  # fmt: skip
def test_rates_of_slender_are_the_contract_s(lent: int, rate: int) -> None:
    """The rates are those that the contract's own tests expect."""
    assert rate == borrow_rate(100, lent)
