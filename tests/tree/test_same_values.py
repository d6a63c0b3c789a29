"""Two files say the same if a reader of either gets the same values, whatever wrote their bytes."""

from __future__ import annotations

import gzip
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.tree.same_values import same_values


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b'{"a":1,"b":[2]}', b'{ "b": [2], "a": 1 }\n', True),
        (b'{"a":"\\u0041"}', b'{"a":"A"}', True),
        (b'{"a":1}', b'{"a":1.0}', False),
        (b'{"a":1}', b'{"a":true}', False),
        (b'{"a":1}', b'{"a":2,"a":1}', False),
        (b'{"b":{"a":1}}', b'{"b":{"a":1,"a":1}}', False),
        (b'{"a":1}', b'{"a":1}}', False),
        (b"[" * 100_000, b"[" * 100_001, False),
    ],
)
def test_order_and_spacing_of_json_say_nothing(one: bytes, other: bytes, same: bool) -> None:
    """Order and spacing say nothing; a number of another type, and a key that is there twice, do."""
    assert same == same_values("a.json", one, other)


TABLE = pa.table({"ledger": [1, 2, 3], "symbol": ["A", "B", None]})


def parquet(table: pa.Table = TABLE, **options: Any) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, **{"compression": "zstd"} | options)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "same"),
    [
        (parquet(compression_level=9), True),
        (parquet(TABLE.append_column("more", pa.array([1, 2, 3]))), False),
        (parquet(TABLE.slice(0, 2)), False),
        (parquet(row_group_size=2), False),
        (parquet(write_statistics=False), False),
        (parquet(write_page_index=True), False),
        (parquet(TABLE.replace_schema_metadata({"network": "another"})), False),
        (parquet()[:-1], False),
    ],
)
def test_only_the_packing_of_parquet_values_may_differ(data: bytes, same: bool) -> None:
    """Only how values are packed may differ: rows, groups, columns, metadata and statistics must be the same."""
    assert same == same_values("a.parquet", parquet(), data)


def test_gzip_counts_as_what_it_unpacks_to() -> None:
    """Gzip has the bytes that it unpacks to; any other file has its own."""
    text = b"line\n" * 100

    assert same_values("a.jsonl.gz", gzip.compress(text, 1), gzip.compress(text, 9))
    assert not same_values("a.jsonl.gz", gzip.compress(text), gzip.compress(text + b"more\n"))
    assert not same_values("a.html", b"<p>", b"<p> ")
