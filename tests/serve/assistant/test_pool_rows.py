"""Rows of pools in answers."""

from __future__ import annotations

import pytest

from exporter.serve.assistant.pool_rows import pool_row

ROW = {
    "symbol": "native",
    "common_symbol": "XLM",
    "can_supply": True,
    "can_borrow": True,
    "available_to_supply": 10**30,
    "available_to_borrow": 0,
    "available_to_supply_usd_cents": 5,
    "available_to_borrow_usd_cents": 0,
}


@pytest.mark.parametrize(
    ("values", "meanings"),
    [
        ({}, None),
        (
            {"available_to_supply": None, "available_to_supply_usd_cents": None},
            {"available_to_supply": "no limit", "available_to_supply_usd_cents": "no limit"},
        ),
        (
            {"can_supply": None, "available_to_supply": None, "available_to_supply_usd_cents": None},
            {"available_to_supply": "not known", "available_to_supply_usd_cents": "not known"},
        ),
        ({"available_to_supply_usd_cents": None}, {"available_to_supply_usd_cents": "no valid price"}),
        (
            {"available_to_borrow": None, "available_to_borrow_usd_cents": None},
            {"available_to_borrow": "not known", "available_to_borrow_usd_cents": "not known"},
        ),
    ],
)
def test_what_a_null_means(values: dict[str, object], meanings: dict[str, str] | None) -> None:
    """An amount without a limit, one that is not known, and one that has no price are told apart."""
    assert meanings == pool_row(ROW | values, ROW).get("null_means")


def test_a_null_that_is_not_shown_needs_no_meaning() -> None:
    """Only columns of the answer are explained. The symbol that people use is added where the contract has another."""
    row = ROW | {"available_to_supply": None, "available_to_supply_usd_cents": None}

    assert {"symbol": "native", "common_symbol": "XLM"} == pool_row(row, ["symbol"])
    assert {"symbol": "USDC"} == pool_row(row | {"symbol": "USDC", "common_symbol": "USDC"}, ["symbol"])
