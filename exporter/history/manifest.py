"""The manifest of the history: which Parquet files belong to it.

The manifest is the contract: readers over HTTPS cannot list a folder, and a file that a run left behind when it died
is no part of the history until a manifest names it. Entries are only added,
one a run; a manifest that is lost or damaged is never silently begun anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from exporter.errors import CheckError, StoreError
from exporter.history.schema import HISTORY_SCHEMA_VERSION
from exporter.stores.store import Store, StoredObject, etag_of
from exporter.tree.decoding import decode_json
from exporter.tree.documents import SCHEMA_VERSION, HistoryFile, HistoryManifest
from exporter.tree.families import HISTORY_MANIFEST_KEY, HISTORY_PREFIX, parse_key
from exporter.tree.files import FileKind, RenderedFile


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """The Parquet file of one run, and its entry in the manifest."""

    file: RenderedFile
    entry: HistoryFile


def file_reference(key: str) -> str:
    """Give the relative reference from the manifest to a file; ``/v1/history`` and ``/v1/history.json`` agree on it."""
    return f"../{key}"


def file_ledgers(key: str) -> tuple[int, int] | None:
    """Tell the first and the last ledger of a file of the history from its key; None for any other key."""
    found = parse_key(key)
    if found is None or found[0].kind is not FileKind.HISTORY:
        return None
    first = found[1]["ledger"]
    return int(first), int(found[1].get("last", first))


def decode_history_manifest(data: bytes) -> HistoryManifest:
    """Take a manifest out of its bytes.

    Raises:
        msgspec.DecodeError: it is none, is of a later schema version than this one, or contradicts itself.
    """
    manifest = decode_json(data, dict[str, Any])
    try:
        _refuse_newer("it", manifest["schema_version"], SCHEMA_VERSION)
        for file in manifest["files"]:
            _refuse_newer(file["key"], file["schema_version"], HISTORY_SCHEMA_VERSION)
            file.setdefault("url", file_reference(file["key"]))  # version 0.1.0 wrote none
    except (AttributeError, KeyError, TypeError) as error:
        raise msgspec.DecodeError(f"{type(error).__name__}: {error}") from error
    decoded = msgspec.convert(manifest, HistoryManifest)
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


def _refuse_newer(what: str, version: int, known: int) -> None:
    if version > known:
        raise msgspec.DecodeError(f"{what} is of schema version {version}, and this exporter knows {known} at the most")


def read_history_manifest(store: Store) -> HistoryManifest | None:
    """Read the manifest that stands in the store; None when there is none.

    Raises:
        StoreError: it is there but cannot be understood.
    """
    stored = store.get(HISTORY_MANIFEST_KEY)
    if stored is None:
        return None
    try:
        return decode_history_manifest(stored.data)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"{HISTORY_MANIFEST_KEY} is not a history manifest ({error}). Nothing was published over it: "
            "restore it from a copy, or upgrade the exporter if a newer version wrote it"
        ) from error


def data_of(stored: StoredObject | None, file: HistoryFile) -> bytes:
    """Give the bytes of a file that a manifest names, from what stands under its key.

    Raises:
        StoreError: nothing does, or another file.
    """
    if stored is None:
        raise StoreError(f"{file.key} is missing, though the history's manifest names it; restore it from a copy")
    if etag_of(stored.data) != file.sha256:
        raise StoreError(f"{file.key} is not the file that the history's manifest names; restore it from a copy")
    return stored.data


def extend_history(previous: HistoryManifest | None, entry: HistoryFile) -> HistoryManifest:
    """Add the entry of a run's file to a manifest. Doing it again changes nothing.

    Raises:
        CheckError: the manifest has another file for this ledger.
    """
    files = [] if previous is None else previous.files
    for known in files:
        if known.first_ledger <= entry.last_ledger and entry.first_ledger <= known.last_ledger and known != entry:
            raise CheckError(
                f"{HISTORY_MANIFEST_KEY} already has {known.key} (sha256 {known.sha256[:16]}...) for the ledgers of "
                f"{entry.key} (sha256 {entry.sha256[:16]}...); the history of a ledger is written once"
            )
    extended = sorted({file.key: file for file in (*files, entry)}.values(), key=lambda file: file.first_ledger)
    return HistoryManifest(
        schema_version=SCHEMA_VERSION,
        observed_ledger=max(file.last_ledger for file in extended),
        files=extended,
        transitions=[] if previous is None else previous.transitions,
    )


def history_below(previous: HistoryManifest | None, entry: HistoryFile) -> HistoryManifest | None:
    """A manifest without the files of ledgers above those of ``entry``, which replaces what the network never had.

    Raises:
        StoreError: a file has ledgers of both kinds.
    """
    if previous is None:
        return None
    kept = [file for file in previous.files if file.last_ledger < entry.first_ledger or file == entry]
    for file in previous.files:
        if file.first_ledger < entry.first_ledger <= file.last_ledger:
            raise StoreError(
                f"{file.key} has ledgers {file.first_ledger} to {file.last_ledger}, below and above "
                f"{entry.first_ledger}: a compaction joined them. Put its parts back into the manifest"
            )
    if not kept:
        return None
    newest = max(file.last_ledger for file in kept)
    return msgspec.structs.replace(previous, observed_ledger=newest, files=kept)


def refuse_lost_manifest(store: Store, own_key: str) -> None:
    """Refuse to begin a manifest where a published run must have left one.

    Call it when a run stands published and there is no manifest: beginning a new one would cut the history off
    without anybody noticing.

    Raises:
        StoreError: there are history files besides this run's own.
    """
    for info in store.list(HISTORY_PREFIX):
        if info.key != own_key and file_ledgers(info.key) is not None:
            raise StoreError(
                f"{HISTORY_MANIFEST_KEY} is missing, but the history has files (the first found is {info.key}). "
                "Restore the manifest from a copy, or move history/ away to begin a new history"
            )
