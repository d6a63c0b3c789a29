"""The rollups by one URL: DuckDB, Polars and pandas read what docs/history.md says, from a folder and over HTTPS."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.readers.snippets import DOCS, OTHER_PYTHON
from tests.readers.trees import Row
from tests.readers.web_server import https_server

EXAMPLE = "https://markets.example.org"
GLOB = "hourly*.parquet"
READ_ALL = {
    "duckdb": "duckdb.sql(f\"SELECT market, pool, observed_ledger FROM read_parquet('{path}')\").fetchall()",
    "polars": "polars.read_parquet(path).select('market', 'pool', 'observed_ledger').rows()",
    "pandas": "pandas.read_parquet(glob.glob(path) if '*' in path else path)"
    "[['market', 'pool', 'observed_ledger']].to_records(index=False).tolist()",
}


def read_all(reader: str, path: Path) -> subprocess.CompletedProcess[str]:
    """How many rows a reader finds, and how many different ones; of a folder, or of files by a pattern."""
    if reader == "pandas" and not OTHER_PYTHON.is_file():
        pytest.skip("there is no build/readers with pandas; scripts/test-readers makes it")
    python = str(OTHER_PYTHON) if reader == "pandas" else sys.executable
    program = (
        f"import glob, {reader}; path = {str(path)!r}; rows = {READ_ALL[reader]}; print(len(rows), len(set(rows)))"
    )
    return subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("reader", ["duckdb", "polars", pytest.param("pandas", marks=pytest.mark.slow)])
def test_all_hours_by_a_pattern(published: Path, published_rows: list[Row], reader: str) -> None:
    """The pattern that the page names finds each hour once, also while there are no earlier months."""
    assert GLOB in DOCS.read_text()
    done = read_all(reader, published / "history" / GLOB)
    newest = max(row["ledger_close_time"] // 3_600 for row in published_rows)
    hours = {(row["ledger_close_time"] // 3_600, row["market"], row["pool"]) for row in published_rows}
    closed = sum(hour < newest for hour, _, _ in hours)

    assert f"{closed} {closed}\n" == done.stdout, done.stderr
    assert closed


@pytest.mark.parametrize("reader", ["polars", pytest.param("pandas", marks=pytest.mark.slow)])
@pytest.mark.parametrize("folder", ["history", "history/pools"])
def test_a_whole_folder_is_refused(published: Path, reader: str, folder: str) -> None:
    """Who reads a folder whose rows are there more than once gets an error, and no number; a note there says why."""
    done = read_all(reader, published / folder)

    assert "README.txt" in done.stderr
    assert (1, "") == (done.returncode, done.stdout)
    assert "v1/history.json" in (published / folder / "README.txt").read_text()


_RATES = """
import sys
reader, code, trust = sys.argv[1:]
if reader == "duckdb":
    import duckdb
    connection = duckdb.connect()
    if trust:
        import duckdb_extensions
        duckdb_extensions.import_extension("httpfs", con=connection)
        connection.execute(f"LOAD httpfs; SET ca_cert_file = '{trust}'")
    found = [(str(day), round(percent * 100)) for day, _, _, _, percent, _ in connection.execute(code).fetchall()]
elif reader == "polars":
    exec(code)
    found = [(str(day), rate) for day, *rest in rates.rows() for rate in rest if rate is not None]
else:
    exec(code)
    found = [(str(day), int(rate)) for day, row in rates.iterrows() for rate in row.dropna()]
print(sorted(found))
"""


def rates_of(reader: str, base: str, authority: Path | None = None) -> str:
    """What the lines of the page for this reader find, each a day and a rate of a pool."""
    section = DOCS.read_text().split("\n## One URL\n")[1].split("\n## ")[0].split("The borrow rates of USDC")[1]
    code = dict(zip(("duckdb", "polars", "pandas"), re.findall(r"```\w+\n(.*?)```", section, re.DOTALL), strict=True))
    assert len([line for line in code[reader].splitlines() if line]) <= 5
    trust = {} if authority is None else {"SSL_CERT_FILE": str(authority)}
    other = reader == "pandas" or (reader == "duckdb" and authority is not None)
    if other and not OTHER_PYTHON.is_file():
        pytest.skip("there is no build/readers with pandas and DuckDB's httpfs; scripts/test-readers makes it")
    python = str(OTHER_PYTHON) if other else sys.executable
    done = subprocess.run(
        [python, "-c", _RATES, reader, code[reader].replace(EXAMPLE, base), str(authority or "")],
        env={**os.environ, **trust},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


def expected_rates_of_usdc(rows: list[Row]) -> str:
    """The day and the borrow rate of each pool of USDC at the last run of each closed day."""
    newest = max(row["ledger_close_time"] // 86_400 for row in rows)
    last: dict[int, int] = {}
    for row in rows:
        day = row["ledger_close_time"] // 86_400
        last[day] = max(last.get(day, 0), row["observed_ledger"])
    chosen = [row for row in rows if row["observed_ledger"] in last.values() and row["symbol"] == "USDC"]
    days = [(row["ledger_close_time"] // 86_400, row["borrow_apy_bps"]) for row in chosen]
    found = [(str(datetime.fromtimestamp(day * 86_400, UTC).date()), rate) for day, rate in days if day < newest]
    assert found
    return str(sorted(found))


@pytest.mark.parametrize("reader", ["duckdb", "polars", pytest.param("pandas", marks=pytest.mark.slow)])
def test_rates_of_usdc(published: Path, published_rows: list[Row], reader: str) -> None:
    """Five lines of the page give the borrow rates of all pools of USDC, by day."""
    assert expected_rates_of_usdc(published_rows) == rates_of(reader, str(published))


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["duckdb", "polars", "pandas"])
def test_rates_of_usdc_over_https(published: Path, published_rows: list[Row], reader: str, tmp_path: Path) -> None:
    """So they do from a web server."""
    with https_server(published, tmp_path / "nginx") as server:
        assert expected_rates_of_usdc(published_rows) == rates_of(reader, server.url, server.authority)
