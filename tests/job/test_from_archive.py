"""Runs from history archives alone: proven first, and with the rows that a run over the same entries has."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from exporter.cli import main
from exporter.deployments.networks import RECORDED_PASSPHRASE
from exporter.errors import ConfigError, LostRaceError, NetworkMismatchError
from exporter.localnet.player import RecordedNetwork
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint_proof import NotProvableError
from exporter.past.archive_source import FromArchive, open_archive_state
from exporter.stores.memory import MemoryStore
from tests.job.recorded_archive import CHECKPOINT, recorded_archive, recorded_state
from tests.job_runs import run, settings_for
from tests.localnet.recorded import only
from tests.past.archive.archive_snapshot import archive_snapshot
from tests.past.archive.simulated_archive import ORGANISATIONS, SimulatedArchive, trust_document, validators
from tests.snapshot_files import write_snapshot

pytestmark = pytest.mark.usefixtures("without_pages")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[SimulatedArchive, Path, FromArchive]:
    """A recorded network's entries in an archive of protocol 28, in a folder."""
    folder = tmp_path_factory.mktemp("archive")
    signed, given = recorded_archive(folder)
    return signed, folder, given


@pytest.mark.slow
def test_the_pages_are_those_of_a_run_over_the_same_entries(made: tuple[SimulatedArchive, Path, FromArchive]) -> None:
    """Every page has the same name, so the same content; what is missing is named alike; the report says who signed."""
    _, folder, given = made
    write_snapshot(recorded_state(), folder / "snapshot.json")
    by_archive, by_file = MemoryStore(), MemoryStore()
    code, facts = run(settings_for(), by_archive, archive=given)
    code_by_file, facts_by_file = run(settings_for(), by_file, snapshot=folder / "snapshot.json")
    pages = [[item.key for item in store.list("v1/assets/")] for store in (by_archive, by_file)]

    assert code == code_by_file
    assert facts["unread"] == facts_by_file["unread"]
    assert facts["unpriced"] == facts_by_file["unpriced"]
    assert pages[0] == pages[1]
    assert len(pages[0]) > 50
    assert CHECKPOINT == facts["certificate"]["ledger"]
    assert facts["reading"]["signed"] == dict.fromkeys(ORGANISATIONS, 3)
    assert "2026-01-02" == facts["reading"]["trusted_since"]
    assert [".exporter.lock"] == [path.name for path in (folder / "kept").iterdir()]  # nothing that was fetched stays
    assert by_archive.has("v1/proofs.json")


def test_the_report_has_the_newest_proof(made: tuple[SimulatedArchive, Path, FromArchive]) -> None:
    """A report names the ledger of the newest proof in the tree and what it confirms, even if it is the run's own."""
    store = MemoryStore()
    _, unproven = run(settings_for(**only("slender")), MemoryStore(), network=RecordedNetwork())
    _, before = run(settings_for(**only("slender")), store, archive=made[2])
    stored = store.get("v1/proofs.json")
    assert stored is not None
    (proof,) = json.loads(stored.data)["proofs"]
    later = RecordedNetwork(start_ledger=CHECKPOINT + 5, start_time=before["ledger_close_time"] + 60)
    _, facts = run(settings_for(**only("slender")), store, network=later)

    assert "proven" not in unproven
    assert CHECKPOINT == proof["observed_ledger"]
    expected = {"ledger": CHECKPOINT, "entries": proof["entries"], "confirmed": proof["confirmed"]}
    assert [expected, expected] == [before["proven"], facts["proven"]]


def test_what_cannot_be_proven_is_not_read(made: tuple[SimulatedArchive, Path, FromArchive], tmp_path: Path) -> None:
    """Too few organisations, a network that nobody is known of, an archive of another one: each by name."""
    _, folder, given = made
    (tmp_path / "few.json").write_bytes(trust_document(validators(9), RECORDED_PASSPHRASE))
    (tmp_path / "trust.json").write_bytes(trust_document(ORGANISATIONS))
    SimulatedArchive(folder / "other", []).write_state({"networkPassphrase": "another"})
    other = FromArchive((str(folder / "other"),), 127, tmp_path / "trust.json", tmp_path)
    simulated = settings_for(network__passphrase="a simulated network")
    for settings, archive, error, said in (
        (
            settings_for(),
            replace(given, trust=tmp_path / "few.json"),
            *(NotProvableError, "4 of 9 organisations signed ledger 65000064, 7 must"),
        ),
        (settings_for(), replace(given, trust=None), ConfigError, "no organisations are known to trust on the network"),
        (
            settings_for(),
            replace(given, checkpoint=65_000_001),
            *(ConfigError, "--checkpoint: 65000001 is not a checkpoint; the next is 65000063"),
        ),
        (simulated, other, NetworkMismatchError, "the archive is of the network 'another', but the run is"),
    ):
        with pytest.raises(error, match=said):
            run(settings, MemoryStore(), archive=archive)


def test_options_that_do_not_fit_together_are_refused() -> None:
    """One source is read, and what is for an archive needs one."""
    for arguments, said in (
        (["--archive", "a", "--rpc-url", "https://rpc.example"], "each say what to read"),
        (["--checkpoint", "127"], "are for --archive, which is not given"),
    ):
        result = CliRunner().invoke(main, ["run", *arguments])
        assert (2, True) == (result.exit_code, said in result.output)


@pytest.mark.parametrize("ledger", [959, pytest.param(9_983, marks=pytest.mark.slow)])
def test_the_real_testnet_pool_is_published_from_the_archive_alone(
    testnet_archive: Path, tmp_path: Path, ledger: int
) -> None:
    """The market is found by its code, and its rows are those of a run over a file of the same checkpoint."""
    settings = settings_for(network__name="testnet")
    by_archive, by_file = MemoryStore(), MemoryStore()
    _, facts = run(settings, by_archive, archive=FromArchive((str(testnet_archive),), ledger, None, tmp_path / "kept"))
    snapshot = archive_snapshot(Archives.open([str(testnet_archive)], tmp_path).each[0], ledger)
    write_snapshot(snapshot, tmp_path / "snapshot.json")
    run(settings, by_file, snapshot=tmp_path / "snapshot.json")
    pages = [[item.key for item in store.list("v1/assets/")] for store in (by_archive, by_file)]

    assert pages[0] == pages[1]
    assert len(pages[0]) > 10
    assert {"testnet.stellar.org": 3} == facts["reading"]["signed"]
    assert ledger + 1 <= facts["reading"]["signed_ledger"] <= ledger + 64


def test_the_newest_checkpoint_that_can_be_proven_is_read(testnet_archive: Path, tmp_path: Path) -> None:
    """Unless another one is named; the archive's own newest is refused, as not provable yet."""
    settings = settings_for(network__name="testnet")
    _, facts = run(settings, MemoryStore(), archive=FromArchive((str(testnet_archive),), None, None, tmp_path))

    assert 9_983 == facts["certificate"]["ledger"]
    with pytest.raises(NotProvableError, match="10047 cannot be proven yet"):
        run(settings, MemoryStore(), archive=FromArchive((str(testnet_archive),), 10_047, None, tmp_path))


def test_two_commands_do_not_share_a_bucket_cache(
    made: tuple[SimulatedArchive, Path, FromArchive], tmp_path: Path
) -> None:
    """The second one ends at once with 5, and the first reads on; when it has ended, the cache is free again."""
    _, _, given = made
    cached = replace(given, bucket_cache=tmp_path)
    refused = pytest.raises(LostRaceError, match="another job reads archives with the bucket cache")
    with open_archive_state(settings_for(), cached) as state:
        with refused, open_archive_state(settings_for(), cached):
            pass
        expected = dict(state.index)
    with open_archive_state(settings_for(), cached) as state:
        assert expected == dict(state.index)


def test_an_index_that_somebody_planted_is_not_believed(
    made: tuple[SimulatedArchive, Path, FromArchive], tmp_path: Path
) -> None:
    """A run makes its index in a folder of its own, and removes whatever has the name of one, but follows no link."""
    _, _, given = made
    cache, kept = tmp_path / "cache", tmp_path / "kept"
    (cache / "state-planted").mkdir(parents=True)
    kept.mkdir()
    (kept / "somebody's").touch()
    (cache / "state-link").symlink_to(kept)
    with open_archive_state(settings_for(), replace(given, bucket_cache=tmp_path / "other")) as state:
        (planted,) = (tmp_path / "other").glob("state-*/*.sqlite")
        expected = dict(state.index)
        shutil.copy(planted, tmp_path / planted.name)
    with sqlite3.connect(tmp_path / planted.name) as rows:
        rows.execute("DELETE FROM row WHERE name >= 'E' AND name < 'F'")
    for folder in (cache, cache / "state-planted"):
        shutil.copy(tmp_path / planted.name, folder)

    with open_archive_state(settings_for(), replace(given, bucket_cache=cache)) as state:
        assert expected == dict(state.index)
    assert [] == [path.name for path in cache.iterdir() if path.name.startswith("state-")]
    assert ["somebody's"] == [path.name for path in kept.iterdir()]
