"""The whole job over HTTP: time, memory and files at two sizes, and its processor time against bare writing of them.

Each run is a process of its own that publishes into a new folder; the network is another process.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

from exporter.ledger.source import MAX_KEYS_PER_REQUEST
from tests.bench.processes import Cost, localnet, run_alone
from tests.bench.table import Row

SIZES = (1_000, 10_000)

_CONFIG = """
[network]
name = "local"
requests_per_second = 10000.0
max_in_flight = 8
"""


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run: its report, what its process cost, its files, and the processor seconds of writing them barely."""

    report: dict[str, Any]
    cost: Cost
    files: int
    megabytes: float
    bare: float


def run(quick: bool = False) -> list[Row]:
    """Both sizes, on a network whose ledger does not move."""
    rows: list[Row] = []
    seconds: list[float] = []
    sizes = (10, 20) if quick else SIZES
    for pools in sizes:
        with localnet(pools) as url:
            found = run_job(url)
        seconds.append(float(found.report["seconds"]))
        rows += _rows(pools, found)
    growth = f"time for {sizes[1]:,} pools / for {sizes[0]:,}"
    return [
        *rows,
        Row(growth, f"{seconds[1]:.1f} s", f"{seconds[0]:.1f} s", [seconds[1] / seconds[0]], "times as long"),
    ]


def run_job(url: str) -> JobRun:
    """Run the job once, publishing into a new folder. Raises RuntimeError with what it said when it fails."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        (folder / "config.toml").write_text(_CONFIG)
        command = [sys.executable, "-m", "exporter", "run", "--config", str(folder / "config.toml"), "--rpc-url", url]
        command += ["--out", str(folder / "public"), "--report", str(folder / "report.json"), "--log-format", "json"]
        cost = run_alone(command)
        report = json.loads((folder / "report.json").read_text())
        root = folder / "public"
        files = [(path.relative_to(root), path.read_bytes()) for path in root.rglob("*") if path.is_file()]
        began = process_time()
        for path, data in files:
            target = folder / "bare" / path
            os.makedirs(target.parent, exist_ok=True)  # noqa: PTH103 - as bare as it gets
            target.write_bytes(data)
        bare = process_time() - began
        return JobRun(report, cost, len(files), sum(len(data) for _, data in files) / 1e6, bare)


def _rows(pools: int, found: JobRun) -> list[Row]:
    report = found.report
    steps = ", ".join(f"{step['step']} {step['seconds']:.1f}" for step in report["steps"] if step["seconds"] >= 0.05)
    asked = int(report["reading"]["requests"]["getLedgerEntries"])
    least = math.ceil(report["certificate"]["keys"] / MAX_KEYS_PER_REQUEST)
    title = f"{pools:,} pools"
    return [
        Row(f"{title}: time (s: {steps})", f"{report['seconds']:.1f} s"),
        Row(
            f"{title}: processor time",
            f"{found.cost.cpu_seconds:.1f} s",
            f"bare writing of its {found.files:,} files, {found.megabytes:.0f} MB",
            [found.cost.cpu_seconds / max(found.bare, 1e-9)],
            "times as much",
        ),
        Row(f"{title}: peak memory", f"{found.cost.peak_bytes / 1e6:.0f} MB"),
        Row(f"{title}: requests for entries", f"{asked}", f"the least, {least}", [asked / least], "times as many"),
    ]
