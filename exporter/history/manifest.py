"""The manifest of the history, which says which Parquet files belong to it.

A file that a run left behind when it died does not belong to the history. If the manifest is lost or damaged, no run
silently begins a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct

from exporter import FORMAT
from exporter.errors import CheckError, SourceError, StoreError
from exporter.stores.store import Store, StoredObject, etag_of
from exporter.tree.decoding import decode_json, refuse_other_format
from exporter.tree.documents import HistoryFile, HistoryManifest, HistoryRollup, LiquidationsFile
from exporter.tree.families import ALL_HISTORY_PREFIX, HISTORY_FILES_PREFIX, HISTORY_MANIFEST_KEY, parse_key
from exporter.tree.files import FileKind, RenderedFile


class HistoryPart(Struct, frozen=True):
    """A Parquet file of the history, and its entry in the manifest."""

    file: RenderedFile
    entry: HistoryFile


def file_reference(key: str) -> str:
    """The relative reference to a file. It leads there from ``/v1/history`` and from ``/v1/history.json``."""
    return f"../{key}"


def file_ledgers(key: str) -> tuple[int, int] | None:
    """The first and the last ledger of a history file, as its key says; None for the key of another file."""
    parsed = parse_key(key)
    if parsed is None or parsed[0].kind is not FileKind.HISTORY:
        return None
    first = parsed[1]["ledger"]
    return int(first), int(parsed[1].get("last", first))


def history_entry(key: str, data: bytes, rows: int) -> HistoryFile:
    """The manifest's entry of a history file. Its ledgers are taken from its key."""
    ledgers = file_ledgers(key)
    assert ledgers is not None  # callers give keys of history files only
    return HistoryFile(key, file_reference(key), rows, len(data), etag_of(data), *ledgers)


def folder_of(key: str) -> str:
    """The day (2026-11-21) or month (2026-11) in which all ledgers of a history file closed, as its key says."""
    parsed = parse_key(key)
    assert parsed is not None  # callers give keys of history files only
    return parsed[1].get("day") or parsed[1]["month"]


def span_of(folder: str) -> tuple[datetime, datetime]:
    """The start (inclusive) and the end (exclusive) of a day (2026-11-21) or a month (2026-11), in UTC."""
    if len(folder) == len("2026-11-21"):
        begins = datetime.fromisoformat(f"{folder}T00:00:00+00:00")
        return begins, begins + timedelta(days=1)
    begins = datetime.fromisoformat(f"{folder}-01T00:00:00+00:00")
    return begins, (begins + timedelta(days=31)).replace(day=1)


def decode_history_manifest(data: bytes, *, older: bool = False) -> HistoryManifest:
    """Decode a manifest, and check that the ledgers of its files fit their keys and do not overlap.

    Raises `FormatError` if its format is another one; with ``older``, an earlier format is accepted. Raises
    `msgspec.DecodeError` for anything else that is wrong.
    """
    if refuse_other_format(HISTORY_MANIFEST_KEY, data, older=older):
        decoded = _of_earlier_format(decode_json(data, dict[str, Any]))
    else:
        decoded = decode_json(data, HistoryManifest)
    ascending = sorted(decoded.files, key=lambda file: file.first_ledger)
    for file in ascending:
        if file_ledgers(file.key) != (file.first_ledger, file.last_ledger):
            raise msgspec.DecodeError(
                f"{file.key} is not the key of a file with the ledgers {file.first_ledger} to {file.last_ledger}"
            )
    for earlier, later in pairwise(ascending):
        if later.first_ledger <= earlier.last_ledger:
            raise msgspec.DecodeError(f"{earlier.key} and {later.key} have ledgers in common")
    return decoded


def _of_earlier_format(manifest: dict[str, Any]) -> HistoryManifest:
    """A manifest with the files that a manifest of an earlier format names, and nothing else of it.

    The number of `transitions` in it is counted again by the next backfill.
    """
    fields = HistoryFile.__struct_fields__
    files = [
        {name: file[name] for name in fields if name in file}
        for file in msgspec.convert(manifest.get("files"), list[dict[str, Any]])
    ]
    return msgspec.convert(
        {"format": FORMAT, "observed_ledger": manifest.get("observed_ledger"), "files": files}, HistoryManifest
    )


def read_history_manifest(store: Store, *, older: bool = False) -> HistoryManifest | None:
    """Read the manifest in a store; None if there is none.

    Raises `FormatError` as `decode_history_manifest` does, and `StoreError` if it cannot be understood.
    """
    stored = store.get(HISTORY_MANIFEST_KEY)
    if stored is None:
        return None
    try:
        return decode_history_manifest(stored.data, older=older)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"{HISTORY_MANIFEST_KEY} is not a history manifest ({error}). Nothing was published over it: "
            f"restore it from a copy, or make it again: exporter history rebuild {store.uri}"
        ) from error


def data_of(stored: StoredObject | None, file: HistoryFile | LiquidationsFile) -> bytes:
    """The bytes of an object that was read from the store. Raises `StoreError` if it is not the file of this entry."""
    if stored is None:
        raise StoreError(f"{file.key} is missing, though the history's manifest names it; restore it from a copy")
    if etag_of(stored.data) != file.sha256:
        raise StoreError(f"{file.key} is not the file that the history's manifest names; restore it from a copy")
    return stored.data


def find_damage(store: Store, manifest: HistoryManifest | None) -> list[str]:
    """Texts that name the files of the history that are missing or have another size, and that no run can make again.

    Each text begins with the key of the file.
    """
    if manifest is None:
        return []
    liquidations = [] if manifest.liquidations is None else [manifest.liquidations]
    return _of_other_size(store, [*manifest.files, *liquidations])


def find_lost_rollups(store: Store, manifest: HistoryManifest | None) -> list[str]:
    """Texts that name the rollups that are missing or have another size. The next run makes them again."""
    return [] if manifest is None else _of_other_size(store, manifest.rollups)


def _of_other_size(store: Store, files: Sequence[HistoryFile | HistoryRollup | LiquidationsFile]) -> list[str]:
    sizes = {info.key: info.size for info in store.list(ALL_HISTORY_PREFIX)}
    damage = []
    for file in files:
        size = sizes.get(file.key)
        if size != file.bytes:
            fault = "is missing" if size is None else f"has {size} bytes, not {file.bytes}"
            damage.append(f"{file.key} {fault}")
    return sorted(damage)


def extend_history(previous: HistoryManifest | None, entry: HistoryFile) -> HistoryManifest:
    """The manifest with a run's file in addition. Adding the same file again changes nothing.

    Raises `CheckError` if the manifest has another file for a ledger of it.
    """
    previous = previous or HistoryManifest(format=FORMAT, observed_ledger=0, files=[])
    for file in previous.files:
        if file.first_ledger <= entry.last_ledger and entry.first_ledger <= file.last_ledger and file != entry:
            raise CheckError(
                f"{HISTORY_MANIFEST_KEY} already has {file.key} (sha256 {file.sha256[:16]}...) for the ledgers of "
                f"{entry.key} (sha256 {entry.sha256[:16]}...); the history of a ledger is written once"
            )
    files = sorted({file.key: file for file in (*previous.files, entry)}.values(), key=lambda file: file.first_ledger)
    newest = max(file.last_ledger for file in files)
    return msgspec.structs.replace(previous, observed_ledger=newest, files=files)


def history_below(previous: HistoryManifest | None, before: int, entry: HistoryFile) -> HistoryManifest | None:
    """The manifest without the files of the ledgers from ``before`` on, except ``entry``; None if no file is left.

    Raises `StoreError` if a file has ledgers below and above ``before``. Raises `SourceError` if the run would write
    other bytes to a key that the manifest names.
    """
    if previous is None:
        return None
    earlier_files = [file for file in previous.files if file.last_ledger < before or file == entry]
    for file in previous.files:
        if file.first_ledger < before <= file.last_ledger:
            raise StoreError(
                f"{file.key} has ledgers {file.first_ledger} to {file.last_ledger}, below and above "
                f"{before}: a compaction joined them. Put its parts back into the manifest"
            )
        if file.key == entry.key and file != entry:
            raise SourceError(
                f"the run is at ledger {entry.first_ledger}, which it is to replace, and {file.key} is written once; "
                "run again when the endpoints have a later ledger"
            )
    if not earlier_files:
        return None
    newest = max(file.last_ledger for file in earlier_files)
    return msgspec.structs.replace(previous, observed_ledger=newest, files=earlier_files)


def refuse_lost_manifest(store: Store, own_key: str) -> None:
    """Raise `StoreError` if a store without a manifest has history files other than that of this run."""
    for info in store.list(HISTORY_FILES_PREFIX):
        if info.key != own_key and file_ledgers(info.key) is not None:
            raise StoreError(
                f"{HISTORY_MANIFEST_KEY} is missing, but the history has files (the first found is {info.key}). "
                "Restore the manifest from a copy, or make it again: exporter history rebuild "
                f"{store.uri}. To begin a new history, move history/ away"
            )
