"""The command behind `scripts/bench`: runs one benchmark and prints its table."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version

from tools.bench import edge, job, lake, publish, quiet, read, year
from tools.bench.table import Row, table

BENCHMARKS: dict[str, Callable[[bool], list[Row]]] = {
    module.__name__.rpartition(".")[2]: module.run for module in (job, read, publish, quiet, lake, edge, year)
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("name", choices=BENCHMARKS)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs; the figures mean nothing")
    options = parser.parse_args()
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, Polars {version('polars')}, "
        f"stellar-sdk {version('stellar-sdk')}, {os.cpu_count()} cores\n",
        flush=True,
    )
    try:
        print(table(BENCHMARKS[options.name](options.quick)))
    except RuntimeError as error:
        sys.exit(f"error: {error}")
