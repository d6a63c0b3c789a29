"""The census of a checkpoint: what it names, what the next run makes of it, and that it can be recomputed."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from exporter.audit.census import take_census
from exporter.audit.published_tree import check_files
from exporter.cli import main
from exporter.console import Silence
from exporter.errors import ConfigError, ExitCode, NothingPublishedError
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain
from exporter.localnet.network import LocalNetwork
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import create_app, running
from exporter.past.archive_source import FromArchive
from exporter.stores import open_store
from exporter.stores.memory import MemoryStore
from tests.audit.hidden_markets import SLENDER, STRANGER, copied, verify
from tests.job.recorded_archive import recorded_archive
from tests.job_runs import run, settings_for
from tests.localnet.recorded import BLEND_V2, LISTED, only
from tests.past.archive.simulated_archive import SimulatedArchive

pytestmark = pytest.mark.usefixtures("without_pages")

BLEND = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
LAINA = {
    "CCGUA2YKJMYEU2AARU6KOXJND7REEOFNIPLTLH3USNZKVIOOASDTWUG7",
    "CAGUULV26FYIKTRVSLJTWRLIOTTBJFG55JSIUJD4HJNSY7I4WATMM7OV",
    "CBTYQBEHSKKW2BI6OT2BQ2R5V4GMXZU2KADELJZLUEX6EPLZOOC2BHYV",
}
LEFT_OUT = {(None, "no_reader"), *((protocol, "not_found") for protocol, _ in LISTED)}
PERPETUALS = "CAVGUXGSLGR7W6Y3IVHN66WTLGATPFHEDGKHKGHVEPTTZYKFTTJVBLID"


def test_the_census_of_testnet(testnet_archive: Path, tmp_path: Path) -> None:
    """A pool of Blend, three loan pools and a market of perpetuals are found among 294 contracts, and nothing else."""
    options = ["--archive", str(testnet_archive), "--checkpoint", "9983", "--bucket-cache", str(tmp_path)]
    result = CliRunner().invoke(main, ["census", "--network", "testnet", *options])
    found = json.loads(result.stdout)

    assert 0 == result.exit_code, result.output
    assert {"known_code": 1, "known_storage": 0, "lending_shaped": 4, "oracle": 2, "token": 44, "other": 243} == found[
        "counts"
    ]
    assert (294, 5) == (found["contract_count"], found["unread_count"])
    assert [(BLEND, "blend")] == [(i["address"], i["protocol"]) for i in found["unread"] if i["kind"] == "known_code"]
    assert {*LAINA, PERPETUALS} == {item["address"] for item in found["unread"] if item["kind"] == "lending_shaped"}


def test_a_census_in_a_tree(recorded: tuple[SimulatedArchive, FromArchive], tmp_path: Path) -> None:
    """A census names what a run of one market left out, with the reason, and the tree still passes the check."""
    settings = settings_for(tmp_path, **only(BLEND_V2))
    run(settings, archive=recorded[1])
    take_census(settings, recorded[1], open_store(str(tmp_path)), Silence())
    found = json.loads((tmp_path / "v1/census.json").read_bytes())

    assert LEFT_OUT == {(item["protocol"], item["reason"]) for item in found["unread"]}
    assert found["run_id"] == json.loads((tmp_path / "v1/system/status.json").read_bytes())["run_id"]
    assert 1 == check_files(str(tmp_path)).documents["Census"]
    with pytest.raises(ConfigError, match=r"the run is of the network 'Recorded .*', not of 'Test SDF Network"):
        take_census(settings_for(network__name="testnet"), recorded[1], open_store(str(tmp_path)), Silence())


def test_a_census_needs_a_run(tmp_path: Path) -> None:
    """An empty folder has nothing to compare with."""
    given = FromArchive(("archive",))

    with pytest.raises(NothingPublishedError, match="no run is published there"):
        take_census(settings_for(), given, MemoryStore(), Silence())


def test_the_next_run_reads_what_a_census_found(tmp_path: Path) -> None:
    """The run after a census reads a copy of Slender's pool that it found, although no list or operator names it."""
    changed: dict[bytes, RawEntry] = {}

    def change(entries: dict[bytes, RawEntry]) -> None:
        copied(SLENDER, whole=True)(entries)
        changed.update(entries)

    _, given = recorded_archive(tmp_path, change)
    out = tmp_path / "out"
    network = RecordedNetwork()
    chain = Chain(changed, start_ledger=network.chain.latest, start_time=network.chain.close_time(network.chain.latest))
    with running(create_app(LocalNetwork(chain, network.passphrase, 25))) as url:
        settings = settings_for(out, url)
        run(settings)
        before = markets_in(out)
        take_census(settings, given, open_store(str(out)), Silence())
        unread = [
            item for item in json.loads((out / "v1/census.json").read_bytes())["unread"] if item["address"] == STRANGER
        ]
        chain.close(close_time=chain.close_time(chain.latest) + 5)
        _, report = run(settings)

    assert ("slender", "known_code", "not_found") == tuple(unread[0][name] for name in ("protocol", "kind", "reason"))
    assert {STRANGER} == markets_in(out) - before
    assert {STRANGER} == {item["market"] for item in report["discovered"]}  # no run had read it


def markets_in(out: Path) -> set[str]:
    return {item["market"] for item in json.loads((out / "v1/markets.json").read_bytes())["data"]}


def test_a_census_of_the_run(tmp_path: Path, recorded: tuple[SimulatedArchive, FromArchive]) -> None:
    """A census is recomputed: a true one adds nothing unproven, and one with another count is refuted."""
    _, given = recorded
    out = tmp_path / "out"
    run(settings_for(out), archive=given)
    take_census(settings_for(out), given, open_store(str(out)), Silence())
    honest, unasked = verify(given, out, "--complete"), verify(given, out)
    key = out / "v1/census.json"
    document = json.loads(key.read_bytes())
    assert [] == document["unread"]
    document["counts"]["other"] += 1
    document["contract_count"] += 1
    key.write_bytes(msgspec.json.encode(document))
    forged = verify(given, out, "--complete")

    assert 0 == honest.exit_code, honest.output
    assert f"{len(LISTED)} markets of them in the run" in honest.output
    assert (False, True) == ("census" in honest.stdout, "v1/census.json" in unasked.stdout)
    assert ExitCode.REFUTED == forged.exit_code, forged.output
    assert "v1/census.json is not what the checkpoint and the run give" in forged.output
