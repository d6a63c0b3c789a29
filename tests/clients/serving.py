"""A published tree behind `exporter serve`, for clients that are processes of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def served(tree: Path) -> Iterator[str]:
    """Serve a tree in a process of its own; gives the URL, without a slash at its end."""
    with subprocess.Popen(
        [sys.executable, "-m", "exporter", "serve", "--out", str(tree), "--port", "0"],
        cwd=PROJECT_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+(?=/)", line)
            assert found is not None, line
            yield found[0]
        finally:
            process.terminate()
