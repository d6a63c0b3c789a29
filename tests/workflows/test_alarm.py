"""scripts/alarm: one issue for as long as runs fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from exporter import errors
from tests.workflows.act import clean_path
from tests.workflows.fake_gh import FakeGitHub

CODES = sorted(value for name, value in vars(errors).items() if name.startswith("EXIT_"))
QUIET = (errors.EXIT_DONE, errors.EXIT_LOST_RACE, errors.EXIT_UNPROVEN)


@pytest.fixture
def github(tmp_path: Path) -> FakeGitHub:
    return FakeGitHub(tmp_path / "bin")


def alarm(
    github: FakeGitHub, root: Path, result: str, code: int | None, name: str = "export", found: Path | None = None
) -> int:
    """Call the script as the workflow does; gives its exit code."""
    return subprocess.run(
        [root / "scripts" / "alarm"],
        env={
            "PATH": clean_path(github.folder),
            "GH_TOKEN": "a-token",
            "GH_REPO": "operator/markets",
            "ALARM_NAME": name,
            "ALARM_RUN_URL": "https://github.example/runs/1",
            "RUN_RESULT": result,
            "RUN_EXIT_CODE": "" if code is None else str(code),
            **({} if found is None else {"ALARM_FOUND": str(found)}),
        },
        timeout=60,
        check=False,
    ).returncode


@pytest.mark.parametrize("code", CODES)
def test_every_exit_code_has_its_text(github: FakeGitHub, project_root: Path, code: int) -> None:
    """An issue names its exit code; all is well, and a lost race, open none."""
    result = "success" if code in (*QUIET, errors.EXIT_UNREAD) else "failure"
    assert 0 == alarm(github, project_root, result, code)

    titles = [issue["title"] for issue in github.open]
    assert ([] if code in QUIET else [True]) == [f"(exit code {code})" in title for title in titles]


@pytest.mark.parametrize(("result", "code"), [("failure", None), ("cancelled", None), ("failure", 0), ("failure", 7)])
def test_a_run_that_did_not_end_well_is_reported(
    github: FakeGitHub, project_root: Path, result: str, code: int | None
) -> None:
    """A run that died before it could say why, or whose result was not deployed, opens an issue too."""
    assert 0 == alarm(github, project_root, result, code)

    assert ["The scheduled export needs a look: it did not finish"] == [issue["title"] for issue in github.open]


def test_failures_open_one_issue_and_recovery_closes_it(github: FakeGitHub, project_root: Path) -> None:
    """Of three failures of one kind there is one issue and no comment; the next success closes it, once."""
    for _ in range(3):
        alarm(github, project_root, "failure", 3)
    (issue,) = github.issues
    assert (True, []) == (issue["open"], issue["comments"])

    for _ in range(2):
        alarm(github, project_root, "success", 0)

    (issue,) = github.issues
    assert (False, 1) == (issue["open"], len(issue["comments"]))


def test_another_kind_of_failure_is_reported_in_the_same_issue(github: FakeGitHub, project_root: Path) -> None:
    """From a failure to a run that publishes what it can read: the issue stays, says so, and sounds otherwise."""
    alarm(github, project_root, "failure", 3)
    before = github.open[0]["body"]
    alarm(github, project_root, "success", 7)

    (issue,) = github.issues
    assert issue["open"]
    assert "exit code 7" in issue["title"]
    assert (1, True) == (len(issue["comments"]), "exit code 7" in issue["comments"][0])
    assert (True, False) == ("gets older" in before, "gets older" in issue["body"])


def test_a_lost_race_changes_nothing(github: FakeGitHub, project_root: Path) -> None:
    """Another run won: an open issue stays open, because this run says nothing about the trouble."""
    alarm(github, project_root, "failure", 4)
    before = github.issues
    alarm(github, project_root, "success", 5)

    assert before == github.issues


def test_workflows_do_not_close_each_others_issues(github: FakeGitHub, project_root: Path) -> None:
    """The issue of one workflow is not touched by the recovery of another."""
    alarm(github, project_root, "failure", 3, name="export")
    alarm(github, project_root, "success", 0, name="pages")

    assert [["alarm-export"]] == [issue["labels"] for issue in github.open]


def test_a_missing_setting_is_reported(github: FakeGitHub, project_root: Path) -> None:
    """Without a result there is no guess: exit code 2, and no call."""
    assert 2 == alarm(github, project_root, "", 0)
    assert [] == github.calls


def test_what_the_suites_found_is_in_the_issue(github: FakeGitHub, project_root: Path, tmp_path: Path) -> None:
    """The file of findings opens an issue with its text; the next run without one closes it."""
    found = tmp_path / "found.md"
    found.write_text("test_a fails for `x=3`\n")
    assert 0 == alarm(github, project_root, "failure", None, "slow", found)

    (issue,) = github.open
    assert "The scheduled slow needs a look: its tests found something" == issue["title"]
    assert issue["body"].startswith("test_a fails for `x=3`\n\nSeen last in https://github.example/runs/1")

    found.unlink()
    assert 0 == alarm(github, project_root, "success", 0, "slow", found)
    assert [] == github.open
