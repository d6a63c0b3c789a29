"""The run report on disk: incomplete until the last word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter.errors import ConfigError
from exporter.report import RunReport


def test_begins_incomplete(tmp_path: Path) -> None:
    """As soon as a run begins its report is there, and says that it is not complete."""
    path = tmp_path / "report.json"
    RunReport(path, command="run")

    report = json.loads(path.read_text())

    assert (False, "run") == (report["complete"], report["command"])


def test_a_step_that_fails_is_in_the_report(tmp_path: Path) -> None:
    """A step that was begun and not ended stands there as incomplete, with its time."""
    path = tmp_path / "report.json"
    report = RunReport(path)

    with pytest.raises(RuntimeError), report.step("read"):
        raise RuntimeError("stop")
    report.finish(3, "the source failed")

    written = json.loads(path.read_text())
    assert [("read", False)] == [(step["step"], step["complete"]) for step in written["steps"]]
    assert (True, 3, "the source failed") == (written["complete"], written["exit_code"], written["message"])


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
