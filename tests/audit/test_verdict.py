"""`exporter check` as a user calls it, and the runs that it keeps from being published."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from exporter.cli import main
from exporter.errors import CheckError
from exporter.job.rendering import RenderedRun
from exporter.ledger.codec.scval_encode import encode_scval, i128
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.localnet.recording import shipped
from exporter.localnet.server import create_app, running
from exporter.stores.store import utc_now
from exporter.tree.files import RenderedFile
from tests import job_runs
from tests.audit.trees import small_tree, write


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write(small_tree(), tmp_path / "tree")


def exporter(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


def test_a_tree_gives_0_or_4_with_each_fault(tree: Path) -> None:
    """Exit code 0 with how much was looked at, or 4 with key and fault; as JSON the counts, and each fault apart."""
    good, sample = exporter(str(tree)), exporter(str(tree), "--log-format", "json", "--sample", "2")
    (tree / "v1" / "assets" / "limit" / "1.json").unlink()
    bad, as_json = exporter(str(tree)), exporter(str(tree), "--log-format", "json")
    counts = json.loads(sample.stdout)
    faults = [json.loads(line) for line in as_json.stdout.splitlines()]

    assert (0, 0, 4, 4) == tuple(result.exit_code for result in (good, sample, bad, as_json)), good.output
    for said in ("the tree passes its checks", "3 pools of", "links followed"):
        assert said in good.stdout
    assert ("checked", False) == (counts["event"], counts["complete"])
    assert counts["files"]["document"] > 0
    assert "v1/assets/limit/1.json: is missing, though the run's manifest lists it" in bad.stdout
    assert "the tree fails its checks" in bad.stderr
    assert {"fault"} == {fault["event"] for fault in faults}
    assert "v1/assets/limit/1.json" in {fault["key"] for fault in faults}
    assert 4 == json.loads(as_json.stderr)["exit_code"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "name the tree to check"),
        (("x", "--on-chain"), 2, "name the tree to check"),
        (("x", "--sample", "0"), 2, "--sample"),
        (("s3://bucket/x",), 2, "s3://"),
        (("/nothing/here",), 3, "is not a folder"),
        (("--on-chain",), 2, "network.rpc_urls"),
        (("--on-chain", "--snapshot", "nothing.json"), 3, "nothing.json"),
    ],
)
def test_wrong_usage_gives_2_an_unreadable_source_3(arguments: tuple[str, ...], code: int, said: str) -> None:
    """Wrong usage ends with code 2 and a source that cannot be read with 3; both say what is wrong."""
    result = exporter(*arguments)

    assert code == result.exit_code, result.output
    assert said in result.stderr


@pytest.fixture
def rpc(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("EXPORTER_REQUESTS_PER_SECOND", "10000")
    with running(create_app(RecordedNetwork())) as url:
        yield url


def test_checking_on_chain_gives_0_or_4_with_each_difference(rpc: str) -> None:
    """Ends with 0 and the count if all agrees, with 4 if not, and with each difference, ours and the contract's."""
    good = exporter("--on-chain", "--network", NETWORK, "--rpc-url", rpc)
    recorded = shipped()
    answers = [
        replace(item, result=encode_scval(i128(7))) if item.function == "get_revenue" else item
        for item in recorded.answers
    ]
    with running(create_app(RecordedNetwork(replace(recorded, answers=answers)))) as url:
        bad = exporter("--on-chain", "--network", NETWORK, "--rpc-url", url)

    assert 0 == good.exit_code, good.output
    assert ": 0 differ" in good.stdout
    assert "Blend v1 pools have no getter" in good.stderr
    assert 4 == bad.exit_code
    assert "revenue is " in bad.stdout
    assert 4 == bad.stdout.count("the contract says 7")


def test_a_bad_tree_is_not_published(rpc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A renderer that drops one document ends the run with code 4, before anything readers can find is written."""
    left = ("data.html",)
    files = RenderedRun.files

    def kept(run: RenderedRun, unchanged: Collection[str]) -> Iterator[RenderedFile]:
        return (file for file in files(run, unchanged) if file.key not in left)

    monkeypatch.setattr(RenderedRun, "files", kept)
    with pytest.raises(CheckError, match=r"links to /data\.html, but data\.html is not there") as caught:
        job_runs.run(job_runs.settings_for(tmp_path, rpc), now=utc_now())

    kinds = {path.relative_to(tmp_path).parts[:2] for path in tmp_path.rglob("*") if path.is_file()}
    assert 4 == caught.value.exit_code
    kinds -= {("state", "known-markets.memory")}  # what discovery learned is kept, whatever becomes of the run
    assert {("v1", "pages"), ("v1", "evidence"), ("v1", "watched")} == {
        kind for kind in kinds if not kind[0].startswith(".")
    }
