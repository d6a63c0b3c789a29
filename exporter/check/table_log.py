"""The history as a Delta table: that its newest version is the manifest, and that every version can be read."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from exporter.history.delta_log import DamagedLogError, Log
from exporter.tree.documents import HistoryManifest


def table_faults(log: Mapping[str, bytes | None], manifest: HistoryManifest, there: Container[str]) -> Iterator[str]:
    """What is wrong with the table.

    Args:
        log: the files of its log.
        manifest: the history's.
        there: the keys of files that are there.
    """
    table = Log.of(log, lambda keys: {key: log.get(key) for key in keys})
    first = min((*table.checkpoints[:1], *table.commits[:1]), default=0)
    for number in range(first, table.newest + 1):
        try:
            version = table.version(number)
        except DamagedLogError as error:
            yield f"version {number} cannot be told: {error}"
            continue
        held = version.sizes()
        yield from (f"version {number} names {key}, which is not there" for key in sorted(held) if key not in there)
        if number == table.newest:
            named = {file.key: file.bytes for file in manifest.files}
            for key, size in sorted(held.items() ^ named.items()):
                side = "the table" if (key, size) in held.items() else "the manifest"
                yield f"its newest version is {number}, and only {side} has {key} of {size} bytes"
