"""Commands of the exporter that serve, as processes of their own, for clients and benchmarks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def serving(*arguments: str, cwd: Path = PROJECT_ROOT) -> Iterator[str]:
    """Run ``exporter serve`` or ``exporter localnet`` on a free port; gives the URL, without a slash at its end."""
    command = [sys.executable, "-m", "exporter", *arguments, "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(PROJECT_ROOT)}
    with subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            # Markets that a configuration would name are said before the URL.
            urls = (re.search(r"http://[^\s/]+", line) for line in process.stdout)
            url = next((found[0] for found in urls if found is not None), None)
            assert url is not None, f"{command} ended without a URL"
            yield url
        finally:
            process.kill()
