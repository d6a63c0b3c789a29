"""``exporter demo`` into an output that has one already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from exporter.cli import main


def supplied(folder: Path) -> dict[tuple[str, str], int]:
    rows = json.loads((folder / "v1" / "pools" / "index.json").read_bytes())["data"]
    return {(row["market"], row["pool"]): int(row["total_supplied"]) for row in rows}


@pytest.mark.slow
def test_markets_go_on_where_the_earlier_demo_left_them(tmp_path: Path) -> None:
    """A first demo has changes; a second neither goes back to the recorded amounts nor jumps."""
    command = ["demo", "--out", str(tmp_path / "public"), "--days", "1", "--report", str(tmp_path / "report.json")]
    first = CliRunner().invoke(main, command)
    before = supplied(tmp_path / "public")
    first_changes = json.loads((tmp_path / "public/v1/changes.json").read_bytes())["data"]
    second = CliRunner().invoke(main, command)
    after = supplied(tmp_path / "public")

    assert (0, 0) == (first.exit_code, second.exit_code), first.output + second.output
    assert 2 * ["configuration", "resumed"] == [change["kind"] for change in first_changes]
    assert before.keys() == after.keys()
    assert [] == [place for place, amount in before.items() if not 0.5 < after[place] / amount < 2]
