"""The interval of a workflow follows from its cron lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.job.schedule import interval_minutes, main


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["17,47 * * * *"], 30),
        (["37 * * * *"], 60),
        (["*/5 * * * *"], 5),
        (["7-59/10 * * * *"], 10),
        (["5 */6 * * *"], 360),
        (["23 3 * * *"], 1_440),
        (["0 8-20 * * *"], 720),  # nothing runs from 20:00 to 8:00
        (["10 * * * *", "40 * * * *"], 30),
        ([], None),
    ],
)
def test_the_longest_gap_is_the_interval(lines: list[str], expected: int | None) -> None:
    """All cron lines count together; readers are promised the longest time between two starts."""
    assert expected == interval_minutes("on:\n  schedule:\n" + "".join(f'    - cron: "{line}" # x\n' for line in lines))


@pytest.mark.parametrize("line", ["0 0 * * 6", "0 0 1 * *", "@daily * * * *"])
def test_other_schedules_have_to_be_stated(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A schedule that is not the same every day, or not understood, is an error and no guess."""
    workflow = tmp_path / "a.yml"
    workflow.write_text(f"    - cron: '{line}'\n")

    assert 2 == main([str(workflow)])
    assert "state the interval" in capsys.readouterr().err
