"""Whether two files say the same, although their bytes differ because other libraries wrote them."""

from __future__ import annotations

import gzip
import io
import zlib
from itertools import zip_longest

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from exporter.errors import DecodeError
from exporter.tree.decoding import decode_json
from exporter.tree.parquet_footer import statements_of

MAX_UNPACKED_BYTES = 1 << 30
"""Two gzip files that unpack to more are not compared, and count as different."""

_CHUNK_BYTES = 1 << 20

_UNREADABLE = (DecodeError, msgspec.DecodeError, pa.ArrowException, OSError, EOFError, zlib.error, ValueError)


def same_values(key: str, one: bytes, other: bytes) -> bool:
    """Whether two files under one key have the same values; by its ending JSON, Parquet and gzip, bytes for others.

    A file that cannot be read is the same as none.
    """
    if one == other:
        return True
    try:
        if key.endswith(".json"):
            return _one_form(decode_json(one, object)) == _one_form(decode_json(other, object))
        if key.endswith(".parquet"):
            return same_tables(one, other)
        return key.endswith(".gz") and _same_unpacked(one, other)
    except _UNREADABLE:
        return False


def same_tables(one: bytes, other: bytes) -> bool:
    """Whether two Parquet files have the same rows in the same groups, and their footers say the same of them.

    Raises `DecodeError`, `pa.ArrowException` and `OSError` for a file that cannot be read.
    """
    if statements_of(one) != statements_of(other):
        return False
    left, right = (pq.ParquetFile(pa.BufferReader(data)) for data in (one, other))
    if not left.schema_arrow.equals(right.schema_arrow, check_metadata=True):
        return False
    return all(
        left.read_row_group(at).equals(right.read_row_group(at), check_metadata=True)
        for at in range(left.num_row_groups)
    )


def _one_form(value: object) -> bytes:
    """JSON in one form, in which 1, 1.0 and true are three things, as they are not to Python."""
    return msgspec.json.encode(value, order="deterministic")


def _same_unpacked(one: bytes, other: bytes) -> bool:
    left = MAX_UNPACKED_BYTES
    with gzip.GzipFile(fileobj=io.BytesIO(one)) as first, gzip.GzipFile(fileobj=io.BytesIO(other)) as second:
        chunks = (iter(lambda file=file: file.read(_CHUNK_BYTES), b"") for file in (first, second))  # type: ignore[misc]
        for mine, theirs in zip_longest(*chunks):
            if mine != theirs:
                return False
            left -= len(mine)
            if left < 0:
                return False
    return True
