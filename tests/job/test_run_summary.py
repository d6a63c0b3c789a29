"""The summary of a run, for the page of a scheduled workflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import ExitCode
from exporter.job.run_log import RunLog
from exporter.job.run_summary import MAX_NAMED_ITEMS, MAX_TEXT_CHARACTERS, main, render_summary
from tests.examples import examples


def finished(path: Path, code: int, message: str | None = None, **facts: Any) -> dict[str, Any]:
    report = RunLog(path, command="run")
    report.add(network="local", certificate={"ledger": 77}, run_id="77-a", **facts)
    with report.step("read", "reading") as step:
        step.update(keys=12, calls=3)
    report.finish(code, message)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


@pytest.mark.parametrize("code", [*ExitCode, 99])
def test_every_exit_code_has_its_words(code: int) -> None:
    """The summary begins with the code and its meaning; a code that is none of ours has none."""
    meaning = code.meaning if isinstance(code, ExitCode) else "of no known meaning"

    assert f"## Exit code {int(code)}: {meaning}" == render_summary(None, code).splitlines()[0]


def test_a_good_run(tmp_path: Path) -> None:
    """The table has the ledger, the run and each step with its facts."""
    report = finished(
        tmp_path / "report.json", 0, unread=[], unpriced=[{"market": "M", "pool": "P", "reason": "stale"}]
    )
    summary = render_summary(report, 0)
    lines = summary.splitlines()

    assert "## Exit code 0: published, or nothing to do" == lines[0]
    assert {"| ledger | `77` |", "| run | `77-a` |", "| unread | `0` |", "| unpriced | `1` |"} <= set(lines)
    assert f"| `read` | `{report['steps'][0]['seconds']}` | `keys 12, calls 3` |" in lines
    assert ["### Unpriced: 1", "", "- `M P stale`"] == lines[-3:]


def test_long_lists_are_cut(tmp_path: Path) -> None:
    """The summary names some of a thousand unread pools and counts the rest, so that GitHub does not refuse it."""
    unread = [{"market": "M" * 5000, "pool": str(number), "reason": "x"} for number in range(1000)]
    summary = render_summary(finished(tmp_path / "report.json", 7, unread=unread), 7)

    assert f"- and {1000 - MAX_NAMED_ITEMS} more" in summary
    assert len(summary) < 10_000


HOSTILE = "`<img src=x>` | [a](https://e.example) @everyone ![](x) <!-- \u202e \n## Heading\n| a | b |\n"


@examples(fast=10, thorough=2_000)
@given(text=st.text() | st.just(HOSTILE) | st.text(alphabet="`|<>[]()!@#\n\\ a"))
def test_nothing_from_outside_becomes_markup(text: str) -> None:
    """Whatever a market calls itself is one span of code: no line, cell or span of its own."""

    def report(said: str, *names: str) -> dict[str, Any]:
        row = dict.fromkeys(names, said)
        steps = [{"step": said}]
        return {"complete": True, "message": said, "network": said, "unread": [row], "notices": [said], "steps": steps}

    summary = render_summary(report(text, "market", "pool", "reason", "detail"), 7)
    plain = report("m", "market")

    assert len(summary.splitlines()) <= len(render_summary(plain, 7).splitlines())
    for line in summary.splitlines():
        assert 0 == line.count("`") % 2
        outside = "".join(line.split("`")[::2])
        assert set() == set(outside) & set("<[@!")
        assert len(line) < 4 * MAX_TEXT_CHARACTERS


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"steps": [', b"[" * 100_000])
def test_a_damaged_report(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """An unreadable report still leaves a summary with the exit code."""
    path = tmp_path / "report.json"
    path.write_bytes(content)

    assert 0 == main([str(path), "3"])
    assert "## Exit code 3" in capsys.readouterr().out


def test_the_command_prints_the_summary_or_its_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints the summary. Called without an exit code, it says how to call it."""
    finished(tmp_path / "report.json", 0)
    RunLog(tmp_path / "killed.json", command="run")

    assert 0 == main([str(tmp_path / "report.json"), "0"])
    assert capsys.readouterr().out.startswith("## Exit code 0")
    assert "stopped from outside" in render_summary(json.loads((tmp_path / "killed.json").read_text()), 1)
    assert "left no report" in render_summary(None, 1)
    assert 2 == main(["report.json"])
