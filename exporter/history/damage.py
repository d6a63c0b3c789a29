"""Checks that files of earlier runs exist and are what the history's manifest says.

Nobody reads them again otherwise, as long as the state of the buckets fits (`exporter.history.series`), so a file that
a disk lost or a hand replaced would only be noticed by a reader. Every run looks at all sizes, which costs one
listing, and reads some of the files, other ones each time. `exporter check` reads all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.errors import StoreError
from exporter.stores.store import Store, etag_of, read_many
from exporter.tree.documents import HistoryFile, HistoryManifest
from exporter.tree.families import HISTORY_MANIFEST_KEY, HISTORY_PREFIX

SAMPLE_FILES = 8
USUAL_BYTES = 2**19
"""A file up to this size is read when it is drawn; a larger one with a chance by which it costs as much on average."""


def find_damage(store: Store, manifest: HistoryManifest | None, seed: int) -> list[str]:
    """The faults of files that the manifest names: one text for each, which begins with its key.

    Args:
        store: where the history lives.
        manifest: the history as it is, before the run adds its own file.
        seed: decides which files are read, for example the run's ledger.

    Raises:
        StoreError: a file is the one that the manifest means, and the manifest says something else of its rows: a
            manifest like that must not be carried on. Or the store cannot be read.
    """
    if manifest is None:
        return []
    sizes = {info.key: info.size for info in store.list(HISTORY_PREFIX)}
    damage = {file.key: text for file in manifest.files if (text := _wrong_size(file, sizes)) is not None}
    whole = [file for file in manifest.files if file.key not in damage]
    drawn = {file.key: file for file in _sample(whole, Random(seed))}
    for key, stored in read_many(store, drawn):
        file = drawn[key]
        if stored is None:
            damage[key] = "is missing"
        elif etag_of(stored.data) != file.sha256:
            damage[key] = "does not have the digest that the manifest gives"
        else:
            refuse_other_rows(file, _rows(file, stored.data))
    return [f"{key} {text}" for key, text in sorted(damage.items())]


def refuse_other_rows(file: HistoryFile, rows: int) -> None:
    """Raise StoreError where a file with the digest that the manifest gives has other rows than the manifest says."""
    if rows != file.rows:
        raise StoreError(
            f"{HISTORY_MANIFEST_KEY} says that {file.key} has {file.rows} rows, but it has {rows}. Nothing was "
            "published over it: restore it from a copy"
        )


def _wrong_size(file: HistoryFile, sizes: dict[str, int]) -> str | None:
    size = sizes.get(file.key)
    if size is None:
        return "is missing"
    return None if size == file.bytes else f"has {size} bytes, not {file.bytes}"


def _sample(files: Sequence[HistoryFile], drawn: Random) -> Iterator[HistoryFile]:
    for file in drawn.sample(files, min(SAMPLE_FILES, len(files))):
        if drawn.random() * file.bytes < USUAL_BYTES:
            yield file


def _rows(file: HistoryFile, data: bytes) -> int:
    try:
        return int(pq.ParquetFile(pa.BufferReader(data)).metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{HISTORY_MANIFEST_KEY} names {file.key}, which is not a Parquet file: {error}") from error
