"""The run report on disk: incomplete until the last word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter.errors import ConfigError
from exporter.job.report import RunReport


def test_begins_incomplete(tmp_path: Path) -> None:
    """As soon as a run begins its report is there, and says that it is not complete."""
    path = tmp_path / "report.json"
    RunReport(path, command="run")

    report = json.loads(path.read_text())

    assert (False, "run") == (report["complete"], report["command"])


def test_a_step_that_fails_is_in_the_report(tmp_path: Path) -> None:
    """A step that was begun and not ended is incomplete in the report, with its time."""
    path = tmp_path / "report.json"
    report = RunReport(path)

    with pytest.raises(RuntimeError), report.step("read"):
        raise RuntimeError("stop")
    report.finish(3, "the source failed")

    written = json.loads(path.read_text())
    assert [("read", False)] == [(step["step"], step["complete"]) for step in written["steps"]]
    assert (True, 3, "the source failed") == (written["complete"], written["exit_code"], written["message"])
    assert "lending_run_exit_code 3\n" in (tmp_path / "report.json.prom").read_text()


def test_killed_in_a_step(tmp_path: Path) -> None:
    """While a step runs the report on disk already names it."""
    path = tmp_path / "report.json"
    report = RunReport(path)

    with report.step("publish"):
        written = json.loads(path.read_text())

    assert (False, [{"step": "publish", "complete": False}]) == (written["complete"], written["steps"])


def test_nowhere_to_write(tmp_path: Path) -> None:
    """A report that cannot be written is refused before the run does anything."""
    with pytest.raises(ConfigError, match=r"output\.report: cannot write"):
        RunReport(tmp_path / "missing" / "report.json")


@pytest.mark.parametrize("name", ["folder", "a\0b"])
def test_path_of_no_file(tmp_path: Path, name: str) -> None:
    """A folder, and a name with a NUL, are refused in a line."""
    (tmp_path / "folder").mkdir()

    with pytest.raises(ConfigError, match=r"output\.report: cannot write"):
        RunReport(tmp_path / name)


def test_report_that_fails_later(tmp_path: Path) -> None:
    """A report that can no longer be written costs the run nothing; its error is reported at the end."""
    path = tmp_path / "there" / "report.json"
    path.parent.mkdir()
    report = RunReport(path)
    path.unlink()
    path.parent.rmdir()
    with report.step("read"):
        pass
    report.finish(1, "the store is full")

    assert report.problem is not None
    assert "No such file" in report.problem


def test_message_with_a_url(tmp_path: Path) -> None:
    """The message holds no more of a URL than its host."""
    report = RunReport(None)
    report.finish(3, "https://rpc.example.org/v2/KEY does not answer")

    assert "https://rpc.example.org/… does not answer" == report.facts["message"]
