"""What docs/history.md says of exactness: what a reader computes exactly, what it refuses, and what it gets wrong.

A trap that is no longer one fails a test here, so that the documentation can be corrected.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pytest

from tests.history.test_parquet import query
from tests.readers.snippets import ask

LARGEST = 10**38 - 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with two numbers whose sum has 39 digits."""
    path = tmp_path / "two.parquet"
    pl.DataFrame({"group": [1, 1], "amount": [LARGEST, LARGEST]}, schema={"group": pl.Int64, "amount": pl.Int128}).cast(
        {"amount": pl.Decimal(38, 0)}
    ).write_parquet(path)
    return path


def test_duckdb_refuses_a_wrong_sum_and_averages_in_doubles(file: Path, tmp_path: Path) -> None:
    """DuckDB refuses a wrong sum; averages and both divisions of a decimal are doubles, // of HUGEINT truncates.

    In Parquet it loses digits of HUGEINT, and none of a decimal.
    """
    with pytest.raises(duckdb.OutOfRangeException):
        query(f"SELECT sum(amount) FROM '{file}'")

    types = query(f"SELECT typeof(avg(amount)), typeof(any_value(amount) // 7) FROM '{file}'")
    assert [("DOUBLE", "DOUBLE")] == types
    assert [(-3,)] == query("SELECT (-7)::HUGEINT // 2")
    duckdb.sql(f"COPY (SELECT {LARGEST}::HUGEINT AS h, {LARGEST}::DECIMAL(38,0) AS d) TO '{tmp_path}/out.parquet'")
    assert [("DOUBLE", Decimal(LARGEST))] == query(f"SELECT typeof(h), d FROM '{tmp_path}/out.parquet'")


def test_polars_refuses_a_wrong_sum_except_in_groups(file: Path) -> None:
    """Polars refuses a wrong sum; of groups the engine in memory gives one that wrapped, and says nothing."""
    amount, frame, wrapped = pl.col("amount").sum(), pl.read_parquet(file), 2 * LARGEST - 2**128
    with pytest.raises(pl.exceptions.PolarsError):
        pl.scan_parquet(file).select(amount).collect()
    with pytest.raises(pl.exceptions.PolarsError):
        pl.scan_parquet(file).group_by("group").agg(amount).collect(engine="streaming")

    assert [wrapped] == frame.group_by("group").agg(amount)["amount"].cast(pl.Int128).to_list()
    assert [wrapped] * 2 == frame.select(amount.over("group"))["amount"].cast(pl.Int128).to_list()


@pytest.mark.slow
def test_spark_refuses_a_sum_that_does_not_fit(file: Path) -> None:
    """PySpark raises in its default mode, and gives null without it."""
    script = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
before = spark.conf.get("spark.sql.ansi.enabled")
spark.conf.set("spark.sql.ansi.enabled", "{ansi}")
try:
    raise SystemExit(str(spark.read.parquet("{file}").selectExpr("sum(amount)").first()[0]))
finally:
    spark.conf.set("spark.sql.ansi.enabled", before)
"""

    assert "None" == ask("pyspark", script.format(ansi="false", file=file))["refused"]
    assert "ARITHMETIC_OVERFLOW" in ask("pyspark", script.format(ansi="true", file=file))["refused"]


@pytest.mark.slow
def test_pandas_rounds_sums_of_decimal_objects(file: Path) -> None:
    """Python's decimals lose digits in a sum, its integers do not; integers with nulls become doubles by default."""
    script = """
import pandas as pd, pyarrow as pa, pyarrow.parquet as pq
amounts = pd.read_parquet("{file}", partitioning=None)["amount"]
exact = pd.read_parquet("{file}", dtype_backend="pyarrow", partitioning=None)["amount"].map(int).astype(object)
pq.write_table(pa.table({{"maybe": [2**53 + 1, None]}}), "{folder}/nulls.parquet")
maybe = pd.read_parquet("{folder}/nulls.parquet", partitioning=None)["maybe"]
raise SystemExit(f"{{int(amounts.sum())}} {{exact.sum()}} {{int(maybe[0])}}")
"""
    found = ask("pandas", script.format(file=file, folder=file.parent))["refused"].split()

    assert [round(2 * LARGEST, -11), 2 * LARGEST, 2**53] == [int(value) for value in found]
