"""What importing the code of a run leaves behind in a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

THREADS = "import os; print(*(open(f'/proc/self/task/{task}/comm').read() for task in os.listdir('/proc/self/task')))"

CONVERSION = "polars.DataFrame(schema=exporter.history.schema.FILE_SCHEMA).to_arrow()"
"""Starts them."""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux lists the names of threads")
@pytest.mark.parametrize(("code", "expected"), [("", False), (f"{CONVERSION}; ", True)])
def test_importing_does_not_start_the_threads_of_polars(code: str, expected: bool) -> None:
    """A process that is forked after an import can use Polars; with its threads started, it would wait forever."""
    command = [sys.executable, "-c", f"import polars, exporter.publishing.publish; {code}{THREADS}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    assert ("polars-0" in printed) is expected
