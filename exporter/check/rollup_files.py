"""The rollups of the history: that they are what the manifest says, and what the files of the history make of them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator

import msgspec

from exporter.history.rollups import KINDS, Read, UnreadableHistoryError, differ, holds, updated_rollups
from exporter.tree.documents import HistoryManifest, HistoryRollup, LiquidationsFile

LASTING = {kind.key for kind in KINDS}


def rollup_faults(
    manifest: HistoryManifest, read: Read, there: Collection[str] | None, *, whole: bool
) -> Iterator[tuple[str, str]]:
    """The faults of the rollups and of the table of liquidations, by key.

    Args:
        manifest: the history's.
        read: gives files of the tree.
        there: the files of months in the tree, where they can be listed.
        whole: also make them again out of the files of the history, and compare every row.
    """
    named = {entry.key: entry for entry in manifest.rollups}
    if manifest.files and any(file.rows for file in manifest.files):
        yield from ((kind.key, "is not named by the history's manifest") for kind in KINDS if kind.key not in named)
    yield from ((key, "is not named by the history's manifest") for key in sorted({*(there or ())} - named.keys()))
    damaged = set[str]()
    files_of_tables: list[HistoryRollup | LiquidationsFile] = [*manifest.rollups]
    if manifest.liquidations is not None:
        files_of_tables.append(manifest.liquidations)
    for entry in files_of_tables:
        key = entry.key
        data = read(key)
        if data is None:
            damaged.add(key)
            yield key, "is missing, though the history's manifest names it"
        elif (len(data), hashlib.sha256(data).hexdigest()) != (entry.bytes, entry.sha256):
            damaged.add(key)
            yield key, "does not have the bytes that the history's manifest gives for it"
    if not whole or not all(holds(entry, manifest) for entry in manifest.rollups if entry.key in LASTING):
        return  # ledgers came into the past, and the next run makes them again
    expected = set[str]()
    try:
        _, files = updated_rollups(msgspec.structs.replace(manifest, rollups=[]), read, most_reads=None)
        for file in files:
            key = file.entry.key
            expected.add(key)
            data = None if key in damaged or key not in named else read(key)
            if data is not None and differ(data, file.data):
                yield key, "is not what the files of the history make of it"
    except UnreadableHistoryError:
        return  # which file that is, is a fault of its own
    yield from ((key, "is not what the files of the history make of it") for key in sorted(named.keys() - expected))
