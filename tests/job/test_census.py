"""The census of a real checkpoint and of a recorded network, as a document and in a published tree."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from exporter.check.published_tree import check_files
from exporter.cli import main
from exporter.console import Silence
from exporter.errors import CheckError
from exporter.job.census import census
from exporter.job.from_archive import FromArchive
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain
from exporter.localnet.network import LocalNetwork
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.stores import open_store
from exporter.stores.memory import MemoryStore
from tests.job.recorded_archive import recorded_archive
from tests.job.test_completeness import K2, SLENDER, STRANGER, copied
from tests.jobs import run, settings_for
from tests.localnet.recorded import BLEND_V2, LISTED, only

BLEND = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
LAINA = {
    "CCGUA2YKJMYEU2AARU6KOXJND7REEOFNIPLTLH3USNZKVIOOASDTWUG7",
    "CAGUULV26FYIKTRVSLJTWRLIOTTBJFG55JSIUJD4HJNSY7I4WATMM7OV",
    "CBTYQBEHSKKW2BI6OT2BQ2R5V4GMXZU2KADELJZLUEX6EPLZOOC2BHYV",
}
LEFT_OUT = {(None, "no_reader"), *((protocol, "not_found") for protocol, _ in LISTED)}
PERPETUALS = "CAVGUXGSLGR7W6Y3IVHN66WTLGATPFHEDGKHKGHVEPTTZYKFTTJVBLID"


def test_the_census_of_testnet(real_data: Path, tmp_path: Path) -> None:
    """A pool of Blend, three loan pools and a market of perpetuals are found among 294 contracts, and nothing else."""
    folder = real_data / "archive-testnet"
    if not folder.is_dir():
        pytest.skip("archive-testnet is not in the folder of real ledger data")
    options = ["--archive", str(folder), "--checkpoint", "9983", "--bucket-cache", str(tmp_path)]
    result = CliRunner().invoke(main, ["census", "--network", "testnet", *options])
    found = json.loads(result.stdout)

    assert 0 == result.exit_code, result.output
    assert {"known_code": 1, "known_storage": 0, "lending_shaped": 4, "oracle": 2, "token": 44, "other": 243} == found[
        "counts"
    ]
    assert (294, 5) == (found["contract_count"], found["unread_count"])
    assert [(BLEND, "blend")] == [(i["address"], i["protocol"]) for i in found["unread"] if i["kind"] == "known_code"]
    assert {*LAINA, PERPETUALS} == {item["address"] for item in found["unread"] if item["kind"] == "lending_shaped"}


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of a run that read one market, with a census."""
    folder = tmp_path_factory.mktemp("partial")
    _, given = recorded_archive(folder)
    settings = settings_for(folder / "out", **only(BLEND_V2))
    run(settings, archive=given)
    census(settings, given, open_store(str(folder / "out")), Silence())
    return folder / "out"


def test_a_census_in_a_tree(partial: Path) -> None:
    """It names what the run there left out, with the reason, and the tree still passes the check."""
    found = json.loads((partial / "v1/census.json").read_bytes())

    assert LEFT_OUT == {(item["protocol"], item["reason"]) for item in found["unread"]}
    assert found["run_id"] == json.loads((partial / "v1/system/status.json").read_bytes())["run_id"]
    assert 1 == check_files(str(partial)).documents["Census"]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("network", "another", r"\$\.network is 'another'"),
        ("checkpoint", 64, r"\$\.checkpoint is 64, which is not a checkpoint"),
        ("contract_count", 1, r"\$\.contract_count is 1, but its kinds sum up to"),
        ("codes", [], r"\$\.counts\.known_code is \d+, but its codes sum up to 0"),
        ("unread_count", 0, r"\$\.unread_count is 0, but"),
    ],
)
def test_a_census_that_contradicts_itself(partial: Path, tmp_path: Path, field: str, value: object, said: str) -> None:
    """The check names the field."""
    out = tmp_path / "out"
    shutil.copytree(partial, out)
    key = out / "v1/census.json"
    key.write_bytes(msgspec.json.encode(json.loads(key.read_bytes()) | {field: value}))

    with pytest.raises(CheckError, match=said):
        check_files(str(out))


def test_a_census_needs_a_run_of_its_network(tmp_path: Path) -> None:
    """An empty folder has nothing to compare with."""
    given = FromArchive(("archive",))

    with pytest.raises(CheckError, match="no run is published there"):
        census(settings_for(), given, MemoryStore(), Silence())


@pytest.mark.parametrize(("protocol", "market"), [("slender", SLENDER), pytest.param("k2", K2, marks=pytest.mark.slow)])
def test_the_next_run_reads_what_a_census_found(tmp_path: Path, protocol: str, market: str) -> None:
    """A copy of Slender's pool or K2's router, in no list: the run after the census has it, without being named it."""
    changed: dict[bytes, RawEntry] = {}

    def change(entries: dict[bytes, RawEntry]) -> None:
        copied(market, whole=True)(entries)
        changed.update(entries)

    _, given = recorded_archive(tmp_path, change)
    out = tmp_path / "out"
    network = RecordedNetwork()
    chain = Chain(changed, start_ledger=network.chain.latest, start_time=network.chain.close_time(network.chain.latest))
    with running(create_app(LocalNetwork(chain, network.passphrase, 25))) as url:
        settings = settings_for(out, url)
        run(settings)
        before = markets_in(out)
        census(settings, given, open_store(str(out)), Silence())
        unread = [
            item for item in json.loads((out / "v1/census.json").read_bytes())["unread"] if item["address"] == STRANGER
        ]
        chain.close(close_time=chain.close_time(chain.latest) + 5)
        run(settings)

    assert (protocol, "known_code", "not_found") == tuple(unread[0][name] for name in ("protocol", "kind", "reason"))
    assert {STRANGER} == markets_in(out) - before


def markets_in(out: Path) -> set[str]:
    return {item["market"] for item in json.loads((out / "v1/markets.json").read_bytes())["data"]}
