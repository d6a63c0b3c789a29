"""The generated modules of typed numbers and rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tools import pool_numbers, pool_rows


@pytest.mark.parametrize("program", [pool_numbers, pool_rows])
def test_the_module_follows_from_the_columns(tmp_path: Path, program: ModuleType) -> None:
    """The typed numbers and rows of a pool are what scripts/docs writes from the columns."""
    made = tmp_path / program.PATH.name
    made.write_text(program.module(), encoding="utf-8")
    format_it = [sys.executable, "-m", "ruff", "format", "--quiet", "--config", "pyproject.toml", str(made)]
    subprocess.run(format_it, cwd=program.PATH.parents[2], check=True)

    assert program.PATH.read_text(encoding="utf-8") == made.read_text(encoding="utf-8"), "run scripts/docs"
