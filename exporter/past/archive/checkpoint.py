"""A history archive's checkpoints: the state after one ledger, as verified entries.

A checkpoint's header holds the hash of its bucket list, the state file names the buckets, and a bucket's name is the
digest of its content: so every entry read is what the header commits to. Whether the header is the network's is not
said by the archive itself; pin its hash (`Checkpoint.header`) to what you know, or prove it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from exporter.errors import ArchiveError, DecodeError
from exporter.ledger.codec.ledger_header import LedgerHeader
from exporter.past.archive.archive_files import (
    NEWEST_STATE,
    ArchiveFiles,
    bucket_name,
    checkpoint_of,
    records,
    records_name,
    state_name,
)
from exporter.past.archive.checkpoint_records import (
    ScpRecord,
    checked_chain,
    decode_ledger_header,
    decode_scp_record,
    decode_transactions_record,
)
from exporter.past.archive.stellar_proof import RefusedError, check_state

MAX_BUCKET_BYTES = 1 << 35
"""The most that one bucket may unpack to; mainnet's whole list has 10 GB."""
MAX_RECORDS_FILE_BYTES = 1 << 30

LEVELS: Final = 11
MAX_STATE_BYTES: Final = 1 << 20
HOT_ARCHIVE_PROTOCOL: Final = 23
"""From this protocol on the bucket list's hash in a header covers the hot archive too."""


@dataclass(frozen=True, slots=True)
class HistoryState:
    """A checkpoint's state file, with the digests of its buckets from the newest to the oldest, two of each level.

    ``hot`` are those of archived entries, empty in version 1 of the file. ``passphrase`` is None in files of before
    2018 or so, which do not name their network.
    """

    ledger: int
    live: tuple[bytes, ...]
    hot: tuple[bytes, ...]
    passphrase: str | None


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


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose state file agrees with its header."""

    state: HistoryState
    header: LedgerHeader


class HistoryArchive:
    """A reader of one archive. All failures are `ArchiveError`; nothing is given that failed its digest."""

    def __init__(self, files: ArchiveFiles) -> None:
        self.label = files.label
        self._files = files

    def newest(self) -> int:
        return self._history_state(NEWEST_STATE).ledger

    def headers(self, checkpoint: int) -> list[LedgerHeader]:
        """The headers of a checkpoint's ledgers (up to 64), hashes and links between them verified."""
        with self._records_of("ledger", checkpoint) as found:
            chain = checked_chain(map(decode_ledger_header, found))
            if not chain or chain[-1].ledger != checkpoint:
                raise DecodeError(f"its last ledger is not {checkpoint}")
        return chain

    def scp_records(self, checkpoint: int) -> list[ScpRecord]:
        """The messages of validators about a checkpoint's ledgers. No signature is verified."""
        with self._records_of("scp", checkpoint) as found:
            return list(map(decode_scp_record, found))

    def transaction_sets(self, checkpoint: int) -> dict[int, bytes]:
        """The transaction sets of a checkpoint's ledgers that have any, as they are hashed; not verified."""
        with self._records_of("transactions", checkpoint) as found:
            return dict(map(decode_transactions_record, found))

    @contextmanager
    def _records_of(self, category: str, checkpoint: int) -> Iterator[Iterator[bytes]]:
        name = records_name(category, checkpoint)
        with self._named(name):
            yield records(self._files, name, MAX_RECORDS_FILE_BYTES)

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        try:
            yield
        except DecodeError as error:
            raise ArchiveError(f"{self.label}: {name}: {error}") from None

    def checkpoint(self, ledger: int) -> Checkpoint:
        """The checkpoint at a ledger (63, 127, …): its state file, and its header, which must hold the state's hash."""
        if ledger != checkpoint_of(ledger):
            raise ArchiveError(
                f"ledger {ledger} is not a checkpoint; the archive has the state at {checkpoint_of(ledger)} "
                "(every 64 ledgers: 63, 127, …)"
            )
        state = self._history_state(state_name(ledger))
        header = self.headers(ledger)[-1]
        with self._named(state_name(ledger)):
            if state.ledger != ledger:
                raise DecodeError(f"it is of ledger {state.ledger}")
            if header.protocol_version < HOT_ARCHIVE_PROTOCOL:  # what a file says of one, no header commits to
                state = replace(state, hot=())
            try:
                check_state(header.content, state.live, state.hot)
            except RefusedError as error:
                raise DecodeError(f"{error}; do not use this copy") from None
        return Checkpoint(state, header)

    def bucket(self, digest: bytes) -> Iterator[bytes]:
        """The records of a bucket, META included, in their order; verified when the last one was taken."""
        return records(self._files, bucket_name(digest), MAX_BUCKET_BYTES, digest)

    def _history_state(self, name: str) -> HistoryState:
        with self._named(name), self._files.open(name, MAX_STATE_BYTES) as file:
            return decode_history_state(file.read())


def decode_history_state(content: bytes) -> HistoryState:
    """Take a state file apart, version 1 or 2. Raises `DecodeError`."""
    try:
        found = msgspec.json.decode(content, type=_StateFile)
    except (ValueError, RecursionError) as error:
        raise DecodeError(str(error)[:200]) from None
    if found.version == 2 and found.hot_archive_buckets is None:
        raise DecodeError("hotArchiveBuckets is missing")
    live, hot = (
        tuple(bytes.fromhex(digest) for level in levels or () for digest in (level.curr, level.snap))
        for levels in (found.current_buckets, found.hot_archive_buckets if found.version == 2 else None)
    )
    return HistoryState(found.current_ledger, live, hot, found.network_passphrase)
