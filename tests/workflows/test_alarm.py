"""scripts/alarm: one issue for as long as runs fail."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import ExitCode
from tests.examples import sampled
from tests.workflows.fake_gh import FakeGitHub
from tests.workflows.scripts import SYSTEM_PATH, call

QUIET = (ExitCode.DONE, ExitCode.LOST_RACE, ExitCode.UNPROVEN)
GH = """#!{python} -IS
import json, os, sys
assert os.environ["GH_TOKEN"] and os.environ["GH_REPO"]
with open({calls!r}, "a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
print({answers!r}.get(" ".join(sys.argv[1:3]), ""))
"""
"""A GitHub CLI that notes how it is called, and knows of one open issue, or of none."""


@dataclass
class Alarm:
    """Calls the script as the workflow does, next to a GitHub CLI."""

    root: Path
    folder: Path

    def __call__(self, result: str, code: int | None, title: str | None = None, **others: str) -> list[list[str]]:
        """The calls of the GitHub CLI; ``title`` is that of the open issue."""
        calls, command = self.folder / "calls", self.folder / "gh"
        answers = {} if title is None else {"issue list": "7", "issue view": title}
        command.write_text(GH.format(python=sys.executable, calls=str(calls), answers=answers))
        command.chmod(0o755)
        environment = {
            "PATH": f"{self.folder}:{SYSTEM_PATH}",
            "GH_TOKEN": "a-token",
            "GH_REPO": "operator/markets",
            "ALARM_NAME": "export",
            "ALARM_RUN_URL": "https://github.example/runs/1",
            "RUN_RESULT": result,
            "RUN_EXIT_CODE": "" if code is None else str(code),
        }
        ended, said = call(self.root, "alarm", **environment | others)
        assert (0 if result else 2) == ended, said
        return [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []


@pytest.fixture
def alarm(project_root: Path, tmp_path: Path) -> Alarm:
    return Alarm(project_root, tmp_path)


def options(calls: list[list[str]], *command: str) -> Any:
    """The options of the one call of a command; none where there is no such call."""
    found = [words[len(command) :] for words in calls if words[: len(command)] == [*command]]
    assert len(found) <= 1
    return {name: words[index + 1] for words in found for index, name in enumerate(words) if name.startswith("--")}


def commands(calls: list[list[str]]) -> list[str]:
    return [" ".join(words[:2]) for words in calls]


@pytest.mark.parametrize("code", sampled(ExitCode, 5))
def test_every_exit_code_has_its_text(alarm: Alarm, code: ExitCode) -> None:
    """An issue has the words of its exit code, and says of a published run that it is; some codes open none."""
    calls = alarm("success" if code.is_published or code is ExitCode.LOST_RACE else "failure", code)
    created = options(calls, "issue", "create")

    assert (code not in QUIET) == bool(created)
    if created:
        assert f"The scheduled export needs a look: {code.meaning} (exit code {code:d})" == created["--title"]
        assert created["--body"].startswith(f"{code.situation}\n")
        assert (
            "newest run is published" in created["--body"] if code.is_published else "newest" not in created["--body"]
        )


AFTER = (0, 5, 6, 7)
"""Exit codes of runs after which another step may fail."""


@pytest.mark.parametrize(
    ("result", "code", "subject"),
    sampled(
        [
            ("failure", None, "it did not finish"),
            ("cancelled", None, "it did not finish"),
            *(
                ("failure", code, f"a step after the run failed (exit code of the run: {code})")
                for code in (0, 5, 6, 7)
            ),
        ],
        3,
    ),
)
def test_a_run_that_did_not_end_well_is_reported(alarm: Alarm, result: str, code: int | None, subject: str) -> None:
    """A run that died before it could say why, or whose result was not deployed, opens an issue too."""
    calls = alarm(result, code)

    assert ["label list", "issue list", "label create", "issue create"] == commands(calls)
    created = options(calls, "issue", "create")
    assert (f"The scheduled export needs a look: {subject}", "alarm-export") == (
        created["--title"],
        created["--label"],
    )


FAILED = f"The scheduled export needs a look: {ExitCode.SOURCE.meaning} (exit code 3)"


@pytest.mark.parametrize(
    ("result", "code", "title", "does"),
    [
        pytest.param("failure", 3, FAILED, ["issue view", "issue edit"], id="the same failure"),
        pytest.param("success", 7, FAILED, ["issue view", "issue edit", "issue comment"], id="another"),
        pytest.param("success", 0, FAILED, ["issue close"], id="recovery"),
        pytest.param("success", 0, None, [], id="nothing to close"),
    ],
)
def test_one_issue_follows_the_runs(alarm: Alarm, result: str, code: int, title: str | None, does: list[str]) -> None:
    """Failures open one issue of the workflow, which names the newest one's kind; a success closes it."""
    calls = alarm(result, code, title)

    assert ["label list", "issue list", *does] == commands(calls)
    assert ["alarm-export"] * 2 == [word for words in calls[:2] for word in words if word.startswith("alarm-")]
    assert {"7"} >= {words[2] for words in calls[2:]}
    assert ("(exit code 7)" in options(calls, "issue", "edit", "7").get("--title", "")) is (code == 7)
    for command, said in (("comment", "--body"), ("close", "--comment")):
        if f"issue {command}" in does:
            assert "runs/1" in options(calls, "issue", command, "7")[said]


def test_a_missing_setting_is_a_usage_error(alarm: Alarm) -> None:
    """If nobody says how the run ended, the script ends with 2 and asks GitHub nothing."""
    assert [] == alarm("", 0)


@dataclass
class Series:
    """Calls the script after each run of a series, at times of its own, next to a GitHub CLI that keeps issues."""

    root: Path
    github: FakeGitHub
    minutes: int = 0

    def __call__(self, code: ExitCode, minutes: int, result: str = "success") -> list[str]:
        """A run ended this many minutes after the one before. Gives the titles of the open issues."""
        self.minutes += minutes
        clock = self.github.folder / "date"
        clock.write_text(f"#!/bin/sh\necho {1_795_000_000 + 60 * self.minutes}\n")
        clock.chmod(0o755)
        environment = {
            "PATH": f"{self.github.folder}:{SYSTEM_PATH}",
            "GH_TOKEN": "a-token",
            "GH_REPO": "operator/markets",
            "ALARM_NAME": "export",
            "ALARM_RUN_URL": f"https://github.example/runs/{self.minutes}",
        }
        ended, said = call(self.root, "alarm", **environment, RUN_RESULT=result, RUN_EXIT_CODE=str(code.value))
        assert 0 == ended, said
        return [issue["title"] for issue in self.github.open]


@pytest.fixture
def series(project_root: Path, tmp_path: Path) -> Series:
    return Series(project_root, FakeGitHub(tmp_path / "bin"))


LOST = "The scheduled export needs a look: another writer won against every run of an hour (exit code 5)"


def test_an_hour_of_lost_races_is_an_alarm(series: Series) -> None:
    """Lost races open no issue before the first is an hour old, then one, which the next published run closes."""
    assert [[], [], []] == [series(ExitCode.LOST_RACE, minutes) for minutes in (0, 30, 29)]
    assert [[LOST], [LOST]] == [series(ExitCode.LOST_RACE, minutes) for minutes in (1, 30)]
    assert "Seen last in https://github.example/runs/90," in series.github.open[0]["body"]
    assert [] == series(ExitCode.DONE, 30)
    assert [[], []] == [series(ExitCode.LOST_RACE, 30) for _ in range(2)], "a new series begins"


@pytest.mark.parametrize("code", sampled([ExitCode.SOURCE, ExitCode.UNREAD, ExitCode.DONE], 3))
def test_another_end_interrupts_lost_races(series: Series, code: ExitCode) -> None:
    """Whatever else a run ends with, the hour of lost races begins again after it; its own issue stays meanwhile."""
    series(ExitCode.LOST_RACE, 0)
    between = series(code, 30, "success" if code.is_published else "failure")

    assert [between] * 2 == [series(ExitCode.LOST_RACE, minutes) for minutes in (30, 59)]
    assert [LOST] == series(ExitCode.LOST_RACE, 1)
    assert 1 == len(series.github.issues)


def test_lost_races_without_an_alarm_write_once(series: Series) -> None:
    """A series writes when it begins and when it ends; the other runs of it only ask."""
    for code in (ExitCode.LOST_RACE, ExitCode.LOST_RACE, ExitCode.DONE, ExitCode.DONE):
        series(code, 10)

    written = [call for call in series.github.calls if call[:2] == ["label", "create"]]
    descriptions = [options([call], "label", "create")["--description"] for call in written]
    about = "Opened and closed by scripts/alarm"
    assert [f"{about}; lost since {1_795_000_600}", about] == descriptions


def test_the_schedule_is_kept(alarm: Alarm) -> None:
    """If GitHub says which workflow runs, that one is enabled again."""
    calls = alarm("success", 0, GITHUB_WORKFLOW_REF="operator/markets/.github/workflows/export.yml@refs/heads/main")

    assert ["api", "--method", "PUT", "repos/operator/markets/actions/workflows/export.yml/enable"] == calls[0]


def test_what_the_suites_found_is_in_the_issue(alarm: Alarm, tmp_path: Path) -> None:
    """The file of findings opens an issue with its text; without one nothing is opened after a success."""
    found = tmp_path / "found.md"
    found.write_text("test_a fails for `x=3`\n")
    calls = alarm("failure", None, ALARM_FOUND=str(found))
    created = options(calls, "issue", "create")

    assert "The scheduled export needs a look: its tests found something" == created["--title"]
    assert created["--body"].startswith("test_a fails for `x=3`\n\nSeen last in https://github.example/runs/1")
    found.unlink()
    assert "issue create" not in commands(alarm("success", 0, ALARM_FOUND=str(found))[len(calls) :])
