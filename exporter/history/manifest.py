"""The manifest of the history: which Parquet files belong to it.

A file that a run left behind when it died does not. A lost or damaged manifest is never silently begun again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec

from exporter import FORMAT
from exporter.errors import CheckError, SourceError, StoreError
from exporter.stores.store import Store, StoredObject, etag_of
from exporter.tree.decoding import decode_json, refuse_other_format
from exporter.tree.documents import HistoryFile, HistoryManifest, HistoryRollup, LiquidationsFile
from exporter.tree.families import HISTORY_MANIFEST_KEY, HISTORY_PREFIX, ROLLUPS_PREFIX, parse_key
from exporter.tree.files import FileKind, RenderedFile


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """The Parquet file of one run, and its entry in the manifest."""

    file: RenderedFile
    entry: HistoryFile


def file_reference(key: str) -> str:
    """The relative reference from the manifest to a file, of ``/v1/history`` and ``/v1/history.json`` alike."""
    return f"../{key}"


def file_ledgers(key: str) -> tuple[int, int] | None:
    """Return the first and the last ledger of a file of the history from its key; None for any other key."""
    parsed = parse_key(key)
    if parsed is None or parsed[0].kind is not FileKind.HISTORY:
        return None
    first = parsed[1]["ledger"]
    return int(first), int(parsed[1].get("last", first))


def history_entry(key: str, data: bytes, rows: int) -> HistoryFile:
    """The entry of a file of the history, whose key has its ledgers."""
    ledgers = file_ledgers(key)
    assert ledgers is not None  # as of every such key
    return HistoryFile(key, file_reference(key), rows, len(data), etag_of(data), *ledgers)


def folder_of(key: str) -> str:
    """The day (2026-11-21) or month (2026-11) of a file of the history, in which all of its ledgers closed."""
    parsed = parse_key(key)
    assert parsed is not None  # as any file of a manifest
    return parsed[1].get("day") or parsed[1]["month"]


def span_of(folder: str) -> tuple[datetime, datetime]:
    """From when to before when a day or a month is, in UTC."""
    if len(folder) == len("2026-11-21"):
        begins = datetime.fromisoformat(f"{folder}T00:00:00+00:00")
        return begins, begins + timedelta(days=1)
    begins = datetime.fromisoformat(f"{folder}-01T00:00:00+00:00")
    return begins, (begins + timedelta(days=31)).replace(day=1)


def decode_history_manifest(data: bytes, *, older: bool = False) -> HistoryManifest:
    """Take a manifest, with ``older`` also of an earlier format. Raises `FormatError`, `msgspec.DecodeError`."""
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
    """A manifest with the files of an earlier one. The next backfill counts its `transitions` again."""
    fields = HistoryFile.__struct_fields__
    files = [
        {name: file[name] for name in fields if name in file}
        for file in msgspec.convert(manifest.get("files"), list[dict[str, Any]])
    ]
    return msgspec.convert(
        {"format": FORMAT, "observed_ledger": manifest.get("observed_ledger"), "files": files}, HistoryManifest
    )


def read_history_manifest(store: Store, *, older: bool = False) -> HistoryManifest | None:
    """The manifest in the store; None when there is none. Raises `FormatError`, `StoreError` (not understood)."""
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
    """The bytes of a file that a manifest names, from what is under its key. Raises `StoreError` for anything else."""
    if stored is None:
        raise StoreError(f"{file.key} is missing, though the history's manifest names it; restore it from a copy")
    if etag_of(stored.data) != file.sha256:
        raise StoreError(f"{file.key} is not the file that the history's manifest names; restore it from a copy")
    return stored.data


def find_damage(store: Store, manifest: HistoryManifest | None) -> list[str]:
    """The files that no run can make again and are missing or of another size, one text for each, its key first."""
    if manifest is None:
        return []
    return _of_other_size(store, [*manifest.files, *([] if manifest.liquidations is None else [manifest.liquidations])])


def find_lost_rollups(store: Store, manifest: HistoryManifest | None) -> list[str]:
    """The same of the files by day and hour, which a run makes again of the others."""
    return [] if manifest is None else _of_other_size(store, manifest.rollups)


def _of_other_size(store: Store, files: Sequence[HistoryFile | HistoryRollup | LiquidationsFile]) -> list[str]:
    sizes = {info.key: info.size for info in store.list(ROLLUPS_PREFIX)}
    damage = []
    for file in files:
        size = sizes.get(file.key)
        if size != file.bytes:
            fault = "is missing" if size is None else f"has {size} bytes, not {file.bytes}"
            damage.append(f"{file.key} {fault}")
    return sorted(damage)


def extend_history(previous: HistoryManifest | None, entry: HistoryFile) -> HistoryManifest:
    """Add a run's file; doing it again changes nothing. Raises `CheckError` where its ledger has another file."""
    previous = previous or HistoryManifest(format=FORMAT, observed_ledger=0, files=[])
    for known in previous.files:
        if known.first_ledger <= entry.last_ledger and entry.first_ledger <= known.last_ledger and known != entry:
            raise CheckError(
                f"{HISTORY_MANIFEST_KEY} already has {known.key} (sha256 {known.sha256[:16]}...) for the ledgers of "
                f"{entry.key} (sha256 {entry.sha256[:16]}...); the history of a ledger is written once"
            )
    files = sorted({file.key: file for file in (*previous.files, entry)}.values(), key=lambda file: file.first_ledger)
    newest = max(file.last_ledger for file in files)
    return msgspec.structs.replace(previous, observed_ledger=newest, files=files)


def history_below(previous: HistoryManifest | None, before: int, entry: HistoryFile) -> HistoryManifest | None:
    """A manifest without ledgers from ``before`` on, except ``entry``. Raises `StoreError`, `SourceError`."""
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
    """Raise `StoreError` where there are history files, other than this run's own, without a manifest."""
    for info in store.list(HISTORY_PREFIX):
        if info.key != own_key and file_ledgers(info.key) is not None:
            raise StoreError(
                f"{HISTORY_MANIFEST_KEY} is missing, but the history has files (the first found is {info.key}). "
                "Restore the manifest from a copy, or make it again: exporter history rebuild "
                f"{store.uri}. To begin a new history, move history/ away"
            )
