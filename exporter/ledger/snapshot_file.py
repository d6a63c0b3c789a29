"""Ledger snapshot files: the JSON that ``stellar snapshot create`` writes, as a source of one ledger.

A file holds the state after one ledger, in either XDR-JSON convention, as pairs of key and entry or, from version 25 of
the tool's library on, as ``{"entry", "live_until"}``. The files of that tool record no time to live: ``live_until`` is
always 4294967295, and what was archived and evicted is absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from exporter.errors import DecodeError, SnapshotFileError
from exporter.ledger.codec import xdr_json
from exporter.ledger.codec.entries import decode_contract_data, instance_of, is_instance_key, seen_at
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.codec.scval_encode import INSTANCE_KEY
from exporter.ledger.contract_storage import AnswersAt, StoredSource
from exporter.ledger.source import LATEST_CLOSE_TIME, RawEntry

MAX_FILE_BYTES = 512 * 1024 * 1024
"""A larger file is refused before it is read."""

_KEY_FIELDS = {"contract_data": ("contract", "key", "durability"), "contract_code": ("hash",)}
"""The kinds of entries that are kept, and of which of an entry's fields its key consists."""

_UNREADABLE_VALUE = b"\xff\xff\xff\xff"  # no kind of ScVal has this number, so decoding it fails as it must
Ledger: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Document: TypeAlias = Annotated[dict[str, Any], Meta(min_length=1, max_length=1)]
"""A union in XDR-JSON: its arm alone."""


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """The content of a ledger snapshot file: the state after ``ledger`` closed, at ``close_time`` (unix seconds).

    ``entries`` has contract data and code by LedgerKey XDR, ``left_out`` counts the entries of other kinds.
    ``unreadable`` says what is wrong with each entry that is damaged or of a newer protocol; it is in ``entries`` too,
    with data that fails to decode, so that it is never taken for absent.
    """

    protocol_version: int
    ledger: int
    close_time: int
    network_id: str
    entries: Mapping[bytes, RawEntry]
    left_out: Mapping[str, int] = field(default_factory=dict)
    unreadable: Mapping[bytes, str] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, max_bytes: int = MAX_FILE_BYTES) -> LedgerSnapshot:
        """Read a file. Raises `SnapshotFileError` that names the file and what is wrong with it."""
        return cls.of(read_snapshot_bytes(path, max_bytes), path.name)

    @classmethod
    def of(cls, content: bytes, name: str) -> LedgerSnapshot:
        try:
            return _snapshot(content)
        except SnapshotFileError as error:
            raise SnapshotFileError(f"ledger snapshot file {name}: {error}") from None

    def contract_instances(self) -> Iterator[tuple[str, ContractInstance]]:
        """Every contract of the file that can be decoded: its strkey and its instance, by ascending key."""
        for key in sorted(self.entries):
            if is_instance_key(key) and key not in self.unreadable:
                entry = decode_contract_data(self.entries[key].data)
                if entry.key == INSTANCE_KEY:
                    yield entry.contract, instance_of(entry)


class SnapshotSource(StoredSource):
    """A `LedgerSource` over a ledger snapshot file: everything is answered for the file's one ledger."""

    def __init__(self, snapshot: LedgerSnapshot, answers: AnswersAt, label: str = "ledger snapshot file") -> None:
        self.snapshot = snapshot
        super().__init__(self._seen, snapshot.ledger, snapshot.close_time, label, answers)

    def _seen(self, key: bytes) -> RawEntry | None:
        stored = self.snapshot.entries.get(key)
        return None if stored is None else seen_at(key, stored, self.snapshot.ledger)


def read_snapshot_bytes(path: Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """The content of a ledger snapshot file. Raises `SnapshotFileError` where it cannot be read, or is too large."""
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise SnapshotFileError(
            f"ledger snapshot file {path.name}: it cannot be read: {error.strerror or error}"
        ) from None
    if len(content) > max_bytes:
        raise SnapshotFileError(
            f"ledger snapshot file {path.name}: it has more than the {max_bytes} bytes that are accepted"
        )
    return content


class _Entry(Struct, forbid_unknown_fields=True):
    last_modified_ledger_seq: Ledger
    data: Document
    ext: Any


class _Item(Struct, forbid_unknown_fields=True):
    entry: _Entry
    live_until: Ledger | None


class _File(Struct):
    """A file; numbers of 64 bits are decimal strings in the second convention."""

    protocol_version: Ledger
    sequence_number: Ledger
    timestamp: Annotated[int, Meta(ge=0, le=LATEST_CLOSE_TIME)]
    network_id: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    ledger_entries: list[Any]


def _snapshot(content: bytes) -> LedgerSnapshot:
    try:
        # Not strict: digits in a string are a number. Items are converted as they are read.
        file = msgspec.convert(msgspec.json.decode(content), _File, strict=False)
    except (ValueError, RecursionError) as error:
        reason = "" if isinstance(error, msgspec.ValidationError) else "it is not JSON: "
        raise SnapshotFileError(f"{reason}{str(error)[:200]}") from None
    if file.timestamp == 0:
        raise SnapshotFileError(
            "timestamp is 0, as some releases of the tool (v23) wrote it; interest accrues to the ledger's close time: "
            "set it to the unix seconds at which the ledger closed"
        )
    entries: dict[bytes, RawEntry] = {}
    left_out: Counter[str] = Counter()
    unreadable: dict[bytes, str] = {}
    for index, item in enumerate(file.ledger_entries):
        place = f"ledger_entries[{index}]"
        try:
            kind, key, entry, document = _entry(item)
            if key is None:
                left_out[kind[:40]] += 1
                continue
            if key in entries:
                raise DecodeError("the file has the key twice")
            if entry.last_modified > file.sequence_number:
                raise DecodeError(f"{entry.last_modified} is not a ledger up to {file.sequence_number}")
        except (DecodeError, msgspec.ValidationError) as error:
            raise SnapshotFileError(f"{place}: {str(error)[:200]}") from None
        try:
            entries[key] = replace(entry, data=xdr_json.xdr_from_json("LedgerEntryData", document))
        except DecodeError as error:
            entries[key], unreadable[key] = entry, f"{place}.data: {error}"
    return LedgerSnapshot(
        file.protocol_version,
        file.sequence_number,
        file.timestamp,
        file.network_id,
        entries,
        dict(left_out),
        unreadable,
    )


def _entry(item: xdr_json.Json) -> tuple[str, bytes | None, RawEntry, Document]:
    """The kind of an item in either form, its key unless it is left out, the entry without data, and its document."""
    key_document = None
    if isinstance(item, list):
        key_document, (entry, live_until) = msgspec.convert(item, tuple[Document, tuple[_Entry, Ledger | None]])
    else:
        newer = msgspec.convert(item, _Item)
        entry, live_until = newer.entry, newer.live_until
    ((kind, body),) = entry.data.items()
    key: bytes | None = None
    if kind in _KEY_FIELDS:
        try:
            own = {kind: {name: body[name] for name in _KEY_FIELDS[kind]}}
        except (KeyError, TypeError):
            raise DecodeError(f"data.{kind}: expected the fields {', '.join(_KEY_FIELDS[kind])}") from None
        if key_document not in (None, own):
            raise DecodeError("the key disagrees with its entry")
        with suppress(DecodeError):  # nobody can ask for it
            key = xdr_json.xdr_from_json("LedgerKey", own)
    # The kind, no extension, then the key's own parts, and nothing that could be decoded.
    undecodable = b"" if key is None else key[:4] + b"\0\0\0\0" + key[4:] + _UNREADABLE_VALUE
    return kind, key, RawEntry(undecodable, entry.last_modified_ledger_seq, live_until), entry.data
