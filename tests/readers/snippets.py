"""The snippets of the site's templates, to which docs/history.md links, and what runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from exporter.render.site.templates import PLACEHOLDER
from tests.readers.worker import answer

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent
TEMPLATES = PROJECT_ROOT / "site_templates" / "snippets"
DOCS = PROJECT_ROOT / "docs" / "history.md"
OTHER_PYTHON = PROJECT_ROOT / "build" / "readers" / "bin" / "python"
"""The Python that scripts/suite readers makes for pandas, PySpark and a DuckDB with its extension for HTTP."""

SCRIPTS = {
    "duckdb": "duckdb.sql",
    "polars": "polars.py",
    "pandas": "pandas.py",
    "pyspark": "pyspark.py",
    "curl": "curl.sh",
    "fetch": "fetch.mjs",
}
"""The template of each reader, without its ending .j2."""

_QUIET = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYTHONWARNINGS": "ignore",
    "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1 pyspark-shell",
}


def template(reader: str, base: str | Path) -> str:
    """The snippet of the site, against a tree."""
    return (TEMPLATES / f"{SCRIPTS[reader]}.j2").read_text().replace(PLACEHOLDER, str(base))


def ask(reader: str, text: str | Path, columns: Sequence[str] = (), *, what: str = "snippet") -> Any:
    """The answer of `worker.answer` under the Python that has the reader. Skips if that or its Java is missing."""
    if reader == "polars" or (reader == "duckdb" and "http://" not in str(text)):
        return answer(what, reader, str(text), columns)
    if not OTHER_PYTHON.is_file():
        pytest.skip("build/readers has no pandas, PySpark and DuckDB's httpfs; scripts/suite readers makes it")
    if reader == "pyspark" and shutil.which("java") is None:
        pytest.skip("java is not installed (Debian: apt-get install default-jre-headless), so PySpark was not tried")
    request = {"what": what, "reader": reader, "text": str(text), "columns": list(columns)}
    done = subprocess.run(
        [OTHER_PYTHON, Path(__file__).with_name("worker.py")],
        env={**os.environ, **_QUIET},
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def run_program(reader: str, script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the snippet for curl or for Node in a folder; skips where the programs are missing."""
    name, needed = {"curl": ("bash", ("bash", "curl", "jq", "sha256sum")), "fetch": ("node", ("node",))}[reader]
    missing = [program for program in needed if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed, so the snippet {SCRIPTS[reader]} was not run")
    path = folder / SCRIPTS[reader]
    path.write_text(script)
    return subprocess.run([name, path.name], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
