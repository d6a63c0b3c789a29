"""The state file of a checkpoint: which buckets make up the state of the ledger, newest first."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from exporter.errors import ArchiveError

LEVELS: Final = 11
EMPTY_BUCKET: Final = bytes(32)
"""The digest of a bucket without entries; it has no file."""

MAX_STATE_BYTES: Final = 1 << 20
HOT_ARCHIVE_PROTOCOL: Final = 23
"""From this protocol on the bucket list's hash in a header covers the hot archive too."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class BucketList:
    """The buckets of a list, from the newest to the oldest: ``curr`` and ``snap`` of each of the eleven levels."""

    digests: tuple[bytes, ...]

    def hash(self) -> bytes:
        """SHA-256 over the levels' hashes, each the SHA-256 of its two digests."""
        levels = (self.digests[at] + self.digests[at + 1] for at in range(0, 2 * LEVELS, 2))
        return hashlib.sha256(b"".join(hashlib.sha256(level).digest() for level in levels)).digest()

    def newest_first(self) -> tuple[bytes, ...]:
        """The digests of the buckets that are not empty."""
        return tuple(digest for digest in self.digests if digest != EMPTY_BUCKET)


@dataclass(frozen=True, slots=True)
class HistoryState:
    """A checkpoint's state file. ``hot`` is the list of archived entries, which version 2 of the file has.

    ``passphrase`` is None in files of before 2018 or so, which do not name their network.
    """

    ledger: int
    live: BucketList
    hot: BucketList | None
    passphrase: str | None

    def bucket_list_hash(self, protocol_version: int) -> bytes:
        """The hash that a header of ``protocol_version`` must hold for this state."""
        if protocol_version < HOT_ARCHIVE_PROTOCOL:
            return self.live.hash()
        if self.hot is None:
            raise ArchiveError(
                f"the state file of checkpoint {self.ledger} names no hot archive, "
                f"which ledgers of protocol {protocol_version} have"
            )
        return hashlib.sha256(self.live.hash() + self.hot.hash()).digest()


def decode_history_state(content: bytes, what: str) -> HistoryState:
    """Take a state file apart, version 1 or 2. Raises `ArchiveError` that begins with ``what``."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"{what}: it is not JSON: {str(error)[:120]}") from None
    if not isinstance(document, dict):
        raise ArchiveError(f"{what}: expected a JSON object")
    version = document.get("version")
    if version not in (1, 2) or isinstance(version, bool):
        raise ArchiveError(f"{what}: version {str(version)[:40]} of the file is unknown; 1 and 2 are read")
    ledger = document.get("currentLedger")
    if type(ledger) is not int or not 0 < ledger < 2**32:
        raise ArchiveError(f"{what}: currentLedger {str(ledger)[:40]} is not a ledger")
    passphrase = document.get("networkPassphrase")
    if passphrase is not None and not isinstance(passphrase, str):
        raise ArchiveError(f"{what}: networkPassphrase is not text")
    hot = _bucket_list(document.get("hotArchiveBuckets"), f"{what}: hotArchiveBuckets") if version == 2 else None
    return HistoryState(
        ledger, _bucket_list(document.get("currentBuckets"), f"{what}: currentBuckets"), hot, passphrase
    )


def _bucket_list(levels: Any, what: str) -> BucketList:
    if not isinstance(levels, Sequence) or isinstance(levels, str) or len(levels) != LEVELS:
        raise ArchiveError(f"{what}: expected {LEVELS} levels")
    digests = []
    for at, level in enumerate(levels):
        for name in ("curr", "snap"):  # "next" is a merge under way, and no part of the state
            digest = level.get(name) if isinstance(level, dict) else None
            if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
                raise ArchiveError(f"{what}[{at}].{name}: expected 64 lowercase hex digits")
            digests.append(bytes.fromhex(digest))
    return BucketList(tuple(digests))
