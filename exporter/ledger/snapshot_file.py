"""Reads ledger snapshot files, the JSON that ``stellar snapshot create`` writes, as a source of one ledger.

A file has the state after one ledger as XDR-JSON (SEP-51): pairs of key and entry or, from version 25 of the tool's
library on, items ``{"entry", "live_until"}``. The files of that tool have no times to live: ``live_until`` is always
4294967295, and an entry that was archived and evicted is absent.

Two conventions of XDR-JSON are in use, and each value may have either. Version 2 (RPC and CLI from 23 on) writes 64-bit
and wider integers as decimal strings. Version 1 (22 and before) writes 64-bit integers as numbers, and wider ones as
``{"hi": .., "lo": ..}`` or as four such parts. stellar-sdk reads and writes only version 2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from exporter.errors import DecodeError, SnapshotFileError
from exporter.ledger.codec.entries import (
    code_holder_key,
    decode_contract_data,
    instance_of,
    is_instance_key,
    seen_at,
    with_held_code,
)
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.codec.scval_encode import INSTANCE_KEY
from exporter.ledger.contract_storage import AnswersAt, StoredSource
from exporter.ledger.source import LATEST_CLOSE_TIME, RawEntry

MAX_FILE_BYTES = 512 * 1024 * 1024
"""The largest file that is read, in bytes."""

_KEY_FIELDS = {"contract_data": ("contract", "key", "durability"), "contract_code": ("hash",)}
"""The kinds of entries that are read, with the fields of an entry that make up its key."""

_UNREADABLE_VALUE = b"\xff\xff\xff\xff"  # no kind of ScVal has this number, so decoding it fails
Json: TypeAlias = Any
"""The types of parsed JSON: dict, list, str, int, float, bool or None."""

_NUMBERS: Final = ("u64", "i64", "timepoint", "duration", "nonce")
_PARTS_128: Final = ("hi", "lo")
_PARTS_256: Final = ("hi_hi", "hi_lo", "lo_hi", "lo_lo")
_WIDE: Final = {"u128": _PARTS_128, "i128": _PARTS_128, "u256": _PARTS_256, "i256": _PARTS_256}
"""The parts of wide integers in version 1, 64 bits each, the highest first."""

Ledger: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Document: TypeAlias = Annotated[dict[str, Any], Meta(min_length=1, max_length=1)]
"""A union in XDR-JSON, which is an object with one arm."""


class LedgerSnapshot(Struct, frozen=True):
    """The content of a ledger snapshot file: the state after ``ledger`` closed, at ``close_time`` (unix seconds).

    ``entries`` has contract data and code by LedgerKey XDR. An entry that is damaged, or of a newer protocol, has bytes
    that cannot be decoded, so that it never seems absent.
    """

    protocol_version: int
    ledger: int
    close_time: int
    network_id: str
    entries: Mapping[bytes, RawEntry]

    @classmethod
    def load(cls, path: Path, max_bytes: int = MAX_FILE_BYTES) -> LedgerSnapshot:
        """The content of a file. Raises `SnapshotFileError`, which names the file and what is wrong with it."""
        return cls.of(read_snapshot_bytes(path, max_bytes), path.name)

    @classmethod
    def of(cls, content: bytes, name: str) -> LedgerSnapshot:
        """The content of a file with this name. Raises `SnapshotFileError`."""
        try:
            return _snapshot(content)
        except SnapshotFileError as error:
            raise SnapshotFileError(f"ledger snapshot file {name}: {error}") from None

    def contract_instances(self) -> Iterator[tuple[str, ContractInstance]]:
        """Every contract of the file that can be decoded, with its strkey and its instance, by ascending key."""
        for key in sorted(self.entries):
            if is_instance_key(key):
                with suppress(DecodeError):
                    entry = decode_contract_data(self.entries[key].data)
                    if entry.key == INSTANCE_KEY:
                        holder = code_holder_key(self.entries[key].data)
                        held = None if holder is None else self.entries.get(holder)
                        yield entry.contract, with_held_code(instance_of(entry), None if held is None else held.data)


class SnapshotSource(StoredSource):
    """A `LedgerSource` that answers from a ledger snapshot file, for the file's one ledger."""

    def __init__(self, snapshot: LedgerSnapshot, answers: AnswersAt, label: str = "ledger snapshot file") -> None:
        self.snapshot = snapshot
        super().__init__(self._seen, snapshot.ledger, snapshot.close_time, label, answers)

    def _seen(self, key: bytes) -> RawEntry | None:
        stored = self.snapshot.entries.get(key)
        return None if stored is None else seen_at(key, stored, self.snapshot.ledger)


def read_snapshot_bytes(path: Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a ledger snapshot file. Raises `SnapshotFileError` if it cannot be read, or is too large."""
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
    """A whole file. In the second convention its numbers of 64 bits are decimal strings."""

    protocol_version: Ledger
    sequence_number: Ledger
    timestamp: Annotated[int, Meta(ge=0, le=LATEST_CLOSE_TIME)]
    network_id: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    ledger_entries: list[Any]


def _snapshot(content: bytes) -> LedgerSnapshot:
    try:
        # Conversion is not strict, so that digits in a string are a number. Items are converted later, one by one.
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
    for index, item in enumerate(file.ledger_entries):
        try:
            key, entry, document = _entry(item)
            if key is None:
                continue
            if key in entries:
                raise DecodeError("the file has the key twice")
            if entry.last_modified > file.sequence_number:
                raise DecodeError(f"{entry.last_modified} is not a ledger up to {file.sequence_number}")
        except (DecodeError, msgspec.ValidationError) as error:
            raise SnapshotFileError(f"ledger_entries[{index}]: {str(error)[:200]}") from None
        entries[key] = entry
        with suppress(DecodeError):
            entries[key] = replace(entry, data=xdr_from_json("LedgerEntryData", document))
    return LedgerSnapshot(file.protocol_version, file.sequence_number, file.timestamp, file.network_id, entries)


def _entry(item: Json) -> tuple[bytes | None, RawEntry, Document]:
    """The key of an item, its entry without data, and its document. The item may have either form.

    The key is None if entries of this kind are not read.
    """
    if isinstance(item, list):
        _, (entry, live_until) = msgspec.convert(item, tuple[Document, tuple[_Entry, Ledger | None]])
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
        with suppress(DecodeError):  # without a key nobody can ask for the entry
            key = xdr_from_json("LedgerKey", own)
    # These bytes are the kind, no extension, the key's own parts, and a value that cannot be decoded.
    undecodable = b"" if key is None else key[:4] + b"\0\0\0\0" + key[4:] + _UNREADABLE_VALUE
    return key, RawEntry(undecodable, entry.last_modified_ledger_seq, live_until), entry.data


def xdr_from_json(name: str, document: Json) -> bytes:
    """The XDR of a type, such as LedgerKey, LedgerEntryData or SCVal, from its XDR-JSON. Raises `DecodeError`."""
    from stellar_sdk import xdr  # this takes half a second, which runs without a file need not spend

    kind: Any = getattr(xdr, name)
    try:
        wanted = _second_convention(document)
        data: bytes = kind.from_json_dict(wanted).to_xdr_bytes()
        # The SDK ignores unknown fields, accepts other spellings of numbers, and wraps numbers that are out of range.
        if _text(kind.from_xdr_bytes(data).to_json_dict()) != _text(wanted):
            raise ValueError("unknown fields, or values that are out of range or written in another way")
    except Exception as error:  # the SDK's errors have no common base: ValueError, KeyError, TypeError, XdrError, ...
        raise DecodeError(f"not XDR-JSON of a known kind: {type(error).__name__}: {error}"[:160]) from None
    return data


def _text(document: Json) -> str:
    return json.dumps(document, sort_keys=True)


def _second_convention(document: Json) -> Json:
    if isinstance(document, list):
        return [_second_convention(item) for item in document]
    if not isinstance(document, dict):
        return document
    if len(document) == 1:
        ((arm, body),) = document.items()
        if arm in _NUMBERS and type(body) is int:  # not isinstance: True is an int
            return {arm: str(body)}
        if arm in _WIDE and isinstance(body, dict):
            return {arm: _joined(body, _WIDE[arm])}
    return {name: _second_convention(item) for name, item in document.items()}


def _joined(parts: dict[str, Json], names: tuple[str, ...]) -> str:
    numbers = [int(parts[name]) for name in names]
    if len(parts) != len(names) or any(not 0 <= number < 2**64 for number in numbers[1:]):
        raise ValueError(f"an integer of other parts than {', '.join(names)} of 64 bits")
    return str(reduce(lambda higher, number: higher << 64 | number, numbers))
