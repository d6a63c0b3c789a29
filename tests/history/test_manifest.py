"""Tests of exporter/history/manifest.py: which files belong to the history."""

from __future__ import annotations

import random

import msgspec
import pytest

from exporter import FORMAT
from exporter.errors import CheckError, FormatError, StoreError
from exporter.history.manifest import extend_history, read_history_manifest
from exporter.stores.memory import MemoryStore
from exporter.tree.documents import HistoryFile, HistoryManifest
from exporter.tree.families import HISTORY_MANIFEST_KEY


def entry(ledger: int, last: int | None = None, digest: str = "0") -> HistoryFile:
    key = f"history/pools/date=2026-11-21/{ledger}.parquet"
    return HistoryFile(key, f"../{key}", 5, 100, digest * 64, ledger, ledger if last is None else last)


def test_entries_ascend_by_ledger() -> None:
    """The manifest has files in the order of ledgers, however they are added, and its own ledger is the last."""
    ledgers = list(range(990, 1010))
    random.Random(7).shuffle(ledgers)
    manifest = None
    for ledger in (*ledgers, 1000):  # one is published again, after it died
        manifest = extend_history(manifest, entry(ledger))

    assert HistoryManifest(FORMAT, 1009, [entry(ledger) for ledger in range(990, 1010)]) == manifest


@pytest.mark.parametrize(
    "other",
    [
        entry(100, digest="1"),
        msgspec.structs.replace(entry(100), rows=6),
        msgspec.structs.replace(entry(100), key="history/pools/date=2026-11-22/100.parquet"),
        entry(95, 105),
        entry(100, 101),
        entry(90, 100),
    ],
)
def test_a_ledger_is_written_once(other: HistoryFile) -> None:
    """Another file that holds a ledger of the manifest is refused, with both files named."""
    manifest = extend_history(extend_history(None, entry(100)), entry(200))
    with pytest.raises(CheckError, match=r"already has history/pools/date=2026-11-21/100\.parquet .*sha256"):
        extend_history(manifest, other)
    with pytest.raises(CheckError, match="written once"):
        extend_history(extend_history(None, other), entry(100))


def test_an_earlier_format() -> None:
    """A manifest of an earlier format is refused, unless a run publishes over it; then it loses no file."""
    store, manifest = MemoryStore(), extend_history(extend_history(None, entry(100)), entry(200))
    written = msgspec.to_builtins(manifest)
    del written["format"]
    written["schema_version"] = 1
    written["transitions"] = [{"protocol": "blend", "confirmed": 5}]
    for file in written["files"]:
        file["schema_version"] = 1
    store.put(HISTORY_MANIFEST_KEY, msgspec.json.encode(written))
    with pytest.raises(FormatError, match=r"made by an earlier version .* publish once with this one"):
        read_history_manifest(store)

    assert manifest == read_history_manifest(store, older=True)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{}", b"\xff", b'{"format":1,"observed_ledger":1}'),
        *(b'{"schema_version":1,"files":[5]}', b'{"schema_version":1,"files":null}'),
    ],
)
def test_a_damaged_manifest(data: bytes) -> None:
    """A manifest that cannot be understood is an error that names it, never an empty history."""
    store = MemoryStore()
    store.put(HISTORY_MANIFEST_KEY, data)
    with pytest.raises(StoreError, match=r"v1/history\.json is not a history manifest"):
        read_history_manifest(store, older=True)


def test_a_manifest_that_lies() -> None:
    """Entries that are not those of their key, or have ledgers in common, are an error, too."""
    wrong = (
        ([entry(100, 101)], "100.parquet is not the key of a file with the ledgers 100 to 101"),
        ([entry(100), entry(100)], "have ledgers in common"),
    )
    for files, message in wrong:
        store = MemoryStore()
        store.put(HISTORY_MANIFEST_KEY, msgspec.json.encode(HistoryManifest(FORMAT, 101, files)))
        with pytest.raises(StoreError, match=message):
            read_history_manifest(store)
