"""What `exporter verify` says of honest trees of runs from archives: all is proven, or why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from exporter.cli import main
from exporter.errors import ExitCode
from tests.audit.archived_runs import ArchivedRuns

ALLOWED = ("--allow-unproven", "earlier,history,changes")


def verify(runs: ArchivedRuns, out: Path, *more: str) -> Result:
    options = [option for archive in runs.archives for option in ("--archive", archive)]
    return CliRunner().invoke(main, ["verify", str(out), *options, "--trust", str(runs.trust), *more])


def reasons(result: Result) -> list[str]:
    return re.findall(r"^not proven(?:, allowed)? \((\w+)\)", result.output, re.MULTILINE)


@pytest.mark.parametrize("flags", [{}, {"output__retention_hours": 1}])
@pytest.mark.parametrize("count", [1, 3, pytest.param(20, marks=pytest.mark.slow)])
def test_runs_from_archives(tmp_path: Path, count: int, flags: dict[str, int]) -> None:
    """All is proven of one and three; of twenty, also swept ones, all but what the newest five do not cover."""
    if flags and count < 20:
        pytest.skip("nothing is old enough to be swept")
    runs, out = ArchivedRuns(tmp_path), tmp_path / "out"
    for number in range(count):
        runs.publish(out, number, **flags)
    result, allowed = verify(runs, out), verify(runs, out, *ALLOWED)

    assert ExitCode.DONE == allowed.exit_code, allowed.output
    assert (ExitCode.DONE if count < 20 else ExitCode.UNPROVEN) == result.exit_code, result.output
    assert ([] if count < 20 else ["earlier", "history"]) == [name for name in reasons(result) if name != "changes"]
