"""A file of the tree: what may be its key, what may happen to it, and its bytes."""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum

import msgspec

from exporter.errors import StoreError

MAX_KEY_BYTES = 1024
"""The longest key that object stores accept; a folder's limit is never below it in practice."""
MAX_SEGMENT_BYTES = 255
"""The longest name that the usual file systems accept."""

KEY_SEGMENT = "[A-Za-z0-9_=~+@,-][A-Za-z0-9_=~+@,.-]*"
_BOUNDED = f"{KEY_SEGMENT[:-1]}{{0,{MAX_SEGMENT_BYTES - 1}}}"
_KEY = re.compile(f"{_BOUNDED}(?:/{_BOUNDED})*")


class FileKind(StrEnum):
    """What may happen to a written key; publishing order and cache lifetimes follow from it."""

    PAGE = "page"
    """Immutable, named by its content: ``v1/pages/<token>.json``, ``v1/buckets/<token>.json``."""
    HISTORY = "history"
    """Immutable, named by its ledger: ``history/pools/date=YYYY-MM-DD/<ledger>.parquet``."""
    DOCUMENT = "document"
    """Replaced by every run; what it points to is immutable and was written before it."""
    STATUS = "status"
    """``v1/system/status.json``, written last."""


class RenderedFile(msgspec.Struct, frozen=True):
    """A file of a run, to be stored under ``key``.

    ``sha256`` is 64 lowercase hex digits. ``replaces`` are files of its folder for which this one answers: those of an
    earlier run are overwritten with these bytes.
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
    """Say whether ``check_key`` accepts this key."""
    return len(key) <= MAX_KEY_BYTES and _KEY.fullmatch(key) is not None


def check_key(key: str) -> str:
    """Return the key if it may name an object; none reaches ``..`` or what stores hide. StoreError for others."""
    if not is_key(key):
        raise StoreError(
            f"{key[:200]!r} is not a key of the store: use relative segments of A-Z a-z 0-9 _ = ~ + @ , . - joined by "
            f"'/', none empty or starting with a dot, at most {MAX_SEGMENT_BYTES} characters each and "
            f"{MAX_KEY_BYTES} together"
        )
    return key
