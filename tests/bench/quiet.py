"""A quiet run of mainnet's size onto a bucket: rounds, requests and seconds, with the latency of real ones.

165 pools, 30 ms for each request to S3 and 200 ms for each to the RPC. The first run fills the bucket, ledgers close,
and the second is measured. Bucket, network and run share one machine, so their processor time counts as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, sleep

from tests.bench.processes import localnet
from tests.bench.table import Row
from tests.s3.wire_bucket import Call, WireBucket

POOLS, S3_SECONDS, RPC_SECONDS = 165, 0.030, 0.200
MOST_SECONDS = 8.0

_CONFIG = """
[network]
name = "local"
requests_per_second = 1000.0
max_in_flight = 8
"""


def run(quick: bool = False) -> list[Row]:
    """Measure the second run. Raises RuntimeError with what a run said when it fails."""
    s3, rpc = (0.001, 0.001) if quick else (S3_SECONDS, RPC_SECONDS)
    with (
        localnet(24 if quick else POOLS, "--advance-every-seconds", "0.5", "--latency", str(rpc)) as url,
        WireBucket(latency=s3) as bucket,
        tempfile.TemporaryDirectory(prefix="bench-") as name,
    ):
        folder = Path(name)
        (folder / "config.toml").write_text(_CONFIG)
        publish(folder, url, bucket)
        sleep(2)  # a later ledger
        bucket.forget()
        began = perf_counter()
        steps = publish(folder, url, bucket)
        seconds = perf_counter() - began
        calls = list(bucket.calls)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(call.operation for call in calls).items()))
    again = [
        f"{key} {count}" for key, count in Counter(c.key for c in calls if c.operation == "GET").items() if count > 1
    ]
    return [
        Row(f"requests to S3: {kinds}", f"{len(calls):,}"),
        Row("rounds of them, those that overlap counted once", f"{rounds(calls, s3)}"),
        Row(f"read more than once: {', '.join(sorted(again)) or 'nothing'}", f"{len(again)}"),
        Row(
            f"a quiet run (s: {steps})",
            f"{seconds:.1f} s",
            f"{MOST_SECONDS:.0f} s",
            [seconds / MOST_SECONDS],
            "times as long",
        ),
    ]


def publish(folder: Path, url: str, bucket: WireBucket) -> str:
    """Run the exporter once; gives the seconds of its steps."""
    options = ["--config", str(folder / "config.toml"), "--rpc-url", url, "--out", "s3://bucket/live"]
    ran = subprocess.run(
        [sys.executable, "-m", "exporter", "run", *options, "--report", str(folder / "report.json")],
        env={**os.environ, **bucket.environment("bench")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr[-2_000:])
    report = json.loads((folder / "report.json").read_text())
    return ", ".join(f"{step['step']} {step['seconds']:.1f}" for step in report["steps"] if step["seconds"] >= 0.05)


def rounds(calls: Sequence[Call], latency: float) -> int:
    """How many requests had to be waited for, one after the other: each covers what began while it was under way."""
    found, until = 0, float("-inf")
    for at in sorted(call.at for call in calls):
        if at >= until:
            found, until = found + 1, at + latency
    return found
