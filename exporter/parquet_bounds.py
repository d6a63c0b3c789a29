"""Opens a Parquet file that somebody else wrote, without trusting what the file says about its size.

A few kilobytes of Parquet can stand for any number of rows: a run of equal values takes five bytes, and a value of a
dictionary is stored once however often it is used. The footer and the page headers state sizes that the content need
not have. So before a column is read, its page headers are read and counted. `exporter.bounds` has the limits. The
layouts are those of parquet.thrift in Thrift's compact protocol.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any, Final, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from exporter.bounds import (
    PARQUET_BYTES,
    PARQUET_DICTIONARY_VALUES,
    PARQUET_FOOTER_BYTES,
    PARQUET_ROWS,
    PARQUET_VALUES,
    TooLargeError,
)
from exporter.errors import DecodeError
from exporter.tree.parquet_footer import CompactReader

_MAGIC: Final = b"PAR1"
_CODECS: Final[dict[int, str | None]] = {0: None, 1: "snappy", 2: "gzip", 6: "zstd"}
"""pyarrow's names of the codecs, by their numbers. LZ4 is left out, because no writer of a history uses it."""

# These are the numbers of fields in the footer, a row group, a column chunk's metadata, and an element of the schema.
_SCHEMA, _ROWS, _GROUPS = 2, 3, 4
_GROUP_COLUMNS, _GROUP_ROWS = 1, 3
_CHUNK_META = 3
_PHYSICAL, _PATH, _CODEC, _VALUES, _PACKED, _DATA_OFFSET, _DICTIONARY_OFFSET = 1, 3, 4, 5, 7, 9, 11
_TYPE, _REPETITION, _NAME, _CHILDREN = 1, 3, 4, 5
_REPEATED, _BYTE_ARRAY = 2, 6

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_ENCODINGS: Final = frozenset({0, 2, 3, 4, 5, 6, 8, 9})
"""The accepted encodings: all except DELTA_BYTE_ARRAY, in which a value may repeat a whole earlier one."""

_MAX_PAGE_HEADER: Final = 2**16

Fields = dict[int, Any]

POLARS_ERRORS: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What Polars raises if it cannot read a file. For some damage it panics, and a panic is no `Exception`."""


class _Budget:
    """How much of a file may still be unpacked."""

    def __init__(self) -> None:
        self._bytes, self._dictionary_values = PARQUET_BYTES, PARQUET_DICTIONARY_VALUES

    def take(self, unpacked: int) -> None:
        self._bytes -= unpacked
        if self._bytes < 0:
            raise TooLargeError(PARQUET_BYTES)

    def take_dictionary(self, values: int) -> None:
        self._dictionary_values -= values
        if self._dictionary_values < 0:
            raise DecodeError(f"its dictionaries have more than {PARQUET_DICTIONARY_VALUES:,} values")


class _Page(NamedTuple):
    kind: int
    unpacked: int
    packed: int
    values: int
    encoding: int
    begin: int


MAX_CHECKED: Final = 1_000
"""At most this many files are remembered as checked. The oldest is forgotten first."""

_checked: dict[tuple[bytes, frozenset[str] | None], None] = {}
"""The files that passed, by digest and columns. A run opens a file of the history several times."""


def open_parquet(data: bytes, columns: Collection[str] | None = None) -> pq.ParquetFile:
    """A Parquet file whose ``columns`` (None: all) can be read within bounds.

    Raises `DecodeError` if the bytes are not a Parquet file, have nested columns or an encoding that a history never
    has, or unpack to more than is accepted.
    """
    if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise DecodeError("it is not a Parquet file")
    size = int.from_bytes(data[-8:-4], "little")
    if size > min(PARQUET_FOOTER_BYTES, len(data) - 12):
        raise DecodeError(f"its footer would have {size:,} bytes, and {PARQUET_FOOTER_BYTES:,} are accepted")
    begin = len(data) - 8 - size
    # pyarrow ends the process for some footers that contradict themselves, so it opens only files that were checked.
    identity = hashlib.sha256(data).digest(), None if columns is None else frozenset(columns)
    try:
        if identity not in _checked:
            footer: Fields = CompactReader(data[begin:-8]).structure()
            _check(data[:begin], footer, columns)
            _checked[identity] = None
            if len(_checked) > MAX_CHECKED:
                del _checked[next(iter(_checked))]
        return pq.ParquetFile(
            pa.BufferReader(data), thrift_string_size_limit=PARQUET_FOOTER_BYTES, thrift_container_size_limit=2**20
        )
    except (pa.ArrowException, OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DecodeError(f"it is not a Parquet file that can be read: {str(error)[:200]}") from None


def frame_of(table: pa.Table) -> pl.DataFrame:
    """The rows of a table that was read from a file. Its metadata is left out: Polars panics if it is not UTF-8."""
    return pl.DataFrame(pl.from_arrow(pa.Table.from_arrays(table.columns, names=table.column_names)))


def _check(pages: bytes, footer: Fields, columns: Collection[str] | None) -> None:
    names = _column_names(footer[_SCHEMA])
    wanted = [at for at, name in enumerate(names) if columns is None or name in columns]
    stated, rows, budget = footer[_ROWS], 0, _Budget()
    for group in footer.get(_GROUPS, ()):
        chunks, count = group[_GROUP_COLUMNS], group[_GROUP_ROWS]
        if len(chunks) != len(names):
            raise DecodeError(f"it has {len(names)} columns, and one of its row groups {len(chunks)}")
        if count < 0:
            raise DecodeError("one of its row groups says that it has less than no rows")
        rows += count
        if rows > PARQUET_ROWS or rows * len(wanted) > PARQUET_VALUES:
            raise DecodeError(f"it says that it has {stated:,} rows, more than can be read")
        for at, name in enumerate(names):
            chunk = chunks[at][_CHUNK_META]
            if [each.decode("utf-8", "replace") for each in chunk[_PATH]] != [name]:
                raise DecodeError(f"one of its row groups has another column where {name[:80]!r} must be")
            if at in wanted:
                _walk(pages, chunk, name[:80], count, budget)
    if rows != stated:
        raise DecodeError(f"it says that it has {stated:,} rows, and its row groups have {rows:,}")


def _column_names(schema: list[Fields]) -> list[str]:
    """The names of the columns of a flat schema, whose first element is its root."""
    root, *elements = schema
    if root.get(_CHILDREN) != len(elements):
        raise DecodeError("its schema is nested, which no history's is")
    for element in elements:
        if element.get(_CHILDREN) or element.get(_REPETITION) == _REPEATED or _TYPE not in element:
            raise DecodeError("one of its columns is nested, which none of a history is")
    return [element[_NAME].decode("utf-8") for element in elements]


def _walk(pages: bytes, chunk: Fields, name: str, rows: int, budget: _Budget) -> None:
    """Take from the budget the most memory that a column of a row group can need. Raises `DecodeError`."""
    if chunk[_CODEC] not in _CODECS:
        raise DecodeError(f"its column {name!r} has a compression that no history has ({chunk[_CODEC]})")
    codec = _CODECS[chunk[_CODEC]]
    if chunk[_VALUES] != rows:
        raise DecodeError(f"its column {name!r} says that it has {chunk[_VALUES]:,} values in {rows:,} rows")
    if not rows:
        return  # a column without rows need not have a page
    begin = chunk[_DATA_OFFSET]
    if 0 < chunk.get(_DICTIONARY_OFFSET, 0) < begin:
        begin = chunk[_DICTIONARY_OFFSET]
    end = begin + chunk[_PACKED]
    if not 4 <= begin <= end <= len(pages):
        raise DecodeError(f"its column {name!r} is not inside the file")
    values, longest = 0, 0
    while begin < end and values < rows:
        page = _page(pages, begin, end)
        budget.take(page.unpacked)
        if page.kind == _DICTIONARY:
            if chunk[_PHYSICAL] == _BYTE_ARRAY:
                budget.take_dictionary(page.values)
                longest = max(longest, _longest(pages, page, codec))
        elif page.kind in (_DATA, _DATA_V2):
            if page.encoding not in _ENCODINGS:
                raise DecodeError(f"its column {name!r} has the encoding {page.encoding}, which no history has")
            values += page.values
            if not 0 <= values <= rows:
                raise DecodeError(f"its column {name!r} has pages with more than {rows:,} values")
        begin = page.begin + page.packed
    if begin > end or values < rows:
        raise DecodeError(f"its column {name!r} has {values:,} values in its pages, and not {rows:,}")
    budget.take(rows * longest)


def _page(data: bytes, begin: int, end: int) -> _Page:
    reader = CompactReader(data[begin : min(end, begin + _MAX_PAGE_HEADER)])
    fields: Fields = reader.structure()
    kind, unpacked, packed = (fields.get(number) for number in (1, 2, 3))
    if not all(isinstance(each, int) and each >= 0 for each in (kind, unpacked, packed)):
        raise DecodeError("one of its pages has no sizes")
    assert isinstance(kind, int)
    assert isinstance(unpacked, int)
    assert isinstance(packed, int)
    inner = fields.get({_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}.get(kind, 0), {})
    values = inner.get(1) if isinstance(inner, dict) else None
    encoding = inner.get(4 if kind == _DATA_V2 else 2) if isinstance(inner, dict) else None
    if kind in (_DATA, _DICTIONARY, _DATA_V2) and not (isinstance(values, int) and isinstance(encoding, int)):
        raise DecodeError("one of its pages does not say what it has")
    return _Page(kind, unpacked, packed, values or 0, encoding or 0, begin + reader.position)


def _longest(data: bytes, page: _Page, codec: str | None) -> int:
    """The length of the longest value in a dictionary. Every use of a value may need as much memory."""
    packed = data[page.begin : page.begin + page.packed]
    content = packed if codec is None else pa.decompress(packed, page.unpacked, codec=codec, asbytes=True)
    at, longest = 0, 0
    for _ in range(page.values):
        if at + 4 > len(content):
            raise DecodeError("one of its dictionaries ends too early")
        length = int.from_bytes(content[at : at + 4], "little")
        at += 4 + length
        longest = max(longest, length)
    if at > len(content):
        raise DecodeError("one of its dictionaries ends too early")
    return longest
