"""The whole job over HTTP: time, memory and files at two sizes, and its processor time against bare writing of them.

Each run is a process of its own that publishes into a new folder; the network is another process.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Any

from exporter.ledger.source import MAX_KEYS_PER_REQUEST
from tests.served_commands import PROJECT_ROOT, serving_with_markets
from tools.bench.table import Row

SIZES = (1_000, 10_000)

_CONFIG = """
[network]
name = "local"
requests_per_second = 10000.0
max_in_flight = 8
"""

# Only the memory of this program. The system begins to count a child's with the memory of its parent.
_MEASURED = """
import re, sys
from pathlib import Path
from exporter.cli import main
report = Path(sys.argv.pop(1))
try:
    main()
finally:
    report.write_text(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def run(quick: bool = False) -> list[Row]:
    """Both sizes, on a network whose ledger does not move."""
    rows: list[Row] = []
    seconds: list[float] = []
    sizes = (10, 20) if quick else SIZES
    for pools in sizes:
        with (
            serving_with_markets("localnet", "--pools", str(pools)) as (url, markets),
            tempfile.TemporaryDirectory(prefix="bench-") as name,
        ):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            report = publish(Path(name), url, markets, f"{name}/public", os.environ)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            rows += _rows(f"{pools:,} pools", report, used, Path(name))
        seconds.append(float(report["seconds"]))
    growth = f"time for {sizes[1]:,} pools / for {sizes[0]:,}"
    return [
        *rows,
        Row(growth, f"{seconds[1]:.1f} s", f"{seconds[0]:.1f} s", [seconds[1] / seconds[0]], "times as long"),
    ]


def publish(folder: Path, url: str, markets: str, out: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Run the exporter once; gives its report, and in it its peak of memory. RuntimeError with what it said.

    ``markets`` are the tables of markets that no list has: of these a run would read a tenth.
    """
    (folder / "config.toml").write_text(f"{_CONFIG}\n{markets}")
    options = ["--config", str(folder / "config.toml"), "--rpc-url", url, "--out", out]
    ran = subprocess.run(
        [sys.executable, "-c", _MEASURED, folder / "peak", "run", *options, "--report", folder / "report.json"],
        cwd=PROJECT_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr[-2_000:])
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report | {"peak_bytes": 1024 * int((folder / "peak").read_text())}


def steps_of(report: Mapping[str, Any]) -> str:
    """The steps of a run that took some time, each with its seconds."""
    return ", ".join(f"{step['step']} {step['seconds']:.1f}" for step in report["steps"] if step["seconds"] >= 0.05)


def _rows(title: str, report: Mapping[str, Any], used: float, folder: Path) -> list[Row]:
    """The figures of a run, and the processor seconds of writing its files barely."""
    root = folder / "public"
    files = [(path.relative_to(root), path.read_bytes()) for path in root.rglob("*") if path.is_file()]
    began = process_time()
    for path, data in files:
        target = folder / "bare" / path
        os.makedirs(target.parent, exist_ok=True)  # noqa: PTH103 - as bare as it gets
        target.write_bytes(data)
    bare = max(process_time() - began, 1e-9)
    megabytes = sum(len(data) for _, data in files) / 1e6
    asked = int(report["reading"]["requests"]["getLedgerEntries"])
    least = math.ceil(report["certificate"]["keys"] / MAX_KEYS_PER_REQUEST)
    against = f"bare writing of its {len(files):,} files, {megabytes:.0f} MB"
    return [
        Row(f"{title}: time (s: {steps_of(report)})", f"{report['seconds']:.1f} s"),
        Row(f"{title}: processor time", f"{used:.1f} s", against, [used / bare], "times as much"),
        Row(f"{title}: peak memory", f"{report['peak_bytes'] / 1e6:.0f} MB"),
        Row(f"{title}: requests for entries", f"{asked}", f"the least, {least}", [asked / least], "times as many"),
    ]
