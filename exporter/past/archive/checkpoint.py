"""A history archive's checkpoints: the state after one ledger, as verified entries.

A checkpoint's header holds the hash of its bucket list, the state file names the buckets, and a bucket's name is the
digest of its content: so every entry read is what the header commits to. Whether the header is the network's is not
said by the archive itself; pin its hash (`Checkpoint.header`) to what you know, or prove it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from exporter.errors import ArchiveError, DecodeError
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import ARCHIVED, CONTRACT_CODE, CONTRACT_DATA, ttl_key
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
from exporter.past.archive.checkpoint_records import (
    ScpRecord,
    checked_chain,
    decode_ledger_header,
    decode_scp_record,
    decode_transactions_record,
)
from exporter.past.archive.history_state import MAX_STATE_BYTES, BucketList, HistoryState, decode_history_state

MAX_BUCKET_BYTES = 1 << 35
"""The most that one bucket may unpack to; mainnet's whole list has 10 GB."""
MAX_RECORDS_FILE_BYTES = 1 << 30
MAX_ENTRIES = 5_000_000

_DATA: Final = CONTRACT_DATA.to_bytes(4, "big")
_DATA_OF_CONTRACT: Final = _DATA + b"\0\0\0\1"
_EXPIRING: Final = (_DATA, CONTRACT_CODE.to_bytes(4, "big"))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose state file agrees with its header."""

    state: HistoryState
    header: LedgerHeader


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The wanted entries that are in the state of a checkpoint.

    ``entries`` has contract data and contract code by LedgerKey XDR, with the true last ledger of their life;
    `exporter.ledger.codec.entries.ARCHIVED` where an entry was evicted. ``others`` has the entries of other kinds that
    were asked for by key (accounts, trustlines, config settings): whole LedgerEntry XDR.
    """

    checkpoint: Checkpoint
    entries: dict[bytes, RawEntry]
    others: dict[bytes, BucketEntry]


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

        A ledger without transactions is not among them: `exporter.past.archive.checkpoint_records.empty_set`.
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
        self, checkpoint: Checkpoint, contracts: Collection[str] | None = None, keys: Collection[bytes] = ()
    ) -> CheckpointState:
        """The state at a checkpoint: the data of ``contracts`` (strkeys), and single ``keys`` (LedgerKey XDR).

        With None as contracts it is the data and the code of all. The buckets are streamed twice, since an entry's time
        to live may be in a newer bucket than the entry. The second pass ends where everything was found.
        """
        lists = checkpoint.state
        ids = None if contracts is None else frozenset(map(strkey.decode_contract, contracts))
        found = self._first_mentions(lists.live, ids, frozenset(keys))
        # The hot archive's word counts only where the live list has none; an entry cannot be in both.
        evicted = self._first_mentions(lists.hot, ids, frozenset(keys))
        lives = frozenset(ttl_key(key) for key in found if key[:4] in _EXPIRING)
        ttls = self._first_mentions(lists.live, frozenset(), lives)
        entries: dict[bytes, RawEntry] = {}
        others: dict[bytes, BucketEntry] = {}
        for key, entry in found.items():
            if key[:4] not in _EXPIRING:
                others[key] = entry
                continue
            ttl = ttls.get(ttl_key(key))
            if ttl is None:
                raise ArchiveError(f"{self._files.label}: an entry has no time to live: {key.hex()[:120]}")
            entries[key] = RawEntry(entry.data, entry.last_modified, int.from_bytes(ttl.data[36:40], "big"))
        for key, entry in evicted.items():
            entries.setdefault(key, RawEntry(entry.data, entry.last_modified, ARCHIVED))
        return CheckpointState(checkpoint, entries, others)

    def _first_mentions(
        self, buckets: BucketList | None, contracts: frozenset[bytes] | None, keys: frozenset[bytes]
    ) -> dict[bytes, BucketEntry]:
        """The newest word of a list on the data of contracts (their ids; None: all data and code) and on single keys.

        Records whose key holds what a newer protocol added are passed over: nobody can ask for them.
        """
        mentioned: dict[bytes, BucketEntry | None] = {}
        if buckets is None or (contracts is not None and not contracts and not keys):
            return {}
        kinds = {int.from_bytes(key[:4], "big") for key in keys}
        if contracts is None:
            kinds |= {CONTRACT_DATA, CONTRACT_CODE}
        owners = {key[8:40] for key in keys} | (contracts or frozenset())

        def is_worth_a_look(record: bytes) -> bool:  # seen from a few bytes of it
            contract = contract_of(record)
            return kind_of(record) in kinds if contract is None else contracts is None or contract in owners

        def is_wanted(key: bytes) -> bool:
            if key in keys:
                return True
            if contracts is None:
                return key[:4] in _EXPIRING
            return key[:8] == _DATA_OF_CONTRACT and key[8:40] in contracts

        for digest in buckets.newest_first():
            for record in filter(is_worth_a_look, self.bucket(digest)):
                try:
                    key = key_of(record)
                except DecodeError:
                    continue
                if key not in mentioned and is_wanted(key):
                    mentioned[key] = None if record[:4] == DEAD else BucketEntry(key, record[4:])
                    if len(mentioned) > MAX_ENTRIES:
                        raise ArchiveError(f"more than {MAX_ENTRIES} entries were asked for; name fewer contracts")
            if contracts is not None and not contracts and len(mentioned) == len(keys):
                break  # no older bucket can say anything new
        return {key: entry for key, entry in mentioned.items() if entry is not None}

    def _history_state(self, name: str) -> HistoryState:
        return decode_history_state(read_whole(self._files, name, MAX_STATE_BYTES), f"{self._files.label}: {name}")
