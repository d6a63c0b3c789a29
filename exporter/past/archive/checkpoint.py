"""Reads the checkpoints of a history archive: the state after one ledger, and the files that belong to it.

The header of a checkpoint has the hash of its bucket list. The state file names the buckets of that list. The name of a
bucket is the digest of its content. So every entry that is read is one that the header commits to.

An archive cannot say whether the header is the network's. Compare its hash (`Checkpoint.header`) with one that you
know, or prove it (`exporter.past.archive.checkpoint_proof`).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from exporter.bounds import ARCHIVE_BUCKET_BYTES, ARCHIVE_RECORDS_FILE_BYTES, ARCHIVE_STATE_BYTES
from exporter.errors import ArchiveError, DecodeError
from exporter.ledger.checkpoints import checkpoint_of
from exporter.ledger.codec import xdr_walk as xdr
from exporter.ledger.codec.ledger_header import LedgerHeader, read_header
from exporter.ledger.codec.xdr_walk import word
from exporter.past.archive.archive_files import (
    NEWEST_STATE,
    ArchiveFiles,
    bucket_name,
    records,
    records_name,
    state_name,
)
from exporter.past.archive.stellar_proof import RefusedError, check_state

LEVELS: Final = 11
HOT_ARCHIVE_PROTOCOL: Final = 23
"""The first protocol in which the bucket list's hash in a header covers the hot archive, too."""

GENERALIZED: Final = b"\0\0\0\1"
GENERALIZED_PROTOCOL: Final = 20
PARALLEL_PROTOCOL: Final = 23

_CLASSIC_PHASE = struct.pack(">II", 0, 0)
_PARALLEL_PHASE = struct.pack(">III", 1, 0, 0)

_EXTERNALIZE: Final = 2
_STATEMENT: Final = struct.Struct(">I32sQI").unpack_from
_VALUE_OFFSET: Final = 48 + 4
"""The offset of the value in an EXTERNALIZE message: after the head of the statement, and a counter."""


class _Level(Struct):
    """A level of a bucket list. Its "next" is left out, because it is a merge under way and no part of the state."""

    curr: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    snap: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


_Levels: TypeAlias = Annotated[list[_Level], Meta(min_length=LEVELS, max_length=LEVELS)]


class StateFile(Struct, rename="camel"):
    """The state file of a checkpoint. Files from before about 2018 do not name their network."""

    version: Literal[1, 2]
    current_ledger: Annotated[int, Meta(ge=1, le=2**32 - 1)]
    current_buckets: _Levels
    hot_archive_buckets: _Levels | None = None
    network_passphrase: str | None = None


class Checkpoint(Struct, frozen=True):
    """A checkpoint.

    Attributes:
        header: its header.
        live: the digests of the buckets of live entries that the header commits to, two of each level, newest first.
        hot: the same for the buckets of archived entries; empty before protocol 23.
        passphrase: the network that the state file names; None if it names none.
    """

    header: LedgerHeader
    live: tuple[bytes, ...]
    hot: tuple[bytes, ...]
    passphrase: str | None


class HistoryArchive:
    """Reads one archive. Every failure raises `ArchiveError`, and nothing is returned that does not have its digest."""

    def __init__(self, files: ArchiveFiles) -> None:
        self.label = files.label
        self._files = files

    def newest(self) -> int:
        """The newest checkpoint that the archive says it has."""
        return self._state_file(NEWEST_STATE).current_ledger

    def headers(self, checkpoint: int) -> list[LedgerHeader]:
        """The headers of a checkpoint's ledgers, at most 64. Their hashes and the links between them are verified."""
        with self._records_of("ledger", checkpoint) as ledger_records:
            chain: list[LedgerHeader] = []
            for header in map(decode_ledger_header, ledger_records):
                if chain and (header.ledger != chain[-1].ledger + 1 or header.previous_hash != chain[-1].hash):
                    raise DecodeError(f"ledger {header.ledger} does not follow ledger {chain[-1].ledger}")
                chain.append(header)
            if not chain or chain[-1].ledger != checkpoint:
                raise DecodeError(f"its last ledger is not {checkpoint}")
        return chain

    def scp_records(self, checkpoint: int) -> list[ScpRecord]:
        """The messages of validators about a checkpoint's ledgers. Their signatures are not verified here."""
        with self._records_of("scp", checkpoint) as scp_records:
            return list(map(decode_scp_record, scp_records))

    def transaction_sets(self, checkpoint: int) -> dict[int, bytes]:
        """The bytes that a transaction set's hash is made of, by ledger. Ledgers without transactions are left out.

        The hashes are not verified here.
        """
        with self._records_of("transactions", checkpoint) as transaction_records:
            return dict(map(decode_transactions_record, transaction_records))

    @contextmanager
    def _records_of(self, category: str, checkpoint: int) -> Iterator[Iterator[bytes]]:
        name = records_name(category, checkpoint)
        with self._named(name):
            yield records(self._files, name, ARCHIVE_RECORDS_FILE_BYTES)

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        try:
            yield
        except DecodeError as error:
            raise ArchiveError(f"{self.label}: {name}: {error}") from None

    def checkpoint(self, ledger: int) -> Checkpoint:
        """The checkpoint at a ledger (63, 127, …). Its header is checked to commit to the buckets of its state file."""
        if ledger != checkpoint_of(ledger):
            raise ArchiveError(
                f"ledger {ledger} is not a checkpoint; the archive has the state at {checkpoint_of(ledger)} "
                "(every 64 ledgers: 63, 127, …)"
            )
        state, header = self._state_file(state_name(ledger)), self.headers(ledger)[-1]
        live, hot = _digests(state.current_buckets), tuple[bytes, ...]()
        # Headers of earlier protocols do not commit to a hot archive, so what their files say of one is ignored.
        if header.protocol_version >= HOT_ARCHIVE_PROTOCOL:
            hot = _digests(state.hot_archive_buckets or ())
        with self._named(state_name(ledger)):
            if state.current_ledger != ledger:
                raise DecodeError(f"it is of ledger {state.current_ledger}")
            try:
                check_state(header.content, live, hot)
            except RefusedError as error:
                raise DecodeError(f"{error}; do not use this copy") from None
        return Checkpoint(header, live, hot, state.network_passphrase)

    def bucket(self, digest: bytes) -> Iterator[bytes]:
        """The records of an archive bucket in their order, including META. They are verified after the last one."""
        return records(self._files, bucket_name(digest), ARCHIVE_BUCKET_BYTES, digest)

    def _state_file(self, name: str) -> StateFile:
        with self._named(name), self._files.open(name, ARCHIVE_STATE_BYTES) as file:
            return decode_state_file(file.read(ARCHIVE_STATE_BYTES))


def decode_state_file(content: bytes) -> StateFile:
    """Decode a state file. Raises `DecodeError` if it is malformed."""
    try:
        return msgspec.json.decode(content, type=StateFile)
    except (ValueError, RecursionError) as error:
        raise DecodeError(str(error)[:200]) from None


def _digests(levels: Sequence[_Level]) -> tuple[bytes, ...]:
    return tuple(bytes.fromhex(digest) for level in levels for digest in (level.curr, level.snap))


def decode_ledger_header(record: bytes) -> LedgerHeader:
    """Decode a LedgerHeaderHistoryEntry. Raises `DecodeError` if it is malformed, or its hash is not its header's."""
    header, end = read_header(record, 0)
    if end != len(record):
        raise DecodeError(f"{len(record) - end} bytes follow the header of ledger {header.ledger}")
    return header


def decode_transactions_record(record: bytes) -> tuple[int, bytes]:
    """The ledger of a TransactionHistoryEntry, and the bytes whose SHA-256 is its transaction set's hash."""
    if len(record) < 44:
        raise DecodeError("a record of transactions ends too early")
    ledger = int.from_bytes(record[:4], "big")
    if record[4:44] == bytes(36) + GENERALIZED:
        return ledger, record[44:]
    if record[-4:] != bytes(4):
        raise DecodeError(f"the transaction set of ledger {ledger} is of an unknown form")
    return ledger, record[4:36] + record[40:-4]  # without the number of envelopes, which is not hashed


def empty_set(previous_hash: bytes, previous_protocol: int) -> bytes:
    """The bytes of the transaction set of a ledger without transactions. Archives have no record of such a set.

    Its arguments are the hash and the protocol of the header before that ledger.
    """
    if previous_protocol < GENERALIZED_PROTOCOL:
        return previous_hash
    second = _CLASSIC_PHASE if previous_protocol < PARALLEL_PROTOCOL else _PARALLEL_PHASE
    return GENERALIZED + previous_hash + struct.pack(">I", 2) + _CLASSIC_PHASE + second


class Externalized(Struct, frozen=True):
    """A validator's message that a ledger closed with a value. ``envelope`` is its SCPEnvelope XDR, with signature."""

    node: bytes
    ledger: int
    value: bytes
    quorum_set_hash: bytes
    envelope: bytes


class ScpRecord(Struct, frozen=True):
    """The consensus messages about a ledger that an archive's node saw.

    Attributes:
        quorum_sets: all validators that a quorum set names, by the SHA-256 of the set.
        externalized: the messages that the ledger closed with a value.
    """

    ledger: int
    quorum_sets: dict[bytes, set[bytes]]
    externalized: list[Externalized]


def decode_scp_record(record: bytes) -> ScpRecord:
    """Decode an SCPHistoryEntry. Raises `DecodeError` if it is malformed. Signatures are not verified here."""
    try:
        if word(record, 0)[0]:
            raise DecodeError("unknown version of a record of SCP messages")
        quorum_sets = {}
        sets, position = xdr.count_at(record, 4, 12), 8
        for _ in range(sets):
            nodes: set[bytes] = set()
            end = xdr.quorum_set(record, position, nodes)
            quorum_sets[hashlib.sha256(record[position:end]).digest()] = nodes
            position = end
        (ledger,) = word(record, position)
        externalized = []
        count, position = xdr.count_at(record, position + 4, 100), position + 8
        for _ in range(count):
            end = xdr.scp_envelope(record, position)
            node_kind, node, slot, kind = _STATEMENT(record, position)
            if node_kind:
                raise DecodeError(f"unknown kind of node: {node_kind}")
            if kind == _EXTERNALIZE:
                start = position + _VALUE_OFFSET
                hash_start = xdr.opaque(record, start) + 4  # after the value and the number of confirmed ballots
                value = record[start + 4 : start + 4 + word(record, start)[0]]
                quorum_set_hash = record[hash_start : hash_start + 32]
                externalized.append(Externalized(node, slot, value, quorum_set_hash, record[position:end]))
            position = end
    except struct.error:
        raise DecodeError("the bytes end inside a record of SCP messages") from None
    if position != len(record):
        raise DecodeError(f"a record of SCP messages of ledger {ledger} does not end where it must")
    return ScpRecord(ledger, quorum_sets, externalized)
