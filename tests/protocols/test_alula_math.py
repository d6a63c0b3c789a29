"""Alula's math against the contract's own vectors, and against the judge for pools of every kind.

Every vector is checked on the columnar code and on the judge alike, so that the judge is known to be right, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exporter import exact
from exporter.errors import ExactOverflowError
from exporter.protocols.alula import math
from tests.protocols import alula_judge as judge
from tests.protocols.judged import agree, asked_of_both, columnar, frame_of, one

Pool = dict[str, int]
Asked = Callable[..., Any]

YEAR = 31_556_926
NOW = 1_800_000_000

# The default curve of the contract's own tests
CURVE = {
    "base_apr_bps": 1,
    "kink1_apr_bps": 3_000,
    "kink1_ur_bps": 7_000,
    "kink2_apr_bps": 6_000,
    "kink2_ur_bps": 8_000,
    "max_apr_bps": 40_000,
}
RESULTS = (
    "total_supplied",
    "utilization_bps",
    "utilization_ceil_bps",
    "borrow_apr_bps",
    "supply_apr_bps",
    "borrow_apy_bps",
    "supply_apy_bps",
    "j_token_rate_bps",
    "d_token_rate_bps",
)

# The default curve, modifier 10000 and take rate 1000 of the contract's tests
DEFAULT: Pool = {
    "total_available": 0,
    "total_borrowed": 0,
    "take_rate_fees_sum": 0,
    "total_j_tokens": 0,
    "total_d_tokens": 0,
    "interest_rate_modifier_bps": 10_000,
    "take_rate_bps": 1_000,
    **CURVE,
}
CUSTOM = (100, 400, 4_000, 1_500, 9_000, 5_000)
DEFAULT_CURVE = judge.curve(DEFAULT)


def computed(pool: Pool) -> dict[str, int]:
    """What is computed of one pool."""
    return math.project(frame_of([pool], math.POOL_COLUMNS)).select(RESULTS).row(0, named=True)


PROJECTED = asked_of_both(judge.project, computed)


@asked_of_both(judge.multiplier, lambda apr, seconds: math.multiplier(one(apr), seconds).item())
@pytest.mark.parametrize(
    ("apr", "seconds", "expected"),
    [
        pytest.param(1000, 0, 1000000000000000000, id="1"),
        pytest.param(0, YEAR, 1000000000000000000, id="2"),
        pytest.param(1000, YEAR, 1105170917873740281, id="3"),
        pytest.param(9000, YEAR, 2459603079490413216, id="4"),
        pytest.param(1000, 15778463, 1051271096279993934, id="5"),
        pytest.param(1000, 86400, 1000273828409933351, id="6"),
        pytest.param(2000, YEAR, 1221402757366989775, id="7"),
        pytest.param(100, 63113852, 1020201339994595008, id="8"),
        pytest.param(1000, 1, 1000000003168876461, id="9"),
        pytest.param(15000, 63113852, 20085535490337347880, id="10"),
        pytest.param(2000, 315569260, 7389056050946052968, id="11"),
        pytest.param(15000, 94670778, 90017121668137558205, id="12, needs 256 bits"),
    ],
)
def test_multiplier_vectors(asked: Asked, apr: int, seconds: int, expected: int) -> None:
    """The growth of a debt is that of the contract's own tests (vectors 1 to 12)."""
    assert expected == asked(apr, seconds)


@asked_of_both(judge.kinked, columnar(math.kinked_apr))
@pytest.mark.parametrize(
    ("u", "curve", "expected"),
    [
        pytest.param(0, DEFAULT_CURVE, 1, id="13"),
        pytest.param(2500, DEFAULT_CURVE, 1072, id="14"),
        pytest.param(7000, DEFAULT_CURVE, 3000, id="15"),
        pytest.param(7500, DEFAULT_CURVE, 4500, id="16"),
        pytest.param(8000, DEFAULT_CURVE, 6000, id="17"),
        pytest.param(9000, DEFAULT_CURVE, 23000, id="18"),
        pytest.param(10000, DEFAULT_CURVE, 40000, id="19"),
        pytest.param(5000, CUSTOM, 620, id="20"),
        pytest.param(5000, (100, 400, 5000, 1500, 5000, 2500), 1500, id="equal kinks"),
        pytest.param(0, (100, 400, 0, 1500, 5000, 2500), 400, id="first kink at 0"),
        pytest.param(9999, (100, 400, 5000, 1500, 10000, 2500), 1499, id="second kink at 100 percent"),
        pytest.param(1, (100, 97, 7, 1500, 9000, 5000), 99, id="falling slopes are rounded down"),
    ],
)
def test_kinked_vectors(asked: Asked, u: int, curve: tuple[int, ...], expected: int) -> None:
    """The curve is that of the contract's own tests, knots belong to the upper slope."""
    assert expected == asked(u, *curve)


@PROJECTED
@pytest.mark.parametrize(
    ("u", "take_rate", "aprs", "apys"),
    [
        pytest.param(5000, 1000, (2143, 963), (2389, 1010), id="21"),
        pytest.param(7500, 1000, (4500, 3037), (5683, 3548), id="22"),
        pytest.param(8000, 1000, (6000, 4320), (8221, 5403), id="23"),
        pytest.param(9000, 1000, (23000, 18630), (89741, 54430), id="24"),
        pytest.param(10000, 1000, (40000, 36000), (535981, 355982), id="25"),
        pytest.param(10000, 0, (40000, 40000), (535981, 535981), id="26"),
        pytest.param(7000, 1000, (3000, 1890), (3498, 2080), id="27"),
    ],
)
def test_yield_vectors(asked: Asked, u: int, take_rate: int, aprs: tuple[int, int], apys: tuple[int, int]) -> None:
    """A pool of this utilization has the rates and yields of the contract's tests (vectors 21 to 27)."""
    pool = DEFAULT | {"total_available": 10_000 - u, "total_borrowed": u, "take_rate_bps": take_rate}
    actual = asked(pool)

    assert (u, u) == (actual["utilization_bps"], actual["utilization_ceil_bps"])
    assert aprs == (actual["borrow_apr_bps"], actual["supply_apr_bps"])
    assert apys == (actual["borrow_apy_bps"], actual["supply_apy_bps"])


@asked_of_both(
    judge.bin_pow, lambda base, exponent, denominator: exact.power_floor(one(base), exponent, denominator).item()
)
@pytest.mark.parametrize(
    ("base", "exponent", "denominator", "expected"),
    [
        pytest.param(2000000, 3, 10**6, 8000000, id="28"),
        pytest.param(500000, 3, 10**6, 125000, id="29"),
        pytest.param(1500000, 3, 10**6, 3375000, id="30"),
        pytest.param(10000, 3, 10**6, 1, id="31"),
        pytest.param(1000000001, 10**9, 10**9, 2718221267, id="32"),
    ],
)
def test_power_vectors(asked: Asked, base: int, exponent: int, denominator: int, expected: int) -> None:
    """Powers are rounded down at every step, from the lowest bit (vectors 28 to 32; 33 is not in use)."""
    assert expected == asked(base, exponent, denominator)


@PROJECTED
def test_share_rates(asked: Asked) -> None:
    """What a supply share is worth is rounded down, what a debt share is worth is rounded up."""
    pool = DEFAULT | {"total_available": 200, "total_borrowed": 101, "total_j_tokens": 3_000, "total_d_tokens": 100}
    rounded = pool | {"total_j_tokens": 3_001, "total_d_tokens": 99}

    assert (1003, 10100) == tuple(asked(pool)[name] for name in RESULTS[-2:])
    assert (1002, 10203) == tuple(asked(rounded)[name] for name in RESULTS[-2:])


@PROJECTED
def test_a_yield_beyond_32_bits(asked: Asked) -> None:
    """The contract's view ends at a rate of 1297 percent a year; what is published goes on, up to 2^53 - 1."""
    pool = DEFAULT | {"total_available": 0, "total_borrowed": 10**7, "take_rate_bps": 0}

    assert 4294647762 == asked(pool | {"max_apr_bps": 129_703})["borrow_apy_bps"]
    assert 4295077249 == asked(pool | {"max_apr_bps": 129_704})["borrow_apy_bps"]


def test_a_negative_rate_is_an_error() -> None:
    """A negative rate, which decoding lets none through of, is an error as in the contract."""
    with pytest.raises(ExactOverflowError, match="negative rate") as raised:
        math.multiplier(exact.column([5, -1, 0]), 10)

    assert (1,) == raised.value.rows
    with pytest.raises(ValueError, match="negative"):
        judge.multiplier(-1, 10)


amounts = st.just(0) | st.integers(0, 36).flatmap(lambda digits: st.integers(0, 10**digits))


@st.composite
def common_pools(draw: st.DrawFn) -> Pool:
    """Pools as they are on the chain, of tokens with up to 18 decimals, also under the older, laxer validation."""
    supplied = draw(amounts)
    lent = draw(st.just(0) | st.just(supplied) | st.integers(0, supplied))
    kink1, kink2 = sorted(draw(st.lists(st.integers(0, 10_000), min_size=2, max_size=2)))
    aprs = sorted(draw(st.lists(st.integers(0, 20_000), min_size=4, max_size=4)))
    return {
        "total_available": supplied - lent + draw(st.integers(0, 10**9)),
        "total_borrowed": lent,
        "take_rate_fees_sum": draw(st.just(0) | st.integers(0, 2 * 10**9)),
        "total_j_tokens": draw(st.just(0) | st.integers(1, 10 * supplied + 1)),
        "total_d_tokens": draw(st.just(0) | st.integers(1, lent + 1)),
        "interest_rate_modifier_bps": draw(st.just(10_000) | st.integers(1_000, 100_000)),
        "take_rate_bps": draw(st.just(1_000) | st.integers(0, 10_000)),
        "base_apr_bps": aprs[0],
        "kink1_apr_bps": aprs[1],
        "kink1_ur_bps": kink1,
        "kink2_apr_bps": aprs[2],
        "kink2_ur_bps": kink2,
        "max_apr_bps": aprs[3],
    }


@st.composite
def hostile_pools(draw: st.DrawFn) -> Pool:
    """A common pool with some of its values anywhere in what decoding lets through."""
    anything = st.integers(0, 127).flatmap(lambda bits: st.integers(0, 2**bits - 1))
    changed = draw(st.sets(st.sampled_from([name for name in math.POOL_COLUMNS if name != "take_rate_bps"])))
    pool = draw(common_pools())
    pool.update({name: draw(anything) for name in sorted(changed)})
    return pool


@given(common_pools(), st.integers(1, 30 * 86_400), st.integers(0, 10_000), st.integers(0, 100))
def test_accrual_equals_the_judge(pool: Pool, seconds: int, target: int, reactivity: int) -> None:
    """What the next transaction makes of a pool, in both revisions: the rates it notes, debt, fees and modifier."""
    pool |= {"target_utilization_ratio_bps": target, "ir_reactivity_constant": reactivity, "last_accrual_timestamp": 0}
    try:
        newest = judge.accrue(pool, seconds)
        older = judge.accrue(pool, seconds, cap=None, take_rate_ceil=True)
    except (OverflowError, ZeroDivisionError):
        assume(False)
    assume(newest["total_borrowed"] < 2**127)
    state = pl.DataFrame([exact.column([value], name) for name, value in pool.items()])
    accrued = math.accrue(state, exact.column([seconds]))

    assert (newest["borrow_apr_bps"], newest["supply_apr_bps"]) == (accrued.borrow_apr[0], accrued.supply_apr[0])
    assert newest["total_borrowed"] == accrued.total_borrowed[0]
    fees, modifier = "take_rate_fees_sum", "interest_rate_modifier_bps"
    assert (newest[fees], older[fees]) == (accrued.fees[0], accrued.fees_up[0])
    assert (newest[modifier], older[modifier]) == (accrued.modifier[0], accrued.modifier_wholly[0])


@given(st.lists(common_pools() | hostile_pools(), min_size=1, max_size=8))
def test_pools_equal_the_judge(pools: list[Pool]) -> None:
    """Pools of every kind come out as the judge says, and exactly those it refuses are set aside."""
    agree(pools, math.POOL_COLUMNS, math.project, lambda pool, _: judge.project(pool), NOW)
