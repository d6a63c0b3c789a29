"""The rollups by one URL: DuckDB, Polars and pandas read what docs/history.md says, from a folder and over HTTPS."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.readers.snippets import DOCS, OTHER_PYTHON
from tests.readers.trees import Row
from tests.readers.web_server import https_server

EXAMPLE = "https://markets.example.org"
_PROGRAM = """
import sys
reader, line, trust = sys.argv[1:]
if reader == "duckdb":
    import duckdb
    connection = duckdb.connect()
    if "https://" in line:
        import duckdb_extensions
        duckdb_extensions.import_extension("httpfs", con=connection)
        connection.execute(f"LOAD httpfs; SET ca_cert_file = '{trust}'")
    table = connection.sql(line).arrow()
    table = table.read_all() if hasattr(table, "read_all") else table
elif reader == "polars":
    import polars as pl
    table = eval(line).to_arrow()
else:
    import pandas as pd
    import pyarrow as pa
    table = pa.Table.from_pandas(eval(line))
print(table.num_rows, sum(int(value) for value in table.column("total_supplied").to_pylist()))
"""


def line_of(reader: str, base: str) -> str:
    """The line of the documentation that reads the daily file."""
    section = DOCS.read_text().split("\n## One URL\n")[1].split("\n## ")[0]
    marks = {"duckdb": "FROM read_parquet", "polars": "pl.read_parquet", "pandas": "pd.read_parquet"}
    [line] = [line for line in section.splitlines() if line.startswith(marks[reader]) and "daily" in line]
    return re.sub(r"\s+#.*", "", line.replace(EXAMPLE, base))


def expected(rows: list[Row]) -> str:
    """How many rows the daily file must have, and the sum of what is supplied: those of the last run of each day."""
    newest = max(row["ledger_close_time"] // 86_400 for row in rows)
    last: dict[int, int] = {}
    for row in rows:
        if (day := row["ledger_close_time"] // 86_400) < newest:
            last[day] = max(last.get(day, 0), row["observed_ledger"])
    chosen = [row for row in rows if row["observed_ledger"] in last.values()]
    return f"{len(chosen)} {sum(row['total_supplied'] for row in chosen)}"


def read(python: str | Path, reader: str, base: str, authority: Path | None = None) -> str:
    trust = {} if authority is None else {"SSL_CERT_FILE": str(authority)}
    done = subprocess.run(
        [str(python), "-c", _PROGRAM, reader, line_of(reader, base), str(authority or "")],
        env={**os.environ, **trust},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("reader", ["duckdb", "polars"])
def test_from_a_folder(published: Path, published_rows: list[Row], reader: str) -> None:
    """Every day that is closed has the rows of its last run, each once."""
    assert "0 0" != expected(published_rows)
    assert expected(published_rows) == read(sys.executable, reader, str(published))


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["duckdb", "polars", "pandas"])
def test_over_https(published: Path, published_rows: list[Row], reader: str, tmp_path: Path) -> None:
    """So it is from a web server that knows nothing but files."""
    if reader != "polars" and not OTHER_PYTHON.is_file():
        pytest.skip("there is no build/readers with pandas and DuckDB's httpfs; scripts/test-readers makes it")
    python = sys.executable if reader == "polars" else OTHER_PYTHON
    with https_server(published, tmp_path / "nginx") as server:
        assert expected(published_rows) == read(python, reader, server.url, server.authority)
