"""The schemas of the two frames, against everything that is made from them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from exporter.tables import BACKSTOPS_SCHEMA, COLUMNS, MARKETS_SCHEMA, POOLS_SCHEMA, frame_of_rows
from exporter.tree.families import LATEST_PARQUET


def test_types_and_places_of_columns() -> None:
    """No column can hold a float, nor a number that wraps or rounds; each has its own place, without a gap."""
    allowed = {pl.String(), pl.Int64(), pl.Int128(), pl.Boolean()}

    assert allowed == set(POOLS_SCHEMA.values()) | set(MARKETS_SCHEMA.values()) | set(BACKSTOPS_SCHEMA.values())
    assert [*range(1, len(COLUMNS) + 1)] == [column.position for column in COLUMNS]


KINDS: dict[str, pl.DataType] = {"text": pl.String(), "small": pl.Int64(), "large": pl.Int128(), "flag": pl.Boolean()}


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [("a", -(2**63), 2**127 - 1, True)],
        [(None, None, None, None), ("", 2**63 - 1, -(2**127), False)],
    ],
)
def test_a_frame_has_the_values_of_its_rows(rows: list[tuple[object, ...]]) -> None:
    """A frame gives back each value of its rows, also null and the largest numbers, whatever order a row has."""
    shuffled = [dict(reversed(list(zip(KINDS, row, strict=True)))) for row in rows]
    frame = frame_of_rows(shuffled, KINDS)

    assert KINDS == dict(frame.schema)
    assert rows == frame.rows()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("small", value) for value in ("1", 1.0, b"1", 2**63)),
        *(("large", value) for value in ("1", 1.5, 2**127, 2**128 - 1, -(2**127) - 1)),
        *(("text", value) for value in (1, b"a", True)),
        *(("flag", value) for value in (1, "true", 0.0)),
    ],
)
def test_a_value_of_another_type_is_refused(column: str, value: object) -> None:
    """No value is converted to the type of its column, and none wraps or becomes null, wherever its row is."""
    good = {"text": "a", "small": 1, "large": 1, "flag": True}

    for rows in ([good, good | {column: value}], [good | {column: value}, good]):
        with pytest.raises((TypeError, OverflowError, pl.exceptions.PolarsError)):
            frame_of_rows(rows, KINDS)


GENERATE = """
from tools import pool_numbers, pool_rows
pool_rows.main()
pool_numbers.main()
"""

PUBLISH = """
from pathlib import Path
from exporter.localnet.player import RecordedNetwork
from tests.job_runs import run, settings_for
from tests.localnet.recorded import only
assert run(settings_for(Path("tree"), **only("blend")), network=RecordedNetwork())[0] == 0
"""


def apply_diff_of_the_page(project_root: Path, folder: Path) -> None:
    """Copy the project into a folder and apply the diff in docs/architecture.md there."""
    (diff,) = re.findall(r"^```diff\n(.*?)^```", (project_root / "docs/architecture.md").read_text(), re.M | re.S)
    for name in ("exporter", "site_templates", "tests", "tools"):
        shutil.copytree(project_root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    undo = ["git", "apply", "--reverse", "--check", "-"]  # whoever followed the page has the column already
    if subprocess.run(undo, input=diff.encode(), cwd=folder, check=False, capture_output=True).returncode:
        applied = subprocess.run(
            ["git", "apply", "-"], input=diff.encode(), cwd=folder, check=False, capture_output=True
        )
        assert not applied.returncode, f"write the diff in docs/architecture.md anew: {applied.stderr.decode()}"


def test_the_diff_of_the_page_applies(project_root: Path, tmp_path: Path) -> None:
    """The diff in docs/architecture.md fits the code as it is, and adds the column in the next position."""
    apply_diff_of_the_page(project_root, tmp_path)

    columns = (tmp_path / "exporter/tree/pools.py").read_text()
    assert "target_utilization_bps" in columns
    positions = [int(number) for number in re.findall(r"\b(?:required|optional|derived)\(\s*(\d+),", columns)]
    assert [*range(1, len(positions) + 1)] == sorted(positions)


@pytest.mark.slow
def test_adding_a_column_as_the_page_does(project_root: Path, tmp_path: Path) -> None:
    """The diff in docs/architecture.md is all that it takes: the column is in every kind of file that has columns."""
    apply_diff_of_the_page(project_root, tmp_path)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    for program in (GENERATE, PUBLISH):
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True)
    tree = tmp_path / "tree"

    rows = json.loads((tree / "v1/pools/index.json").read_bytes())["data"]
    detail = json.loads((tree / f"v1/assets/{rows[0]['market']}/{rows[0]['pool']}.json").read_bytes())
    package = json.loads((tree / "datapackage.json").read_bytes())
    schemas = json.loads((tree / "v1/openapi.json").read_bytes())["components"]["schemas"]

    found = {row["target_utilization_bps"] for row in rows}
    assert {int} == set(map(type, found))
    assert found == set(pl.read_parquet(tree / LATEST_PARQUET.only_key)["target_utilization_bps"])
    assert rows[0]["target_utilization_bps"] == detail["risk"]["target_utilization_bps"]
    history = next(table for table in package["resources"] if table["name"] == "history")
    assert "target_utilization_bps" == history["schema"]["fields"][-1]["name"]
    for model in ("AssetRisk", "PoolRow"):
        described = schemas[model]["properties"]["target_utilization_bps"]["description"]
        assert "Utilization above which borrowing gets dear faster, in basis points; null when unknown." == described
