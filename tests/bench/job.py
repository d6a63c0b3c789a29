"""The whole job over HTTP for 1,000 and 10,000 pools: time by step, memory, growth, and requests against the least.

Its processor time is told as a ratio to that of bare writing of the files it left (`tests.bench.bare_writing`).

Each run is a process of its own that publishes into a new folder; the network is another process. The folder is in
memory where there is room, because the figures are of this program: making some hundred thousand files on a disk
varies by several times from run to run. For information the smaller size is published to the disk (``TMPDIR``), too.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.ledger.source import MAX_KEYS_PER_REQUEST
from tests.bench.bare_writing import bare_seconds
from tests.bench.child import Cost, run_child
from tests.bench.localnet import localnet
from tests.bench.timing import Finding, Spread, Target

SMALL, LARGE, LARGEST = 1_000, 10_000, 100_000
REPEATS_SMALL, REPEATS_LARGE = 3, 2
NOISE = 1.1
ADVANCE_SECONDS = 5

IN_MEMORY = Path("/dev/shm")
ROOM_BYTES, ROOM_FILES = 8 << 30, 2_000_000
"""What the largest tree takes, and more; an interrupted benchmark may have left one."""

_CONFIG = """
[network]
name = "local"
requests_per_second = 10000.0
max_in_flight = 8
"""


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of the job: its report and what its process cost."""

    report: dict[str, Any]
    cost: Cost
    bare: float = math.nan
    """Seconds of processor time for bare writing of the files that the run left."""

    @property
    def seconds(self) -> float:
        """From the beginning of the report to its end, which leaves the start of the process out."""
        return float(self.report["seconds"])

    def step(self, name: str) -> float:
        """The seconds of one step."""
        return next(float(step["seconds"]) for step in self.report["steps"] if step["step"] == name)

    def processor(self, name: str) -> float:
        """The processor time of one step."""
        return next(float(step["processor_seconds"]) for step in self.report["steps"] if step["step"] == name)

    @property
    def pools(self) -> int:
        """How many pools were read; a made network has some more than were asked for."""
        return next(int(step["pools"]) for step in self.report["steps"] if step["step"] == "compute")

    @property
    def files(self) -> int:
        """How many files were published."""
        return next(int(step["written"]) for step in self.report["steps"] if step["step"] == "publish")

    @property
    def requests(self) -> int:
        """How many requests for ledger entries were made."""
        return int(self.report["reading"]["requests"]["getLedgerEntries"])

    @property
    def least_requests(self) -> int:
        """How many requests its distinct keys need at the least."""
        keys: int = self.report["certificate"]["keys"]
        return math.ceil(keys / MAX_KEYS_PER_REQUEST)


def run(quick: bool = False) -> list[Finding]:
    """A network that stands still for the figures, and one that advances for information."""
    small, large = (10, 20) if quick else (SMALL, LARGE)
    folder, where = publishing_folder()
    with localnet(small) as url:
        small_runs = [run_job(url, folder) for _ in range(1 if quick else REPEATS_SMALL)]
        disk_runs = [] if folder is None or quick else [run_job(url) for _ in range(REPEATS_SMALL)]
    with localnet(large) as url:
        large_runs = [run_job(url, folder) for _ in range(1 if quick else REPEATS_LARGE)]
    findings = [
        *_at_size(small, where, small_runs),
        *_at_size(large, where, large_runs),
        _growth(small, small_runs, large, large_runs),
        *_light(large, small, small_runs, large_runs),
    ]
    if disk_runs:
        findings.append(_time(f"the same, {small:,} pools, published to the disk: time", disk_runs))
    for pools in (small,) if quick else (small, large):
        # Nothing is published: it is about reading, and a tree of the larger size takes its time.
        with localnet(pools, "--advance-every-seconds", str(ADVANCE_SECONDS)) as url:
            findings.append(_advancing(pools, run_job(url, None, "--dry-run")))
    return findings


def largest(quick: bool = False) -> list[Finding]:
    """One run over ten times as many pools: its time and memory."""
    pools = 30 if quick else LARGEST
    folder, where = publishing_folder()
    with localnet(pools) as url:
        found = run_job(url, folder, writes_bare=False)
    title = f"whole job, {pools:,} pools, {where}"
    facts = {"processor_s": round(found.cost.cpu_seconds, 1), "files": found.files}
    return [
        Finding(f"{title}: time", Spread.of([found.seconds]), "s", Target(300, at_least=False), facts),
        Finding(f"{title}: peak memory", Spread.of([found.cost.peak_bytes / 1e6]), "MB", Target(1000, at_least=False)),
    ]


def publishing_folder() -> tuple[Path | None, str]:
    """Where to make the folders that are published into (None: ``TMPDIR``), and that in words."""
    if IN_MEMORY.is_dir():
        room = os.statvfs(IN_MEMORY)
        if room.f_bavail * room.f_frsize >= ROOM_BYTES and room.f_favail >= ROOM_FILES:
            return IN_MEMORY, "published into memory"
    return None, "published to the disk"


def run_job(url: str, parent: Path | None = None, *options: str, writes_bare: bool = True) -> JobRun:
    """Run the job once, publishing into a new folder. Raises RuntimeError with what it said when it fails.

    ``writes_bare`` is for trees that fit into memory several times.
    """
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as folder:
        config, report = Path(folder) / "config.toml", Path(folder) / "report.json"
        config.write_text(_CONFIG, encoding="utf-8")
        command = [sys.executable, "-m", "exporter", "run", "--config", str(config), "--rpc-url", url]
        command += ["--out", str(Path(folder) / "public"), "--report", str(report), "--log-format", "json", *options]
        cost = run_child(command)
        if cost.exit_code != 0:
            raise RuntimeError(f"the job ended with code {cost.exit_code}:\n{cost.output}")
        told, tree = json.loads(report.read_text(encoding="utf-8")), Path(folder) / "public"
        if not writes_bare or parent is None or not tree.exists():
            return JobRun(told, cost)
        return JobRun(told, cost, bare_seconds(tree, Path(folder) / "bare"))


def _time(title: str, runs: list[JobRun]) -> Finding:
    steps = runs[-1].report["steps"]
    published = next(step for step in steps if step["step"] == "publish")
    facts = {f"{step['step']}_s": round(_median_step(runs, step["step"]), 2) for step in steps}
    facts["processor_s"] = round(Spread.of([item.cost.cpu_seconds for item in runs]).median, 2)
    facts |= {"files": published["written"], "published_mb": round(published["bytes"] / 1e6, 1)}
    return Finding(title, Spread.of([item.seconds for item in runs]), "s", None, facts)


def _at_size(pools: int, where: str, runs: list[JobRun]) -> list[Finding]:
    last = runs[-1].report
    title = f"whole job, {pools:,} pools on a network that stands still"
    request_facts = {
        "keys": last["certificate"]["keys"],
        "requests_made": runs[-1].requests,
        "least_possible": runs[-1].least_requests,
        "contract_calls": last["certificate"]["calls"],
        "simulate_requests": last["reading"]["requests"].get("simulateTransaction", 0),
    }
    return [
        _time(f"{title}, {where}: time", runs),
        Finding(f"{title}: peak memory", Spread.of([item.cost.peak_bytes / 1e6 for item in runs]), "MB"),
        Finding(
            f"{title}: requests for entries / the least possible (keys / {MAX_KEYS_PER_REQUEST})",
            Spread.of([item.requests / item.least_requests for item in runs]),
            "times as many",
            None,
            request_facts,
        ),
    ]


def _growth(small: int, small_runs: list[JobRun], large: int, large_runs: list[JobRun]) -> Finding:
    """The time of the larger run over that of the smaller, all pairs; linear growth would be the ratio of the pools."""
    linear = large / small
    ratios = [big.seconds / little.seconds for big in large_runs for little in small_runs]
    names = [step["step"] for step in small_runs[0].report["steps"]]
    facts: dict[str, object] = {
        f"{name}_grows": round(_median_step(large_runs, name) / max(_median_step(small_runs, name), 0.001), 1)
        for name in names
    }
    peaks = [Spread.of([item.cost.peak_bytes for item in runs]).median for runs in (large_runs, small_runs)]
    facts["processor_grows"] = round(
        Spread.of([item.cost.cpu_seconds for item in large_runs]).median
        / Spread.of([item.cost.cpu_seconds for item in small_runs]).median,
        1,
    )
    facts["peak_memory_grows"] = round(peaks[0] / peaks[1], 1)
    title = f"whole job: time for {large:,} pools / time for {small:,} (linear is {linear:g}, and a tenth for noise)"
    return Finding(title, Spread.of(ratios), "times as long", Target(linear * NOISE, at_least=False), facts)


def _light(large: int, small: int, small_runs: list[JobRun], large_runs: list[JobRun]) -> list[Finding]:
    """What a run costs over the bare writing of its files, and how its memory and its files grow with the pools."""
    peaks = [Spread.of([item.cost.peak_bytes for item in runs]).median for runs in (small_runs, large_runs)]
    growth = (peaks[1] - peaks[0]) / (large - small) / 1000
    title = f"whole job, {large:,} pools"
    findings = [
        Finding(f"{title}: time", Spread.of([item.seconds for item in large_runs]), "s", Target(15, at_least=False)),
        Finding(
            f"peak memory of a further pool, from {small:,} to {large:,}", Spread.of([growth]), "kB",
            Target(10, at_least=False),
        ),
        Finding(
            f"files a pool, {small:,} pools", Spread.of([item.files / item.pools for item in small_runs]), "files",
            Target(15, at_least=False),
        ),
    ]  # fmt: skip
    if any(math.isnan(item.bare) for item in large_runs):
        return findings
    publish = [item.processor("publish") / item.bare for item in large_runs]
    whole = [item.cost.cpu_seconds / item.bare for item in large_runs]
    facts = {"bare_s": round(large_runs[-1].bare, 2), "files": large_runs[-1].files}
    return [
        *findings,
        Finding(f"{title}: processor time of rendering, checking and storing / of bare writing", Spread.of(publish),
                "times", Target(2.5, at_least=False), facts),
        Finding(f"{title}: processor time / of bare writing", Spread.of(whole), "times", Target(8, at_least=False)),
    ]  # fmt: skip


def _median_step(runs: list[JobRun], name: str) -> float:
    return Spread.of([item.step(name) for item in runs]).median


def _advancing(pools: int, result: JobRun) -> Finding:
    certificate = result.report["certificate"]
    facts = {
        "read_s": result.step("read"),
        "rounds": certificate["rounds"],
        "uncertified_calls": certificate["uncertified_calls"],
        "requests_made": result.requests,
        "least_possible": result.least_requests,
    }
    return Finding(
        f"dry run, {pools:,} pools, a ledger every {ADVANCE_SECONDS} s: requests for entries / the least possible",
        Spread.of([result.requests / result.least_requests]),
        "times as many",
        None,
        facts,
    )
