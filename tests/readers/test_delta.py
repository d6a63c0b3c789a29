"""The history as a Delta table, in every reader that docs/history.md names, by the lines that it shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import deltalake
import polars as pl
import pytest

from tests.readers.snippets import DOCS, OTHER_PYTHON, skip_without_java
from tests.readers.trees import Row, manifest_of

JARS = OTHER_PYTHON.parent.parent / "jars"
SHOWN = "public/history/pools"
Facts = list[list[int]]
"""The rows of each ledger, and the sum of what is lent there."""


def blocks(language: str) -> list[str]:
    """The blocks of code in the section on Delta, in one language."""
    section = DOCS.read_text().split("\n## As a table: Delta\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def expected(rows: list[Row], newest: int | None = None) -> Facts:
    """What a reader must find, up to a ledger."""
    ledgers = sorted({row["observed_ledger"] for row in rows if newest is None or row["observed_ledger"] <= newest})
    return [
        [ledger, len(of_ledger), sum(row["total_supplied"] for row in of_ledger)]
        for ledger in ledgers
        for of_ledger in [[row for row in rows if row["observed_ledger"] == ledger]]
    ]


def versions(folder: Path) -> dict[int, int]:
    """The newest ledger of each version."""
    told = deltalake.DeltaTable(folder / "history" / "pools").history()
    return {entry["version"]: int(entry["userMetadata"].partition("=")[2]) for entry in told}


def test_polars_and_deltalake(published: Path, published_rows: list[Row]) -> None:
    """Each line of the documentation gives every row once, though superseded files lie beside those of the table."""
    lines = [line.replace(SHOWN, str(published / "history" / "pools")) for line in blocks("python")[0].splitlines()]
    scanned, table = (eval(line.partition("#")[0], {"pl": pl, "deltalake": deltalake}) for line in lines)
    grouped = scanned.group_by("observed_ledger").agg(pl.len(), pl.col("total_supplied").sum()).sort("observed_ledger")

    assert expected(published_rows) == [list(map(int, row)) for row in grouped.collect(engine="streaming").rows()]
    assert len(manifest_of(published).files) == len(table.file_uris())
    assert len(published_rows) == table.to_pyarrow_dataset().count_rows()


def asked(script: str, folder: Path) -> dict[str, Facts]:
    """What a program under the Python of the other readers prints."""
    if not OTHER_PYTHON.is_file():
        pytest.skip("there is no build/readers with PySpark and DuckDB's extension; scripts/test-readers makes it")
    ended = subprocess.run(
        [OTHER_PYTHON, "-c", script], cwd=folder, env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert 0 == ended.returncode, ended.stderr[-3000:]
    found: dict[str, Facts] = json.loads(ended.stdout.splitlines()[-1])
    return found


def middle(folder: Path) -> tuple[int, int]:
    """A version that is not the newest, with its ledger."""
    told = versions(folder)
    version = sorted(told)[len(told) // 2]
    assert told[version] < max(told.values())
    return version, told[version]


@pytest.mark.slow
def test_duckdb(published: Path, published_rows: list[Row]) -> None:
    """DuckDB attaches the table in one line, as it is and as of a version."""
    version, ledger = middle(published)
    attach, whole, then = (statement for statement in blocks("sql")[0].split(";") if statement.strip())
    facts = "SELECT observed_ledger, count(*), sum(total_supplied)::HUGEINT"
    script = f"""
import json, duckdb, duckdb_extensions
with duckdb.connect() as connection:
    duckdb_extensions.import_extension("delta", con=connection)
    connection.execute({attach.replace(SHOWN, str(published / "history" / "pools"))!r})
    whole, then = (
        connection.execute({facts!r} + source + " GROUP BY 1 ORDER BY 1").fetchall()
        for source in ({whole!r}, {then.replace("27", str(version))!r})
    )
print(json.dumps({{"whole": whole, "then": then}}))
"""
    found = asked(script, published)

    assert expected(published_rows) == found["whole"]
    assert expected(published_rows, ledger) == found["then"]


@pytest.mark.slow
def test_spark(published: Path, published_rows: list[Row]) -> None:
    """Spark loads the table in one line, as it is and as of a version."""
    skip_without_java("pyspark")
    if not JARS.is_dir():
        pytest.skip("there are no jars of Delta in build/readers; scripts/test-readers fetches them with mvn")
    version, ledger = middle(published)
    whole, then = (line.partition("#")[0] for line in blocks("python")[1].splitlines())
    script = f"""
import glob, json
from pyspark.sql import SparkSession
settings = {{
    "spark.jars": ",".join(glob.glob({str(JARS / "*.jar")!r})),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1", "spark.databricks.delta.snapshotPartitions": "1",
}}
spark = SparkSession.builder.config(map=settings).getOrCreate()
def facts(table):
    rows = table.groupBy("observed_ledger").agg({{"*": "count", "total_supplied": "sum"}}).collect()
    return sorted([int(row["observed_ledger"]), int(row["count(1)"]), int(row["sum(total_supplied)"])] for row in rows)
whole = facts({whole.replace(SHOWN, str(published / "history" / "pools"))})
then = facts({then.replace(SHOWN, str(published / "history" / "pools")).replace("27", str(version))})
print(json.dumps({{"whole": whole, "then": then}}))
"""
    found = asked(script, published)

    assert expected(published_rows) == found["whole"]
    assert expected(published_rows, ledger) == found["then"]
