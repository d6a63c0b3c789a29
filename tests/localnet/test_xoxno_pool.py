"""The hub markets of the made XOXNO pool: they accrue as the judge says, and operations keep them sound."""

from __future__ import annotations

from dataclasses import asdict
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.localnet.xoxno_pool import RAY, YEAR, HubMarket, NoResultError, Params
from tests import xoxno_judge as judge


def judged(market: HubMarket) -> dict[str, int]:
    """A hub market as the judge takes it."""
    names = ("borrow_index", "borrowed", "cash", "last_timestamp", "revenue", "supplied", "supply_index")
    return asdict(market.params) | {name: getattr(market, name) for name in names} | {"asset_decimals": market.decimals}


def lent(decimals: int = 7) -> HubMarket:
    """A hub market of which half is lent."""
    market = HubMarket(1, "C", decimals)
    market.supply(10 ** (decimals + 6))
    market.borrow(5 * 10 ** (decimals + 5))
    return market


@given(milliseconds=st.integers(0, 3 * YEAR), decimals=st.sampled_from([5, 7, 18]))
def test_accrual_is_the_judges(milliseconds: int, decimals: int) -> None:
    """Every number after any time is the judge's, whose code is another."""
    market = lent(decimals)
    expected = judge.accrue(judged(market), milliseconds)
    market.accrue(milliseconds)

    assert expected == judged(market)


def test_views_are_the_judges() -> None:
    """Utilization, rates and amounts are of the stored indexes."""
    market = lent()
    market.accrue(YEAR // 3)

    assert judge.views(judged(market)) == {
        "utilization": market.utilization(),
        "borrow_rate": market.borrow_rate(),
        "supply_rate": market.deposit_rate(),
        "supplied": market.amount(market.supplied, market.supply_index),
        "borrowed": market.amount(market.borrowed, market.borrow_index),
        "revenue": market.claimable(),
    }


@given(seed=st.integers(0, 2**32))
def test_operations_keep_a_market_sound(seed: int) -> None:
    """After many operations nothing is negative, the cash covers what is not lent, and shares cover the revenue."""
    random, market = Random(seed), lent()
    for step in range(60):
        market.operate(random, step * 5_000)
        assert min(market.borrowed, market.cash, market.revenue) >= 0
        assert market.revenue <= market.supplied
        owned, backed = market.supply_value(), market.cash * market.scale + market.debt_value()
        assert abs(owned - backed) <= 60 * market.scale


def test_an_empty_market() -> None:
    """Nothing supplied: no utilization, the base rate, and time changes nothing."""
    market = HubMarket(1, "C", 7)
    market.accrue(10 * YEAR)

    assert (0, market.params.base_borrow_rate, 0) == (
        market.utilization(),
        market.borrow_rate(),
        market.deposit_rate(),
    )
    assert (RAY, 0, 0) == (market.supply_index, market.supplied, market.free())


def test_no_result() -> None:
    """A curve that divides by zero has no result."""
    full = HubMarket(1, "C", 7, Params(optimal_utilization=RAY), supplied=RAY, borrowed=RAY)
    with pytest.raises(NoResultError):
        full.borrow_rate()


def test_nothing_for_suppliers() -> None:
    """A reserve factor of everything leaves no supply rate, and all interest becomes revenue."""
    market = lent()
    market.params = Params(reserve_factor=10_000)
    market.accrue(YEAR)

    assert (0, RAY) == (market.deposit_rate(), market.supply_index)
    assert 0 < market.revenue == market.supplied - 10**6 * RAY
