"""Commands in processes of their own, so that neither their time nor their memory is that of the benchmark.

``python -m tests.bench.processes FILE SECONDS COMMAND...`` runs one and writes what it cost into a file. It stays small
itself, because Linux counts the memory of whoever starts a command into the command's peak.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Timer
from time import monotonic, perf_counter, sleep

PROJECT_ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command did: its exit code, seconds on the clock and of processor time, peak memory, and its output."""

    exit_code: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


def _environment() -> dict[str, str]:
    """The environment without the exporter's own settings, and with this project importable from anywhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EXPORTER_")}
    return kept | {"PYTHONPATH": str(PROJECT_ROOT)}


def run_alone(command: list[str], timeout: float = 900.0) -> Cost:
    """Run a command in the project's root. Raises RuntimeError with its output if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "cost.json"
        own = [sys.executable, "-m", "tests.bench.processes", str(report), str(timeout), *command]
        subprocess.run(own, cwd=PROJECT_ROOT, env=_environment(), timeout=timeout + 30, check=True)
        cost = Cost(**json.loads(report.read_text()))
    if cost.exit_code:
        raise RuntimeError(
            f"{' '.join(command)} ended with {cost.exit_code} after {cost.seconds:.0f} s:\n{cost.output}"
        )
    return cost


@contextmanager
def localnet(pools: int, *options: str) -> Iterator[str]:
    """An embedded network of this many pools, under a URL. Raises RuntimeError with its output if it does not start."""
    command = [sys.executable, "-m", "exporter", "localnet", "--pools", str(pools), "--port", "0", *options]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "output"
        with path.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=PROJECT_ROOT, env=_environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            deadline = monotonic() + START_SECONDS
            while (found := re.search(r"http://\S+(?=\s)", text := path.read_text(errors="replace"))) is None:
                if process.poll() is not None or monotonic() > deadline:
                    raise RuntimeError(f"exporter localnet gave no URL:\n{text}")
                sleep(0.05)
            yield found[0]
        finally:
            process.kill()
            process.wait()


def _main(report: str, timeout: str, *command: str) -> None:
    with tempfile.TemporaryFile() as output:
        began = perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        watchdog = Timer(float(timeout), process.kill)
        watchdog.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = perf_counter() - began
        watchdog.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    cost = Cost(process.returncode, seconds, usage.ru_utime + usage.ru_stime, peak, text)
    Path(report).write_text(json.dumps(asdict(cost)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
