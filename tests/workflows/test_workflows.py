"""What holds for every workflow: who may do what, and what is run."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import exporter
from exporter.config import ENVIRONMENT
from tests import suites
from tests.workflows.act import PYTHON_VERSION, WORKFLOWS, clean_path, load

NAMES = sorted(path.stem for path in WORKFLOWS.glob("*.yml"))
PUBLISHING = ["export", "pages"]


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in load(name)["jobs"].values() for step in job["steps"]]


def triggers_of(workflow: dict[Any, Any]) -> dict[str, Any]:
    """What starts a workflow. YAML 1.1 reads the key `on` as true."""
    triggers: dict[str, Any] = workflow["on"] if "on" in workflow else workflow[True]
    return triggers


@pytest.mark.parametrize("name", NAMES)
def test_rights_are_given_job_by_job(name: str) -> None:
    """A workflow has no rights of its own, each job states its own, and none may both write issues and publish."""
    workflow = load(name)

    assert {} == workflow["permissions"]
    for job in workflow["jobs"].values():
        writes = {right for right, level in job["permissions"].items() if level == "write"}
        assert "issues" not in writes or {"issues"} == writes
        assert "contents" not in writes or {"contents"} == writes


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_pinned(name: str) -> None:
    """Each action is named by a full commit, with its version in a comment."""
    text = (WORKFLOWS / f"{name}.yml").read_text()
    used = re.findall(r"uses: (.*)", text)

    assert used
    assert [] == [use for use in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use)]


@pytest.mark.parametrize("name", NAMES)
def test_steps_call_scripts(name: str) -> None:
    """What a workflow runs can be run by hand: one script, with nothing that GitHub put into its text."""
    commands = [step["run"] for step in steps(name) if "run" in step]

    assert commands
    for command in commands:
        assert re.fullmatch(r"scripts/[a-z-]+( [a-z/-]+)*", command), command
        assert (WORKFLOWS.parents[1] / command.split()[0]).is_file()


@pytest.mark.parametrize("name", PUBLISHING)
def test_publishing_waits_and_is_never_cancelled(name: str) -> None:
    """Runs that publish queue, on a schedule that avoids the full and the half hour."""
    workflow = load(name)
    triggers = triggers_of(workflow)

    assert {"group": name, "cancel-in-progress": False} == workflow["concurrency"]
    assert {"schedule", "workflow_dispatch", "repository_dispatch"} == set(triggers)
    minutes = [int(minute) for entry in triggers["schedule"] for minute in entry["cron"].split()[0].split(",")]
    assert set() == set(minutes) & {0, 15, 30, 45}


@pytest.mark.parametrize("name", PUBLISHING)
def test_readers_are_told_the_schedule(name: str) -> None:
    """The interval that a run promises is the one at which it is scheduled."""
    workflow = load(name)
    (entry,) = triggers_of(workflow)["schedule"]
    minutes = entry["cron"].split()[0].split(",")
    (told,) = [step["env"]["EXPORTER_INTERVAL_MINUTES"] for step in steps(name) if step.get("id") == "run"]

    assert " * * * *" in entry["cron"]
    assert str(60 // len(minutes)) == told


@pytest.mark.parametrize("name", PUBLISHING)
def test_settings_exist(name: str) -> None:
    """Every EXPORTER_ variable that a step sets is one that the exporter knows."""
    (run,) = [step for step in steps(name) if step.get("id") == "run"]

    assert set() == {key for key in run["env"] if key.startswith("EXPORTER_")} - set(ENVIRONMENT) - {"EXPORTER_CONFIG"}


@pytest.mark.parametrize("name", PUBLISHING)
def test_the_python_that_is_set_up_is_the_one_that_is_used(name: str) -> None:
    """The scripts are told the version that the step before installs."""
    (version,) = [step["with"]["python-version"] for step in steps(name) if "setup-python" in step.get("uses", "")]

    assert (PYTHON_VERSION, f"python{PYTHON_VERSION}") == (version, load(name)["jobs"]["export"]["env"]["PYTHON"])


@pytest.mark.parametrize("name", PUBLISHING)
def test_limits_fit_into_the_job(name: str) -> None:
    """Run, proof, and a minute to end after each, leave the job five minutes for what comes before and after them."""
    script = (WORKFLOWS.parents[1] / "scripts" / "export").read_text()
    (run,) = re.findall(r"EXPORT_TIME_LIMIT:-(\d+)m", script)
    (proof,) = re.findall(r"--kill-after=1m (\d+)m", script)

    assert int(run) + int(proof) + 2 + 5 <= load(name)["jobs"]["export"]["timeout-minutes"]


def test_a_fork_runs_no_slow_suite_on_schedule() -> None:
    """The weekly tests of a fork wait until somebody starts them."""
    jobs = load("slow")["jobs"]

    assert "github.event_name != 'schedule' || !github.event.repository.fork" == jobs["suite"]["if"]
    assert "needs.suite.result != 'skipped'" in jobs["summary"]["if"]


def test_every_slow_suite_is_in_the_matrix() -> None:
    """The weekly workflow runs each suite that there is a script for."""
    assert suites.names() == load("slow")["jobs"]["suite"]["strategy"]["matrix"]["suite"]


def test_only_what_was_checked_is_published() -> None:
    """The job that may publish waits for an approval, runs nothing of the repository, and comes after the checks."""
    jobs = load("release")["jobs"]

    assert ("check", "pypi") == (jobs["publish"]["needs"], jobs["publish"]["environment"]["name"])
    assert [] == [step for step in jobs["publish"]["steps"] if "run" in step]
    assert ["publish"] == [name for name, job in jobs.items() if "write" in job["permissions"].values()]


@pytest.mark.parametrize(
    ("tag", "changelog", "says"),
    [
        ("v{}", "## [Unreleased]\n\n## [{}] - 2026-11-22\n\n- New.\n", ""),
        ("v9.9.9", "## [Unreleased]\n\n## [{}] - 2026-11-22\n", "the tag is v9.9.9"),
        ("v{}", "## [Unreleased]\n\n## [9.9.9] - 2026-11-22\n", "the newest release"),
        ("v{}", "## [Unreleased]\n\n## [{}] - soon\n", "the newest release"),
        ("v{}", "## [Unreleased]\n\n- New.\n\n## [{}] - 2026-11-22\n", "under Unreleased"),
    ],
)
def test_a_tag_must_fit(project_root: Path, tmp_path: Path, tag: str, changelog: str, says: str) -> None:
    """Only a tag that names the version of the package and of the newest entry of the changelog is released."""
    for name in ("scripts/dist", "scripts/_common.sh", "exporter/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy2(project_root / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(changelog.format(exporter.__version__))
    ran = subprocess.run(
        [tmp_path / "scripts" / "dist", "compare"],
        env={"PATH": clean_path(), "RELEASE_TAG": tag.format(exporter.__version__)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (1 if says else 0) == ran.returncode, ran.stderr
    assert says in ran.stderr


def test_no_key_of_aws_is_stored() -> None:
    """The bucket is written with a role that GitHub vouches for; no secret of AWS is read."""
    secrets = {name for path in WORKFLOWS.glob("*.yml") for name in re.findall(r"secrets\.(\w+)", path.read_text())}

    assert {"EXPORTER_RPC_URLS"} == secrets
