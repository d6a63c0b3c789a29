"""Blend's terms: amounts by hand, gates, and what the configuration says; tests/host tries them on deployed code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from exporter.protocols.blend.layout import NO_CAP, STATUS_NAMES
from exporter.protocols.blend.math import project
from exporter.tables import TERMS
from exporter.tree.pools import AssetRisk
from tests.protocols.test_blend_math import reserve_of

NOW = 617_280
V1, V2 = (reserve_of(generation, last_time=NOW) for generation in ("v1", "v2"))


def row_of(reserve: Mapping[str, Any]) -> dict[str, Any]:
    """What is given of a reserve; the terms that are not are null."""
    return dict.fromkeys(TERMS) | project({**reserve, "close_time": NOW})


@pytest.mark.parametrize(
    ("changes", "amounts"),
    [
        # 990000000 shares at 1.1, so 1089000000 supplied, and 650000000 owed: 650000066 must stay, in 590909151 shares
        ({}, (438_999_933, 384_550_000, None)),
        ({"d_supply": 0}, (1_089_000_000, 1_034_550_000, None)),
        ({"d_supply": 1_089_000_000}, (0, 0, None)),
        ({"b_supply": 0, "d_supply": 0}, (0, 0, None)),
        ({"b_rate": 0, "supply_cap": 10**10}, (0, 0, 0)),  # all that was supplied is lost
        ({"max_util": 10_000_000}, (438_999_933, 438_999_891, None)),  # 9999999 parts of ten million at the most
        ({"max_util": 0}, (438_999_933, 0, None)),
        ({"supply_cap": 0}, (438_999_933, 384_550_000, 0)),
        ({"supply_cap": 1_089_000_000}, (438_999_933, 384_550_000, 0)),
        ({"supply_cap": 1_089_000_001}, (438_999_933, 384_550_000, 2)),
        ({"supply_cap": 10**36}, (438_999_933, 384_550_000, 10**36 - 1_088_999_999)),
    ],
)
def test_amounts(changes: dict[str, int], amounts: tuple[int | None, ...]) -> None:
    """Amounts of a v2 reserve, by hand."""
    row = row_of(V2 | {"b_rate": 11 * 10**11, "d_rate": 10**12} | changes)

    assert amounts == tuple(row[f"available_to_{name}"] for name in ("withdraw", "borrow", "supply"))


def test_v1_pays_what_is_not_lent() -> None:
    """v1 tests no utilization when it pays out: what is not lent is the suppliers', and one may borrow the last."""
    row = row_of(V1 | {"b_rate": 11 * 10**8, "d_rate": 10**9, "max_util": 10**7})

    assert (439_000_000, 439_000_000, None) == tuple(
        row[f"available_to_{name}"] for name in ("withdraw", "borrow", "supply")
    )
    assert 0 == row_of(V1 | {"d_supply": V1["b_supply"] * 2})["available_to_withdraw"]


GATES = {
    **dict.fromkeys(("admin_active", "active"), (True, True, True)),
    **dict.fromkeys(("admin_on_ice", "on_ice"), (True, True, False)),
    **dict.fromkeys(("admin_frozen", "frozen", "setup", "unknown_7"), (False, True, False)),
}


@pytest.mark.parametrize("status", [*STATUS_NAMES, "unknown_7"])
def test_gates_of_the_market(status: str) -> None:
    """A market on ice lends nothing, a frozen one takes nothing either; leaving, repaying and liquidating stay open."""
    for reserve in (V1, V2):
        row = row_of(reserve | {"market_status": status})

        assert GATES[status] == (row["can_supply"], row["can_withdraw"], row["can_borrow"])
        assert (True, True, None) == (row["can_repay"], row["can_liquidate"], row["can_reason"])


def test_a_reserve_that_is_disabled() -> None:
    """v2 can close one reserve for supplying and borrowing; v1 has no status of a reserve."""
    disabled, enabled, first = map(row_of, (V2 | {"enabled": False}, V2, V1))

    assert ("disabled", False, True, False) == tuple(
        disabled[name] for name in ("pool_status", "can_supply", "can_withdraw", "can_borrow")
    )
    assert ["enabled", None] == [row["pool_status"] for row in (enabled, first)]
    assert (False, True) == (disabled["can_be_borrowed"], disabled["can_be_collateral"])


def test_debt_that_weighs_without_bound() -> None:
    """With a liability factor of 0 the contract's test of health divides by zero: nobody can borrow."""
    row = row_of(V2 | {"l_factor": 0})

    assert (False, False, None) == tuple(
        row[name] for name in ("can_borrow", "can_be_borrowed", "liability_factor_bps")
    )


def test_code_that_nobody_knows() -> None:
    """Where the contract's code is unknown its gates are, and the configuration is shown all the same."""
    row = row_of(V2 | {"wasm_hash": "ab" * 32})

    assert [None] * 5 == [row[f"can_{name}"] for name in ("supply", "withdraw", "borrow", "repay", "liquidate")]
    assert "the market runs code whose rules are not known" == row["can_reason"]
    assert 9_500 == row["collateral_factor_bps"]


def test_risk() -> None:
    """Factors and limits in basis points: what counts for the borrower down, what a debt weighs up."""
    row = row_of(V2 | {"c_factor": 9_499_999, "l_factor": 9_000_000, "supply_cap": 7, "bstop_rate": 1_999_999})

    assert {
        "risk_scope": "reserve",
        "collateral_factor_bps": 9_499,
        "liquidation_threshold_bps": 9_499,
        "liability_factor_bps": 11_112,
        "liquidation_kind": "auction",
        "supply_cap": 7,
        "max_utilization_bps": 9_500,
        "reserve_factor_bps": 1_999,
        "can_be_collateral": True,
        "can_be_borrowed": True,
    } == {name: row[name] for name in AssetRisk.__struct_fields__ if row.get(name) is not None}
    assert not row_of(V2 | {"c_factor": 0})["can_be_collateral"]


def test_terms_beyond_128_bits_cost_nothing() -> None:
    """A reserve whose shares are worth next to nothing is read, whatever its cap is in shares."""
    reserve = V2 | {"b_rate": 1, "b_supply": 2**126, "d_supply": 0, "supply_cap": NO_CAP - 1, "d_rate": 1}

    assert 2**126 // 10**12 == row_of(reserve)["total_supplied"]
