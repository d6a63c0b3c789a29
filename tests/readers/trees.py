"""Published histories to read, and what any reader must find in them, in plain Python integers."""

from __future__ import annotations

import hashlib
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import polars as pl
import pyarrow.parquet as pq
import pytest

from exporter import FORMAT
from exporter.history.parquet import column_names
from exporter.stores.folder import FolderStore
from exporter.tables import MAX_DECIMAL
from exporter.tree.documents import HistoryFile, HistoryManifest
from exporter.tree.families import HISTORY_MANIFEST_KEY
from exporter.tree.read_back import render_document
from exporter.tree.values import ParquetType
from tests.history.frames import manifest_of, pools_frame, record
from tests.publishing.held import compact_history

Row = Mapping[str, Any]

COLUMNS = [*column_names(ParquetType.DECIMAL), "oracle_decimals", "price_timestamp", "decimals"]
"""The columns whose every value is compared in every reader: all that are 128 bits wide, and some with nulls."""

DAY = 86_400
LAST_DAY = int(datetime(2026, 11, 20, tzinfo=UTC).timestamp())
TIMES = [
    LAST_DAY + DAY * day + 3600 * hour for day, hours in ((-40, 1), (-2, 3), (-1, 3), (0, 2)) for hour in range(hours)
]
FIRST_LEDGER = 1_000


def extreme_frame(random: Random, ledger: int, time: int) -> pl.DataFrame:
    """Pools with the largest numbers that a file can hold, whose totals just fit; some have no price."""
    part = random.randrange(10**37)
    totals = [("TOKEN-A", MAX_DECIMAL - part), ("TOKEN-A", part), ("TOKEN-B", 2**64), ("TOKEN-C", MAX_DECIMAL)]
    totals += [("TOKEN-D", random.randrange(10**38)), ("TOKEN-E", 0)]
    rows = []
    for position, (token, total) in enumerate(totals):
        row: dict[str, object] = {name: random.choice([1, -1]) * random.randrange(10**38) for name in COLUMNS[:-3]}
        row |= {"token_address": token, "symbol": token[-1].lower(), "total_supplied": total}
        rates = random.randrange(5_000), random.randrange(9_000)
        row |= dict(zip(_RATES, (None, None) if time % (3 * DAY) == 0 else rates, strict=True))
        row |= {"total_borrowed": random.randrange(10**38), "listed": (None, True, False)[position % 3]}
        if position % 2:
            row |= dict.fromkeys(("oracle", "oracle_decimals", "oracle_price", "price_timestamp", "tvl_usd_cents"))
        rows.append(row)
    return pools_frame(rows, ledger, time)


def extreme_tree(folder: Path) -> list[Row]:
    """Record runs over four days into a folder and compact the closed ones; gives every row as it was before."""
    random, store = Random(3), FolderStore(folder)
    rows: list[Row] = []
    for ledger, time in enumerate(TIMES, FIRST_LEDGER):
        frame = extreme_frame(random, ledger, time)
        record(store, frame, ledger, time)
        rows += frame.to_dicts()
    compact_history(store)
    return rows


def rows_of(folder: Path) -> list[Row]:
    """Every row of the files that a folder's manifest names, through pyarrow, with Python's integers."""

    def plain(value: object) -> object:
        if isinstance(value, datetime):
            return int(value.timestamp())
        return int(value) if isinstance(value, Decimal) else value

    return [
        {name: plain(value) for name, value in row.items()}
        for file in manifest_of(FolderStore(folder)).files
        for row in pq.read_table(folder / file.key, partitioning=None).to_pylist()
    ]


def rewrite_newest(folder: Path, change: Callable[[pl.DataFrame], pl.DataFrame], number: int = FORMAT) -> None:
    """Make the newest file of the history what a later version could have written there."""
    manifest = manifest_of(FolderStore(folder))
    newest = manifest.files[-1]
    buffer = io.BytesIO()
    change(pl.read_parquet(folder / newest.key, hive_partitioning=False)).write_parquet(buffer)
    (folder / newest.key).write_bytes(buffer.getvalue())
    facts: dict[str, Any] = {"bytes": buffer.tell(), "sha256": hashlib.sha256(buffer.getvalue()).hexdigest()}
    entry: HistoryFile = msgspec.structs.replace(newest, **facts)
    files = [*manifest.files[:-1], entry]
    rendered = render_document(HistoryManifest(number, manifest.observed_ledger, files))
    (folder / HISTORY_MANIFEST_KEY).write_bytes(rendered.data)


def assert_found(found: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Assert that a reader's result is right to the last digit, and each row, too, if it was asked for columns."""
    assert expected_rates(rows) == found["rates"]
    assert expected_totals(rows) == found["totals"]
    assert found["rows"] in ([], expected_rows(rows))


def expected_rates(rows: Iterable[Row]) -> list[list[Any]]:
    """The right rates of a snippet, from plain fractions."""
    rows = list(rows)
    newest = max(row["ledger_close_time"] for row in rows)
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["ledger_close_time"] > newest - 30 * DAY and row["listed"] is not False:
            groups[row["token_address"], row["symbol"]].append(row)
    return [
        [*key, len(group), *(_mean_percent(group, *columns) for columns in _RATES.items())]
        for key, group in sorted(groups.items())
    ]


_RATES = {"comparable_supply_apy_bps": "total_supplied", "comparable_borrow_apy_bps": "total_borrowed"}
"""The rates of a snippet, each with what weighs it."""


def _mean_percent(rows: Sequence[Row], rate: str, amount: str) -> Any:
    """The weighted mean of the rows that have the rate; None if they weigh nothing."""
    known = [(row[rate], row[amount]) for row in rows if row[rate] is not None]
    weight = sum(own for _, own in known)
    return pytest.approx(float(Fraction(sum(bps * own for bps, own in known), 100 * weight))) if weight else None


def expected_totals(rows: Iterable[Row]) -> list[list[Any]]:
    """The right totals of a snippet, to the last digit."""
    rows = list(rows)
    newest = max(row["observed_ledger"] for row in rows)
    sums: dict[tuple[str, str, int], int] = defaultdict(int)
    for row in rows:
        if row["observed_ledger"] == newest:
            sums[row["token_address"], row["symbol"], row["decimals"]] += row["total_supplied"]
    return [[*key, str(total)] for key, total in sorted(sums.items())]


def expected_rows(rows: Iterable[Row]) -> list[list[Any]]:
    """Every row as `worker.answer` gives it for `COLUMNS`."""

    def text(value: int | None) -> str | None:
        return None if value is None else str(value)

    return sorted(
        [
            row["market"],
            row["pool"],
            row["observed_ledger"],
            row["ledger_close_time"] * 1_000_000,
            *(text(row[name]) for name in COLUMNS),
        ]
        for row in rows
    )
