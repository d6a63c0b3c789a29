"""A folder whose texts have gzip twins: ``KEY.gz`` beside the file of a key, for web servers that send it as it stands.

A web server that finds a twin sends it without a look at the file, so a twin must never be of other bytes than its
file, at no moment:

    a file that changes      its twin is removed, and that is on the disk; the file gets its new bytes; then its twin
    a file that is removed   its twin goes before it

So readers get the old bytes from both, the old or the new ones from the file alone, or the new ones from both. A
process that dies in between leaves a file without a twin, which the server compresses itself until the next run.
Whether a twin is of its file is told by its last eight bytes, the checksum and length of what is in it; so one that
somebody else left behind is found and made anew when a run writes the file.

Twins are no files of the tree: they are not listed, and in no manifest. An empty `MARKER` says that there are some, so
that whoever writes into the folder takes care of them, also where none are to be made any more.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path

from exporter.stores.folder import BATCH_BYTES, BATCH_FILES, FolderStore, make_durable, reported
from exporter.stores.store import ObjectInfo, Written

MARKER = ".exporter.precompressed"
LEAST_BYTES = 1000
"""Smaller files are sent as they are: so the rule for nginx has it too."""

LEVEL = 6
_TEXTS = (".atom", ".css", ".html", ".js", ".json", ".py", ".svg", ".txt")
_TRAILER = struct.Struct("<II")


def twin_of(key: str) -> str | None:
    """The name of the twin of a key; None for what is compressed already."""
    return f"{key}.gz" if key.endswith(_TEXTS) else None


def is_twin(key: str) -> bool:
    """Whether this is the name of a twin."""
    return key.endswith(".gz") and key[:-3].endswith(_TEXTS)


def has_twins(root: Path) -> bool:
    """Whether a folder may have twins."""
    return (root / MARKER).exists()


class PrecompressedFolderStore(FolderStore):
    """A folder with twins; with ``making`` False those of files that change go, and all with the next sweep."""

    def __init__(self, root: str | Path, *, durable: bool = True, making: bool = True) -> None:
        super().__init__(root, durable=durable)
        self._making = making

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> Written:
        return self._with_twins(files, super().put_many)

    def put_new_many(self, files: Iterable[tuple[str, bytes]]) -> Written:
        return self._with_twins(files, super().put_new_many)

    def delete(self, keys: Iterable[str]) -> int:
        wanted = list(keys)
        super().delete(twin for key in wanted if (twin := twin_of(key)) is not None)
        return super().delete(wanted)

    def remove_leftovers(self, before: datetime) -> int:
        """Twins without a file are leftovers too, and all twins where none are made any more."""
        removed = super().remove_leftovers(before)
        twins = [info.key for info in super().list("") if is_twin(info.key)]
        removed += self._remove([twin for twin in twins if not self._making or not self.has(twin[:-3])])
        if not self._making:
            with reported("delete", MARKER):
                (self.root / MARKER).unlink(missing_ok=True)
        return removed

    def twin_fits(self, key: str, data: bytes) -> bool:
        """Whether the twin of a file with these bytes, if there is one, says that it is of them."""
        twin = twin_of(key)
        return twin is None or self._trailer(twin) in (None, _trailer_of(data))

    def _with_twins(
        self, files: Iterable[tuple[str, bytes]], write: Callable[[Iterable[tuple[str, bytes]]], Written]
    ) -> Written:
        total = Written()
        for batch in _batches(files):
            due: list[tuple[str, bytes]] = []
            stale: list[str] = []
            for key, data in batch:
                twin = twin_of(key)
                if twin is None:
                    continue
                found = self._trailer(twin)
                if found == _trailer_of(data):
                    continue
                if found is not None:
                    stale.append(twin)
                if self._making and len(data) >= LEAST_BYTES:
                    due.append((twin, data))
            self._remove(stale)
            total += write(batch)
            if due:
                # It is said that there are twins before there is one.
                if not has_twins(self.root):
                    with reported("write", MARKER):
                        (self.root / MARKER).touch()
                        if self._durable:
                            make_durable((), [str(self.root)])
                super().put_many((twin, gzip.compress(data, LEVEL, mtime=0)) for twin, data in due)
        return total

    def _trailer(self, twin: str) -> bytes | None:
        """What a twin says of the bytes in it; None where there is no twin."""
        with reported("read", twin):
            try:
                with (self.root / twin).open("rb") as file:
                    file.seek(-min(_TRAILER.size, os.fstat(file.fileno()).st_size), os.SEEK_END)
                    return file.read()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def _remove(self, twins: list[str]) -> int:
        """Remove twins, such that they do not come back after a power cut."""
        removed = super().delete(twins)
        if removed and self._durable:
            folders = {f"{self.root}/{twin}".rpartition("/")[0] for twin in twins}
            with reported("make durable", self.uri):
                make_durable((), [folder for folder in folders if Path(folder).is_dir()])
        return removed

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return (info for info in super().list(prefix) if not is_twin(info.key))


def _trailer_of(data: bytes) -> bytes:
    """How a gzip file of these bytes ends."""
    return _TRAILER.pack(zlib.crc32(data), len(data) & 0xFFFFFFFF)


def _batches(files: Iterable[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    batch: list[tuple[str, bytes]] = []
    size = 0
    for key, data in files:
        batch.append((key, data))
        size += len(data)
        if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
