"""Tests of reading a checkpoint, its state file and headers: made archives, and two real ones."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import ArchiveError, ArchiveFileMissingError, DecodeError
from exporter.ledger.codec.scval_encode import u32
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive, decode_ledger_header, decode_state_file
from tests.past.archive.simulated_archive import (
    ONE,
    TWO,
    SimulatedArchive,
    header,
    header_record,
    levels,
    live,
    time_to_live,
)

POOL = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"


def read(made: SimulatedArchive) -> HistoryArchive:
    return HistoryArchive(FolderFiles(made.folder))


def test_a_ledger_of_protocol_23_needs_the_hot_archive(tmp_path: Path) -> None:
    """A state file without hot archive is refused for a ledger whose header covers one."""
    with pytest.raises(ArchiveError, match=r"history-0000007f\.json: a bucket list does not have two digests"):
        read(SimulatedArchive(tmp_path, [[live(ONE, u32(1))]], version=23)).checkpoint(127)


def test_a_hot_archive_that_no_header_commits_to_is_not_read(tmp_path: Path) -> None:
    """Before protocol 23 there was none, whatever a state file says."""
    made = SimulatedArchive(tmp_path, [[live(ONE, u32(1))]])
    made.write_state({"version": 2, "hotArchiveBuckets": levels([made.bucket([live(TWO, u32(2))])])})

    assert () == read(made).checkpoint(127).hot


def test_a_bucket_list_that_the_header_does_not_commit_to_is_refused(tmp_path: Path) -> None:
    """Buckets that are whole but not those of the ledger's header are refused before any is read."""
    made = SimulatedArchive(tmp_path, [[live(ONE, u32(1)), time_to_live(ONE, 9)]])
    made.write_state({"currentBuckets": levels([made.bucket([live(ONE, u32(2))])])})

    with pytest.raises(ArchiveError, match="not those that the checkpoint's header commits to; do not use this copy"):
        read(made).checkpoint(127)


def test_only_checkpoints_have_a_state(tmp_path: Path) -> None:
    """A ledger between checkpoints is refused with the ledger of the next one; a missing file is named."""
    made = SimulatedArchive(tmp_path, [])
    archive = read(made)

    with pytest.raises(ArchiveError, match="ledger 100 is not a checkpoint; the archive has the state at 127"):
        archive.checkpoint(100)
    with pytest.raises(ArchiveFileMissingError, match=r"history/00/00/00/history-000000bf\.json is missing"):
        archive.checkpoint(191)
    with pytest.raises(ArchiveFileMissingError, match="it is not a folder"):
        FolderFiles(tmp_path / "nothing")
    made.write_state({"currentLedger": 63})
    with pytest.raises(ArchiveError, match=r"history-0000007f\.json: it is of ledger 63"):
        archive.checkpoint(127)


GOOD: dict[str, Any] = {"version": 1, "currentLedger": 63, "currentBuckets": levels([b"a" * 32, bytes(32), b"c" * 32])}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 3}, r"Invalid enum value 3 - at `\$.version`"),
        ({"version": True}, r"Expected `int`, got `bool` - at `\$.version`"),
        ({"currentLedger": "63"}, r"Expected `int`, got `str` - at `\$.currentLedger`"),
        ({"currentBuckets": GOOD["currentBuckets"][1:]}, r"Expected `array` of length >= 11 - at `\$.currentBuckets`"),
        ({"networkPassphrase": 1}, r"Expected `str \| null`, got `int` - at `\$.networkPassphrase`"),
        ({"currentBuckets": [{"curr": "XX", "snap": ""}] * 11}, r"Expected `str` matching regex .*currentBuckets"),
    ],
)
def test_a_malformed_state_file_is_refused(changes: dict[str, Any], reason: str) -> None:
    """The error names the field and what is expected."""
    with pytest.raises(DecodeError, match=reason):
        decode_state_file(json.dumps({**GOOD, **changes}).encode())


def test_what_is_not_json_is_refused() -> None:
    """If a web server sends a page instead of a state file, that is an error of the archive."""
    for content in (b"<html>", b"[]", b"[" * 100_000):
        with pytest.raises(DecodeError, match=r"Expected|JSON|recursion"):
            decode_state_file(content)


def test_a_header_that_was_changed_is_refused() -> None:
    """One changed byte, or one too many, does not have the hash that is before it."""
    record = header_record(header(1, bytes(32), bytes(32)))

    with pytest.raises(DecodeError, match="the header of ledger 1 has the hash"):
        decode_ledger_header(record[:150] + b"\1" + record[151:])
    with pytest.raises(DecodeError, match="has the hash"):
        decode_ledger_header(header_record(header(1, bytes(32), bytes(32)) + bytes(4)))
    with pytest.raises(DecodeError, match="unknown kind of ledger header: 9"):
        decode_ledger_header(header_record(header(1, bytes(32), bytes(32), value=struct.pack(">I", 9))))
    for cut in (0, 35, 40, 200, 300):
        with pytest.raises(DecodeError):
            decode_ledger_header(header_record(record[32:-4][:cut]))


def test_headers_form_one_chain(tmp_path: Path) -> None:
    """A header that does not name the hash of the one before it, or leaves a ledger out, is refused."""
    made = SimulatedArchive(tmp_path, [])
    extended = header(126, bytes(32), bytes(32))[:-4] + struct.pack(">III", 1, 7, 0)
    first, skipped = header_record(extended), header_record(header(125, bytes(32), bytes(32)))
    last, other, early = (
        header_record(header(ledger, before[:32], bytes(32)))
        for ledger, before in ((127, first), (127, skipped), (126, skipped))
    )
    for records, problem in (
        ([first, other], "ledger 127 does not follow ledger 126"),
        ([skipped, other], "ledger 127 does not follow ledger 125"),
        ([skipped, early], "its last ledger is not 127"),
    ):
        made.write("ledger", 127, records)
        with pytest.raises(ArchiveError, match=problem):
            read(made).headers(127)
    made.write("ledger", 127, [first, last])

    assert [126, 127] == [each.ledger for each in read(made).headers(127)]


def test_every_checkpoint_of_the_real_archives_agrees_with_its_header(real_data: Path) -> None:
    """All 157 checkpoints of a testnet and 17 of mainnet in 2017: header hashes, links, bucket lists."""
    real = (("archive-testnet", 63, 10047, 157), ("archive-pubnet", 11_999_999, 12_001_023, 17))
    for name, first, last, count in real:
        archive = archive_in(real_data, name)
        checkpoints = [archive.checkpoint(ledger) for ledger in range(first, last + 1, 64)]
        headers = [each for point in checkpoints for each in archive.headers(point.header.ledger)]

        assert last == archive.newest()
        assert count == len(checkpoints)
        assert all(after.previous_hash == before.hash for before, after in pairwise(headers))


def test_every_bucket_of_the_old_mainnet_state_is_whole(real_data: Path) -> None:
    """Buckets from before protocol 11, without META and INIT records, are read to their ends."""
    archive = archive_in(real_data, "archive-pubnet")
    buckets = filter(any, archive.checkpoint(12_001_023).live)

    assert 155_784 == sum(1 for digest in buckets for _ in archive.bucket(digest))


def archive_in(real_data: Path, name: str) -> HistoryArchive:
    if not (real_data / name).is_dir():
        pytest.skip(f"{name} is not in the folder of real ledger data")
    return HistoryArchive(FolderFiles(real_data / name))
