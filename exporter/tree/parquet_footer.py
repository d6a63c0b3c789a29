"""Reads the whole footer of a Parquet file, so that two files can be compared in everything that readers rely on.

Readers skip rows by what a footer says about them: least and greatest values, page indexes, Bloom filters. pyarrow
shows only some of this. Here every field is read, also unknown ones, because the compact protocol of Apache Thrift
describes itself. Fields have the numbers of parquet.thrift (apache/parquet-format).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from exporter.errors import DecodeError

Value: TypeAlias = "bool | int | bytes | list[Value] | dict[int, Value]"
"""A value of the compact protocol. A structure is a dict by the numbers of its fields, and a map is a list of pairs."""

MAGIC: Final = b"PAR1"
MAX_DEPTH: Final = 32
"""The deepest nesting that is read. A footer has nine levels."""

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

# Fields that say how values are written, and not which: where something is, its packed size, and who wrote it.
_IGNORED_IN_FILE: Final = {6}  # created_by
_IGNORED_IN_ROW_GROUP: Final = {2, 5, 6}  # total_byte_size, file_offset, total_compressed_size
_IGNORED_IN_CHUNK: Final = {2}  # file_offset
_IGNORED_IN_COLUMN: Final = {2, 6, 7, 9, 11, 13}  # encodings, two sizes, two offsets, encoding_stats

_KEY_VALUES: Final = 5
_ARROW_SCHEMA: Final = b"ARROW:schema"
"""The key of the schema in Arrow's own packing among the metadata. It is ignored; pyarrow compares the schemas."""


def statements_of(data: bytes) -> dict[int, Value]:
    """Everything that the footer of a file says about its rows, but not how and by whom they were written.

    Raises `DecodeError`.
    """
    if len(data) < 12 or data[-4:] != MAGIC:
        raise DecodeError("it is no Parquet file")
    length = int.from_bytes(data[-8:-4], "little")
    if length > len(data) - 12:
        raise DecodeError("its footer is longer than the file")
    footer = CompactReader(data[-8 - length : -8]).structure(0)
    statements = _without(footer, _IGNORED_IN_FILE)
    statements[_KEY_VALUES] = [pair for pair in _list(footer, _KEY_VALUES) if _structure(pair).get(1) != _ARROW_SCHEMA]
    statements[4] = [_row_group(_structure(group)) for group in _list(footer, 4)]
    return statements


def _row_group(group: dict[int, Value]) -> Value:
    statements = _without(group, _IGNORED_IN_ROW_GROUP)
    statements[1] = [_chunk(_structure(chunk)) for chunk in _list(group, 1)]
    return statements


def _chunk(chunk: dict[int, Value]) -> Value:
    statements = _without(chunk, _IGNORED_IN_CHUNK)
    statements[3] = _without(_structure(chunk.get(3, {})), _IGNORED_IN_COLUMN)
    return statements


def _without(structure: dict[int, Value], ignored: set[int]) -> dict[int, Value]:
    return {number: value for number, value in structure.items() if number not in ignored}


def _list(structure: dict[int, Value], number: int) -> list[Value]:
    value = structure.get(number, [])
    if not isinstance(value, list):
        raise DecodeError(f"field {number} of its footer is no list")
    return value


def _structure(value: Value) -> dict[int, Value]:
    if not isinstance(value, dict):
        raise DecodeError("its footer has a value in the place of a structure")
    return value


class CompactReader:
    """Takes values from the front of some bytes. Every method raises `DecodeError` if the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def position(self) -> int:
        """The number of bytes that were taken."""
        return self._at

    def structure(self, depth: int = 0) -> dict[int, Value]:
        """The next structure, as its values by the numbers of their fields."""
        fields: dict[int, Value] = {}
        number = 0
        while header := self._byte():
            kind, step = header & 15, header >> 4
            number = number + step if step else _signed(self._number())
            if number in fields:
                raise DecodeError(f"its footer has the field {number} twice")
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise DecodeError("its footer is nested too deep")
        match kind:
            case 1 | 2:  # in a list a boolean has a byte of its own
                return self._byte() == _TRUE
            case 3 | 7:
                return self._take(1 if kind == _BYTE else 8)
            case 4 | 5 | 6:
                return _signed(self._number())
            case 8:
                return self._take(self._number())
            case 9 | 10:
                header = self._byte()
                count = header >> 4 if header >> 4 < 15 else self._number()
                return [self._value(header & 15, depth + 1) for _ in self._items(count)]
            case 11:
                count = self._number()
                kinds = self._byte() if count else 0
                return [
                    [self._value(kinds >> 4, depth + 1), self._value(kinds & 15, depth + 1)] for _ in self._items(count)
                ]
            case 12:
                return self.structure(depth + 1)
        raise DecodeError(f"its footer has a value of the unknown kind {kind}")

    def _items(self, count: int) -> range:
        if count > len(self._data) - self._at:  # each item takes at least one byte
            raise DecodeError("its footer says more items than it has bytes")
        return range(count)

    def _number(self) -> int:
        # Every field of a footer passes here, so bytes are taken by their index, and not by a slice for each.
        data, at, value = self._data, self._at, 0
        for shift in range(0, 70, 7):
            if at >= len(data):
                raise DecodeError("its footer ends too early")
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                self._at = at
                return value
        raise DecodeError("its footer has a number of more than 64 bits")

    def _byte(self) -> int:
        at = self._at
        if at >= len(self._data):
            raise DecodeError("its footer ends too early")
        self._at = at + 1
        return self._data[at]

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise DecodeError("its footer ends too early")
        self._at += count
        return taken


def _signed(number: int) -> int:
    """The integer that zigzag encoding wrote as this number."""
    return (number >> 1) ^ -(number & 1)
