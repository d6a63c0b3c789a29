"""The command behind `scripts/bench`: runs one benchmark and prints its table."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version

from tests.served_commands import PROJECT_ROOT
from tools.bench import edge, job, lake, peers, publish, quiet, read, year
from tools.bench.table import Row, put_between_markers, table

BENCHMARKS: dict[str, Callable[[bool], list[Row]]] = {
    module.__name__.rpartition(".")[2]: module.run for module in (job, read, publish, quiet, lake, edge, year, peers)
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("name", choices=BENCHMARKS)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs; the figures mean nothing")
    parser.add_argument(
        "--write", action="store_true", help="put the table between the markers of that name in docs/benchmarks.md"
    )
    options = parser.parse_args()
    machine = (
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, Polars {version('polars')}, "
        f"stellar-sdk {version('stellar-sdk')}, {os.cpu_count()} cores"
    )
    print(f"{machine}\n", flush=True)
    try:
        found = table(BENCHMARKS[options.name](options.quick))
        print(found)
        if options.write:
            page = PROJECT_ROOT / "docs" / "benchmarks.md"
            page.write_text(put_between_markers(page.read_text(), options.name, f"{machine}:\n\n{found}"))
    except RuntimeError as error:
        sys.exit(f"error: {error}")
