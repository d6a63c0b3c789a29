"""Checks that history files are exactly what writing their rows gives, so that no reader sees other rows in them."""

from __future__ import annotations

import io

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exporter.errors import CheckError, DecodeError, SourceError
from exporter.history.empty_runs import EmptyRuns, empty_runs
from exporter.history.export import rows_of
from exporter.history.parquet import ARROW_SCHEMA, render_history, to_frame_types
from exporter.parquet_bounds import POLARS_ERRORS, open_parquet
from exporter.publishing.compaction import joined_rows
from exporter.tree.documents import EXPORTER_VERSION, HistoryFile
from exporter.tree.families import RUN_PARQUET, family_of
from exporter.tree.same_values import same_tables

_UNREADABLE = (pa.ArrowException, OSError, ValueError)


def refuse_other_version(data: bytes) -> None:
    """Raise `SourceError` if another version wrote the file, because this version does not know how it writes rows."""
    try:
        metadata = open_parquet(data, ()).metadata.metadata or {}
    except DecodeError as error:
        raise SourceError(f"it cannot be read: {error}") from None
    version = metadata.get(b"exporter_version", b"").decode(errors="replace")
    if version != EXPORTER_VERSION:
        raise SourceError(
            f"its rows were written by version {version[:20]!r} of the exporter, and this is {EXPORTER_VERSION}"
        )


def check_as_written(data: bytes, file: HistoryFile, network: str) -> bool:
    """Check that writing the rows of a file gives the same file again.

    Returns True if it gives the same bytes. Returns False if the bytes differ, but the columns, row groups, metadata
    and statistics are the same: then other libraries wrote the file. Statistics matter because readers choose by them
    which rows they read.

    Raises `CheckError` if it gives another file, and `SourceError` for a file of another version.
    """
    refuse_other_version(data)
    try:
        made = rewritten(rows_of(data, file), empty_runs(open_parquet(data)), file, network)
        if made is None:
            raise CheckError(f"{file.key} is not of one ledger, closed at one time, as its name says")
        if made != data and not same_tables(made, data):
            raise CheckError(
                f"{file.key} is not what writing its rows gives: its columns, order, metadata or statistics are others"
            )
    except (*_UNREADABLE, *POLARS_ERRORS, DecodeError) as error:
        raise CheckError(f"{file.key} cannot be read as a file of the history: {error}") from None
    return made == data


def rewritten(rows: pl.DataFrame, without_rows: EmptyRuns, file: HistoryFile, network: str) -> bytes | None:
    """The file that this version makes of rows, and of the runs ``without_rows``.

    None if a file of this name cannot have such rows.
    """
    if family_of(file.key) is not RUN_PARQUET:
        plain = io.BytesIO()
        pq.write_table(rows.to_arrow().cast(ARROW_SCHEMA), plain)
        return joined_rows([plain.getvalue()], network, file.first_ledger, file.last_ledger, without_rows)
    times = rows["ledger_close_time"].unique().dt.epoch("s").to_list()
    if not rows.height and file.first_ledger in without_rows:
        times = [without_rows[file.first_ledger]]
    if len(times) != 1:
        return None
    return render_history(
        to_frame_types(rows),
        observed_ledger=file.first_ledger,
        ledger_close_time=times[0],
        network=network,
    ).file.data


def rows_by_ledger(data: bytes) -> dict[int, int]:
    """The number of rows of each ledger in a file; 0 for a run without rows.

    The rows are counted, because the file's statistics may be wrong.
    """
    file = open_parquet(data, ["observed_ledger"])
    ledgers = file.read(["observed_ledger"]).column("observed_ledger")
    counts = {item["values"]: item["counts"] for item in pc.value_counts(ledgers).to_pylist()}
    return dict.fromkeys(empty_runs(file), 0) | counts
