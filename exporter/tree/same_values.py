"""Compares files by their values, because other versions of libraries may write the same values as other bytes."""

from __future__ import annotations

import json
from itertools import zip_longest

import msgspec
import pyarrow as pa

from exporter.bounds import EVIDENCE_BYTES, Gunzip
from exporter.errors import DecodeError
from exporter.parquet_bounds import open_parquet
from exporter.tree.decoding import decode_json
from exporter.tree.parquet_footer import statements_of

_UNREADABLE = (DecodeError, msgspec.DecodeError, pa.ArrowException, OSError, ValueError, RecursionError)


def same_values(key: str, one: bytes, other: bytes) -> bool:
    """Whether two files under one key have the same values.

    JSON, Parquet and gzip, which the key's ending tells apart, are compared by their values; other files by their
    bytes. A file that cannot be read never has the same values. Nor has JSON in which an object has a key twice,
    because readers differ in which value they take.
    """
    if one == other:
        return True
    try:
        if key.endswith(".json"):
            return _canonical(one) == _canonical(other)
        if key.endswith(".parquet"):
            return same_tables(one, other)
        return key.endswith(".gz") and _same_unpacked(one, other)
    except _UNREADABLE:
        return False


def same_tables(one: bytes, other: bytes) -> bool:
    """Whether two Parquet files have the same rows in the same groups, and footers that say the same about them.

    Raises `DecodeError`, `pa.ArrowException` or `OSError` if a file cannot be read.
    """
    if statements_of(one) != statements_of(other):
        return False
    left, right = map(open_parquet, (one, other))
    if not left.schema_arrow.equals(right.schema_arrow, check_metadata=True):
        return False
    return all(
        left.read_row_group(index).equals(right.read_row_group(index), check_metadata=True)
        for index in range(left.num_row_groups)
    )


def _canonical(data: bytes) -> bytes:
    """JSON in a canonical form, in which 1, 1.0 and true differ. To Python they are equal.

    Raises `msgspec.DecodeError`, or `ValueError` if an object has a key twice.
    """
    value = decode_json(data, object)
    json.loads(data, object_pairs_hook=_refuse_repeated)
    return msgspec.json.encode(value, order="deterministic")


def _refuse_repeated(pairs: list[tuple[str, object]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("an object has a key twice")


def _same_unpacked(one: bytes, other: bytes) -> bool:
    first, second = Gunzip(EVIDENCE_BYTES), Gunzip(EVIDENCE_BYTES)
    for left, right in zip_longest(first.feed(one), second.feed(other)):
        if left != right:
            return False
    first.finish()
    second.finish()
    return True
