"""XOXNO's pools in the shared columns, from entries to the numbers that are published."""

from __future__ import annotations

from exporter.ledger.scval_encode import u32
from exporter.protocols.xoxno import Xoxno
from exporter.protocols.xoxno.table import project_pools
from exporter.tables import PROTOCOL_COLUMNS, VALID_PRICE
from tests import xoxno_judge as judge
from tests.blend_chain import NOW, contract
from tests.xoxno_chain import (
    CODE,
    JUDGED,
    RAY,
    WAD,
    XoxnoLedger,
    candidate,
    deployment,
    flag,
    parameters,
    pool_id,
    quote,
    state,
)


def test_every_column() -> None:
    """Each shared column has what it says, in its type: totals and indexes accrued, yields of the stored rates."""
    ledger = XoxnoLedger()
    ledger.add_market("A", [(1, "USDC")])
    columns = ledger.read([candidate("A")], [deployment("A", [(1, "USDC")])]).result.columns
    frame = project_pools(columns, NOW)
    expected = judge.project(JUDGED, NOW)

    assert list(PROTOCOL_COLUMNS.items()) == list(frame.schema.items())
    assert {
        "market": contract("A"),
        "pool": pool_id(1, "USDC"),
        "token_address": contract("USDC"),
        "protocol": "xoxno",
        "version": "v1",
        "market_name": "XOXNO Lending",
        "market_status": "active",
        "wasm_hash": CODE.hex(),
        "oracle": contract("A aggregator"),
        "decimals": 7,
        "supply_apy_bps": expected["supply_apy_bps"],
        "borrow_apy_bps": 304,  # 3 % of the contract's year, compounded on 365 days of it
        "utilization_bps": 5_000,
        "total_supplied": expected["total_supplied"],
        "total_borrowed": 5_000_000_475,
        "total_collateral": 0,
        "last_accrual_time": NOW - 100,
        "supply_index": expected["accrued_supply_index"],
        "borrow_index": expected["accrued_borrow_index"],
        "index_decimals": 27,
        "stored_supply_apr": expected["stored_supply_apr"],
        "stored_borrow_apr": 30 * 10**24,
        "accrued_supply_apr": expected["accrued_supply_apr"],
        "accrued_borrow_apr": expected["accrued_borrow_apr"],
        "apr_decimals": 27,
        "stored_utilization": RAY // 2,
        "accrued_utilization": expected["accrued_utilization"],
        "utilization_decimals": 27,
        "rate_modifier": 1,
        "rate_modifier_decimals": 0,
        "backstop_credit": 0,
    } == frame.row(0, named=True)


def test_values_and_prices() -> None:
    """A price of a whole token with 18 decimals values tokens of 7 and of 18 decimals exactly; a refused one none."""
    pools = [(1, "USDC"), (2, "WETH"), (3, "XLM")]
    ledger = XoxnoLedger()
    ledger.add_market("A", pools)
    ledger.replace(
        parameters("A", 2, "WETH", asset_decimals=u32(18)),
        state("A", 2, "WETH", supplied=3 * RAY // 2, borrowed=0, revenue=0),
    )
    ledger.set_quotes("A", {"USDC": quote(WAD + 1), "WETH": quote(3_127 * WAD), "XLM": quote(stale=flag(True))})
    tables = ledger.compute([candidate("A")], [deployment("A", pools)])
    rows = {row["pool"]: row for row in tables.pools.rows(named=True)}
    usdc, weth, xlm = (rows[pool_id(*pool)] for pool in pools)

    assert (15 * 10**17, 469_050) == (weth["total_supplied"], weth["tvl_usd_cents"])
    assert ("3127.000000000000000000", VALID_PRICE) == (weth["oracle_price_usd"], weth["price_reason"])
    assert usdc["total_supplied"] * (WAD + 1) * 100 // 10**25 == usdc["tvl_usd_cents"]
    assert (None, "the price aggregator says that the price is stale") == (xlm["tvl_usd_cents"], xlm["price_reason"])
    assert [usdc["tvl_usd_cents"] + weth["tvl_usd_cents"]] == tables.markets["tvl_usd_cents"].to_list()


def test_an_empty_reading() -> None:
    """A reading without pools gives a frame without rows, with all columns."""
    columns = XoxnoLedger().read([candidate("A")]).result.columns
    frame = Xoxno().project(columns, NOW)

    assert list(PROTOCOL_COLUMNS.items()) == list(frame.schema.items())
    assert 0 == frame.height


def test_coverage_says_all() -> None:
    """What the numbers mean is said in full, in one line each, with the year of the contract."""
    coverage = Xoxno().coverage

    assert 31_556_926 == coverage.year_seconds == judge.YEAR // 1_000
    assert all(
        0 < len(text) <= 120
        for text in (coverage.title, coverage.structure, coverage.supply_yield, coverage.rates, coverage.totals,
                     coverage.prices, coverage.limits)
    )  # fmt: skip
