"""Runs a snippet with the reader that it is for, and says what came of it. Needs no package of this project.

As a program it takes requests as JSON, one a line, and answers each with a line of JSON, so that it can run under
another Python (the one with pandas and PySpark) and start its Java machine once.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

Answer = dict[str, Any]


def answer(reader: str, script: str, columns: Sequence[str] = (), trust: str | None = None) -> Answer:
    """Run a snippet.

    Args:
        reader: duckdb, polars, pandas or pyspark.
        script: the snippet, with the address in its place.
        columns: integer columns of the history that are to be given for every row, as the reader has them.
        trust: the certificate to trust, for DuckDB, which takes it by no variable.

    Returns:
        ``rates`` (token, symbol, observations, supply and borrow percent) and ``totals`` (token, symbol, decimals,
        sum); with columns also ``rows`` (market, pool, ledger, close time in microseconds, and these), sorted; integers
        of these columns are text. ``refused`` alone is the message of what the snippet stopped with.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            rates, totals, rows = _READERS[reader](script, list(columns), trust)
    except SystemExit as stop:
        return {"refused": str(stop)}
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    return {
        "rates": sorted([token, symbol, int(count), float(s), float(b)] for token, symbol, count, s, b in rates),
        "totals": sorted([token, symbol, int(decimals), str(int(total))] for token, symbol, decimals, total in totals),
        "rows": sorted([m, p, int(ledger), int(time), *map(_text, more)] for m, p, ledger, time, *more in rows),
    }


def _text(value: Any) -> str | None:
    return None if value is None or value != value else str(int(value))


_Found = tuple[Sequence[Any], Sequence[Any], Sequence[Any]]


def _duckdb(script: str, columns: list[str], trust: str | None) -> _Found:
    duckdb = importlib.import_module("duckdb")
    with duckdb.connect() as connection:
        if "https://" in script:
            importlib.import_module("duckdb_extensions").import_extension("httpfs", con=connection)
            connection.execute(f"LOAD httpfs; SET ca_cert_file = '{trust}'")
        results = [connection.execute(part).fetchall() for part in connection.extract_statements(script)]
        named = ", ".join(["market, pool, observed_ledger, epoch_us(ledger_close_time)", *columns])
        rows = connection.execute(f"SELECT {named} FROM pools").fetchall() if columns else []
    return results[-2], results[-1], rows


def _polars(script: str, columns: list[str], trust: str | None) -> _Found:
    pl = importlib.import_module("polars")
    found = _execute(script)
    rows = []
    if columns:
        time = pl.col("ledger_close_time").dt.timestamp("us")
        rows = found["pools"].select("market", "pool", "observed_ledger", time, *columns).collect().rows()
    return found["rates"].rows(), found["totals"].rows(), rows


def _pandas(script: str, columns: list[str], trust: str | None) -> _Found:
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


def _pyspark(script: str, columns: list[str], trust: str | None) -> _Found:
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


_READERS: dict[str, Callable[[str, list[str], str | None], _Found]] = {
    "duckdb": _duckdb,
    "polars": _polars,
    "pandas": _pandas,
    "pyspark": _pyspark,
}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
