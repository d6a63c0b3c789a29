"""The columns of a history file: their types, whether they may be null, and what they mean, with units.

A history file holds the pools frame of one run (exporter/tables.py), column for column. The types are those that
every reader of Parquet agrees on: no 128-bit and no unsigned integers, which
DuckDB reads as bytes and pyarrow not at all, and no floats. docs/history.md shows this table to people.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import polars as pl
import pyarrow as pa


class ParquetType(StrEnum):
    """The types in use, as docs/history.md writes them."""

    UTF8 = "utf8"
    INT64 = "int64"
    DECIMAL = "decimal(38,0)"
    TIMESTAMP = "timestamp[us, UTC]"
    BOOLEAN = "boolean"


PARQUET_DTYPES: dict[ParquetType, pl.DataType] = {
    ParquetType.UTF8: pl.String(),
    ParquetType.INT64: pl.Int64(),
    ParquetType.DECIMAL: pl.Decimal(38, 0),
    ParquetType.TIMESTAMP: pl.Datetime("us", "UTC"),
    ParquetType.BOOLEAN: pl.Boolean(),
}
"""How each type is written."""

ARROW_TYPES: dict[ParquetType, pa.DataType] = {
    ParquetType.UTF8: pa.large_string(),  # what Polars writes: all files of a history join as Arrow tables
    ParquetType.INT64: pa.int64(),
    ParquetType.DECIMAL: pa.decimal128(38, 0),
    ParquetType.TIMESTAMP: pa.timestamp("us", "UTC"),
    ParquetType.BOOLEAN: pa.bool_(),
}
"""How pyarrow has each type."""

FRAME_DTYPES: dict[ParquetType, pl.DataType] = {
    ParquetType.UTF8: pl.String(),
    ParquetType.INT64: pl.Int64(),
    ParquetType.DECIMAL: pl.Int128(),
    ParquetType.TIMESTAMP: pl.Int64(),  # unix seconds
    ParquetType.BOOLEAN: pl.Boolean(),
}
"""What the pools frame has where the file has the type."""


@dataclass(frozen=True, slots=True)
class HistoryColumn:
    """One column of a history file."""

    type: ParquetType
    name: str
    meaning: str
    nullable: bool = False


_text = partial(HistoryColumn, ParquetType.UTF8)
_int = partial(HistoryColumn, ParquetType.INT64)
_decimal = partial(HistoryColumn, ParquetType.DECIMAL)
_time = partial(HistoryColumn, ParquetType.TIMESTAMP)
_flag = partial(HistoryColumn, ParquetType.BOOLEAN, nullable=True)

HISTORY_COLUMNS: tuple[HistoryColumn, ...] = (
    _text("market", "market contract, a strkey; rows ascend by market, then pool"),
    _text("pool", "pool id inside the market; the token's address wherever a market has one pool a token"),
    _text("token_address", "token contract, a strkey"),
    _text("symbol", "token symbol as the token contract gives it"),
    _int("decimals", "decimals of the token: 10^decimals base units are one token"),
    _text("protocol", "lending protocol, for example blend"),
    _text("version", "generation of the protocol's contracts, for example v2"),
    _text("market_name", "the market's name as its contract gives it"),
    _text("market_status", "the market's status in the protocol's own words"),
    _int(
        "supply_apy_bps",
        "annual yield of suppliers, compounded or simple as the protocol has it, floor to basis points",
    ),
    _int(
        "borrow_apy_bps", "annual cost of borrowers, compounded or simple as the protocol has it, floor to basis points"
    ),
    _int("utilization_bps", "floor(total_borrowed * 10000 / total_supplied); 0 when nothing is supplied"),
    _decimal("total_supplied", "lent into the pool, interest included, in token base units"),
    _decimal("total_borrowed", "owed to the pool, interest included, in token base units"),
    _decimal("total_collateral", "plain collateral outside total_supplied, in token base units"),
    _text("oracle", "the market's oracle contract; null when it has none", nullable=True),
    _int("oracle_decimals", "decimals of oracle_price; null without a valid price", nullable=True),
    _decimal(
        "oracle_price",
        "USD for one token, times 10^oracle_decimals; null without a valid price",
        nullable=True,
    ),
    _int(
        "price_timestamp",
        "time of the price in unix seconds, as the oracle gives it; null without a valid price",
        nullable=True,
    ),
    _text("price_reason", "valid, or why there is no price"),
    _text(
        "oracle_price_usd", "oracle_price printed with all of its decimals; null without a valid price", nullable=True
    ),
    _decimal(
        "tvl_usd_cents",
        "floor((total_supplied + total_collateral) * price * 100) in US cents; null without a valid price",
        nullable=True,
    ),
    _int("observed_ledger", "the ledger at which every value of this row stood"),
    _time("ledger_close_time", "close time of that ledger"),
    _time("last_accrual_time", "when the contract last added interest to this pool"),
    _decimal("supply_index", "base units of token for one share of supply, times 10^index_decimals, accrued"),
    _decimal("borrow_index", "base units of token for one share of debt, times 10^index_decimals, accrued"),
    _int("index_decimals", "decimals of supply_index and borrow_index"),
    _decimal("stored_supply_apr", "annual rate of suppliers, from the stored state, times 10^apr_decimals"),
    _decimal("stored_borrow_apr", "annual rate of borrowers, from the stored state, times 10^apr_decimals"),
    _decimal("accrued_supply_apr", "annual rate of suppliers, accrued to ledger_close_time, times 10^apr_decimals"),
    _decimal("accrued_borrow_apr", "annual rate of borrowers, accrued to ledger_close_time, times 10^apr_decimals"),
    _int("apr_decimals", "decimals of the four rates"),
    _decimal("stored_utilization", "share of supply lent out, stored state, times 10^utilization_decimals"),
    _decimal("accrued_utilization", "share of supply lent out, accrued, times 10^utilization_decimals"),
    _int("utilization_decimals", "decimals of the two utilizations"),
    _decimal("rate_modifier", "reactive factor of the rate model, accrued, times 10^rate_modifier_decimals"),
    _int("rate_modifier_decimals", "decimals of rate_modifier"),
    _decimal("backstop_credit", "interest set aside for the backstop, accrued, in token base units"),
    _text("wasm_hash", "SHA-256 of the market contract's code, 64 hex digits; null when unknown", nullable=True),
    _flag("can_supply", "whether the contract lets anybody supply, whatever caps leave; null when unknown"),
    _flag("can_withdraw", "the same for withdrawing"),
    _flag("can_borrow", "the same for borrowing"),
    _flag("can_repay", "the same for repaying"),
    _flag("can_liquidate", "the same for liquidating debt of this pool"),
    _text("can_reason", "why one of the five is not known, or closed without a price", nullable=True),
    _text("pool_status", "the pool's own status in the protocol's own words; null when it has none", nullable=True),
    _decimal(
        "available_to_withdraw",
        "what the pool can pay out to its suppliers, in token base units; 0 when can_withdraw is false",
        nullable=True,
    ),
    _decimal(
        "available_to_borrow",
        "what can be borrowed at the most, in token base units; 0 when can_borrow is false",
        nullable=True,
    ),
    _decimal(
        "available_to_supply",
        "what the cap leaves to supply, in token base units; 0 when can_supply is false; null without a cap",
        nullable=True,
    ),
    _decimal(
        "min_first_supply",
        "least that an account's first supply must have, in token base units; null: any amount",
        nullable=True,
    ),
    _text(
        "risk_scope",
        "what the columns that follow hold for: market, reserve or spoke; null when they are unknown",
        nullable=True,
    ),
    _int("collateral_factor_bps", "share of the value of collateral that counts when a debt is opened", nullable=True),
    _int(
        "liquidation_threshold_bps", "share of the value of collateral that counts against liquidation", nullable=True
    ),
    _int(
        "liability_factor_bps", "what the value of a debt counts, rounded up; 10000 is the value itself", nullable=True
    ),
    _int("liquidation_bonus_bps", "what a liquidator gets above the debt; null when it is not fixed", nullable=True),
    _text("liquidation_kind", "how the bonus comes about: fixed, range, auction or dynamic", nullable=True),
    _decimal("supply_cap", "most that may be supplied, in token base units; null: no cap, 0: closed", nullable=True),
    _decimal("borrow_cap", "most that may be borrowed, in token base units; null: no cap, 0: closed", nullable=True),
    _int("max_utilization_bps", "utilization that no borrower may exceed; null: none", nullable=True),
    _int("reserve_factor_bps", "share of the borrowers' interest that suppliers do not get", nullable=True),
    _flag("can_be_collateral", "whether the pool's configuration lets its supply secure a debt"),
    _flag("can_be_borrowed", "whether the pool's configuration lets it be borrowed"),
    _decimal("supplied_usd_cents", "floor(total_supplied * price * 100); null without a valid price", nullable=True),
    _decimal("borrowed_usd_cents", "floor(total_borrowed * price * 100); null without a valid price", nullable=True),
    _decimal(
        "available_usd_cents",
        "floor(available_to_withdraw * price * 100); null without a valid price",
        nullable=True,
    ),
    _text("reward_token", "token contract that is paid beside the interest, a strkey; null without one", nullable=True),
    _text("reward_symbol", "symbol of the reward token as its contract gives it", nullable=True),
    _int("reward_token_decimals", "decimals of the reward token", nullable=True),
    _decimal(
        "supply_reward_per_second",
        "what all suppliers together are paid a second, in base units of the reward token times 10^reward_decimals",
        nullable=True,
    ),
    _decimal("borrow_reward_per_second", "the same for all borrowers", nullable=True),
    _int("reward_decimals", "decimals of the two beyond base units", nullable=True),
    _decimal("supply_reward_per_year", "the same a year, floor to base units of the reward token", nullable=True),
    _decimal("borrow_reward_per_year", "the same for all borrowers", nullable=True),
    _time("supply_reward_expiration", "when the suppliers' reward ends; null without an end", nullable=True),
    _time("borrow_reward_expiration", "the same for the borrowers'", nullable=True),
    _int(
        "supply_reward_apr_bps",
        "annual yield of the suppliers' reward, not compounded and in no other rate, floor to basis points",
        nullable=True,
    ),
    _int("borrow_reward_apr_bps", "the same for borrowers, who get it", nullable=True),
    _text("supply_reward_reason", "valid, or why the suppliers' reward is 0 or its yield null", nullable=True),
    _text("borrow_reward_reason", "the same for the borrowers'", nullable=True),
    _decimal(
        "reward_price", "USD for one reward token, times 10^reward_price_decimals; null when not known", nullable=True
    ),
    _int("reward_price_decimals", "decimals of reward_price", nullable=True),
    _text("reward_price_source", "what the price of the reward token follows from", nullable=True),
)
"""Every column, in the order of the file."""


def column_names(kind: ParquetType) -> list[str]:
    """Name the columns of one type, in the order of the file."""
    return [column.name for column in HISTORY_COLUMNS if column.type is kind]


FRAME_SCHEMA: dict[str, pl.DataType] = {column.name: FRAME_DTYPES[column.type] for column in HISTORY_COLUMNS}
"""The columns of a history file as the pools frame has them."""

FILE_SCHEMA: dict[str, pl.DataType] = {column.name: PARQUET_DTYPES[column.type] for column in HISTORY_COLUMNS}
"""The columns of a history file as Polars has them."""

ORDER = ("market", "pool", "observed_ledger")
"""How the rows of a file of several runs are sorted."""

ARROW_SCHEMA = pa.schema([(column.name, ARROW_TYPES[column.type]) for column in HISTORY_COLUMNS])
"""The same as pyarrow has them."""
