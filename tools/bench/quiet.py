"""A quiet run of mainnet's size onto a bucket: rounds, requests and seconds, with the latency of real ones.

165 pools, a ledger every 5 s, 30 ms for each request to S3 and 200 ms for each to the RPC. The first run fills the
bucket, ledgers close, and the second is measured. Bucket, network and run share one machine, so their processor time
counts as well. Rounds are counted by time: if other programs keep the machine busy for longer than a request takes,
requests that are sent together no longer overlap, and more rounds are counted. The number of requests has no such
weakness.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, sleep

from tests.s3.wire_bucket import Call, WireBucket
from tests.served_commands import serving_with_markets
from tools.bench.job import publish, steps_of
from tools.bench.publish import in_bucket, variables
from tools.bench.table import Row

POOLS, S3_SECONDS, RPC_SECONDS = 165, 0.030, 0.200
MOST_SECONDS, MOST_ROUNDS, MOST_WRITES, MOST_IMPORT_SECONDS = 8.0, 90, 6.0, 0.6


def run(quick: bool = False) -> list[Row]:
    """Measure the second run. Raises RuntimeError with what a run said when it fails."""
    s3, rpc, closes = (0.001, 0.001, 0.5) if quick else (S3_SECONDS, RPC_SECONDS, 5.0)
    pools = str(24 if quick else POOLS)
    with (
        serving_with_markets(
            "localnet",
            "--pools",
            pools,
            "--advance-every",
            f"{closes * 1000:.0f}ms",
            "--latency",
            f"{rpc * 1000:.0f}ms",
        ) as (url, markets),
        WireBucket(latency=s3) as bucket,
        tempfile.TemporaryDirectory(prefix="bench-") as name,
    ):
        environment = {**os.environ, **bucket.environment("bench")}
        publish(Path(name), url, markets, "s3://bucket/live", environment)
        sleep(1.2 * closes)  # a later ledger
        before = dict(bucket.objects)
        bucket.forget()
        began, before_it = perf_counter(), os.times()
        report = publish(Path(name), url, markets, "s3://bucket/live", environment)
        seconds, after_it = perf_counter() - began, os.times()
        calls = list(bucket.calls)
        files = [
            (key.removeprefix("live/"), stored.data)
            for key, stored in bucket.objects.items()
            if stored is not before.get(key) and key.startswith("live/v1/") and key.endswith(".json")
        ]
        with variables(bucket.environment("bench")):
            upload = in_bucket("the simulated bucket", "bucket", files, 1 if quick else 3)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(call.operation for call in calls).items()))
    gets = Counter(call.key for call in calls if call.operation == "GET")
    again = sorted(f"{key} {count}" for key, count in gets.items() if count > 1)
    used = sum(after_it[2:4]) - sum(before_it[2:4])  # of children
    asked = sum(report["reading"]["requests"].values())
    published = next(step["pools"] for step in report["steps"] if "pools" in step)
    writes = sum(call.operation == "PUT" for call in calls) / published
    load = os.getloadavg()[0]
    return [
        Row(f"requests to S3: {kinds}; to the RPC: {asked}", f"{len(calls) + asked:,}"),
        Row(f"read more than once: {', '.join(again) or 'nothing'}", f"{len(again)}"),
        _limited("rounds to S3, those that overlap counted once", rounds(calls, s3), MOST_ROUNDS, ""),
        _limited("writes a pool", writes, MOST_WRITES, ""),
        _limited(f"a quiet run ({steps_of(report)}; load {load:.1f})", seconds, MOST_SECONDS, " s"),
        Row("processor time of it", f"{used:.1f} s"),
        _limited("processor time of its imports", import_seconds(), MOST_IMPORT_SECONDS, " s"),
        upload,
    ]


def _limited(what: str, figure: float, limit: float, unit: str) -> Row:
    return Row(what, f"{figure:.3g}{unit}", f"{limit:g}{unit} at most", [figure / limit], "of it")


def import_seconds() -> float:
    """Processor seconds from the start of Python to where a run begins; the least of five."""
    program = "import time, exporter.cli, exporter.job.run; print(time.process_time())"
    return min(float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(5))


def rounds(calls: Sequence[Call], latency: float) -> int:
    """How many requests had to be waited for, one after the other: each covers what began while it was under way."""
    found, until = 0, float("-inf")
    for at in sorted(call.at for call in calls):
        if at >= until:
            found, until = found + 1, at + latency
    return found
