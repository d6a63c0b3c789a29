"""Tests of an archive's files: names, compression, record marks."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import ArchiveError
from exporter.past.archive.archive_files import (
    read_whole,
    records,
    unpacked,
)
from tests.past.archive.simulated_archive import marked


class OneFile:
    """An archive with one file, given in pieces of a chosen size."""

    label = "archive in memory"

    def __init__(self, content: bytes, size: int = 1 << 16) -> None:
        self.content, self.size = content, size

    def chunks(self, name: str, start: int = 0) -> Iterator[bytes]:
        for at in range(0, len(self.content), self.size):
            yield self.content[at : at + self.size]


@given(st.lists(st.binary(max_size=50), max_size=5), st.integers(1, 40), st.integers(0, 3))
def test_records_come_back_as_they_were_written(content: list[bytes], size: int, cut: int) -> None:
    """Compressed as one or as several gzip members, and given in pieces of any size, records are the same."""
    whole = marked(content)
    packed = gzip.compress(whole[:cut]) + gzip.compress(whole[cut:])

    assert content == list(records(unpacked(OneFile(packed, size), "a", 10**6), "a"))


def test_a_file_that_ends_early_or_is_not_gzip_is_refused() -> None:
    """A copy that was cut short, is empty, or is something else says so."""
    packed = gzip.compress(b"content" * 100)
    for content, reason in (
        (packed[:-9], "ends too early"),
        (b"", "ends too early"),
        (b"<html>", "is not gzip, or is damaged"),
    ):
        with pytest.raises(ArchiveError, match=f"archive in memory: file {reason}"):
            list(unpacked(OneFile(content), "file", 10**6))


def test_what_a_file_unpacks_to_has_a_bound() -> None:
    """A small file that unpacks to very much is given up at the bound."""
    pieces = unpacked(OneFile(gzip.compress(bytes(10**8))), "file", 10**6)
    with pytest.raises(ArchiveError, match="unpacks to more than the 1000000 bytes that are accepted"):
        sum(map(len, pieces))
    with pytest.raises(ArchiveError, match="has more than the 10 bytes that are accepted"):
        read_whole(OneFile(bytes(11)), "file", 10)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x80\0\0\4abc", "it ends inside a record"),
        (b"\x80\0", "it ends inside a record"),
        (b"\0\0\0\4abcd", "a record's mark is damaged: 00000004"),
        (b"\xff\0\0\4abcd", "a record's mark is damaged: ff000004"),
    ],
)
def test_damaged_record_marks_are_refused(content: bytes, reason: str) -> None:
    """A mark without its highest bit, or of an impossible length, and a record that is cut, are errors."""
    with pytest.raises(ArchiveError, match=f"bucket x: {reason}"):
        list(records([content], "bucket x"))
