"""A rendered file: its key in the tree, its bytes, and the class of object it is."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum


class FileKind(StrEnum):
    """What may happen to a key after it was written; publishing order and cache lifetimes follow from it."""

    PAGE = "page"
    """Immutable, named by its content: ``v1/pages/<token>.json``, ``v1/buckets/<token>.json``."""
    HISTORY = "history"
    """Immutable, named by its ledger: ``history/pools/date=YYYY-MM-DD/<ledger>.parquet``."""
    DOCUMENT = "document"
    """Replaced by every run; what it points to is immutable and was written before it."""
    POINTER = "pointer"
    """``v1/system/status.json``, written last."""


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """One file of a run, ready to be stored under ``key``."""

    key: str
    data: bytes
    kind: FileKind

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes, 64 lowercase hex digits."""
        return hashlib.sha256(self.data).hexdigest()
