"""Finds faults in the history's rollups and in its table of liquidations."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping

import msgspec

from exporter.history.manifest import file_reference
from exporter.history.rollups import KINDS, ReadFile, UnreadableHistoryError, has_same_history, updated_rollups
from exporter.publishing.faults import Fault
from exporter.tree.documents import HistoryManifest, HistoryRollup, LiquidationsFile
from exporter.tree.families import HISTORY_MANIFEST_KEY
from exporter.tree.same_values import same_values

LASTING_ROLLUPS = {kind.key for kind in KINDS}
"""The keys of the rollups that do not belong to one month."""

_UNNAMED = "is not named by the history's manifest"
_NOT_MADE = "is not what the files of the history make of it"


def rollup_faults(
    manifest: HistoryManifest, read: ReadFile, months: Collection[str] | None, *, recompute: bool
) -> Iterator[Fault]:
    """Faults of the rollups and of the table of liquidations, by key.

    ``months`` has the keys of the rollups of months in the store; None if they cannot be listed. With ``recompute``,
    the rollups are made again from the history and compared.
    """
    named = {entry.key: entry for entry in manifest.rollups}
    if len(named) != len(manifest.rollups):
        yield Fault(HISTORY_MANIFEST_KEY, "names a rollup twice")
    if manifest.files:
        yield from (Fault(kind.key, _UNNAMED) for kind in KINDS if kind.key not in named)
    yield from (Fault(key, _UNNAMED) for key in sorted({*(months or ())} - named.keys()))
    damaged = set[str]()
    for fault in _damage(manifest, read):
        if fault.key != HISTORY_MANIFEST_KEY:
            damaged.add(fault.key)
        yield fault
    lasting = [entry for entry in manifest.rollups if entry.key in LASTING_ROLLUPS]
    # If ledgers were added to the past, the next run makes the rollups again.
    if recompute and all(has_same_history(entry, manifest) for entry in lasting):
        yield from _other_values(manifest, read, named, damaged)


def _damage(manifest: HistoryManifest, read: ReadFile) -> Iterator[Fault]:
    """Faults of the files that the manifest names: missing, or of other bytes; and of the URLs that it gives."""
    named: list[HistoryRollup | LiquidationsFile] = [*manifest.rollups]
    if manifest.liquidations is not None:
        named.append(manifest.liquidations)
    for entry in named:
        key = entry.key
        if entry.url != file_reference(key):
            yield Fault(HISTORY_MANIFEST_KEY, f"the url of {key} does not lead to its key")
        data = read(key)
        if data is None:
            yield Fault(key, "is missing, though the history's manifest names it")
        elif (len(data), hashlib.sha256(data).hexdigest()) != (entry.bytes, entry.sha256):
            yield Fault(key, "does not have the bytes that the history's manifest gives for it")


def _other_values(
    manifest: HistoryManifest, read: ReadFile, named: Mapping[str, HistoryRollup], damaged: Collection[str]
) -> Iterator[Fault]:
    """Faults of rollups that have other values than the files of the history give. Damaged ones are left out."""
    expected = set[str]()
    try:
        _, files = updated_rollups(msgspec.structs.replace(manifest, rollups=[]), read, most_reads=None)
        for file in files:
            key = file.entry.key
            expected.add(key)
            data = None if key in damaged or key not in named else read(key)
            if data is None:
                continue
            if not same_values(key, data, file.data):  # how the rows are encoded does not matter
                yield Fault(key, _NOT_MADE)
            elif msgspec.structs.replace(file.entry, bytes=named[key].bytes, sha256=named[key].sha256) != named[key]:
                yield Fault(
                    HISTORY_MANIFEST_KEY, f"says something else of {key} than the files of the history make of it"
                )
    except UnreadableHistoryError:
        return  # that file has a fault of its own
    yield from (Fault(key, _NOT_MADE) for key in sorted(named.keys() - expected))
