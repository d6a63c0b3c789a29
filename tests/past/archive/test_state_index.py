"""Tests of the index of a checkpoint's whole contract state."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from exporter.errors import ArchiveError
from exporter.ledger.codec.entries import ARCHIVED, code_key, decode_contract_data, instance_key
from exporter.ledger.codec.scval import CONTRACT_INSTANCE, WASM, ContractInstance
from exporter.ledger.codec.scval_encode import encode_opaque, u32
from exporter.ledger.source import RawEntry
from exporter.past.archive.archive_files import FolderFiles, bucket_name
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.past.archive.state_index import INIT, StateIndex
from exporter.protocols.frozen_keys import SETTING_KEY
from tests.past.archive.simulated_archive import (
    CONTRACT,
    FOREIGN,
    ONE,
    OTHER,
    THREE,
    TWO,
    SimulatedArchive,
    dead,
    live,
    time_to_live,
)
from tests.past.archive.test_checkpoint import archive_in

INSTANCE = ContractInstance(WASM, bytes([7] * 32), None, None)


@pytest.fixture
def made(tmp_path: Path) -> SimulatedArchive:
    here, there = instance_key(CONTRACT), instance_key(OTHER)
    return SimulatedArchive(
        tmp_path / "archive",
        [
            [live(ONE, u32(3)), dead(TWO), time_to_live(THREE, 900), live(here, (CONTRACT_INSTANCE, INSTANCE))],
            [live(ONE, u32(2)), live(TWO, u32(2)), live(THREE, u32(30)), time_to_live(ONE, 800), time_to_live(here, 9)],
            [live(there, (CONTRACT_INSTANCE, INSTANCE)), time_to_live(ONE, 1)],
        ],
        hot=[[live(FOREIGN, u32(9)), dead(TWO), live(THREE, u32(3))], [live(TWO, u32(2))]],
        version=23,
    )


def indexed(made: SimulatedArchive, folder: Path) -> StateIndex:
    archives = Archives([HistoryArchive(FolderFiles(made.folder))])
    return StateIndex(archives, archives.each[0].checkpoint(127), folder)


def test_each_key_has_what_the_newest_record_says(made: SimulatedArchive, tmp_path: Path) -> None:
    """Evicted entries, restored ones, gone ones and all lives; an entry without an end of its life is an error."""
    index = indexed(made, tmp_path)
    here = instance_key(CONTRACT)

    expected = {ONE: (u32(3), 800), THREE: (u32(30), 900), FOREIGN: (u32(9), ARCHIVED)}
    assert expected == {
        key: (decode_contract_data(index[key].data).value, index[key].live_until) for key in (ONE, THREE, FOREIGN)
    }
    assert TWO not in index
    assert {ONE, THREE, FOREIGN, here, instance_key(OTHER)} == set(index)
    assert {CONTRACT: INSTANCE, OTHER: INSTANCE} == dict(index.instances())
    with pytest.raises(ArchiveError, match="an entry has no time to live"):
        index[instance_key(OTHER)]
    index.close()
    assert [] == list(tmp_path.glob("state-*"))


def test_what_is_not_wanted_is_left_out(made: SimulatedArchive, tmp_path: Path) -> None:
    """An index may be of some keys only; those of a newer protocol, which nobody can ask for, are in none."""
    wasm_hash = bytes([7] * 32)
    code = b"\0\0\0\x07" + bytes(4) + wasm_hash + encode_opaque(b"\0asm")
    unknown = live(TWO, u32(2)).replace(struct.pack(">I", 15) + encode_opaque(b"Two"), struct.pack(">I", 99))
    records = [INIT + struct.pack(">I", 5) + code + bytes(4), time_to_live(code_key(wasm_hash), 70), unknown]
    made = SimulatedArchive(tmp_path / "with-code", [[*records, live(ONE, u32(1)), time_to_live(ONE, 9)]])
    index = indexed(made, tmp_path)

    assert {ONE: RawEntry(live(ONE, u32(1))[8:-4], 7, 9), code_key(wasm_hash): RawEntry(code, 5, 70)} == dict(index)
    index.close()
    archives = Archives([HistoryArchive(FolderFiles(made.folder))])
    index = StateIndex(archives, archives.each[0].checkpoint(127), tmp_path, lambda key: key == ONE)
    assert [ONE] == list(index)
    index.close()


def test_a_pass_that_failed_leaves_nothing(made: SimulatedArchive, tmp_path: Path) -> None:
    """Nothing stays of a bucket that is not what its name says, and an index that is there is not gone on with."""
    name = bucket_name(made.digests[1])
    good = (made.folder / name).read_bytes()
    made.put(name, gzip.compress(b"\x80\0\0\0"))
    archives = Archives([HistoryArchive(FolderFiles(made.folder))])
    checkpoint = archives.each[0].checkpoint(127)
    with pytest.raises(ArchiveError, match="has the SHA-256"):
        StateIndex(archives, checkpoint, tmp_path)
    made.put(name, good)
    index = StateIndex(archives, checkpoint, tmp_path)

    with pytest.raises(FileExistsError):
        StateIndex(archives, checkpoint, tmp_path)
    assert RawEntry(live(ONE, u32(3))[8:-4], 7, 800) == index[ONE]
    index.close()


def test_the_real_state_is_indexed_whole(real_data: Path, tmp_path: Path) -> None:
    """The newest state of the testnet archive has as many entries as were counted when it was collected."""
    archive = archive_in(real_data, "archive-testnet")
    index = StateIndex(Archives([archive]), archive.checkpoint(10_047), tmp_path)

    assert (4103, 99) == tuple(sum(key[:4] == bytes([0, 0, 0, kind]) for key in index) for kind in (6, 7))
    assert 296 == len(list(index.instances()))
    settings = {key: index[key] for key in index if key[:4] == bytes([0, 0, 0, 8])}
    assert settings
    assert {key[4:] for key in settings} == {entry.data[4:8] for entry in settings.values()}
    assert {None} == {entry.live_until for entry in settings.values()}
    index.close()


def test_a_networks_setting_is_in_the_index(tmp_path: Path) -> None:
    """A setting has no time to live, and the newest record of it counts."""
    newest, older = (SETTING_KEY + struct.pack(">I", count) for count in (0, 1))
    records = [[INIT + struct.pack(">I", ledger) + data + bytes(4)] for ledger, data in ((9, newest), (5, older))]
    index = indexed(SimulatedArchive(tmp_path / "with-setting", records), tmp_path)

    assert {SETTING_KEY: RawEntry(newest, 9, None)} == dict(index)
    index.close()
