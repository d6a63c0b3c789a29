"""The generated module of typed numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.pool_numbers import PATH, module


def test_the_module_follows_from_the_columns(tmp_path: Path) -> None:
    """The typed numbers of a pool are what scripts/docs writes from the columns."""
    made = tmp_path / "numbers.py"
    made.write_text(module(), encoding="utf-8")
    format_it = [sys.executable, "-m", "ruff", "format", "--quiet", "--config", "pyproject.toml", str(made)]
    subprocess.run(format_it, cwd=PATH.parents[2], check=True)

    assert PATH.read_text(encoding="utf-8") == made.read_text(encoding="utf-8")
