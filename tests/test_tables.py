"""The schemas of the two frames, against everything that is made from them."""

from __future__ import annotations

import polars as pl

from exporter.history.schema import FRAME_DTYPES, HISTORY_COLUMNS
from exporter.tables import BACKSTOPS, MARKETS, POOLS, PROTOCOL_COLUMNS, TERMS, VALID_PRICE
from exporter.tree.documents import MarketBackstop, MarketSummary, PoolSnapshot


def test_protocol_columns_come_first() -> None:
    """A pool's row begins with what its protocol gives, in that order."""
    assert list(PROTOCOL_COLUMNS.items()) == list(POOLS.items())[: len(PROTOCOL_COLUMNS)]


def test_no_floats() -> None:
    """No column of either frame can hold a float, nor a number that wraps or rounds by its type."""
    allowed = {pl.String(), pl.Int64(), pl.Int128(), pl.Boolean()}

    assert allowed == set(POOLS.values()) | set(MARKETS.values()) | set(BACKSTOPS.values())


def test_amounts_prices_and_rates_have_128_bits() -> None:
    """Everything that a contract keeps in 128 bits has them here."""
    wide = {name for name, dtype in POOLS.items() if dtype == pl.Int128}

    assert {
        "total_supplied", "total_borrowed", "total_collateral", "supply_index", "borrow_index", "stored_supply_apr",
        "stored_borrow_apr", "accrued_supply_apr", "accrued_borrow_apr", "stored_utilization", "accrued_utilization",
        "rate_modifier", "backstop_credit", "oracle_price", "tvl_usd_cents", "supplied_usd_cents",
        "borrowed_usd_cents", "available_usd_cents", "available_to_withdraw", "available_to_borrow",
        "available_to_supply", "supply_cap", "borrow_cap", "supply_reward_per_second", "borrow_reward_per_second",
        "supply_reward_per_year", "borrow_reward_per_year", "reward_price",
    } == wide  # fmt: skip
    assert {"tvl_usd_cents"} == {name for name, dtype in MARKETS.items() if dtype == pl.Int128}


def test_scaled_numbers_have_their_decimals() -> None:
    """Beside each kind of scaled number stands a column with its decimals."""
    decimals = {name for name in POOLS if name.endswith("_decimals")}

    assert {
        "index_decimals", "apr_decimals", "utilization_decimals", "rate_modifier_decimals", "oracle_decimals",
        "reward_decimals", "reward_token_decimals", "reward_price_decimals",
    } == decimals  # fmt: skip
    assert all(POOLS[name] == pl.Int64 for name in (*decimals, "decimals"))


def test_every_wire_field_is_a_column() -> None:
    """The 13 fields of a pool snapshot are columns of the pools frame."""
    assert 13 == len(PoolSnapshot.__struct_fields__)
    assert set(PoolSnapshot.__struct_fields__) <= set(POOLS)
    assert set(MarketSummary.__struct_fields__) - {"pools", "truncated", "backstop"} <= set(MARKETS)
    assert set(MarketBackstop.__struct_fields__) | {"market"} == set(BACKSTOPS)


def test_history_has_every_column() -> None:
    """The Parquet history keeps every column of the pools frame, in a type that holds it."""
    assert dict(POOLS) == {column.name: FRAME_DTYPES[column.type] for column in HISTORY_COLUMNS}


def test_only_prices_oracles_code_and_terms_may_be_null() -> None:
    """Nothing may be null but what hangs on a price, the oracle itself, the code's hash, and a pool's terms."""
    assert {
        "oracle", "oracle_decimals", "oracle_price", "price_timestamp", "oracle_price_usd", "tvl_usd_cents",
        "wasm_hash", "supplied_usd_cents", "borrowed_usd_cents", "available_usd_cents", *TERMS,
        "supply_reward_per_year", "borrow_reward_per_year", "supply_reward_apr_bps", "borrow_reward_apr_bps",
        "reward_symbol", "reward_token_decimals", "reward_price", "reward_price_decimals", "reward_price_source",
    } == {column.name for column in HISTORY_COLUMNS if column.nullable}  # fmt: skip


def test_valid_is_one_word() -> None:
    """The reason of a price that is valid is the word of the column's description."""
    assert "valid" == VALID_PRICE
