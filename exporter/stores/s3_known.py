"""What stands in a bucket, as far as its publisher has looked: so that nothing is sent that is there already.

A bucket is listed folder by folder, each when something is first to be written there. So what somebody removed or
changed by hand is noticed by the next run. Pages of the assets and Parquet files are not listed beforehand: they carry
their ledger, so a run finds none of its own, unless it was begun before.

An object costs about 150 bytes of memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import blake2b
from threading import Lock

from exporter.stores.s3_client import Entry

EXPECTED_NEW = ("v1/pages/", "history/")
"""Folders in which a run seldom finds anything of its own."""

FOUND_BEFORE_LISTING = 16
"""After so many objects that were there after all, such a folder is listed."""

_MD5 = re.compile(r"[0-9a-f]{32}")

Lister = Callable[[str, bool], Iterable[Entry]]
"""Lists a prefix; the flag says to leave out keys with a slash after it."""


class Known:
    """The etags of objects. All methods may be called by many threads."""

    def __init__(self, lister: Lister) -> None:
        self._lister = lister
        self._etags: dict[int, int | str | None] = {}  # by a digest of the key; None: there is no such object
        self._listed: set[str] = set()
        self._found: dict[str, int] = {}
        self._lock = Lock()

    def look(self, key: str, *, immutable: bool) -> None:
        """List the folder of a key, unless that was done, or an immutable object is expected to be new there."""
        folder = folder_of(key)
        if folder in self._listed:
            return
        if immutable and folder.startswith(EXPECTED_NEW) and self._found.get(folder, 0) < FOUND_BEFORE_LISTING:
            return
        with self._lock:
            if folder in self._listed:
                return
            for entry in self._lister(folder, folder.count("/") < _DEPTH):
                # What was written while the listing went on is newer than the listing.
                self._etags.setdefault(_digest(entry.key), _packed(entry.etag))
            self._listed.add(folder)

    def covers(self, key: str) -> bool:
        """Say whether it is known what stands under a key, or that nothing does."""
        return _digest(key) in self._etags or folder_of(key) in self._listed

    def etag(self, key: str) -> str | None:
        """The etag of the object under a key; None where there is none or nothing is known."""
        packed = self._etags.get(_digest(key))
        return f"{packed:032x}" if isinstance(packed, int) else packed

    def note(self, key: str, etag: str | None) -> None:
        """Note what stands under a key; None: nothing."""
        self._etags[_digest(key)] = None if etag is None else _packed(etag)

    def note_read(self, key: str, etag: str | None) -> None:
        """Note what was read under a key, unless it is known what stands there."""
        self._etags.setdefault(_digest(key), None if etag is None else _packed(etag))

    def note_found(self, key: str) -> None:
        """Note that an object was there where none was expected."""
        folder = folder_of(key)
        with self._lock:
            self._found[folder] = self._found.get(folder, 0) + 1


_DEPTH = 2
"""Folders are told apart by so many names; those above are listed without what is below them."""


def folder_of(key: str) -> str:
    """The folder that is listed to learn of a key, with a slash at its end; empty for the topmost one."""
    names = key.split("/")
    return "".join(f"{name}/" for name in names[: min(_DEPTH, len(names) - 1)])


def is_md5(etag: str) -> bool:
    """Say whether an etag can be the MD5 of the object's bytes; that of a multipart upload cannot."""
    return _MD5.fullmatch(etag) is not None


def _digest(key: str) -> int:
    # 64 bits: two of a million keys share one with a chance of 3 in 10^8, and then a write is refused, not lost.
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest())


def _packed(etag: str) -> int | str:
    return int(etag, 16) if is_md5(etag) else etag
