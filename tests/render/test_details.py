"""The detail of an asset: every field from its column, and nothing that a document does not allow."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from exporter.errors import CheckError
from exporter.numbers.compute import Tables
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Parameter
from exporter.render.endpoints import asset_detail, render_details
from exporter.tables import MARKETS
from tests.history.frames import CLOSE_TIME, LEDGER, pools_frame
from tests.render.rendering import contract

MARKET, POOL, ORACLE = contract(1), contract(2), contract(3)

ROW: dict[str, object] = {
    "market": MARKET,
    "pool": POOL,
    "token_address": POOL,
    "symbol": "USDC",
    "decimals": 7,
    "protocol": "blend",
    "version": "v2",
    "market_name": "Fixed",
    "market_status": "active",
    "wasm_hash": "ab" * 32,
    "oracle": ORACLE,
    "supply_apy_bps": 610,
    "borrow_apy_bps": 1199,
    "utilization_bps": 6540,
    "total_supplied": 10**38 - 1,
    "total_borrowed": 21,
    "total_collateral": 5,
    "oracle_decimals": 14,
    "oracle_price": 10**14,
    "price_timestamp": CLOSE_TIME - 60,
    "price_reason": "valid",
    "oracle_price_usd": "1.00000000000000",
    "tvl_usd_cents": 77,
    "supply_index": 11,
    "borrow_index": 12,
    "index_decimals": 12,
    "stored_supply_apr": 13,
    "stored_borrow_apr": 14,
    "accrued_supply_apr": 15,
    "accrued_borrow_apr": 16,
    "apr_decimals": 7,
    "stored_utilization": 17,
    "accrued_utilization": 18,
    "utilization_decimals": 6,
    "rate_modifier": 19,
    "rate_modifier_decimals": 9,
    "backstop_credit": 20,
}
PARAMETERS = (Parameter("util", 8_000_000, 7), Parameter("supply_cap", 2**127 - 1, 7, no_limit=True))


def rendered(**changes: object) -> dict[str, Any]:
    """The detail of one made pool, as it is in its file."""
    tables = Tables(
        LEDGER,
        CLOSE_TIME,
        pools_frame([ROW | changes]),
        pl.DataFrame(schema=MARKETS),
        parameters={(MARKET, POOL): PARAMETERS},
    )
    (file,) = render_details(tables, PROTOCOLS)
    assert f"v1/assets/{MARKET}/{POOL}.json" == file.key
    document: dict[str, Any] = json.loads(file.data)
    return document


def test_every_field() -> None:
    """A detail is the snapshot, then everything else of the pool, exactly this."""
    assert {
        "market": MARKET,
        "pool": POOL,
        "token_address": POOL,
        "symbol": "USDC",
        "decimals": 7,
        "supply_apy_bps": 610,
        "borrow_apy_bps": 1199,
        "utilization_bps": 6540,
        "total_supplied": "9" * 38,
        "total_borrowed": "21",
        "oracle_price_usd": "1.00000000000000",
        "tvl_usd_cents": "77",
        "observed_ledger": LEDGER,
        "ledger_close_time": "2025-03-17T08:26:40Z",
        "protocol": "blend",
        "version": "v2",
        "market_name": "Fixed",
        "market_status": "active",
        "contract_wasm_hash": "ab" * 32,
        "total_collateral": "5",
        "backstop_credit": "20",
        "last_accrual_time": "2025-03-17T08:26:40Z",
        "price": {
            "oracle": ORACLE,
            "validity": "valid",
            "value": "100000000000000",
            "decimals": 14,
            "time": "2025-03-17T08:25:40Z",
        },
        "rates": {
            "apr_decimals": 7,
            "stored_supply_apr": "13",
            "stored_borrow_apr": "14",
            "accrued_supply_apr": "15",
            "accrued_borrow_apr": "16",
            "utilization_decimals": 6,
            "stored_utilization": "17",
            "accrued_utilization": "18",
            "rate_modifier_decimals": 9,
            "rate_modifier": "19",
        },
        "indexes": {"decimals": 12, "supply": "11", "borrow": "12"},
        "rate_model": [
            {"name": "util", "value": "8000000", "decimals": 7, "no_limit": False},
            {"name": "supply_cap", "value": str(2**127 - 1), "decimals": 7, "no_limit": True},
        ],
        "supply_compounding": "52",
        "borrow_compounding": "365",
    } == rendered()


def test_a_pool_without_a_price() -> None:
    """Without a valid price the oracle and the reason stay, and price, time and value are null."""
    nothing = dict.fromkeys(
        ("oracle_decimals", "oracle_price", "price_timestamp", "oracle_price_usd", "tvl_usd_cents"), None
    )
    detail = rendered(**nothing, price_reason="the price is 6 minutes 40 seconds old, more than 6 minutes")

    assert {
        "oracle": ORACLE,
        "validity": "the price is 6 minutes 40 seconds old, more than 6 minutes",
        "value": None,
        "decimals": None,
        "time": None,
    } == detail["price"]
    assert [None, None] == [detail["oracle_price_usd"], detail["tvl_usd_cents"]]


@pytest.mark.parametrize("seconds", [-1, 253_402_300_800, 2**63 - 1])
def test_a_price_of_no_date(seconds: int) -> None:
    """A price is shown also when its oracle gives a time that is no date; the time is null."""
    detail = rendered(price_timestamp=seconds)

    assert ("100000000000000", None) == (detail["price"]["value"], detail["price"]["time"])


def test_contracts_without_code_of_their_own() -> None:
    """A market without an oracle or wasm code says so with null; one without known parameters has an empty list."""
    row = pools_frame([ROW | {"oracle": None, "wasm_hash": None}]).row(0, named=True)
    detail = asset_detail(row, (), PROTOCOLS["blend"].coverage)

    assert (None, None, []) == (detail.contract_wasm_hash, detail.price.oracle, detail.rate_model)


def test_contradictions_are_refused() -> None:
    """A row that says valid and has no price is no document."""
    with pytest.raises(CheckError, match=r"\$\.price\.validity is 'valid'"):
        rendered(oracle_price=None)
