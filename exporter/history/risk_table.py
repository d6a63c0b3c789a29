"""The table of risk, ``history/risk.parquet``: what falling prices do to the debt of each listed market.

There is a row for each checkpoint, market and fall of prices.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import TypedDict, cast

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.errors import DecodeError
from exporter.parquet_bounds import open_parquet
from exporter.tree.risk_documents import RiskDocument

_CENTS = pa.decimal128(38, 0)

_MEANINGS = {
    "checkpoint": "the ledger of the checkpoint, at which no run has to be",
    "checkpoint_close_time": "when that ledger closed",
    "protocol": "lending protocol, for example blend",
    "market": "the listed market's contract, a strkey",
    "token_address": "the token whose price falls; null: all tokens but stable ones, together",
    "fall_bps": "by how much it falls, in basis points; 0: prices as they are",
    "supplier_count": "holders that supplied",
    "borrower_count": "holders that owe",
    "not_judged_count": "borrowers that cannot be judged",
    "debt_usd_cents": "all judged debt, at the prices of the checkpoint; null with fewer than five judged borrowers",
    "liquidatable_usd_cents": "debt of positions that can be liquidated after the fall; null with fewer than five",
    "uncovered_usd_cents": "debt beyond its collateral's worth after the fall; null with fewer than five",
    "backstop_usd_cents": "what the backstop holds; null when not known",
}

_TYPES = {
    "checkpoint_close_time": pa.timestamp("us", "UTC"),
    **dict.fromkeys(("protocol", "market", "token_address"), pa.large_string()),
    **dict.fromkeys((name for name in _MEANINGS if name.endswith("_usd_cents")), _CENTS),
}
"""The types of columns that are no counts or ledgers."""

SCHEMA: pa.Schema = pa.schema(
    pa.field(name, _TYPES.get(name, pa.int64()), metadata={"description": meaning})
    for name, meaning in _MEANINGS.items()
)


class _RiskRow(TypedDict):
    """A row of the table: the columns of `SCHEMA`."""

    checkpoint: int
    checkpoint_close_time: datetime
    protocol: str
    market: str
    token_address: str | None
    fall_bps: int
    supplier_count: int
    borrower_count: int
    not_judged_count: int
    debt_usd_cents: Decimal | None
    liquidatable_usd_cents: Decimal | None
    uncovered_usd_cents: Decimal | None
    backstop_usd_cents: Decimal | None


def checkpoints_in(table: bytes | None) -> set[int]:
    """The checkpoints that a table has rows of. Raises `DecodeError` if it cannot be read."""
    return {row["checkpoint"] for row in _rows(table)}


def with_checkpoints(earlier: bytes | None, documents: Iterable[RiskDocument]) -> bytes:
    """The table with the rows of checkpoints added, ascending by checkpoint.

    They replace the rows that the earlier table has of the same checkpoints. Raises `DecodeError` if the earlier table
    cannot be read.
    """
    added = {document.checkpoint: document for document in documents}
    rows = [row for row in _rows(earlier) if row["checkpoint"] not in added]
    for document in added.values():
        rows += _rows_of(document)
    rows.sort(key=lambda row: (row["checkpoint"], row["market"], row["token_address"] or "", row["fall_bps"]))
    target = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), target, compression="zstd")
    return target.getvalue()


def _rows(data: bytes | None) -> list[_RiskRow]:
    if data is None:
        return []
    try:
        table = open_parquet(data).read()
        return cast(list[_RiskRow], table.cast(SCHEMA).to_pylist())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DecodeError(f"it is no table of risk: {error}") from None


def _rows_of(document: RiskDocument) -> Iterator[_RiskRow]:
    closed = datetime.fromisoformat(document.checkpoint_close_time)
    for market in document.data:
        now = market.now
        as_it_is: _RiskRow = {
            "checkpoint": document.checkpoint,
            "checkpoint_close_time": closed,
            "protocol": market.protocol,
            "market": market.market,
            "token_address": None,
            "fall_bps": 0,
            "supplier_count": market.supplier_count,
            "borrower_count": market.borrower_count,
            "not_judged_count": market.not_judged_count,
            "debt_usd_cents": None if now is None else Decimal(now.debt_usd_cents),
            "liquidatable_usd_cents": None if now is None else Decimal(now.liquidatable_usd_cents),
            "uncovered_usd_cents": None if now is None else Decimal(now.uncovered_usd_cents),
            "backstop_usd_cents": None if market.backstop_usd_cents is None else Decimal(market.backstop_usd_cents),
        }
        yield as_it_is
        for fall in market.falls:
            yield {
                **as_it_is,
                "token_address": fall.token_address,
                "fall_bps": fall.fall_bps,
                "liquidatable_usd_cents": Decimal(fall.liquidatable_usd_cents),
                "uncovered_usd_cents": Decimal(fall.uncovered_usd_cents),
            }
