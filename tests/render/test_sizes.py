"""The first files that a reader loads stay small at any age of the history."""

from __future__ import annotations

import msgspec
import polars as pl
from msgspec.structs import replace

from exporter import FORMAT
from exporter.history.buckets import OBSERVATIONS, aggregate, observations_of, totals_of
from exporter.history.changes_table import NO_ROWS
from exporter.history.closed_buckets import TOTALS_HISTORY
from exporter.history.parquet import render_history
from exporter.history.series import Series
from exporter.history.time_buckets import BUCKETS, DAY
from exporter.job.inputs import RunInputs, run_settings
from exporter.job.rendering import render_run
from exporter.localnet.player import RecordedNetwork
from exporter.protocols.compute import Tables
from exporter.render.change_list import MAX_CHANGES
from exporter.render.watched_values import WatchedFile
from exporter.tree.documents import HistoryFile, HistoryManifest
from exporter.tree.families import EVIDENCE, HISTORY_MANIFEST_KEY
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.read_back import file_of
from tests.job_runs import direct, read_tables, settings_for
from tests.render.compared import Compared, compared

LARGEST_BYTES = 200_000
EXCEPTIONS = ("v1/openapi.json",)
"""The description of the API, which does not grow with the history."""

DAYS = 3_652


def aged(tables: Tables) -> Series:
    """The histories of ten years of days, in which all numbers of each pool move."""
    series = Series()
    now = observations_of(tables.pools)
    one = as_of_two_observations(aggregate(now, DAY))
    for bucket in BUCKETS:
        # The newest document has at most `pages` whole spans and its own: one span more shows that the oldest leaves.
        count = min(DAYS * DAY.seconds // bucket.seconds, (bucket.pages + 2) * bucket.page_buckets)
        first = bucket.start(tables.close_time) - count * bucket.seconds
        starts = pl.DataFrame({"start": [first + number * bucket.seconds for number in range(count)]})
        factor = 8_000 + pl.col("start") // bucket.seconds * 7_919 % 4_000
        rows = (
            one.drop("start")
            .join(starts, how="cross")
            .with_columns(
                *((pl.col(name) * factor // 10_000).cast(one.schema[name]) for name in MOVED),
            )
        )
        rows = rows.select(one.columns).sort("market", "pool", "start")
        for _ in series.pools.close(bucket, rows, tables.close_time):
            pass
        if bucket in TOTALS_HISTORY.buckets:
            for _ in series.totals.close(bucket, totals_of(rows), tables.close_time):
                pass
    begun = now.select(name for name in OBSERVATIONS if name in ("market", "pool", "token_address", "protocol"))
    series.pools.put("begun", begun.with_columns(pl.lit(1, pl.Int64).alias("observed_ledger")))
    series.through_ledger, series.through_time = tables.ledger - 1, tables.close_time - 300
    return series


def as_of_two_observations(buckets: pl.DataFrame) -> pl.DataFrame:
    """Buckets with a value in each column that one observation leaves null."""
    amounts = ("interest_paid", "interest_paid_usd_cents", "interest_to_protocol", "interest_to_protocol_usd_cents")
    return buckets.with_columns(
        pl.lit("12345678.12345678901234").alias("realized_supply_reward"),
        *(pl.col("supply_apy_bps").alias(f"realized_{side}_apy_bps") for side in ("supply", "borrow")),
        *((pl.col("total_supplied") // 100).alias(name) for name in amounts),
    )


MOVED = (
    "total_supplied",
    "total_borrowed",
    "tvl_usd_cents",
    "supplied_usd_cents",
    "borrowed_usd_cents",
    "supply_apy_bps",
    "borrow_apy_bps",
    "utilization_bps",
)


def ten_years_of_files(entry: HistoryFile) -> HistoryManifest:
    """The manifest after ten years: a file for each run of today, for each recent day, and each month before."""
    folders = [f"month=20{number // 12 + 16}-{number % 12 + 1:02d}/" for number in range(117)]
    folders += [f"date=2026-{9 + number // 30:02d}-{number % 30 + 1:02d}/" for number in range(91)]
    files, ledger = list[HistoryFile](), 10_000_000
    for folder in folders:
        key = f"history/pools/{folder}{ledger}-{ledger + 287}-{'0' * 12}.parquet"
        files.append(
            msgspec.structs.replace(
                entry, key=key, url=f"../{key}", bytes=9_999_999, first_ledger=ledger, last_ledger=ledger + 287
            )
        )
        ledger += 288
    for number in range(entry.first_ledger - 287, entry.first_ledger):
        key = entry.key.replace(str(entry.first_ledger), str(number))
        files.append(msgspec.structs.replace(entry, key=key, url=f"../{key}", first_ledger=number, last_ledger=number))
    return HistoryManifest(format=FORMAT, observed_ledger=entry.last_ledger, files=[*files, entry])


def with_many_changes(tables: Tables, network: str) -> Compared:
    """The run before one whose list of changes is full: every pool's rates were others, again and again."""
    now = compared(tables, None, network)
    pools = [
        msgspec.structs.replace(pool, **dict.fromkeys(("supply_apy_bps", "borrow_apy_bps"), 1))
        for pool in now.watched.pools
    ]
    before = msgspec.structs.replace(now.watched, observed_ledger=tables.ledger - 1, pools=pools)
    changes = compared(tables, replace(now, watched=before), network).changes
    assert changes.data
    full = (changes.data * MAX_CHANGES)[:MAX_CHANGES]
    return Compared(before, msgspec.structs.replace(changes, data=full))


def test_nothing_grows_with_the_history() -> None:
    """After ten years of five-minute runs no page, and no document that is loaded first, has more than 200 kB."""
    tables = read_tables(direct(RecordedNetwork()))
    settings = settings_for(schedule__interval="5m")
    network = settings.passphrase
    entry = render_history(
        tables.pools, observed_ledger=tables.ledger, ledger_close_time=tables.close_time, network=network
    ).entry
    files, before = ten_years_of_files(entry), with_many_changes(tables, network)
    inputs = RunInputs(
        settings=run_settings(settings),
        evidence=RenderedFile(EVIDENCE.key(sha256="0" * 64), b"", FileKind.PAGE),
        tables=tables,
        history=files.files[:-1],
        series=aged(tables),
        watched=WatchedFile.of(before.watched),
        earlier_changes=before.data,
        earlier_rows=NO_ROWS,
    )
    sizes = {file.key: len(file.data) for file in render_run(inputs).files() if file.kind is FileKind.DOCUMENT}
    sizes[HISTORY_MANIFEST_KEY] = len(file_of(files).data)

    assert {} == {key: size for key, size in sizes.items() if size > LARGEST_BYTES and key not in EXCEPTIONS}
