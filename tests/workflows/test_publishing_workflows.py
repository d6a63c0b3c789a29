"""The workflows that publish, run by act against the embedded network: onto a bucket, and to GitHub Pages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from tests.s3.bucket_objects import BUCKET
from tests.s3.wire_bucket import WireBucket
from tests.workflows.act import Act, commit_all
from tests.workflows.conftest import ActMaker
from tests.workflows.fake_gh import FakeGitHub

pytestmark = pytest.mark.workflows

NOBODY = "http://127.0.0.1:9"
"""An endpoint at which nothing listens."""


def test_a_run_a_failure_and_a_recovery(act: ActMaker, network: str, tmp_path: Path, github: FakeGitHub) -> None:
    """A run publishes; one without a source leaves the tree, opens an issue and shows no key; the next closes it."""
    out, key = tmp_path / "public", "k3y-0f-an-0perator"
    good = act(EXPORTER_OUT=str(out), EXPORTER_RPC_URLS=network)
    # A secret goes before a variable of its name.
    bad = act(secrets={"EXPORTER_RPC_URLS": f"{NOBODY}/{key}"}, EXPORTER_OUT=str(out), EXPORTER_RPC_URLS=network)

    jobs = good.run("export")
    assert {"export": "success", "alarm": "success"} == {name: job.result for name, job in jobs.items()}, jobs
    before = json.loads((out / "v1/system/status.json").read_text())
    assert "0" == jobs["export"].outputs["exit-code"]
    assert "## Exit code 0: published" in jobs["export"].summary
    assert f"| ledger | `{before['observed_ledger']}` |" in jobs["export"].summary
    assert [] == github.issues

    failed = bad.run("export")
    assert ("failure", "3") == (failed["export"].result, failed["export"].outputs["exit-code"])
    assert "## Exit code 3" in failed["export"].summary
    assert before == json.loads((out / "v1/system/status.json").read_text())
    assert ["run-report.json"] == [
        inputs["path"] for action, inputs in failed["export"].actions if action == "actions/upload-artifact"
    ]
    assert [True] == [issue["open"] for issue in github.issues]
    report = (bad.kept / "run-report-1" / "run-report.json").read_text()
    said = "".join(job.printed + job.summary for job in failed.values())
    assert key not in said + report + json.dumps(github.issues) + json.dumps(github.calls)

    assert "success" == good.run("export")["export"].result
    assert before["run_id"] == json.loads((out / "v1/system/status.json").read_text())["previous_run_id"]
    assert [False] == [issue["open"] for issue in github.issues]


def test_a_fork_without_settings_is_quiet(act: ActMaker, github: FakeGitHub) -> None:
    """On schedule nothing runs; started by hand, the run names the variable that is missing."""
    assert {"skipped"} == {job.result for job in act().run("export").values()}

    jobs = act(event="workflow_dispatch").run("export")

    assert ("failure", "2") == (jobs["export"].result, jobs["export"].outputs["exit-code"])
    assert "EXPORTER_OUT is not set" in jobs["export"].printed
    assert ["(exit code 2)"] == re.findall(r"\(exit code \d\)", github.open[0]["title"])


def test_onto_a_bucket(act: ActMaker, network: str) -> None:
    """With the keys of the role, two runs publish to a bucket, and the second replaces the first."""
    keys = {
        "AWS_ACCESS_KEY_ID": "of-the-role",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_SESSION_TOKEN": "t",
        "AWS_REGION": "eu-central-1",
    }
    role = "aws-actions/configure-aws-credentials"
    with WireBucket() as bucket:
        machine = act(
            EXPORTER_OUT=f"s3://{BUCKET}/live",
            EXPORTER_RPC_URLS=network,
            AWS_ROLE_ARN="arn:aws:iam::123456789012:role/exporter",
            AWS_REGION="eu-central-1",
            AWS_ENDPOINT_URL_S3=bucket.endpoint,
        )
        machine.actions = {role: "".join(f"echo {key}={value} >>$GITHUB_ENV\n" for key, value in keys.items())}
        pointers = []
        for _ in range(2):
            jobs = machine.run("export")
            assert "success" == jobs["export"].result, jobs["export"].printed
            pointers.append(json.loads(bucket.objects["live/v1/system/status.json"].data))

    assert [pointers[0]["run_id"]] == [pointers[1]["previous_run_id"]]
    asked = [inputs for action, inputs in jobs["export"].actions if action == role]
    assert [("arn:aws:iam::123456789012:role/exporter", "eu-central-1")] == [
        (inputs["role-to-assume"], inputs["aws-region"]) for inputs in asked
    ]


def test_from_nothing(act: ActMaker, network: str, project_root: Path, tmp_path: Path) -> None:
    """In a new checkout, with no package installed beforehand, the steps make their environment and publish."""
    machine = act(EXPORTER_OUT=str(tmp_path / "public"), EXPORTER_RPC_URLS=network)
    # HOME is where pip finds the settings of the machine.
    lent = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    machine.environment = {**lent, "HOME": str(Path.home())}
    jobs = machine.run("export")

    assert {"export": "success", "alarm": "success"} == {name: job.result for name, job in jobs.items()}, jobs
    assert "Installing the pinned packages" in jobs["export"].printed
    assert (tmp_path / "public" / "v1" / "system" / "status.json").is_file()


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


def test_the_history_outlives_the_machine(machine: Act, github: FakeGitHub, tmp_path: Path) -> None:
    """Two runs, each from nothing but the branch, leave two ledgers in the history, and the pages of both.

    A third one, which fails, uploads no site and leaves the branch alone; the issue is opened.
    """
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

    branch = tmp_path / "operator" / "markets" / "refs" / "heads" / "site"
    before = branch.read_text()
    machine.vars = {**machine.vars, "EXPORTER_RPC_URLS": NOBODY}

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
