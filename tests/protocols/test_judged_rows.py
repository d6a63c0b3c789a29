"""Pools of every kind against numbers that other code gave: one computation in plain integers a protocol, written after
the contracts' source, which shared nothing with the exporter. ``judged_rows.json`` has its pools and its results.

A result of null is one that it refused, as the contract does: a number did not fit, or was divided by zero.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from exporter.errors import ExactError
from exporter.exact import INT128_MAX
from exporter.protocols.alula import math as alula
from exporter.protocols.alula.layout import Pool
from tests.protocols.judged import plain, published, with_numbers
from tests.protocols.test_xoxno_math import SPOKE
from tests.protocols.test_xoxno_math import accrued as xoxno_accrued

Row = dict[str, Any]
ROWS: list[Row] = json.loads(Path(__file__).with_name("judged_rows.json").read_text())
NOW = 1_800_000_000


def accrued_of_xoxno(row: Row) -> Row:
    accrued = asdict(xoxno_accrued(row, NOW * 1_000))
    return {f"accrued_{name}": value for name, value in accrued.items()}


PROJECTS: dict[str, Callable[[Row], Mapping[str, Any]]] = {
    "alula": lambda row: published("alula", row, NOW),
    "peridot": lambda row: published("peridot", row, NOW),
    "slender": lambda row: published("slender", row, NOW),
    "blend": lambda row: published("blend", row, 1_790_000_000),
    "xoxno": lambda row: published("xoxno", row | {"spokes": None}, NOW) | accrued_of_xoxno(row),
}
"""The function that computes a pool at the close time of the rows, keyed by protocol."""


def rows_of(protocol: str, part: str) -> list[Row]:
    """The pools of a protocol in one part of the file."""
    return [row for row in ROWS if (row["protocol"], row["part"]) == (protocol, part)]


@pytest.mark.parametrize("protocol", PROJECTS)
def test_every_number_and_refusal_is_the_other_computations(protocol: str) -> None:
    """Every number is the other computation's, and exactly those pools are set aside that it refuses."""
    rows = rows_of(protocol, "rows")
    assert len(rows) > 10
    for row in rows:
        if row["expected"] is None:
            with pytest.raises(ExactError):
                PROJECTS[protocol](row["row"])
        else:
            found = PROJECTS[protocol](row["row"])
            assert row["expected"] == {name: min(found[name], INT128_MAX) for name in row["expected"]}


OF_AMOUNTS: dict[str, Row] = {"peridot": {"borrow_principal": None}, "slender": {}, "xoxno": {"hub_active": True}}
"""What the pools of the part "amounts" have besides their rows, keyed by protocol. None of them is paused."""


@pytest.mark.parametrize("protocol", OF_AMOUNTS)
def test_one_unit_more_than_is_available_is_refused(protocol: str) -> None:
    """What is available is the most that the contract's own checks let through; one base unit more is refused."""
    rows = rows_of(protocol, "amounts")
    for row in rows:
        more = {"decimals": 7, **OF_AMOUNTS[protocol]}
        if protocol == "xoxno":
            cap, used = row["cap"], row["used"]
            more["spokes"] = (replace(SPOKE, supply_cap=cap, borrow_cap=cap, supplied=used, borrowed=used),)
        numbers = {name: value for name, value in row["row"].items() if not name.endswith("_paused_until")}
        found = published(protocol, more | numbers, NOW)
        assert row["available"] == {name: found[f"available_to_{name}"] for name in row["available"]}, row

    assert len(rows) > 10


OF_ACCRUALS = ("seconds", "target_utilization_ratio_bps", "ir_reactivity_constant")
"""What an accrual follows from besides the pool."""


def test_accruals_of_alula() -> None:
    """A pool after the next transaction, in both revisions: the rates that it notes, debt, fees and modifier."""
    rows = rows_of("alula", "accruals")
    assert len(rows) > 10
    for row in rows:
        numbers = row["row"]
        of_pool = {name: value for name, value in numbers.items() if name not in OF_ACCRUALS}
        pool: Pool = with_numbers(plain("alula"), of_pool).state
        steering = alula.Steering(numbers["target_utilization_ratio_bps"], numbers["ir_reactivity_constant"])
        accrued = alula.accrue(pool, steering, numbers["seconds"])
        assert row["expected"] == {name: getattr(accrued, name) for name in row["expected"]}
        for fees, modifier in ((accrued.fees, accrued.modifier), (accrued.fees_up, accrued.modifier_wholly)):
            after = replace(pool, take_rate_fees_sum=fees, interest_rate_modifier_bps=modifier)
            computed = alula.accrued_fields(pool, steering, numbers["seconds"], after)
            assert (fees, modifier) == (computed["take_rate_fees_sum"], computed["interest_rate_modifier_bps"])


def test_a_misspelt_number_is_refused() -> None:
    """A name that a pool does not have is refused, because it would change nothing and the test could not fail."""
    with pytest.raises(ValueError, match="the pool has no discont, reserve_factr"):
        published("blend", {"discont": 5, "reserve_factr": 1, "d_rate": 10**12}, NOW)
