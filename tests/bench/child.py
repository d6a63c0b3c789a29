"""Runs one command and writes what it cost into a file: ``python -m tests.bench.child FILE SECONDS COMMAND...``.

A process of its own, because Linux counts the memory of whoever starts a command into the command's peak: this
one stays small, whatever the benchmarks have loaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from time import perf_counter

PROJECT_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command did: its exit code, seconds on the clock and of processor time, peak memory, and its output."""

    exit_code: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


def environment() -> dict[str, str]:
    """The environment without the exporter's own settings, and with this project importable from anywhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EXPORTER_")}
    return kept | {"PYTHONPATH": str(PROJECT_ROOT)}


def run_child(command: list[str], timeout: float = 600.0) -> Cost:
    """Run a command in the project's root. Raises RuntimeError with its output if it has to be ended."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "cost.json"
        own = [sys.executable, "-m", "tests.bench.child", str(report), str(timeout), *command]
        subprocess.run(own, cwd=PROJECT_ROOT, env=environment(), timeout=timeout + 30, check=True)
        cost = Cost(**json.loads(report.read_text(encoding="utf-8")))
    if cost.exit_code < 0:
        raise RuntimeError(f"{' '.join(command)} was ended after {cost.seconds:.0f} s:\n{cost.output}")
    return cost


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
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    cost = {
        "exit_code": process.returncode,
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * unit,
        "output": text,
    }
    Path(report).write_text(json.dumps(cost), encoding="utf-8")


if __name__ == "__main__":
    _main(*sys.argv[1:])
