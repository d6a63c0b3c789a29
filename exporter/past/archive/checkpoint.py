"""A history archive's checkpoints: the state after one ledger, as verified entries.

A checkpoint's header holds the hash of its bucket list, the state file names the buckets, and a bucket's name is the
digest of its content: so every entry read is what the header commits to. Whether the header is the network's is not
said by the archive itself; pin its hash (`Checkpoint.header`) to what you know, or prove it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from exporter.errors import ArchiveError, DecodeError
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import (
    ARCHIVED,
    CONTRACT_CODE,
    CONTRACT_DATA,
    code_key,
    decode_contract_data,
    instance_of,
    is_instance_key,
    ttl_key,
)
from exporter.ledger.codec.ledger_header import LedgerHeader
from exporter.ledger.source import RawEntry
from exporter.past.archive.archive_files import (
    NEWEST_STATE,
    ArchiveFiles,
    bucket_name,
    checkpoint_of,
    hashed,
    read_whole,
    records,
    records_name,
    state_name,
    unpacked,
)
from exporter.past.archive.bucket_entries import DEAD, BucketEntry, contract_of, key_of, kind_of
from exporter.past.archive.history_state import MAX_STATE_BYTES, BucketList, HistoryState, decode_history_state
from exporter.past.archive.ledger_headers import checked_chain, decode_ledger_header
from exporter.past.archive.scp_messages import ScpRecord, decode_scp_record
from exporter.past.archive.transaction_sets import decode_transactions_record

MAX_BUCKET_BYTES = 1 << 35
"""The most that one bucket may unpack to; mainnet's whole list has 10 GB."""
MAX_RECORDS_FILE_BYTES = 1 << 30
MAX_ENTRIES = 5_000_000

_DATA: Final = CONTRACT_DATA.to_bytes(4, "big")
_CODE: Final = CONTRACT_CODE.to_bytes(4, "big")
_DATA_OF_CONTRACT: Final = _DATA + b"\0\0\0\1"
_EXPIRING: Final = (_DATA, _CODE)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose state file agrees with its header."""

    state: HistoryState
    header: LedgerHeader


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The wanted entries that are in the state of a checkpoint.

    ``entries`` has contract data and contract code by LedgerKey XDR, with the true last ledger of their life;
    `exporter.ledger.codec.entries.ARCHIVED` where an entry was evicted. ``others`` has the entries of other kinds
    that were
    asked for by key (accounts, trustlines, config settings): whole LedgerEntry XDR. ``undecodable`` counts the records
    whose key holds what a newer protocol added, so that nobody can ask for it.
    """

    checkpoint: Checkpoint
    entries: dict[bytes, RawEntry]
    others: dict[bytes, BucketEntry]
    undecodable: int


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which keys are asked for: all data of ``contracts`` (their ids; None: of all), ``keys``, and perhaps all code."""

    contracts: frozenset[bytes] | None
    keys: frozenset[bytes]
    code: bool = False
    owners: frozenset[bytes] = field(init=False)
    kinds: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        data = {key for key in self.keys if key[:8] == _DATA_OF_CONTRACT}
        kinds = {int.from_bytes(key[:4], "big") for key in self.keys}
        object.__setattr__(self, "owners", frozenset(key[8:40] for key in data) | (self.contracts or frozenset()))
        all_of = (
            set() if self.contracts is not None else {CONTRACT_DATA, CONTRACT_CODE} if self.code else {CONTRACT_DATA}
        )
        object.__setattr__(self, "kinds", frozenset(kinds | all_of))

    @property
    def nothing(self) -> bool:
        return self.contracts is not None and not self.contracts and not self.keys

    def may_have(self, record: bytes) -> bool:
        """Whether a record is worth a look at its key: seen from a few bytes of it."""
        contract = contract_of(record)
        if contract is not None:
            return self.contracts is None or contract in self.owners
        return kind_of(record) in self.kinds

    def has(self, key: bytes) -> bool:
        if key in self.keys:
            return True
        if self.contracts is None:
            return key[:4] == _DATA or (self.code and key[:4] == _CODE)
        return key[:8] == _DATA_OF_CONTRACT and key[8:40] in self.contracts


def _contract_id(contract: str) -> bytes:
    version, payload = strkey.decode(contract)
    if version != strkey.CONTRACT:
        raise ArchiveError(f"{contract} is not a contract")
    return payload


def _codes_run_by(found: Iterable[BucketEntry]) -> frozenset[bytes]:
    """The keys of the code that the contracts run whose instances are among the entries."""
    codes = set()
    for entry in found:
        if is_instance_key(entry.key):
            try:
                executable = instance_of(decode_contract_data(entry.data))
            except DecodeError:  # an executable of a newer kind: decoding the entry reports it
                continue
            if executable.wasm_hash is not None:
                codes.add(code_key(executable.wasm_hash))
    return frozenset(codes)


class HistoryArchive:
    """A reader of one archive. All failures are `ArchiveError`; nothing is given that failed its digest."""

    def __init__(self, files: ArchiveFiles, max_bucket_bytes: int = MAX_BUCKET_BYTES) -> None:
        self.label = files.label
        self._files = files
        self._max_bucket_bytes = max_bucket_bytes

    def newest(self) -> int:
        """The newest checkpoint that the archive says it has."""
        return self._history_state(NEWEST_STATE).ledger

    def headers(self, checkpoint: int) -> list[LedgerHeader]:
        """The headers of a checkpoint's ledgers (up to 64), hashes and links between them verified."""
        what, content = self._records_of("ledger", checkpoint)
        chain = checked_chain((decode_ledger_header(record, what) for record in content), what)
        if not chain or chain[-1].ledger != checkpoint:
            raise ArchiveError(f"{what}: its last ledger is not {checkpoint}")
        return chain

    def scp_records(self, checkpoint: int) -> list[ScpRecord]:
        """The messages of validators about a checkpoint's ledgers. No signature is verified."""
        what, content = self._records_of("scp", checkpoint)
        return [decode_scp_record(record, what) for record in content]

    def transaction_sets(self, checkpoint: int) -> dict[int, bytes]:
        """The transaction sets of a checkpoint's ledgers, as they are hashed; nothing of them is verified.

        A ledger without transactions is not among them: `exporter.past.archive.transaction_sets.empty_set`.
        """
        what, content = self._records_of("transactions", checkpoint)
        return dict(decode_transactions_record(record, what) for record in content)

    def _records_of(self, category: str, checkpoint: int) -> tuple[str, Iterator[bytes]]:
        name = records_name(category, checkpoint)
        what = f"{self._files.label}: {name}"
        return what, records(unpacked(self._files, name, MAX_RECORDS_FILE_BYTES), what)

    def checkpoint(self, ledger: int) -> Checkpoint:
        """The checkpoint at a ledger (63, 127, …): its state file, and its header, which must hold the state's hash."""
        if ledger != checkpoint_of(ledger):
            raise ArchiveError(
                f"ledger {ledger} is not a checkpoint; the archive has the state at {checkpoint_of(ledger)} "
                "(every 64 ledgers: 63, 127, …)"
            )
        state = self._history_state(state_name(ledger))
        if state.ledger != ledger:
            raise ArchiveError(f"{self._files.label}: {state_name(ledger)} is of ledger {state.ledger}")
        header = self.headers(ledger)[-1]
        if state.bucket_list_hash(header.protocol_version) != header.bucket_list_hash:
            raise ArchiveError(
                f"{self._files.label}: the buckets that {state_name(ledger)} names are not those that the ledger's "
                "header commits to; do not use this copy"
            )
        return Checkpoint(state, header)

    def bucket(self, digest: bytes) -> Iterator[bytes]:
        """The records of a bucket, META included, in their order.

        The content is verified when the last record was taken: use nothing of a bucket that was not read to its end.
        """
        name = bucket_name(digest)
        what = f"{self._files.label}: {name}"
        return records(hashed(unpacked(self._files, name, self._max_bucket_bytes), digest, what), what)

    def entries(
        self,
        checkpoint: Checkpoint,
        contracts: Collection[str] | None = None,
        keys: Collection[bytes] = (),
        *,
        code: bool = True,
        max_entries: int = MAX_ENTRIES,
    ) -> CheckpointState:
        """The state at a checkpoint of ``contracts`` (strkeys; None: of all), and of single ``keys`` (LedgerKey XDR).

        With ``code`` also the code that the contracts found run; without contracts all code. The buckets are streamed
        twice: an entry's time to live, and code, may be in a newer bucket than what says that it is wanted. The
        second pass ends where everything was found.
        """
        lists = checkpoint.state
        selection = _Selection(
            None if contracts is None else frozenset(map(_contract_id, contracts)), frozenset(keys), code
        )
        undecodable: set[bytes] = set()
        found = self._first_mentions(lists.live, selection, undecodable, max_entries)
        # The hot archive's word counts only where the live list has none; an entry cannot be in both.
        evicted = self._first_mentions(lists.hot, selection, undecodable, max_entries)
        more = (
            _codes_run_by([*found.values(), *evicted.values()]) - found.keys() - evicted.keys() if code else frozenset()
        )
        expiring = {ttl_key(key): key for key in {*found, *more} if key[:4] in _EXPIRING}
        second = self._first_mentions(
            lists.live, _Selection(frozenset(), more | expiring.keys()), undecodable, max_entries
        )
        found |= {key: entry for key, entry in second.items() if key in more}
        evicted |= self._first_mentions(
            lists.hot, _Selection(frozenset(), more - second.keys()), undecodable, max_entries
        )

        entries: dict[bytes, RawEntry] = {}
        others: dict[bytes, BucketEntry] = {}
        for key, entry in found.items():
            if key[:4] not in _EXPIRING:
                others[key] = entry
                continue
            ttl = second.get(ttl_key(key))
            if ttl is None:
                raise ArchiveError(f"{self._files.label}: an entry has no time to live: {key.hex()[:120]}")
            entries[key] = RawEntry(entry.data, entry.last_modified, int.from_bytes(ttl.data[36:40], "big"))
        for key, entry in evicted.items():
            entries.setdefault(key, RawEntry(entry.data, entry.last_modified, ARCHIVED))
        return CheckpointState(checkpoint, entries, others, len(undecodable))

    def _first_mentions(
        self, buckets: BucketList | None, selection: _Selection, undecodable: set[bytes], max_entries: int
    ) -> dict[bytes, BucketEntry]:
        """The newest word of a list on each key selected, where that is an entry."""
        mentioned: dict[bytes, BucketEntry | None] = {}
        if buckets is None or selection.nothing:
            return {}
        for digest in buckets.newest_first():
            for record in self.bucket(digest):
                if not selection.may_have(record):
                    continue
                try:
                    key = key_of(record)
                except DecodeError:
                    undecodable.add(hashlib.sha256(record).digest())
                    continue
                if key not in mentioned and selection.has(key):
                    mentioned[key] = None if record[:4] == DEAD else BucketEntry(key, record[4:])
                    if len(mentioned) > max_entries:
                        raise ArchiveError(f"more than {max_entries} entries were asked for; name fewer contracts")
            # No older bucket can say anything new.
            if selection.contracts is not None and not selection.contracts and len(mentioned) == len(selection.keys):
                break
        return {key: entry for key, entry in mentioned.items() if entry is not None}

    def _history_state(self, name: str) -> HistoryState:
        return decode_history_state(read_whole(self._files, name, MAX_STATE_BYTES), f"{self._files.label}: {name}")
