"""Tests of an archive's files: names, compression, record marks."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from exporter.errors import ArchiveError
from exporter.past.archive.archive_files import FolderFiles, records
from tests.past.archive.simulated_archive import marked


def read(folder: Path, content: bytes, max_bytes: int = 10**6) -> list[bytes]:
    (folder / "file").write_bytes(content)
    return list(records(FolderFiles(folder, "an archive"), "file", max_bytes))


@pytest.mark.parametrize("content", [[], [b""], [b"one", b"", b"two"]])
def test_records_come_back_as_they_were_written(tmp_path: Path, content: list[bytes]) -> None:
    """Compressed as one or as several gzip members, records are the same."""
    whole = marked(content)
    for cut in range(4):
        assert content == read(tmp_path, gzip.compress(whole[:cut]) + gzip.compress(whole[cut:]))


def test_what_a_file_unpacks_to_has_a_bound(tmp_path: Path) -> None:
    """A small file that unpacks to very much is given up at the bound."""
    packed = gzip.compress(marked([bytes(10**5)] * 100))
    with pytest.raises(ArchiveError, match="unpacks to more than the 1000000 bytes that are accepted"):
        read(tmp_path, packed)
    with pytest.raises(ArchiveError, match="has more than the 10 bytes that are accepted"):
        FolderFiles(tmp_path).open("file", 10)


PACKED = gzip.compress(marked([b"content" * 100]), mtime=0)  # parts of it are the names of tests


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (PACKED[:-9], " ends too early"),
        (b"", " ends too early"),
        (b"<html>", " is not gzip, or is damaged"),
        (PACKED + b"more", " is not gzip, or is damaged"),
        (gzip.compress(b"\x80\0\0\4abc", mtime=0), ": it ends inside a record"),
        (gzip.compress(b"\x80\0", mtime=0), ": it ends inside a record"),
        (gzip.compress(b"\0\0\0\4abcd", mtime=0), ": a record's mark is damaged: 00000004"),
        (gzip.compress(b"\xff\0\0\4abcd", mtime=0), ": a record's mark is damaged: ff000004"),
    ],
)
def test_damage_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    """A copy that was cut short or is something else, a mark of an impossible length, and a record that is cut."""
    with pytest.raises(ArchiveError, match=f"an archive: file{reason}"):
        read(tmp_path, content)
