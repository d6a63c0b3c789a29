"""The state file of a checkpoint: which buckets make up the state of the ledger, newest first."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from exporter.errors import ArchiveError

LEVELS: Final = 11
EMPTY_BUCKET: Final = bytes(32)
"""The digest of a bucket without entries; it has no file."""

MAX_STATE_BYTES: Final = 1 << 20
HOT_ARCHIVE_PROTOCOL: Final = 23
"""From this protocol on the bucket list's hash in a header covers the hot archive too."""


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


class _Level(Struct):
    """A level of a bucket list; its "next" is a merge under way, and no part of the state."""

    curr: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    snap: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


_Levels: TypeAlias = Annotated[list[_Level], Meta(min_length=LEVELS, max_length=LEVELS)]


class _StateFile(Struct, rename="camel"):
    version: Literal[1, 2]
    current_ledger: Annotated[int, Meta(ge=1, le=2**32 - 1)]
    current_buckets: _Levels
    hot_archive_buckets: _Levels | None = None
    network_passphrase: str | None = None


def decode_history_state(content: bytes, what: str) -> HistoryState:
    """Take a state file apart, version 1 or 2. Raises `ArchiveError` that begins with ``what``."""
    try:
        found = msgspec.json.decode(content, type=_StateFile)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"{what}: {str(error)[:200]}") from None
    hot = None
    if found.version == 2:
        if found.hot_archive_buckets is None:
            raise ArchiveError(f"{what}: hotArchiveBuckets is missing")
        hot = _bucket_list(found.hot_archive_buckets)
    return HistoryState(found.current_ledger, _bucket_list(found.current_buckets), hot, found.network_passphrase)


def _bucket_list(levels: list[_Level]) -> BucketList:
    return BucketList(tuple(bytes.fromhex(digest) for level in levels for digest in (level.curr, level.snap)))
