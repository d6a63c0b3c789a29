"""The workflow for GitHub Pages, run by act: the history outlives the machines, and what is deployed is whole."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import polars as pl
import pytest

from tests.workflows.act import Act
from tests.workflows.conftest import ActMaker
from tests.workflows.fake_gh import FakeGitHub

pytestmark = pytest.mark.workflows


@pytest.fixture
def machine(act: ActMaker, network: str, tmp_path: Path) -> Act:
    """A machine of a repository that publishes to Pages. Each run begins with nothing but the repository."""
    made = act(EXPORTER_PAGES="true", EXPORTER_RPC_URLS=network)
    made.environment = {
        **made.environment,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }
    remote = tmp_path / "operator" / "markets"
    subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True, timeout=60)
    return made


def test_the_history_outlives_the_machine(machine: Act, github: FakeGitHub) -> None:
    """Two runs, each from nothing but the branch, leave two ledgers in the history, and the pages of both."""
    published = machine.kept / "build" / "site" / "public"
    ledgers: list[int] = []
    first_pages: set[str] = set()
    for _ in range(2):
        jobs = machine.run("pages")
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


def test_nothing_is_deployed_after_a_failure(machine: Act, github: FakeGitHub, tmp_path: Path) -> None:
    """A run that fails uploads no site and leaves the branch alone; the issue is opened."""
    machine.run("pages")
    branch = tmp_path / "operator" / "markets" / "refs" / "heads" / "site"
    before = branch.read_text()
    machine.vars = {**machine.vars, "EXPORTER_RPC_URLS": "http://127.0.0.1:9"}

    jobs = machine.run("pages")

    assert ("failure", "skipped") == (jobs["export"].result, jobs["deploy"].result)
    assert "actions/upload-pages-artifact" not in dict(jobs["export"].actions)
    assert before == branch.read_text()
    assert ["The scheduled pages needs a look: the source fails or lags (exit code 3)"] == [
        issue["title"] for issue in github.open
    ]
