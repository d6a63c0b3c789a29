"""Alula's pools in the shared columns, from entries to the numbers that are published."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.compute import Tables
from exporter.errors import ExactOverflowError
from exporter.ledger.oracles import Quote
from exporter.ledger.scval_encode import u32, u64
from exporter.protocols import PROTOCOLS
from exporter.protocols.alula.layout import POOL_NUMBERS
from exporter.protocols.alula.table import project_pools
from exporter.tables import PROTOCOL_COLUMNS, VALID_PRICE
from tests import alula_judge as judge
from tests.alula_chain import CODE, CURVE, STATE, AlulaLedger, candidate, kinked, pool, pool_config
from tests.blend_chain import NOW, contract

POOL = CURVE | STATE | {"take_rate_bps": 1_000}


def three_pools() -> AlulaLedger:
    """A market of three pools with different totals, decimals and prices; the price of the second is 361 s old."""
    ledger = AlulaLedger()
    ledger.add_market("A", ["USDC", "XLM", "PYUSD"])
    ledger.replace(
        pool("A", "USDC", total_available=123_456_789_012, total_borrowed=98_765_432_109, take_rate_fees_sum=1_234),
        pool("A", "PYUSD", token_decimals=u32(18), total_available=10**27 + 1, total_borrowed=3 * 10**26),
    )
    ledger.set_price("A oracle", "USDC", 100_012_345_678_901, NOW - 360)
    ledger.set_price("A oracle", "XLM", 26_310_000_000_000, NOW - 361)
    ledger.set_price("A oracle", "PYUSD", 99_990_000_000_001, NOW)
    return ledger


def rows_of(tables: Tables) -> dict[str, dict[str, Any]]:
    """The rows of the pools frame by the token's label."""
    labels = {contract(label): label for label in ("USDC", "XLM", "PYUSD")}
    return {labels[row["pool"]]: row for row in tables.pools.rows(named=True)}


def test_every_column() -> None:
    """Each shared column has what it says, in its type, from the stored state and without accrual."""
    ledger = AlulaLedger()
    ledger.add_market("A", ["USDC"], "BorrowFrozen")
    columns = ledger.read([candidate("A")]).result.columns
    frame = project_pools(columns)
    expected = judge.project(POOL)

    assert list(PROTOCOL_COLUMNS.items()) == list(frame.schema.items())
    assert {
        "market": contract("A"),
        "pool": contract("USDC"),
        "token_address": contract("USDC"),
        "protocol": "alula",
        "version": "v1",
        "market_name": "main",
        "market_status": "borrow_frozen",
        "wasm_hash": CODE.hex(),
        "oracle": contract("A oracle"),
        "decimals": 7,
        "supply_apy_bps": expected["supply_apy_bps"],
        "borrow_apy_bps": expected["borrow_apy_bps"],
        "utilization_bps": 5_000,
        "total_supplied": 1_000 * 10**7,
        "total_borrowed": 500 * 10**7,
        "total_collateral": 50 * 10**7,
        "last_accrual_time": NOW - 100,
        "supply_index": 1_000,
        "borrow_index": 12_500,
        "index_decimals": 4,
        "stored_supply_apr": 963,
        "stored_borrow_apr": 2_143,
        "accrued_supply_apr": 963,
        "accrued_borrow_apr": 2_143,
        "apr_decimals": 4,
        "stored_utilization": 5_000,
        "accrued_utilization": 5_000,
        "utilization_decimals": 4,
        "rate_modifier": 10_000,
        "rate_modifier_decimals": 4,
        "backstop_credit": 0,
    } == frame.row(0, named=True)


def test_nothing_accrues() -> None:
    """The close time changes nothing but the age of the price (facts/alula.md 3)."""
    ledger = three_pools()
    columns = ledger.read([candidate("A")]).result.columns
    module = PROTOCOLS["alula"]

    assert module.project(columns, NOW).equals(module.project(columns, NOW + 10**8))


def test_a_market_with_a_stale_price() -> None:
    """The stale pool has no price and no value, all else is exact, and the market is worth the sum of the others."""
    tables = three_pools().compute([candidate("A")])
    rows = rows_of(tables)
    usdc = POOL | {"total_available": 123_456_789_012, "total_borrowed": 98_765_432_109, "take_rate_fees_sum": 1_234}
    pyusd = POOL | {"total_available": 10**27 + 1, "total_borrowed": 3 * 10**26}
    values = {
        "USDC": judge.tvl_usd_cents(222_222_219_887, 50 * 10**7, 100_012_345_678_901, 7),
        "PYUSD": judge.tvl_usd_cents(13 * 10**26 + 1, 50 * 10**7, 99_990_000_000_001, 18),
    }

    for label, state in {"USDC": usdc, "XLM": POOL, "PYUSD": pyusd}.items():
        judged = judge.project(state)
        assert {name: judged[name] for name in judged if name in rows[label]} == {
            name: rows[label][name] for name in judged if name in rows[label]
        }
        assert values.get(label) == rows[label]["tvl_usd_cents"]
    assert ("1.00012345678901", VALID_PRICE) == (rows["USDC"]["oracle_price_usd"], rows["USDC"]["price_reason"])
    assert (None, None) == (rows["XLM"]["oracle_price_usd"], rows["XLM"]["oracle_price"])
    assert [sum(values.values())] == tables.markets["tvl_usd_cents"].to_list()
    assert [(contract("XLM"), "the price is 6 minutes 1 second old, more than 6 minutes")] == [
        (item.pool, item.reason) for item in tables.unpriced
    ]
    assert [] == tables.unread


def test_utilization_is_published_rounded_down() -> None:
    """The published utilization is rounded down, the one beside the rates up (facts/alula.md 4.3 and 6.4)."""
    row = rows_of(three_pools().compute([candidate("A")]))["USDC"]

    assert (4_444, 4_445) == (row["utilization_bps"], row["stored_utilization"])


def test_value_has_collateral() -> None:
    """Plain collateral counts in the value and not in the supply; what is lent is not subtracted (6.4)."""
    ledger = AlulaLedger()
    ledger.add_market("A", ["USDC"])
    ledger.replace(pool("A", "USDC", total_collateral=2_000 * 10**7))
    row = ledger.compute([candidate("A")]).pools.row(0, named=True)

    assert (1_000 * 10**7, 2_000 * 10**7) == (row["total_supplied"], row["total_collateral"])
    assert 3_000 * 2 * 100 == row["tvl_usd_cents"]


@pytest.mark.parametrize(
    ("quote", "reason"),
    [
        (Quote("O", "T", 14, 1, NOW), None),
        (Quote("O", "T", 14, 1, NOW - 360), None),
        (Quote("O", "T", 14, 1, NOW - 361), "the price is 6 minutes 1 second old, more than 6 minutes"),
        (Quote("O", "T", 14, 1, NOW + 1), "the price is of 1 second after the ledger"),
        (Quote("O", "T", 14, 0, NOW), "the price is 0, not above zero"),
        (Quote("O", "T", 14, -5, NOW - 9_999), "the price is -5, not above zero"),
        (Quote("O", "T", failure="the oracle has no price for this token"), "the oracle has no price for this token"),
        (Quote("O", "T"), "the oracle gave no price"),
    ],
)
def test_price_rule(quote: Quote, reason: str | None) -> None:
    """A price must be there, above zero, at most 360 s old and not of the future, in this order (facts/alula.md 5)."""
    assert reason == PROTOCOLS["alula"].price_failure(quote, NOW)


def test_a_pool_without_rates_is_unread() -> None:
    """A pool whose rates the contract cannot compute costs the others nothing, and is named with the operation."""
    ledger = AlulaLedger()
    ledger.add_market("A", ["USDC", "XLM", "PYUSD"])
    ledger.replace(
        pool("A", "XLM", total_available=0, config=pool_config(interest_rate_model=kinked(kink2_ur_bps=10_000))),
        pool("A", "PYUSD", total_available=0, interest_rate_modifier_bps=100_000),
    )
    tables = ledger.compute([candidate("A")])
    unread = {item.pool: (item.reason, item.detail) for item in tables.unread}

    assert [contract("USDC")] == tables.pools["pool"].to_list()
    assert {contract("XLM"), contract("PYUSD")} == set(unread)
    assert "inconsistent" == unread[contract("XLM")][0]
    assert "kinked APR" in unread[contract("XLM")][1]
    assert "overflow" == unread[contract("PYUSD")][0]
    assert "borrow APY" in unread[contract("PYUSD")][1]
    assert [(3, 2)] == tables.markets.select("pool_count", "unread_count").rows()


def test_an_empty_reading() -> None:
    """A reading without pools gives a frame without rows, with all columns."""
    ledger = AlulaLedger()
    columns = ledger.read([candidate("A")]).result.columns

    assert list(PROTOCOL_COLUMNS) == project_pools(columns).columns
    assert 0 == project_pools(columns).height


def test_the_largest_numbers() -> None:
    """Numbers of 127 bits, which decoding lets through, are computed or named, never wrapped."""
    columns: dict[str, list[object]] = {name: ["x"] for name in ("market", "pool", "token_address", "oracle")}
    columns |= {name: ["x"] for name in ("market_name", "market_status", "wasm_hash")}
    columns |= {name: [POOL.get(name, 7)] for name in POOL_NUMBERS}
    columns |= {"total_available": [2**127 - 1], "total_borrowed": [0], "last_accrual_timestamp": [2**62 - 1]}
    row = project_pools(columns).row(0, named=True)

    assert (2**127 - 1, 0, 2**62 - 1) == (row["total_supplied"], row["utilization_bps"], row["last_accrual_time"])
    with pytest.raises(ExactOverflowError):
        project_pools(columns | {"total_borrowed": [1]})


def test_a_time_beyond_calendars() -> None:
    """A time after the year 9999 cannot be kept and makes the pool unread, with the reason."""
    ledger = AlulaLedger()
    ledger.add_market("A", ["USDC"])
    ledger.replace(pool("A", "USDC", last_accrual_timestamp=u64(2**61)))
    tables = ledger.compute([candidate("A")])

    assert ["overflow"] == [item.reason for item in tables.unread]
