"""The run report on disk: incomplete until the last word."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from exporter.errors import ConfigError
from exporter.job.run_log import RunLog


def test_incomplete_until_the_last_word(tmp_path: Path) -> None:
    """The report is on disk when a run begins. A step is named while it runs, and stays incomplete if it fails."""
    path = tmp_path / "report.json"
    report = RunLog(path, command="run")
    begun = json.loads(path.read_text())
    with suppress(RuntimeError), report.step("read", "reading"):
        within = json.loads(path.read_text())
        raise RuntimeError("stop")
    report.finish(3, "https://rpc.example.org/v2/KEY does not answer")
    written = json.loads(path.read_text())

    assert (False, "run") == (begun["complete"], begun["command"])
    assert (False, [{"step": "read", "complete": False}]) == (within["complete"], within["steps"])
    assert [("read", False)] == [(step["step"], step["complete"]) for step in written["steps"]]
    assert (True, 3) == (written["complete"], written["exit_code"])
    assert "https://rpc.example.org/… does not answer" == written["message"]  # no more of a URL than its host
    assert "lending_run_exit_code 3\n" in (tmp_path / "report.json.prom").read_text()


def test_a_step_has_the_seconds_that_it_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds and the processor's seconds of a step are those between its begin and its end."""
    report = RunLog(tmp_path / "report.json", command="run")
    monkeypatch.setattr("exporter.job.run_log.monotonic", iter([100.0, 103.5]).__next__)
    monkeypatch.setattr("exporter.job.run_log.process_time", iter([7.0, 7.25]).__next__)
    with report.step("read", "reading"):
        pass

    [step] = report.facts["steps"]
    assert (3.5, 0.25) == (step["seconds"], step["processor_seconds"])


@pytest.mark.parametrize("name", ["folder", "a\0b", "missing/report.json"])
def test_nowhere_to_write(tmp_path: Path, name: str) -> None:
    """A report that cannot be written is refused, in a line, before the run does anything."""
    (tmp_path / "folder").mkdir()

    with pytest.raises(ConfigError, match=r"output\.report: cannot write"):
        RunLog(tmp_path / name)


def test_report_that_fails_later(tmp_path: Path) -> None:
    """A report that can no longer be written costs the run nothing; its error is reported at the end."""
    path = tmp_path / "there" / "report.json"
    path.parent.mkdir()
    report = RunLog(path)
    path.unlink()
    path.parent.rmdir()
    with report.step("read", "reading"):
        pass
    report.finish(1, "the store is full")

    assert "No such file" in (report.problem or "")


def test_a_device_gets_the_report_once_and_nothing_beside_it() -> None:
    """A report into a device leaves it a device, with no metrics next to it."""
    report = RunLog(Path("/dev/null"))
    report.finish(0)

    assert (None, True) == (report.problem, Path("/dev/null").is_char_device())
    assert not Path("/dev/null.prom").exists()


def test_a_report_on_standard_output_is_one_document(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A report on standard output is written once, at the end, so that a program can read it as JSON."""
    report = RunLog(Path("-"))
    with report.step("read", "reading"):
        pass
    report.finish(0)

    assert 0 == json.loads(capfdbinary.readouterr().out)["exit_code"]
