"""Alula's math against the contract's own vectors; test_judged_rows has pools of every kind."""

from __future__ import annotations

import pytest

from exporter.protocols.alula import math
from exporter.protocols.alula.layout import CURVE
from tests.protocols.judged import published

Pool = dict[str, int]

YEAR = 31_556_926

# The default curve, modifier 10000 and take rate 1000 of the contract's tests
DEFAULT: Pool = {
    "interest_rate_modifier_bps": 10_000,
    "take_rate_bps": 1_000,
    "base_apr_bps": 1,
    "kink1_apr_bps": 3_000,
    "kink1_ur_bps": 7_000,
    "kink2_apr_bps": 6_000,
    "kink2_ur_bps": 8_000,
    "max_apr_bps": 40_000,
}
CUSTOM = (100, 400, 4_000, 1_500, 9_000, 5_000)
DEFAULT_CURVE = tuple(DEFAULT[name] for name in CURVE)


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
def test_a_debt_grows_as_in_the_contracts_tests(apr: int, seconds: int, expected: int) -> None:
    """The growth of a debt is that of the contract's own tests (vectors 1 to 12)."""
    assert expected == math.multiplier(apr, seconds)


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
def test_the_kinked_curve_is_that_of_the_contracts_tests(u: int, curve: tuple[int, ...], expected: int) -> None:
    """The curve is that of the contract's own tests, kinks belong to the upper slope."""
    assert expected == math.kinked_apr(u, *curve)


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
def test_rates_and_yields_are_those_of_the_contracts_tests(
    u: int, take_rate: int, aprs: tuple[int, int], apys: tuple[int, int]
) -> None:
    """A pool of this utilization has the rates and yields of the contract's tests (vectors 21 to 27)."""
    pool = DEFAULT | {"total_available": 10_000 - u, "total_borrowed": u, "take_rate_bps": take_rate}
    actual = published("alula", pool, 0)

    assert (u, u) == (actual["utilization_bps"], actual["accrued_utilization"])
    assert aprs == (actual["accrued_borrow_apr"], actual["accrued_supply_apr"])
    assert apys == (actual["borrow_apy_bps"], actual["supply_apy_bps"])


def test_a_yield_beyond_32_bits() -> None:
    """The contract's view ends at a rate of 1297 percent a year; what is published goes on, up to 2^53 - 1."""
    pool = DEFAULT | {"total_available": 0, "total_borrowed": 10**7, "take_rate_bps": 0}

    assert 4294647762 == published("alula", pool | {"max_apr_bps": 129_703}, 0)["borrow_apy_bps"]
    assert 4295077249 == published("alula", pool | {"max_apr_bps": 129_704}, 0)["borrow_apy_bps"]
