"""Indexes the contract state and the settings at a checkpoint by key, in one pass over its archive buckets.

The index is a file, because mainnet's has gigabytes. A file that is there already is never used: its entries would be
published as proven, and anybody may have written it. A few bytes at fixed offsets tell records apart, so that the
millions of records of other kinds need not be decoded.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from exporter.errors import ArchiveError, DecodeError
from exporter.ledger.codec import entries
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.source import RawEntry
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint import Checkpoint, HistoryArchive

_ENTRY, _EVICTED, _LIFE, _INSTANCE, _BUCKET = b"E", b"H", b"T", b"I", b"B"
"""First bytes of the names of rows. The SHA-256 of a LedgerKey follows, or the digest of a bucket that was read."""

LIVE: Final = b"\0\0\0\0"  # in a hot archive bucket, an entry that was evicted
DEAD: Final = b"\0\0\0\1"  # in a hot archive bucket, the key of an entry that was restored
INIT: Final = b"\0\0\0\2"

EMPTY_BUCKET: Final = bytes(32)
"""The digest that stands for a bucket without entries, which has no file."""

_DATA, _CODE, _SETTING, _TTL = (
    kind.to_bytes(4, "big")
    for kind in (entries.CONTRACT_DATA, entries.CONTRACT_CODE, entries.CONFIG_SETTING, entries.TTL)
)


class StateIndex(Mapping[bytes, RawEntry]):
    """Contract data, contract code and the network's settings, by LedgerKey XDR.

    Data and code have the true last ledger of their lives, or `ARCHIVED` if they were evicted. Settings have none.
    """

    def __init__(
        self,
        archives: Archives,
        checkpoint: Checkpoint,
        folder: Path,
        includes: Callable[[bytes], bool] = lambda _key: True,
    ) -> None:
        """Make an index of the keys for which ``includes`` is true, in a folder that only the caller writes to.

        Raises `ArchiveError` if a bucket cannot be read, and `FileExistsError` if the folder has an index already.
        """
        self._includes = includes
        self._path = folder / f"state-{checkpoint.header.hash.hex()[:32]}.sqlite"
        self._path.touch(mode=0o600, exist_ok=False)
        self._rows = sqlite3.connect(self._path)
        try:
            self._rows.execute("PRAGMA synchronous = OFF")  # nobody reads the index after a crash
            self._rows.execute("CREATE TABLE row (name BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
            live = [(_ENTRY, digest) for digest in checkpoint.live]
            hot = [(_EVICTED, digest) for digest in checkpoint.hot]
            for prefix, digest in (*live, *hot):
                if digest != EMPTY_BUCKET and self._get(_BUCKET + prefix + digest) is None:
                    archives.first(lambda archive, prefix=prefix, digest=digest: self._take(archive, prefix, digest))  # type: ignore[misc]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._rows.close()
        self._path.unlink(missing_ok=True)

    def __getitem__(self, key: bytes) -> RawEntry:
        name = hashlib.sha256(key).digest()
        value = self._get(_ENTRY + name)
        if value is not None and key[:4] == _SETTING:
            return RawEntry(value[4:], int.from_bytes(value[:4], "big"), None)
        if value is not None:
            life = self._get(_LIFE + name)
            if life is None:
                raise ArchiveError(f"an entry has no time to live: {key.hex()[:120]}")
            return RawEntry(value[4:], int.from_bytes(value[:4], "big"), int.from_bytes(life, "big"))
        value = self._get(_EVICTED + name)
        if value is None:
            raise KeyError(key)
        return RawEntry(value[4:], int.from_bytes(value[:4], "big"), entries.ARCHIVED)

    def __iter__(self) -> Iterator[bytes]:
        return (key_of(bytes(4) + value + bytes(4)) for value in self._current())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def contract_data(self) -> Iterator[tuple[int, bytes]]:
        """All contract data in any order, including archived entries: the last change and the LedgerEntryData XDR."""
        for value in self._current():
            if value[4:12] == _DATA + bytes(4):
                yield int.from_bytes(value[:4], "big"), value[4:]

    def _current(self) -> Iterator[bytes]:
        for prefix in (_ENTRY, _EVICTED):
            for name, value in self._all(prefix):
                if value is not None and (prefix == _ENTRY or self._get(_ENTRY + name[1:]) is None):
                    yield value

    def instances(self) -> Iterator[tuple[str, ContractInstance]]:
        """The address and the instance of each contract."""
        for name, _ in self._all(_INSTANCE):
            value = self._get(_ENTRY + name[1:]) or self._get(_EVICTED + name[1:])
            if value is not None:
                try:
                    entry = entries.decode_contract_data(value[4:])
                    yield entry.contract, entries.instance_of(entry)
                except DecodeError:  # a newer protocol wrote it, and whoever decodes it for a reading reports that
                    continue

    def _take(self, archive: HistoryArchive, prefix: bytes, digest: bytes) -> None:
        with self._rows:  # one transaction, so that nothing stays of a bucket that does not have its digest
            self._rows.executemany(
                "INSERT OR IGNORE INTO row VALUES (?, ?)", self._rows_of(archive.bucket(digest), prefix)
            )
            self._rows.execute("INSERT INTO row VALUES (?, ?)", (_BUCKET + prefix + digest, b""))

    def _get(self, name: bytes) -> bytes | None:
        with closing(self._rows.execute("SELECT value FROM row WHERE name = ?", (name,))) as cursor:
            row = cursor.fetchone()
        return None if row is None else row[0]

    def _all(self, prefix: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        after = bytes([prefix[0] + 1])
        yield from self._rows.execute("SELECT name, value FROM row WHERE name >= ? AND name < ?", (prefix, after))

    def _rows_of(self, records: Iterator[bytes], prefix: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        """The rows of a bucket's records. A row that the index has already came from a newer bucket, and stays."""
        for record in records:
            is_dead = record[:4] == DEAD
            kind = record[4:8] if is_dead else record[8:12]
            if kind == _TTL:
                yield (_LIFE + record[8:40], None) if is_dead else (_LIFE + record[12:44], record[44:48])
            elif kind in (_DATA, _CODE, _SETTING):
                try:
                    key = key_of(record)
                except DecodeError:  # no reader can ask for such a key
                    continue
                if not self._includes(key):
                    continue
                name = hashlib.sha256(key).digest()
                if is_dead:
                    yield prefix + name, None
                    continue
                if record[-4:] != bytes(4):
                    raise ArchiveError(f"the entry under {key.hex()[:120]} has an unknown extension")
                yield prefix + name, record[4:-4]
                if entries.is_instance_key(key):
                    yield _INSTANCE + name, b""


def key_of(record: bytes) -> bytes:
    """The LedgerKey XDR of a bucket's record of contract data, contract code or a setting.

    Raises `DecodeError` for a record of an unknown form.
    """
    if record[:4] == DEAD:
        return record[4:]
    if record[:4] not in (LIVE, INIT):
        raise DecodeError(f"a bucket's record is of the unknown kind {record[:4].hex()}")
    if record[8:12] != _SETTING and int.from_bytes(record[12:16], "big") > (record[8:12] == _CODE):
        raise DecodeError("unknown extension of an entry of contract data or code")
    try:
        return entries.key_of_entry(record[4:])
    except struct.error:
        raise DecodeError("the bytes end inside a key") from None
