"""Tests of exporter/tree/run_listing.py: the files of a run as columns."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path

import duckdb
import polars as pl
import pytest

import exporter.tree.run_listing
from exporter.errors import CheckError
from exporter.tree.documents import ManifestFile
from exporter.tree.run_listing import RunListing


def listed(key: str, kind: str = "document") -> ManifestFile:
    return ManifestFile(key, kind, len(key), hashlib.sha256(key.encode()).hexdigest())


@pytest.mark.parametrize("chunk", [1, 3, 10_000])
def test_files_in_any_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chunk: int) -> None:
    """Files of any order come out ascending by key, through Parquet, too. The id is what sha256sum gives."""
    monkeypatch.setattr(exporter.tree.run_listing, "ROW_GROUP_FILES", chunk)
    files = [listed(f"v1/{number * 7 % 10}.json", "page" if number % 2 else "document") for number in range(10)]
    listing = RunListing.of(files)
    data = listing.parquet
    ascending = sorted(files, key=lambda file: file.key)
    lines = "".join(f"{file.sha256}  {file.key}\n" for file in ascending)

    assert ascending == list(listing) == list(RunListing.from_parquet(data))
    assert 10 == len(listing)
    assert f"7-{hashlib.sha256(lines.encode()).hexdigest()[:12]}" == listing.run_id(7)
    assert files[0].sha256 == listing.sha256_of(files[0].key)
    assert None is listing.sha256_of("v1/x.json")
    assert data == RunListing.of(reversed(files)).parquet
    (tmp_path / "run.parquet").write_bytes(data)
    query = f"SELECT key, kind::VARCHAR, bytes, lower(hex(sha256)) FROM '{tmp_path}/run.parquet' ORDER BY key"
    found = duckdb.connect().execute(query).fetchall()
    assert [(file.key, file.kind, file.bytes, file.sha256) for file in ascending] == found


def test_a_file_listed_twice() -> None:
    """A key that is there twice is named."""
    with pytest.raises(CheckError, match="a: rendered twice"):
        RunListing.of([listed("b"), listed("a"), listed("a")])


GOOD: Mapping[str, object] = {
    "key": ["a", "b"],
    "kind": ["page", "document"],
    "bytes": [1, 2],
    "sha256": [b"1" * 32] * 2,
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"key": ["b", "a"]}, "do not ascend"),
        ({"key": ["a", "a"]}, "do not ascend"),
        ({"key": ["a", None]}, "without key"),
        ({"key": ["../a", "b"]}, "a malformed key"),
        ({"key": ["a", "b/.c"]}, "a malformed key"),
        ({"key": ["a", "b" * 2000]}, "a malformed key"),
        ({"kind": ["page", "leaf"]}, "is not a listing"),
        ({"bytes": [1, -1]}, "a size below 0"),
        ({"bytes": ["a", "b"]}, "is not a listing"),
        ({"sha256": [b"1" * 32, b"1" * 31]}, "not a SHA-256"),
    ],
)
def test_what_is_not_a_listing(change: dict[str, list[object]], reason: str) -> None:
    """A Parquet file that breaks the rules of a listing is refused, and the reason said."""
    assert 2 == len(RunListing.from_parquet(pl_bytes(GOOD)))
    with pytest.raises(CheckError, match=reason):
        RunListing.from_parquet(pl_bytes({**GOOD, **change}))


@pytest.mark.parametrize("cut", [0, 10, -10])
def test_bytes_that_are_no_parquet(cut: int) -> None:
    """A file that is cut off, is no Parquet, or lacks a column is refused."""
    data = RunListing.of([listed("a")]).parquet
    for damaged in (data[:cut], b"{}", pl_bytes({"key": ["a"]})):
        with pytest.raises(CheckError, match="is not a listing"):
            RunListing.from_parquet(damaged)


def pl_bytes(columns: Mapping[str, object]) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()
