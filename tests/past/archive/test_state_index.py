"""Tests of the index of a checkpoint's whole contract state."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from exporter.errors import ArchiveError
from exporter.ledger.codec.entries import ARCHIVED, instance_key
from exporter.ledger.codec.scval import CONTRACT_INSTANCE, WASM, ContractInstance
from exporter.ledger.codec.scval_encode import u32
from exporter.ledger.source import RawEntry
from exporter.past.archive.archive_files import FolderFiles, bucket_name
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.past.archive.state_index import StateIndex
from tests.past.archive.simulated_archive import MadeArchive, dead, live, time_to_live
from tests.past.archive.test_checkpoint import CONTRACT, FOREIGN, ONE, OTHER, THREE, TWO, archive_in

INSTANCE = ContractInstance(WASM, bytes([7] * 32), None, None)


@pytest.fixture
def made(tmp_path: Path) -> MadeArchive:
    here, there = instance_key(CONTRACT), instance_key(OTHER)
    return MadeArchive(
        tmp_path / "archive",
        [
            [live(ONE, u32(3)), dead(TWO), time_to_live(THREE, 900), live(here, (CONTRACT_INSTANCE, INSTANCE))],
            [live(ONE, u32(2)), live(TWO, u32(2)), live(THREE, u32(30)), time_to_live(ONE, 800), time_to_live(here, 9)],
            [live(there, (CONTRACT_INSTANCE, INSTANCE)), time_to_live(ONE, 1)],
        ],
        hot=[[live(FOREIGN, u32(9)), dead(TWO), live(THREE, u32(3))], [live(TWO, u32(2))]],
        version=23,
    )


def test_each_key_has_what_the_newest_record_says(made: MadeArchive, tmp_path: Path) -> None:
    """As the reader that looks for single keys has it: evicted entries, restored ones, gone ones and all lives."""
    archives = Archives([HistoryArchive(FolderFiles(made.folder))])
    checkpoint = archives.each[0].checkpoint(127)
    index = StateIndex(archives, checkpoint, tmp_path)
    here = instance_key(CONTRACT)
    found = archives.each[0].entries(checkpoint, (), [ONE, TWO, THREE, FOREIGN, here]).entries

    assert found == {key: index[key] for key in (ONE, THREE, FOREIGN, here)}
    assert ARCHIVED == index[FOREIGN].live_until
    assert TWO not in index
    assert {ONE, THREE, FOREIGN, here, instance_key(OTHER)} == set(index)
    assert {CONTRACT: INSTANCE, OTHER: INSTANCE} == dict(index.instances())
    with pytest.raises(ArchiveError, match="an entry has no time to live"):
        index[instance_key(OTHER)]
    index.close()
    assert [] == list(tmp_path.glob("state-*"))


def test_a_pass_that_failed_goes_on_behind_its_last_bucket(made: MadeArchive, tmp_path: Path) -> None:
    """Nothing stays of a bucket that is not what its name says, and what was taken before is not read again."""
    name = bucket_name(made.digests[1])
    good = (made.folder / name).read_bytes()
    made.put(name, gzip.compress(b"\x80\0\0\0"))
    archives = Archives([HistoryArchive(FolderFiles(made.folder))])
    checkpoint = archives.each[0].checkpoint(127)
    with pytest.raises(ArchiveError, match="has the SHA-256"):
        StateIndex(archives, checkpoint, tmp_path)
    made.put(name, good)
    (made.folder / bucket_name(made.digests[0])).unlink()
    index = StateIndex(archives, checkpoint, tmp_path)

    assert RawEntry(live(ONE, u32(3))[8:-4], 7, 800) == index[ONE]
    index.close()


def test_the_real_state_is_indexed_whole(real_data: Path, tmp_path: Path) -> None:
    """All contract data and code of a testnet is what the other reader finds."""
    archive = archive_in(real_data, "archive-testnet")
    checkpoint = archive.checkpoint(9_983)
    index = StateIndex(Archives([archive]), checkpoint, tmp_path)

    assert archive.entries(checkpoint).entries == dict(index)
    assert 294 == len(list(index.instances()))
    index.close()
