"""The workflow for GitHub Pages, run by act: the history outlives the machines, and what is deployed is whole."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from tests.workflows.act import Act, commit_all
from tests.workflows.conftest import ActMaker
from tests.workflows.fake_gh import FakeGitHub

pytestmark = pytest.mark.workflows


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


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

    assert "failure" == jobs["export"].result
    assert "actions/deploy-pages" not in dict(jobs["export"].actions)
    assert "actions/upload-pages-artifact" not in dict(jobs["export"].actions)
    assert before == branch.read_text()
    assert ["The scheduled pages needs a look: the source fails or lags (exit code 3)"] == [
        issue["title"] for issue in github.open
    ]


def test_the_template_publishes(machine: Act, github: FakeGitHub, tmp_path: Path, project_root: Path) -> None:
    """A repository of the template's files publishes, promises its schedule, deploys, and keeps the schedule."""
    template = project_root / "templates" / "repository"
    exporter = machine.checkout
    machine.checkout = tmp_path / "template" / "markets"
    shutil.copytree(template, machine.checkout)
    with (machine.checkout / "exporter.toml").open("a") as settings:
        settings.write('[network]\nname = "local"\nrequests_per_second = 1000.0\n')
    commit_all(machine.checkout, remote="https://github.com/operator/markets")
    machine.workflows = machine.checkout / ".github" / "workflows"
    machine.repositories = {f"OWNER/REPOSITORY@{'0' * 40}": exporter}
    machine.secrets = {"EXPORTER_RPC_URLS": machine.vars["EXPORTER_RPC_URLS"]}

    job = machine.run("markets")["publish"]

    assert "success" == job.result, job.printed
    status = json.loads((machine.kept / "build/site/public/v1/system/status.json").read_text())
    assert 60 == (instant(status["next_expected_at"]) - instant(status["generated_at"])).total_seconds() / 60
    assert "actions/deploy-pages" in dict(job.actions)
    assert [["api", "--method", "PUT", "repos/operator/markets/actions/workflows/markets.yml/enable"]] == [
        call for call in github.calls if call[0] == "api"
    ]
