"""`exporter verify` proves all of honest trees of runs from archives, or says why not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from nacl.signing import SigningKey

from exporter.cli import main
from exporter.errors import ExitCode
from tests.audit.archived_runs import ArchivedRuns
from tests.audit.signed_runs import CHECKPOINT, SignedNetwork

ALLOWED = ("--allow-unproven", "earlier,history,changes")


def verify(runs: ArchivedRuns, out: Path, *more: str) -> Result:
    options = [option for archive in runs.archives for option in ("--archive", archive)]
    return CliRunner().invoke(main, ["verify", str(out), *options, "--trust", str(runs.trust), *more])


def reasons(result: Result) -> list[str]:
    return re.findall(r"^not proven(?:, allowed)? \((\w+)\)", result.output, re.MULTILINE)


@pytest.mark.parametrize("flags", [{}, {"output__retention": "1h"}])
@pytest.mark.parametrize("count", [2, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 3, 20))])
def test_runs_from_archives(tmp_path: Path, count: int, flags: dict[str, int]) -> None:
    """All is proven of one, two and three; of twenty, also swept ones, all but what the newest five do not cover."""
    if flags and count < 20:
        pytest.skip("nothing is old enough to be swept")
    runs, out = ArchivedRuns(tmp_path), tmp_path / "out"
    for number in range(count):
        runs.publish(out, number, **flags)
    result = verify(runs, out)
    allowed = result if result.exit_code == ExitCode.DONE else verify(runs, out, *ALLOWED)

    assert ExitCode.DONE == allowed.exit_code, allowed.output
    assert (ExitCode.DONE if count < 20 else ExitCode.UNPROVEN) == result.exit_code, result.output
    assert ([] if count < 20 else ["earlier", "history"]) == [name for name in reasons(result) if name != "changes"]


@pytest.mark.slow
def test_a_run_without_pools(tmp_path: Path) -> None:
    """A run that could read no pool contradicts nothing; only what its RPC alone can know is not proven."""
    network, out = SignedNetwork(tmp_path, 90, without_pools=112), tmp_path / "out"
    for ledger in (100, 112, CHECKPOINT):
        network.publish(out, ledger)
    files = json.loads((out / "v1/history.json").read_bytes())["files"]
    result = CliRunner().invoke(
        main, ["verify", str(out), "--archive", str(network.archive), "--trust", str(network.trust)]
    )

    assert [4, 0, 4] == [file["rows"] for file in files]
    assert ExitCode.UNPROVEN == result.exit_code, result.output
    assert "4 of 4 earlier rows of the history follow from the evidence of 2 runs" in result.output


def test_a_validator_that_the_list_lacks(tmp_path: Path) -> None:
    """The notice about it follows from the archives' quorum sets; archives without it leave it a statement."""
    runs, out = ArchivedRuns(tmp_path, SigningKey(bytes([9] * 32))), tmp_path / "out"
    runs.publish(out, 0)
    notices = json.loads((out / "v1/system/status.json").read_bytes())["notices"]
    (tmp_path / "other").mkdir()
    others = ArchivedRuns(tmp_path / "other")
    others.archive(0)
    shown, unseen = verify(runs, out), verify(others, out)

    assert ["1 validator"] == [text.split(" name ")[1].split(" that ")[0] for text in notices if "quorum sets" in text]
    assert ExitCode.DONE == shown.exit_code, shown.output
    assert (ExitCode.UNPROVEN, ["statements"]) == (unseen.exit_code, reasons(unseen)), unseen.output
