"""The steps of the workflow for GitHub Pages: the history outlives the machines, and what is deployed is whole."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from tests.workflows.conftest import RunnerMaker
from tests.workflows.fake_gh import FakeGitHub
from tests.workflows.runner import JobRun, Runner


@pytest.fixture
def machine(runner: RunnerMaker, network: str, tmp_path: Path) -> Runner:
    """A machine of a repository that publishes to Pages."""
    made = runner(EXPORTER_PAGES="true", EXPORTER_RPC_URLS=network)
    made.server = f"file://{tmp_path}"
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "operator" / "markets")], check=True, timeout=60)
    return made


def run_on_a_new_machine(machine: Runner) -> dict[str, JobRun]:
    """Run the workflow with nothing left of the run before but the repository."""
    shutil.rmtree(machine.checkout / "build" / "site", ignore_errors=True)
    return machine.run("pages")


def test_the_history_outlives_the_machine(machine: Runner, github: FakeGitHub) -> None:
    """Two runs, each from nothing but the branch, leave two ledgers in the history, and the pages of both."""
    published = machine.checkout / "build" / "site" / "public"
    ledgers: list[int] = []
    first_pages: set[str] = set()
    for _ in range(2):
        jobs = run_on_a_new_machine(machine)
        assert {"success"} == {job.result for job in jobs.values()}, jobs
        ledgers.append(json.loads((published / "v1/system/status.json").read_text())["observed_ledger"])
        pages = {path.name for path in (published / "v1" / "pages").iterdir()}
        first_pages = first_pages or pages
        assert first_pages <= pages  # whoever pages through an earlier run can go on

    uploads = [inputs for action, inputs in jobs["export"].actions if action == "actions/upload-pages-artifact"]
    assert [{"path": "build/site/public"}] == uploads
    listed = json.loads((published / "v1/history.json").read_text())["files"]
    rows = pl.read_parquet([published / file["key"] for file in listed])
    assert sorted(ledgers) == sorted(rows["observed_ledger"].unique().to_list())
    assert ledgers == sorted(set(ledgers))
    assert [] == github.issues


def test_nothing_is_deployed_after_a_failure(machine: Runner, github: FakeGitHub) -> None:
    """A run that fails uploads no site and leaves the branch alone; the issue is opened."""
    run_on_a_new_machine(machine)
    remote = Path(machine.server.removeprefix("file://")) / "operator" / "markets"
    before = (remote / "refs" / "heads" / "site").read_text()
    machine.vars = {**machine.vars, "EXPORTER_RPC_URLS": "http://127.0.0.1:9"}

    jobs = run_on_a_new_machine(machine)

    assert ("failure", "skipped") == (jobs["export"].result, jobs["deploy"].result)
    assert "actions/upload-pages-artifact" not in dict(jobs["export"].actions)
    assert before == (remote / "refs" / "heads" / "site").read_text()
    assert ["The scheduled pages needs a look: the source fails or lags (exit code 3)"] == [
        issue["title"] for issue in github.open
    ]
