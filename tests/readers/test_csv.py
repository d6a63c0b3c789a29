"""The lines with which docs/history.md reads CSV keep every digit of integers above 64 bits."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.readers.snippets import DOCS, OTHER_PYTHON

NUMBERS = ("123", str(10**38 - 1), str(2**63), "")


def line(reader: str, path: Path) -> str:
    """The documented line of a reader, with a file's path for the address."""
    section = DOCS.read_text().partition("### CSV")[2]
    found: list[str] = re.findall(r"```\w+\n(.*?)\n```", section, re.DOTALL)
    lines = dict(zip(("duckdb", "polars", "pandas", "r"), found, strict=True))
    return lines[reader].replace("https://markets.example.org/v1/latest.csv", str(path))


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A file whose exact column begins with small numbers, so that a reader may guess a type that is too small."""
    path = tmp_path / "latest.csv"
    path.write_text("symbol,total_supplied,supplied\n" + "".join(f"a,{number},0.5\n" for number in NUMBERS))
    return path


def test_duckdb_reads_all_columns_as_text(written: Path) -> None:
    """DuckDB reads all columns as text."""
    rows = importlib.import_module("duckdb").sql(line("duckdb", written)).fetchall()

    assert [number or None for number in NUMBERS] == [total for _, total, _ in rows]


def test_polars_reads_all_columns_as_text(written: Path) -> None:
    """Polars reads all columns as text."""
    names: dict[str, Any] = {"polars": importlib.import_module("polars")}
    exec(line("polars", written), names)

    assert [number or None for number in NUMBERS] == list(names["rows"]["total_supplied"])


def test_the_documented_line_of_pandas_reads_every_digit(written: Path) -> None:
    """The documented line of pandas reads every digit, in the Python of the suite of readers."""
    if not OTHER_PYTHON.is_file():
        pytest.skip("build/readers has no pandas; scripts/suite readers makes it")
    code = f"import pandas; {line('pandas', written)}; print(*rows['total_supplied'].dropna())"
    done = subprocess.run([OTHER_PYTHON, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert [number for number in NUMBERS if number] == done.stdout.split(), done.stderr


def test_the_documented_line_of_r_reads_every_digit(written: Path) -> None:
    """The documented line of R reads every digit, without a package."""
    if shutil.which("Rscript") is None:
        pytest.skip("Rscript is not installed (Debian: apt-get install r-base-core), so R was not tried")
    code = f"{line('r', written)}; cat(rows$total_supplied)"
    done = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, timeout=60, check=False)

    assert [number for number in NUMBERS if number] == done.stdout.split(), done.stderr
