"""The Parquet history: every file that its manifest names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exporter.check.summary import CheckSummary
from exporter.errors import CheckError
from exporter.history.manifest import folder_of, span_of
from exporter.tree.documents import HistoryFile, HistoryManifest, SystemStatus
from exporter.tree.families import HISTORY_MANIFEST_KEY
from exporter.tree.values import as_written

if TYPE_CHECKING:
    from exporter.check.checker import TreeChecker

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


def check_history(checker: TreeChecker, status: SystemStatus, facts: dict[str, ParquetFacts]) -> None:
    """See that the history's manifest describes its files, and that it reaches to the run."""
    history = checker.one(HistoryManifest)
    if history is None:
        if facts:
            checker.fault(HISTORY_MANIFEST_KEY, "is missing, though the history has files")
        return
    newest = max((file.last_ledger for file in history.files), default=0)
    for name, found in (("observed_ledger", history.observed_ledger), ("files", newest)):
        if found != status.observed_ledger:
            text = f"$.{name} reaches to ledger {found}, but the run is of ledger {status.observed_ledger}"
            checker.fault(HISTORY_MANIFEST_KEY, text)
    for file in history.files:
        if file.key in checker.seen:
            checker.summary.links += 1
            checker.fault(file.key, *_file_faults(checker.summary, file, facts.get(file.key)))
        elif not checker.partial and not (checker.own_files_only and file.last_ledger < status.observed_ledger):
            checker.fault(file.key, "is missing, though the history's manifest lists it")


def _file_faults(summary: CheckSummary, file: HistoryFile, facts: ParquetFacts | None) -> Iterator[str]:
    if facts is not None and (facts.bytes, facts.sha256) != (file.bytes, file.sha256):
        yield "does not have the bytes that the history's manifest gives for it"
    if facts is None or facts.rows is None:
        return
    summary.history_files += 1
    summary.history_rows += facts.rows
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
