"""K2's reserves in the shared columns, from entries to the numbers that are published."""

from __future__ import annotations

import pytest

from exporter.errors import ExactOverflowError
from exporter.protocols.k2 import K2
from exporter.protocols.k2.table import project_reserves
from exporter.tables import PROTOCOL_COLUMNS
from tests import k2_judge as judge
from tests.blend_chain import NOW, contract
from tests.k2_chain import CODE, DEBT, MODEL, RAY, STATE, SUPPLY, K2Ledger, candidate, deployment, reserve

RESERVE = STATE | MODEL | {
    "last_update_timestamp": NOW - 100, "reserve_factor": 2_000, "total_supply_scaled": SUPPLY,
    "total_debt_scaled": DEBT,
}  # fmt: skip


def test_every_column() -> None:
    """Each shared column has what it says, in its type: stored rates, accrued totals and indexes."""
    ledger = K2Ledger()
    ledger.add_market("A", ["USDC"])
    columns = ledger.read([candidate("A")], [deployment("A", [])]).result.columns
    frame = project_reserves(columns, NOW)
    expected = judge.project(RESERVE, NOW)

    assert list(PROTOCOL_COLUMNS.items()) == list(frame.schema.items())
    assert {
        "market": contract("A"),
        "pool": contract("USDC"),
        "token_address": contract("USDC"),
        "protocol": "k2",
        "version": "v1",
        "market_name": "Main",
        "market_status": "active",
        "wasm_hash": CODE.hex(),
        "oracle": contract("A oracle"),
        "decimals": 7,
        "supply_apy_bps": 500,
        "borrow_apy_bps": 1_051,
        "utilization_bps": 5_000,
        "total_supplied": expected["total_supplied"],
        "total_borrowed": expected["total_borrowed"],
        "total_collateral": 0,
        "last_accrual_time": NOW - 100,
        "supply_index": expected["accrued_liquidity_index"],
        "borrow_index": expected["accrued_variable_borrow_index"],
        "index_decimals": 27,
        "stored_supply_apr": 5 * RAY // 100,
        "stored_borrow_apr": RAY // 10,
        "accrued_supply_apr": expected["accrued_liquidity_rate"],
        "accrued_borrow_apr": expected["accrued_variable_borrow_rate"],
        "apr_decimals": 27,
        "stored_utilization": RAY // 2,
        "accrued_utilization": expected["accrued_utilization"],
        "utilization_decimals": 27,
        "rate_modifier": 1,
        "rate_modifier_decimals": 0,
        "backstop_credit": 0,
    } == frame.row(0, named=True)
    assert expected["total_supplied"] > SUPPLY
    assert expected["accrued_variable_borrow_rate"] < RAY // 10  # the stored rate is not that of the model here


def test_yields_follow_from_the_stored_rates() -> None:
    """The close time moves totals and indexes, never the yields: the rates are fixed until the next action."""
    ledger = K2Ledger()
    ledger.add_market("A", ["USDC"])
    columns = ledger.read([candidate("A")]).result.columns
    module = K2()
    now, later = (module.project(columns, time).row(0, named=True) for time in (NOW, NOW + 10**7))

    for name in ("supply_apy_bps", "borrow_apy_bps", "stored_supply_apr", "stored_borrow_apr", "stored_utilization"):
        assert now[name] == later[name]
    for name in ("total_supplied", "total_borrowed", "supply_index", "borrow_index", "accrued_borrow_apr"):
        assert now[name] < later[name]


def test_a_reserve_without_result_costs_no_other() -> None:
    """A last update in milliseconds has no result; the rows of the others are as without it."""
    ledger = K2Ledger()
    ledger.add_market("A", ["USDC", "XLM"])
    alone = ledger.compute([candidate("A")]).pools
    ledger.replace(reserve("A", "XLM", last_update_timestamp=NOW * 1_000))
    tables = ledger.compute([candidate("A")])

    with pytest.raises(ExactOverflowError):
        K2().project(ledger.read([candidate("A")]).result.columns, NOW)
    assert alone.filter(alone["pool"] == contract("USDC")).equals(tables.pools)
    assert [(contract("XLM"), "overflow")] == [(item.pool, item.reason) for item in tables.unread]
    assert "time since the last update: seconds below zero" in tables.unread[0].detail
