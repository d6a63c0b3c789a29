"""The history before a run as the run's manifest names it, also where its files were joined into others since.

One rule: an input is the file with its digest, at its key or made again of the rows that the history has of its ledgers
now. If it is neither, it is gone. The rows of the history are then used in its place, and whatever does not come out
the same and depends on the history is unproven.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import polars as pl

from exporter.audit.history_files import rewritten, rows_by_ledger
from exporter.audit.published_tree import required
from exporter.bounds import FILE_BYTES
from exporter.errors import CheckError, DecodeError
from exporter.history.export import rows_of
from exporter.history.manifest import file_ledgers, file_reference, history_entry
from exporter.history.parquet import ORDER
from exporter.parquet_bounds import open_parquet
from exporter.stores import open_store
from exporter.stores.tree_sources import TreeSource
from exporter.tree.documents import HistoryFile, HistoryManifest, RunInput


@dataclass(frozen=True, slots=True)
class InputHistory:
    """The files that a run went on from, and those of the history now, all in a folder by their keys.

    Attributes:
        files: those that the run went on from, ascending.
        gone: why, of each input that nobody has any more, by its key.
        now: the files that the history has now with ledgers before the run, ascending.
        later: by the key of such a file, how many rows of earlier ledgers it has that the run did not go on from.
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
    """Put the history before the run of a ledger into a folder. Raises `CheckError`, `SourceError`.

    ``inputs`` are the files of the history that the run's manifest names, ``manifest`` what the history is now.
    """
    store = open_store(str(folder))
    now = sorted((file for file in manifest.files if file.first_ledger < ledger), key=lambda file: file.first_ledger)
    for file in now:
        store.put_new(file.key, _readable(file.key, await required(source, file.key, file.sha256)))
    by_key, rows = {file.key: file for file in now}, _Rows(folder)
    files, gone, spans = list[HistoryFile](), dict[str, str](), list[tuple[int, int]]()
    for item, (first, last) in _spans(inputs, ledger):
        spans.append((first, last))
        same_key = by_key.get(item.key)
        if same_key is not None and same_key.sha256 == item.sha256:
            files.append(same_key)
            continue
        holder = next((file for file in now if file.first_ledger <= first and last <= file.last_ledger), None)
        data = None if same_key is not None else await source.get(item.key, FILE_BYTES)
        if data is not None and hashlib.sha256(data).hexdigest() != item.sha256:
            data = None
        if holder is None and data is None:
            gone[item.key] = "it is gone, and the history has no file with its ledgers"
            continue
        if holder is not None:
            held = rows.of(holder, first, last)
            if data is not None:
                if not _rows_in(item.key, data).sort(ORDER).equals(held.sort(ORDER)):
                    raise CheckError(f"{holder.key} does not have the rows of the files that it joins")
            else:
                wanted = HistoryFile(item.key, file_reference(item.key), 0, 0, item.sha256, first, last)
                data = rewritten(held, wanted, network)
                if data is None or hashlib.sha256(data).hexdigest() != item.sha256:
                    gone[item.key] = f"it is gone, and the rows of its ledgers in {holder.key} do not give its bytes"
        if same_key is not None:
            files.append(same_key)
        elif data is not None:
            store.put_new(item.key, _readable(item.key, data))
            files.append(history_entry(item.key, data, open_parquet(data).metadata.num_rows))
    later = dict[str, int]()
    for file in now:
        counts = rows_by_ledger((folder / file.key).read_bytes())
        missed = sum(
            count
            for each, count in counts.items()
            if each < ledger and not any(first <= each <= last for first, last in spans)
        )
        if missed:
            later[file.key] = missed
    return InputHistory(files, gone, now, later)


def _spans(inputs: Sequence[RunInput], ledger: int) -> list[tuple[RunInput, tuple[int, int]]]:
    """Each input with its first and last ledger. Raises `CheckError` if a run cannot have gone on from these."""
    spans = list[tuple[RunInput, tuple[int, int]]]()
    for item in inputs:
        ledgers = file_ledgers(item.key)
        if ledgers is None or not ledgers[0] <= ledgers[1] < ledger:
            raise CheckError(f"the run's manifest names the input {item.key}, which is no history before it")
        spans.append((item, ledgers))
    for (_, earlier), (item, later) in pairwise(spans):
        if later[0] <= earlier[1]:
            raise CheckError(f"the run's manifest names the input {item.key} after one with its ledgers or later ones")
    return spans


class _Rows:
    """Rows of files in a folder. The newest file stays in memory: inputs that were joined follow on each other."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._key, self._frame = folder, "", pl.DataFrame()

    def of(self, file: HistoryFile, first: int, last: int) -> pl.DataFrame:
        if self._key != file.key:
            self._key, self._frame = file.key, rows_of((self._folder / file.key).read_bytes(), file)
        return self._frame.filter(pl.col("observed_ledger").is_between(first, last))


def _rows_in(key: str, data: bytes) -> pl.DataFrame:
    return rows_of(data, history_entry(key, data, 0))


def _readable(key: str, data: bytes) -> bytes:
    """A file of the history that can be read within bounds. Raises `CheckError`."""
    try:
        open_parquet(data)
    except DecodeError as error:
        raise CheckError(f"{key}: {error}") from error
    return data
