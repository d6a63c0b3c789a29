"""``exporter localnet`` in a process of its own, so that neither its time nor its memory is the job's."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from tests.bench.child import PROJECT_ROOT, environment

START_SECONDS = 180.0


@contextmanager
def localnet(pools: int, *options: str) -> Iterator[str]:
    """A made network of so many pools under a URL. Raises RuntimeError with its output when it does not start."""
    command = [sys.executable, "-m", "exporter", "localnet", "--pools", str(pools), "--port", "0", *options]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "output"
        with path.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=PROJECT_ROOT, env=environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            yield _url(process, path)
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _url(process: subprocess.Popen[bytes], path: Path) -> str:
    deadline = monotonic() + START_SECONDS
    while monotonic() < deadline:
        text = path.read_text(encoding="utf-8", errors="replace")
        found = re.search(r"http://\S+(?=\s)", text)
        if found:
            return found[0]
        if process.poll() is not None:
            raise RuntimeError(f"exporter localnet ended with code {process.returncode}:\n{text}")
        sleep(0.05)
    raise RuntimeError(f"exporter localnet gave no URL within {START_SECONDS:.0f} s")
