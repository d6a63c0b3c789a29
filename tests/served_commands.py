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
    with serving_with_markets(*arguments, cwd=cwd) as (url, _):
        yield url


@contextmanager
def serving_with_markets(*arguments: str, cwd: Path = PROJECT_ROOT) -> Iterator[tuple[str, str]]:
    """Serve as `serving` does; gives the URL, and the tables ``[[markets]]`` that the command says to configure."""
    command = [sys.executable, "-m", "exporter", *arguments, "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(PROJECT_ROOT)}
    with subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            markets = ""
            for line in process.stdout:
                url = re.search(r"http://[^\s/]+", line)
                if url is not None:
                    yield url[0], markets
                    return
                markets += line
            raise AssertionError(f"{command} ended without a URL")
        finally:
            process.kill()
