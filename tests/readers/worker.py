"""Runs what readers of a history run, and says what came of it. Needs no package of this project.

As a program it takes one request as JSON, so that it can run under another Python (the one with pandas and PySpark).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Answer = dict[str, Any]
Found = tuple[Sequence[Any], Sequence[Any], Sequence[Any]]


def answer(what: str, reader: str, text: str, columns: Sequence[str] = ()) -> Answer:
    """Run a snippet of the site, or read as docs/history.md shows; ``refused`` alone is what stopped it.

    Args:
        what: a function below, which says what it gives.
        reader: duckdb, polars, pandas or pyspark.
        text: the code with the address in its place, or the path.
        columns: integer columns of the history that a snippet is to give for every row, as the reader has them.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return _WHAT[what](reader, text, list(columns))
    except SystemExit as stop:
        return {"refused": str(stop)}
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"}


def snippet(reader: str, script: str, columns: list[str]) -> Answer:
    """Rates (token, symbol, observations, percent twice), totals (token, symbol, decimals, sum as text), rows.

    A row has market, pool, ledger, close time in microseconds, and the columns as text.
    """
    rates, totals, rows = _READERS[reader](script, columns)
    return {
        "rates": sorted(
            ([token, symbol, int(count), *map(_float, both)] for token, symbol, count, *both in rates),
            key=lambda found: found[:2],
        ),
        "totals": sorted([token, symbol, int(decimals), str(int(total))] for token, symbol, decimals, total in totals),
        "rows": sorted([m, p, int(ledger), int(time), *map(_text, more)] for m, p, ledger, time, *more in rows),
    }


def rates(reader: str, code: str, columns: list[str]) -> Answer:
    """What lines that plot the borrow rates of pools by day find: each day with a rate, in percent.

    The last line draws. It is left out where its library is missing, as it is in the environment of the fast tests.
    """
    if reader == "duckdb":
        with _duckdb_connection(code) as connection:
            found = [(day, rate) for day, _, rate, _ in connection.execute(code).fetchall()]
        return {"rates": sorted([str(day), rate] for day, rate in found)}
    if importlib.util.find_spec({"polars": "altair", "pandas": "matplotlib"}[reader]) is None:
        code = code.rstrip().rpartition("\n")[0]
    names = _execute(code)
    rows = names["rates"].rows() if reader == "polars" else names["lines"][["ledger_close_time", "percent"]].values
    found = [(time.date(), round(percent, 2)) for time, *_, percent in rows if percent == percent]
    return {"rates": sorted([str(day), rate] for day, rate in found)}


def count(reader: str, path: str, columns: list[str]) -> Answer:
    """How many rows are in a folder or in files by a pattern, and how many different ones."""
    module: Any = importlib.import_module(reader)
    names = ["market", "pool", "observed_ledger"]
    if reader == "duckdb":
        rows = module.sql(f"SELECT {', '.join(names)} FROM read_parquet('{path}')").fetchall()
    elif reader == "polars":
        rows = module.read_parquet(path).select(names).rows()
    else:
        frame = module.read_parquet([*Path(path).parent.glob(Path(path).name)] if "*" in path else path)
        rows = frame[names].to_records(index=False).tolist()
    return {"rows": len(rows), "different": len(set(rows))}


def _text(value: Any) -> str | None:
    return None if value is None or value != value else str(int(value))


def _float(value: Any) -> float | None:
    return None if value is None or value != value else float(value)


def _duckdb_connection(script: str) -> Any:
    connection: Any = importlib.import_module("duckdb").connect()
    if "http://" in script:
        importlib.import_module("duckdb_extensions").import_extension("httpfs", con=connection)
        connection.execute("LOAD httpfs")
    return connection


def _duckdb(script: str, columns: list[str]) -> Found:
    with _duckdb_connection(script) as connection:
        results = [connection.execute(part).fetchall() for part in connection.extract_statements(script)]
        named = ", ".join(["market, pool, observed_ledger, epoch_us(ledger_close_time)", *columns])
        rows = connection.execute(f"SELECT {named} FROM pools").fetchall() if columns else []
    return results[-2], results[-1], rows


def _polars(script: str, columns: list[str]) -> Found:
    pl = importlib.import_module("polars")
    found = _execute(script)
    rows = []
    if columns:
        time = pl.col("ledger_close_time").dt.timestamp("us")
        rows = found["pools"].select("market", "pool", "observed_ledger", time, *columns).collect().rows()
    return found["rates"].rows(), found["totals"].rows(), rows


def _pandas(script: str, columns: list[str]) -> Found:
    pd = importlib.import_module("pandas")
    found = _execute(script)
    rows = []
    if columns:
        frames = [
            pd.read_parquet(f"{found['base']}/{file['key']}", dtype_backend="pyarrow", partitioning=None)
            for file in found["manifest"]["files"]
        ]
        pools = pd.concat(frames, ignore_index=True)
        micros = pools["ledger_close_time"].astype("int64[pyarrow]")
        table = pools[["market", "pool", "observed_ledger", *columns]].astype(object)
        table.insert(3, "time", micros)
        rows = [[None if value is pd.NA else value for value in row] for row in table.itertuples(index=False)]
    return list(found["rates"].reset_index().itertuples(index=False)), list(found["totals"].reset_index().values), rows


def _pyspark(script: str, columns: list[str]) -> Found:
    found = _execute(script)
    rows = []
    if columns:
        named = ["market", "pool", "observed_ledger", "unix_micros(ledger_close_time)", *columns]
        rows = found["spark"].table("pools").selectExpr(*named).collect()
    return found["rates"].collect(), found["totals"].collect(), rows


def _execute(script: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(script, "snippet", "exec"), names)
    return names


_READERS: dict[str, Callable[[str, list[str]], Found]] = {
    "duckdb": _duckdb,
    "polars": _polars,
    "pandas": _pandas,
    "pyspark": _pyspark,
}
_WHAT: dict[str, Callable[[str, str, list[str]], Answer]] = {"snippet": snippet, "rates": rates, "count": count}

if __name__ == "__main__":
    print(json.dumps(answer(**json.load(sys.stdin))))
