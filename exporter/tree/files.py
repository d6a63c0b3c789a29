"""A file of the tree: its key, its bytes, and what may happen to it later."""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum

import msgspec

from exporter.errors import StoreError

MAX_KEY_BYTES = 1024
"""The length of the longest key that object stores accept. In practice folders accept it, too."""
MAX_SEGMENT_BYTES = 255
"""The length of the longest name that the usual file systems accept."""

KEY_SEGMENT = "[A-Za-z0-9_=~+@,-][A-Za-z0-9_=~+@,.-]*"
_BOUNDED = f"{KEY_SEGMENT[:-1]}{{0,{MAX_SEGMENT_BYTES - 1}}}"
_KEY = re.compile(f"{_BOUNDED}(?:/{_BOUNDED})*")


class FileKind(StrEnum):
    """What may happen to a file after it is written. The order of publishing and the cache lifetimes follow from it."""

    PAGE = "page"
    """An immutable file that is named by its content: ``v1/pages/<token>.json``, ``v1/buckets/<token>.json``."""
    HISTORY = "history"
    """An immutable file that is named by its ledger: ``history/pools/date=YYYY-MM-DD/<ledger>.parquet``."""
    DOCUMENT = "document"
    """A file that every run replaces. The immutable files that it names are written before it."""
    STATUS = "status"
    """The status document, ``v1/system/status.json``, which is written last."""


class RenderedFile(msgspec.Struct, frozen=True):
    """A file of a run, which is stored under ``key``.

    ``sha256`` is 64 lowercase hex digits. ``replaces`` has the names of other files in its folder. If an earlier run
    left such a file, it is overwritten with these bytes, too.
    """

    key: str
    data: bytes
    kind: FileKind
    sha256: str = ""
    replaces: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.sha256:
            msgspec.structs.force_setattr(self, "sha256", hashlib.sha256(self.data).hexdigest())


def is_key(key: str) -> bool:
    """Whether `check_key` accepts this key."""
    return len(key) <= MAX_KEY_BYTES and _KEY.fullmatch(key) is not None


def check_key(key: str) -> str:
    """The key itself, if it is one that a store can hold. Raises `StoreError` otherwise.

    A valid key can neither leave its store by ``..`` nor name a file that stores hide.
    """
    if not is_key(key):
        raise StoreError(
            f"{key[:200]!r} is not a key of the store: use relative segments of A-Z a-z 0-9 _ = ~ + @ , . - joined by "
            f"'/', none empty or starting with a dot, at most {MAX_SEGMENT_BYTES} characters each and "
            f"{MAX_KEY_BYTES} together"
        )
    return key
