"""Ledger snapshot files: the JSON that ``stellar snapshot create`` writes, as a source of one ledger.

A file holds the state after one ledger, in either XDR-JSON convention, as pairs of key and entry or, from version 25 of
the tool's library on, as ``{"entry", "live_until"}``. The files of that tool record no time to live: ``live_until`` is
always 4294967295, and what was archived and evicted is absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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

_ENTRY_FIELDS = {"last_modified_ledger_seq", "data", "ext"}
_UNREADABLE_VALUE = b"\xff\xff\xff\xff"  # no kind of ScVal has this number, so decoding it fails as it must
_MAX_U32 = 2**32 - 1
Ledger: TypeAlias = Annotated[int, Meta(ge=0, le=_MAX_U32)]


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
        """Take a file's content apart. Raises `SnapshotFileError` that names the file and what is wrong with it."""
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
    ledger = file.sequence_number
    found: dict[bytes, RawEntry] = {}
    left_out: Counter[str] = Counter()
    unreadable: dict[bytes, str] = {}
    for index, item in enumerate(file.ledger_entries):
        try:
            kind, key, entry, unknown = _entry(item, f"ledger_entries[{index}]", ledger)
        except DecodeError as error:
            raise SnapshotFileError(str(error)) from None
        if key is None or entry is None:
            left_out[kind] += 1
            continue
        if key in found:
            raise SnapshotFileError(f"ledger_entries[{index}]: the file has the key twice")
        found[key] = entry
        if unknown is not None:
            unreadable[key] = unknown
    return LedgerSnapshot(
        file.protocol_version, ledger, file.timestamp, file.network_id, found, dict(left_out), unreadable
    )


def _entry(item: xdr_json.Json, path: str, ledger: int) -> tuple[str, bytes | None, RawEntry | None, str | None]:
    """One item: its kind, and unless it is left out its key, the entry, and what is unknown about the entry."""
    key_document, entry, live_until = _parts(item, path)
    kind = _kind(key_document, f"{path}.key")
    if kind not in _KEY_FIELDS:
        return kind[:40], None, None, None
    try:
        key = xdr_json.xdr_from_json("LedgerKey", key_document)
    except DecodeError:  # nobody can ask for it
        return kind, None, None, None
    if not (isinstance(entry, dict) and entry.keys() == _ENTRY_FIELDS):
        raise DecodeError(f"{path}.entry: expected an object with the fields {', '.join(sorted(_ENTRY_FIELDS))}")
    unknown: str | None = None
    try:
        data = xdr_json.xdr_from_json("LedgerEntryData", entry["data"])
    except DecodeError as error:
        unknown = f"{path}.data: {error}"
        data = _head(key) + _UNREADABLE_VALUE
    if not _is_entry_of(data, key):
        raise DecodeError(f"{path}: the key disagrees with its entry")
    last_modified = entry["last_modified_ledger_seq"]
    if type(last_modified) is not int or not 0 <= last_modified <= ledger:
        raise DecodeError(f"{path}: last_modified_ledger_seq {_shown(last_modified)} is not a ledger up to {ledger}")
    if live_until is not None and (type(live_until) is not int or not 0 <= live_until <= _MAX_U32):
        raise DecodeError(f"{path}: live_until: expected a ledger, got {_shown(live_until)}")
    return kind, key, RawEntry(data, last_modified, live_until), unknown


def _parts(item: xdr_json.Json, path: str) -> tuple[xdr_json.Json, xdr_json.Json, xdr_json.Json]:
    """The key, the entry and the end of its life of an item in either form; the newer one has no key of its own."""
    match item:
        case [key, [entry, live_until]]:
            return key, entry, live_until
        case {"entry": {"data": data} as entry, "live_until": live_until} if len(item) == 2:
            kind = _kind(data, f"{path}.data")
            names = _KEY_FIELDS.get(kind, ())
            try:
                return {kind: {name: data[kind][name] for name in names}}, entry, live_until
            except (KeyError, TypeError):
                raise DecodeError(f"{path}.data.{kind}: expected the fields {', '.join(names)}") from None
    raise DecodeError(f'{path}: expected [key, [entry, live_until]] or {{"entry", "live_until"}}, got {_shown(item)}')


def _kind(document: xdr_json.Json, path: str) -> str:
    if not (isinstance(document, dict) and len(document) == 1):
        raise DecodeError(f"{path}: expected an object with one field, got {_shown(document)}")
    (kind,) = document
    return str(kind)


def _shown(document: xdr_json.Json) -> str:
    """A JSON value as messages show it: short, whatever it is."""
    return type(document).__name__ if isinstance(document, dict | list) else f"{document!r:.60}"


def _head(key: bytes) -> bytes:
    """The start of the contract data entry under a key: the kind, no extension, then the key's own parts."""
    return key[:4] + b"\0\0\0\0" + key[4:]


def _is_entry_of(data: bytes, key: bytes) -> bool:
    if data[:8] == b"\0\0\0\x07\0\0\0\1":  # contract code with its cost inputs between the kind and the hash
        return key == data[:4] + data[56:88]
    return data.startswith(_head(key))
