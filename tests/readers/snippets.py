"""The snippets of the site's templates, to which docs/history.md links, and processes to run them in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from exporter.render.site.templates import PLACEHOLDER

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent
TEMPLATES = PROJECT_ROOT / "site_templates" / "snippets"
DOCS = PROJECT_ROOT / "docs" / "history.md"
OTHER_PYTHON = PROJECT_ROOT / "build" / "readers" / "bin" / "python"
"""The Python that scripts/test-readers makes for pandas, PySpark and a DuckDB with its extension for HTTPS."""

SCRIPTS = {
    "duckdb": "duckdb.sql",
    "polars": "polars.py",
    "pandas": "pandas.py",
    "pyspark": "pyspark.py",
    "curl": "curl.sh",
    "fetch": "fetch.mjs",
}
"""The template of each reader, without its ending .j2."""


Ask = Callable[..., dict[str, Any]]
"""`tests.readers.worker.answer`, here or under another Python."""


def template(reader: str, base: str | Path) -> str:
    """The snippet of the site, against a tree."""
    return (TEMPLATES / f"{SCRIPTS[reader]}.j2").read_text().replace(PLACEHOLDER, str(base))


def run_program(
    reader: str, script: str, folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the snippet for curl or for Node in a folder; skips where the programs are missing."""
    name, needed = {"curl": ("bash", ("bash", "curl", "jq", "sha256sum")), "fetch": ("node", ("node",))}[reader]
    missing = [program for program in needed if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed, so the snippet {SCRIPTS[reader]} was not run")
    path = folder / SCRIPTS[reader]
    path.write_text(script)
    return subprocess.run(
        [name, path.name],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class Worker:
    """The worker in a process; one for many snippets, so that Spark starts once."""

    def __init__(self, process: subprocess.Popen[str], stderr: Path) -> None:
        self._process = process
        self._stderr = stderr

    def answer(self, reader: str, script: str, columns: list[str] | None = None, trust: str | None = None) -> Any:
        """As `worker.answer`, of a snippet that is not refused."""
        found = self.anything(reader, script, columns, trust)
        assert "refused" not in found, found
        return found

    def anything(self, reader: str, script: str, columns: list[str] | None = None, trust: str | None = None) -> Any:
        """As `worker.answer`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"reader": reader, "script": script, "columns": columns or [], "trust": trust}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._stderr.read_text()
        return json.loads(line)


@contextmanager
def worker(
    folder: Path, environment: Mapping[str, str] | None = None, python: str = sys.executable
) -> Iterator[Worker]:
    """Start the worker in a folder, under this Python or another."""
    quiet = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONWARNINGS": "ignore",
        "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1 pyspark-shell",
    }
    with (folder / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [python, str(Path(__file__).with_name("worker.py"))],
            cwd=folder,
            env={**os.environ, **quiet, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        try:
            yield Worker(process, folder / "stderr")
        finally:
            process.communicate(timeout=60)


@contextmanager
def other_python(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Worker]:
    """Start the worker under the Python of the other readers; skips where that was not made."""
    if not OTHER_PYTHON.is_file():
        pytest.skip("there is no build/readers with pandas, PySpark and DuckDB's httpfs; scripts/test-readers makes it")
    with worker(folder, environment, str(OTHER_PYTHON)) as process:
        yield process


def skip_without_java(reader: str) -> None:
    """Skip the test of a reader that needs Java where there is none."""
    if reader == "pyspark" and shutil.which("java") is None:
        pytest.skip("java is not installed (Debian: apt-get install default-jre-headless), so PySpark was not tried")
