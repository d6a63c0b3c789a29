"""Fetches the history before a run, as the run's manifest names it, even if compaction joined its files since.

An input is the file with the digest that the manifest gives. It is taken from its key, or made again from the rows that
the history now has of its ledgers. If neither gives that digest, the input is gone. Then the rows of the history are
used in its place, and every file that depends on the history and comes out otherwise is unproven.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import polars as pl
from msgspec import Struct

from exporter.audit.history_files import rewritten, rows_by_ledger
from exporter.audit.tree_reading import required
from exporter.bounds import FILE_BYTES
from exporter.errors import CheckError, DecodeError
from exporter.history.empty_runs import EmptyRuns, empty_runs
from exporter.history.export import rows_of
from exporter.history.manifest import file_ledgers, file_reference, history_entry
from exporter.history.parquet import ORDER
from exporter.parquet_bounds import open_parquet
from exporter.stores import open_store
from exporter.stores.tree_sources import TreeSource
from exporter.tree.documents import HistoryFile, HistoryManifest, RunInput


class InputHistory(Struct, frozen=True):
    """The history files that a run continued, and those of the history now. All are in a folder, by their keys.

    Attributes:
        files: the files that the run continued, ascending.
        gone: why an input is gone, keyed by the input.
        now: the files that the history now has for ledgers before the run, ascending.
        later: the number of rows in such a file that the run did not continue, although they are of earlier ledgers,
            keyed by the file.
    """

    files: list[HistoryFile]
    gone: dict[str, str]
    now: list[HistoryFile]
    later: dict[str, int]


async def fetch_history(
    source: TreeSource,
    inputs: Sequence[RunInput],
    manifest: HistoryManifest,
    ledger: int,
    network: str,
    folder: Path,
) -> InputHistory:
    """Fetch the history before the run of a ledger into a folder.

    ``inputs`` are the history files that the run's manifest names. ``manifest`` is that of the history as it is now.
    Raises `CheckError` if a file is missing or damaged, or no run can have continued these inputs. Raises `SourceError`
    if the tree cannot be read.
    """
    store = open_store(str(folder))
    now = sorted((file for file in manifest.files if file.first_ledger < ledger), key=lambda file: file.first_ledger)
    for file in now:
        store.put_new(file.key, _readable(file.key, await required(source, file.key, file.sha256)))
    by_key, rows = {file.key: file for file in now}, _Rows(folder)
    files, gone = list[HistoryFile](), dict[str, str]()
    spans = _spans(inputs, ledger)
    for item, span in spans:
        same_key = by_key.get(item.key)
        if same_key is not None and same_key.sha256 == item.sha256:
            files.append(same_key)
            continue
        data = None if same_key is not None else await _with_its_digest(source, item)
        holder = next((file for file in now if file.first_ledger <= span.first and span.last <= file.last_ledger), None)
        if holder is None and data is None:
            gone[item.key] = "it is gone, and the history has no file with its ledgers"
            continue
        if holder is not None and data is not None:
            _refuse_other_rows(item, data, holder, rows.of(holder, span))
        elif holder is not None:
            data = _made_again(item, span, rows.of(holder, span), network)
            if data is None or not _has_digest(data, item):
                gone[item.key] = f"it is gone, and the rows of its ledgers in {holder.key} do not give its bytes"
        if same_key is not None:
            files.append(same_key)
        elif data is not None:
            store.put_new(item.key, _readable(item.key, data))
            files.append(history_entry(item.key, data, open_parquet(data).metadata.num_rows))
    return InputHistory(files, gone, now, _later_rows(now, folder, ledger, [span for _, span in spans]))


async def _with_its_digest(source: TreeSource, item: RunInput) -> bytes | None:
    """The file under an input's key; None if it is gone or has another digest."""
    data = await source.get(item.key, FILE_BYTES)
    return data if data is not None and _has_digest(data, item) else None


def _has_digest(data: bytes, item: RunInput) -> bool:
    return hashlib.sha256(data).hexdigest() == item.sha256


def _refuse_other_rows(item: RunInput, data: bytes, holder: HistoryFile, held: _HeldRows) -> None:
    """Raise `CheckError` unless the file that joins an input has the input's rows."""
    same_rows = _rows_in(item.key, data).sort(ORDER).equals(held.rows.sort(ORDER))
    if not same_rows or not _empty_runs_in(item.key, data).items() <= held.without_rows.items():
        raise CheckError(f"{holder.key} does not have the rows of the files that it joins")


def _made_again(item: RunInput, span: _Span, held: _HeldRows, network: str) -> bytes | None:
    """An input, made again from the rows that another file now has of its ledgers. Its bytes may differ.

    None if these rows cannot be an input's.
    """
    input_file = HistoryFile(item.key, file_reference(item.key), 0, 0, item.sha256, span.first, span.last)
    return rewritten(held.rows, held.without_rows, input_file, network)


def _later_rows(now: Sequence[HistoryFile], folder: Path, ledger: int, spans: Sequence[_Span]) -> dict[str, int]:
    """The number of rows of ledgers before this one that no input has, keyed by the file that has them now."""
    later = dict[str, int]()
    for file in now:
        counts = rows_by_ledger((folder / file.key).read_bytes())
        other_ledgers = [each for each in counts if each < ledger and not any(each in span for span in spans)]
        if other_rows := sum(counts[each] for each in other_ledgers):
            later[file.key] = other_rows
    return later


class _Span(NamedTuple):
    """The first and the last ledger of a file."""

    first: int
    last: int

    def __contains__(self, ledger: object) -> bool:
        return isinstance(ledger, int) and self.first <= ledger <= self.last


class _HeldRows(NamedTuple):
    """The rows that a file has of some ledgers, and its runs without rows at these."""

    rows: pl.DataFrame
    without_rows: EmptyRuns


def _spans(inputs: Sequence[RunInput], ledger: int) -> list[tuple[RunInput, _Span]]:
    """Each input with its ledgers. Raises `CheckError` if no run can have continued these inputs."""
    spans = list[tuple[RunInput, _Span]]()
    for item in inputs:
        ledgers = file_ledgers(item.key)
        if ledgers is None or not ledgers[0] <= ledgers[1] < ledger:
            raise CheckError(f"the run's manifest names the input {item.key}, which is no history before it")
        spans.append((item, _Span(*ledgers)))
    for (_, earlier), (item, later) in pairwise(spans):
        if later.first <= earlier.last:
            raise CheckError(f"the run's manifest names the input {item.key} after one with its ledgers or later ones")
    return spans


class _Rows:
    """Reads rows of files in a folder. The last file stays in memory, because several inputs in a row may be in it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._key, self._frame = folder, "", pl.DataFrame()
        self._without_rows: EmptyRuns = {}

    def of(self, file: HistoryFile, span: _Span) -> _HeldRows:
        """What a file has of some ledgers."""
        self._open(file)
        return _HeldRows(
            self._frame.filter(pl.col("observed_ledger").is_between(span.first, span.last)),
            {ledger: time for ledger, time in self._without_rows.items() if ledger in span},
        )

    def _open(self, file: HistoryFile) -> None:
        if self._key != file.key:
            data = (self._folder / file.key).read_bytes()
            self._key, self._frame, self._without_rows = file.key, rows_of(data, file), _empty_runs_in(file.key, data)


def _rows_in(key: str, data: bytes) -> pl.DataFrame:
    return rows_of(data, history_entry(key, data, 0))


def _empty_runs_in(key: str, data: bytes) -> dict[int, int]:
    try:
        return empty_runs(open_parquet(data))
    except DecodeError as error:
        raise CheckError(f"{key}: {error}") from error


def _readable(key: str, data: bytes) -> bytes:
    """The given bytes. Raises `CheckError` unless they are a Parquet file within `exporter.bounds`."""
    try:
        open_parquet(data)
    except DecodeError as error:
        raise CheckError(f"{key}: {error}") from error
    return data
