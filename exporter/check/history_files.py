"""The Parquet history: every file that its manifest names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exporter.check.summary import Whole
from exporter.errors import CheckError
from exporter.history.manifest import file_ledgers, folder_of, span_of
from exporter.tree.documents import HistoryFile, HistoryManifest, SystemStatus
from exporter.tree.families import HISTORY_MANIFEST_KEY, LATEST_PARQUET
from exporter.tree.values import as_written

_ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError)


@dataclass(frozen=True, slots=True)
class ParquetFacts:
    """``rows`` is None if unreadable; ``ledgers`` and ``closed`` (times) are the first and last, None without rows."""

    bytes: int
    sha256: str
    rows: int | None = None
    ledgers: tuple[int, int] | None = None
    closed: tuple[datetime, datetime] | None = None


def read_parquet(data: bytes, sha256: str) -> ParquetFacts:
    """Read a file of the history. Raises `CheckError` if it cannot be."""
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read(["observed_ledger", "ledger_close_time"])
        ledgers, closed = (tuple(pc.min_max(column).as_py().values()) for column in table.columns)
    except _ARROW_ERRORS as error:
        raise CheckError(f"pyarrow cannot read it: {error}") from error
    if not table.num_rows:
        return ParquetFacts(len(data), sha256, 0)
    return ParquetFacts(len(data), sha256, table.num_rows, ledgers, closed)


def check_history(whole: Whole, status: SystemStatus, facts: dict[str, ParquetFacts]) -> None:
    """See that the history's manifest describes its files, and that it reaches to the run."""
    history = whole.one(HistoryManifest)
    if history is None:
        if facts:
            whole.fault(HISTORY_MANIFEST_KEY, "is missing, though the history has files")
        return

    fault = partial(whole.fault, HISTORY_MANIFEST_KEY)
    if not history.files:
        fault("$.files is empty")
    newest = max((file.last_ledger for file in history.files), default=0)
    for name, found in (("observed_ledger", history.observed_ledger), ("files", newest)):
        if found != status.observed_ledger:
            fault(f"$.{name} reaches to ledger {found}, but the run is of ledger {status.observed_ledger}")
    for earlier, later in pairwise(history.files):
        if later.first_ledger <= earlier.last_ledger:
            fault(f"{earlier.key} reaches to ledger {earlier.last_ledger}, and {later.key} begins at or before it")
    if len({file.key for file in history.files}) != len(history.files):
        fault("$.files has a key twice")
    if whole.latest is not None and whole.latest not in {file.sha256 for file in history.files[-1:]}:
        whole.fault(LATEST_PARQUET.template, "is not the newest file of the history")
    for file in history.files:
        whole.fault(file.key, *_file_faults(whole, status, file, facts.get(file.key)))


def _file_faults(whole: Whole, status: SystemStatus, file: HistoryFile, facts: ParquetFacts | None) -> Iterator[str]:
    if file.key not in whole.seen:
        if not whole.partial and not (whole.own_files_only and file.last_ledger < status.observed_ledger):
            yield "is missing, though the history's manifest lists it"
        return
    whole.summary.links += 1
    if file_ledgers(file.key) is None:
        yield "is not under the key of a history file"
        return
    if facts is not None and (facts.bytes, facts.sha256) != (file.bytes, file.sha256):
        yield "does not have the bytes that the history's manifest gives for it"
    if file.first_ledger > file.last_ledger:
        yield f"begins at ledger {file.first_ledger} and ends at {file.last_ledger} in the history's manifest"
    if facts is None or facts.rows is None:
        return
    whole.summary.history_files += 1
    whole.summary.history_rows += facts.rows
    if facts.rows != file.rows:
        yield f"has {facts.rows} rows, but {file.rows} in the history's manifest"
    if facts.ledgers is not None and facts.ledgers != (file.first_ledger, file.last_ledger):
        yield (
            f"has rows of ledgers {facts.ledgers[0]} to {facts.ledgers[1]}, but {file.first_ledger} to "
            f"{file.last_ledger} in the history's manifest"
        )
    begins, ends = span_of(folder_of(file.key))
    for closed in facts.closed or ():
        if not begins <= closed < ends:
            yield f"is of a ledger that closed at {as_written(closed)}, which is another day or month than its folder's"
            return
