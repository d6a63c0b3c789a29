"""Rows of pools as answers have them."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import cast

import polars as pl

from exporter.errors import ConfigError
from exporter.protocols.numbers import PoolFrameRow
from exporter.render.site.text import THIN, cut
from exporter.render.site.why import why
from exporter.serve.assistant.form import Detail, Json, listed
from exporter.tree.values import as_written

MOST_ROWS = 200
MOST_TEXT = 200

SHORT_COLUMNS = (
    *("market", "pool", "protocol", "market_name", "listed", "pool_label", "token_address", "symbol"),
    *("can_supply", "can_borrow", "can_reason"),
    *("comparable_supply_apy_bps", "total_supply_apy_bps", "supply_reward_apr_bps"),
    *("comparable_borrow_apy_bps", "utilization_bps", "available_to_supply_usd_cents", "available_to_borrow_usd_cents"),
    *("price_reason", "tvl_usd_cents", "available_usd_cents", "shortfall"),
)
"""The columns of a pool in short lists. Yields are compounded alike, because lists compare."""

USUAL: Json = {
    "pool_label": None,
    "can_reason": None,
    "price_reason": "valid",
    "shortfall": "0",
    "supply_reward_apr_bps": 0,
}
"""Values that are usual and say nothing. Short lists leave them out, to have room for another pool."""

POOL_COLUMNS = (
    *("market", "pool", "protocol", "market_name", "listed", "pool_label", "market_status", "pool_status"),
    *("token_address", "symbol", "decimals"),
    *("can_supply", "can_withdraw", "can_borrow", "can_repay", "can_liquidate", "can_reason"),
    *("supply_apy_bps", "borrow_apy_bps", "comparable_supply_apy_bps", "comparable_borrow_apy_bps"),
    *("total_supply_apy_bps", "supply_reward_apr_bps", "supply_reward_expiration"),
    *("borrow_reward_apr_bps", "borrow_reward_expiration", "reward_symbol"),
    *("utilization_bps", "total_supplied", "total_borrowed"),
    *("available_to_supply", "available_to_borrow", "available_to_withdraw"),
    *("available_to_supply_usd_cents", "available_to_borrow_usd_cents"),
    *("supplied_usd_cents", "available_usd_cents", "shortfall"),
    *("oracle_price_usd", "price_reason", "tvl_usd_cents"),
    *("collateral_factor_bps", "liability_factor_bps", "liquidation_threshold_bps"),
)
"""The columns of a pool in full lists, as far as the tree has them. The tool `pool` gives everything."""


def shown_pools(pools: pl.DataFrame, limit: int, cursor: str | None, detail: Detail, *more: str, facts: Json) -> Json:
    """An answer with a part of the pools, each with the columns of the detail and with ``more``."""
    columns = [*(SHORT_COLUMNS if detail == "short" else POOL_COLUMNS), *more]
    rows = [pool_row(row, columns) for row in pools.iter_rows(named=True)]
    if detail == "short":
        rows = [
            {name: value for name, value in row.items() if name not in USUAL or USUAL[name] != value} for row in rows
        ]
    facts = facts | {"count": pools.height}
    return listed(facts, "pools", rows, limit=bounded(limit, MOST_ROWS), cursor=cursor, detail=detail)


def bounded(count: int, most: int) -> int:
    """A count that somebody asked for. Raises `ConfigError` unless it is from 1 to ``most``."""
    if not 1 <= count <= most:
        raise ConfigError(f"ask for 1 to {most}")
    return count


def pool_row(row: Json, columns: Iterable[str]) -> Json:
    """Some columns of a row as an answer has them, and what of a null or a symbol could be misunderstood.

    ``common_symbol`` is the symbol that people use, if the contract has another. ``null_means`` says of amounts that
    are null whether there is no limit, or what is not known.
    """
    shown = plain_row({name: row[name] for name in columns})
    if row["common_symbol"] != row["symbol"]:
        shown["common_symbol"] = row["common_symbol"]
    meanings = {name: _null_meaning(row, name) for name in _CAN_BE_LIMITLESS if shown.get(name, "") is None}
    return shown | ({"null_means": meanings} if meanings else {})


_CAN_BE_LIMITLESS = (
    *("available_to_supply", "available_to_borrow"),
    *("available_to_supply_usd_cents", "available_to_borrow_usd_cents"),
)


def _null_meaning(row: Json, name: str) -> str:
    """What a null means in a column of what may be supplied or borrowed."""
    amount = name.removesuffix("_usd_cents")
    if row[amount] is not None:
        return "no valid price"
    limitless = amount == "available_to_supply" and row["can_supply"] is not None
    return "no limit" if limitless else "not known"


_EXPLAINING = (
    *("total_borrowed", "stored_utilization", "utilization_decimals", "stored_borrow_apr", "stored_supply_apr"),
    *("apr_decimals", "comparable_supply_apy_bps"),
)
"""The columns that the sentence needs. An older exporter may not have written one, and then it is null."""


def why_in_words(row: Json) -> str | None:
    """The sentence of the site that says why a pool pays what it pays; None without one, as in an older tree."""
    if any(row[name] is None for name in _EXPLAINING):
        return None
    numbers = {name: int(value) if isinstance(value, Decimal) else value for name, value in row.items()}
    sentence = why(cast("PoolFrameRow", numbers))
    return None if sentence is None else sentence.replace(THIN, " ")


def plain_row(row: Json) -> Json:
    """A row as JSON: large numbers as digits, times as in documents, strangers' texts made harmless."""
    written = {name: as_written(value) for name, value in row.items()}
    return {name: cut(value, MOST_TEXT) if isinstance(value, str) else value for name, value in written.items()}
