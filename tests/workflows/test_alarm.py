"""scripts/alarm: one issue for as long as runs fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter import errors
from tests.workflows.fake_gh import FakeGitHub
from tests.workflows.scripts import SYSTEM_PATH, call

CODES = sorted(value for name, value in vars(errors).items() if name.startswith("EXIT_"))
QUIET = (errors.EXIT_DONE, errors.EXIT_LOST_RACE, errors.EXIT_UNPROVEN)


@pytest.fixture
def github(tmp_path: Path) -> FakeGitHub:
    return FakeGitHub(tmp_path / "bin")


def alarm(github: FakeGitHub, root: Path, result: str, code: int | None, **others: str) -> int:
    """Call the script as the workflow does; gives its exit code."""
    environment = {
        "PATH": f"{github.folder}:{SYSTEM_PATH}",
        "GH_TOKEN": "a-token",
        "GH_REPO": "operator/markets",
        "ALARM_NAME": "export",
        "ALARM_RUN_URL": "https://github.example/runs/1",
        "RUN_RESULT": result,
        "RUN_EXIT_CODE": "" if code is None else str(code),
    }
    return call(root, "alarm", **environment | others)[0]


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


@pytest.mark.parametrize(
    ("runs", "title", "is_open", "comments"),
    [
        pytest.param([("failure", 3)] * 3, "exit code 3", True, [], id="of failures of one kind there is one issue"),
        pytest.param([("failure", 3)] + [("success", 0)] * 2, "exit code 3", False, ["works again"], id="recovery"),
        pytest.param([("failure", 3), ("success", 7)], "exit code 7", True, ["exit code 7"], id="another kind"),
        pytest.param([("failure", 4), ("success", 5)], "exit code 4", True, [], id="another run won"),
    ],
)
def test_one_issue_follows_the_runs(
    github: FakeGitHub, project_root: Path, runs: list[tuple[str, int]], title: str, is_open: bool, comments: list[str]
) -> None:
    """Failures open one issue, which says of which kind the newest is, and the next success closes it, once."""
    assert [0] * len(runs) == [alarm(github, project_root, *run) for run in runs]

    (issue,) = github.issues
    assert (title in issue["title"], issue["open"]) == (True, is_open)
    assert len(comments) == len(issue["comments"])
    assert all(text in comment for text, comment in zip(comments, issue["comments"], strict=True))
    assert ("gets older" in issue["body"]) is ("7" not in title)


def test_workflows_do_not_close_each_others_issues(github: FakeGitHub, project_root: Path) -> None:
    """The issue of one workflow is not touched by the recovery of another."""
    alarm(github, project_root, "failure", 3)
    alarm(github, project_root, "success", 0, ALARM_NAME="pages")

    assert [["alarm-export"]] == [issue["labels"] for issue in github.open]


def test_the_schedule_is_kept(github: FakeGitHub, project_root: Path) -> None:
    """Where GitHub says which workflow it is, that one is enabled again."""
    workflow = "operator/markets/.github/workflows/export.yml@refs/heads/main"
    assert 0 == alarm(github, project_root, "success", 0, GITHUB_WORKFLOW_REF=workflow)

    assert ["api", "--method", "PUT", "repos/operator/markets/actions/workflows/export.yml/enable"] == github.calls[0]


def test_a_missing_setting_is_reported(github: FakeGitHub, project_root: Path) -> None:
    """Without a result there is no guess: exit code 2, and no call."""
    assert 2 == alarm(github, project_root, "", 0)
    assert [] == github.calls


def test_what_the_suites_found_is_in_the_issue(github: FakeGitHub, project_root: Path, tmp_path: Path) -> None:
    """The file of findings opens an issue with its text; the next run without one closes it."""
    found = tmp_path / "found.md"
    found.write_text("test_a fails for `x=3`\n")
    assert 0 == alarm(github, project_root, "failure", None, ALARM_NAME="slow", ALARM_FOUND=str(found))

    (issue,) = github.open
    assert "The scheduled slow needs a look: its tests found something" == issue["title"]
    assert issue["body"].startswith("test_a fails for `x=3`\n\nSeen last in https://github.example/runs/1")

    found.unlink()
    assert 0 == alarm(github, project_root, "success", 0, ALARM_NAME="slow", ALARM_FOUND=str(found))
    assert [] == github.open
