"""A year of five-minute runs of 24 pools onto a bucket: what a run costs at ages of the history up to a year.

No machine does 105,120 runs for a benchmark. Days of history are written as compaction leaves them, 288 runs in a file,
with numbers that move; then the runs of an hour are done at each age, by the clock of that hour, and the last of them
are measured. The first run of an age reads the days that are new to it, and joins months: it is not measured. The
retention is an hour, so that the sweep has as many expired pages as a run publishes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from time import process_time
from typing import NamedTuple

import msgspec
import polars as pl
import pyarrow.parquet as pq

from exporter.history.manifest import history_entry, read_history_manifest
from exporter.history.parquet import ARROW_SCHEMA, FILE_SCHEMA, ORDER, to_file_types
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.stores import open_store
from exporter.stores.store import Store
from exporter.tree.documents import EXPORTER_VERSION, HistoryFile
from exporter.tree.families import HISTORY_FILES_PREFIX, HISTORY_MANIFEST_KEY
from exporter.tree.read_back import file_of
from tests.job_runs import direct, read_tables, settings_for
from tests.job_runs import run as run_once
from tests.s3.wire_bucket import WireBucket
from tests.served_commands import PROJECT_ROOT
from tools.bench.publish import variables
from tools.bench.table import Row

AGES_DAYS = (1, 7, 30, 91, 182, 365)
RUNS = 13
"""The runs of an hour, and the one before them that catches up."""

RUN_SECONDS = 300
RUNS_A_DAY = 86_400 // RUN_SECONDS
BEGINS = datetime(2025, 11, 1, tzinfo=UTC)
FIRST_LEDGER = 60_000_000
OUT = "s3://bucket/live"
MOVED = ("supply_apy_bps", "borrow_apy_bps", "tvl_usd_cents", "supplied_usd_cents", "borrowed_usd_cents")


class Measured(NamedTuple):
    """A run at an age: processor seconds, and the highest memory that the process had until then."""

    seconds: float
    peak_bytes: int


def run(quick: bool = False) -> list[Row]:
    """Measure each age. Raises RuntimeError with what a run said when it fails."""
    ages, runs = ((1, 3), 3) if quick else (AGES_DAYS, RUNS)
    rows, used = list[Row](), list[float]()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        clock = Path(name) / "now"
        clock.write_text(BEGINS.isoformat())
        with WireBucket(clock=lambda: datetime.fromisoformat(clock.read_text())) as bucket:
            environment = bucket.environment("bench")
            with variables(environment):
                _run_child(0, 0, 2, bucket, environment, clock)  # a tree begins with a run
                for before, age in pairwise((0, *ages)):
                    add_days(open_store(OUT), before, age)
                    bucket.forget()
                    _run_child(age, 0, 1, bucket, environment, clock)  # reads these days, and joins months
                    seconds, measured = _at(age, runs, bucket, environment, clock)
                    rows += measured
                    used.append(seconds)
    title = f"processor time of a run at {ages[-1]} days / at {ages[0]}"
    return [*rows, Row(title, f"{used[-1]:.2f} s", f"{used[0]:.2f} s", [used[-1] / used[0]], "times as much")]


def _run_child(
    age: int, first: int, runs: int, bucket: WireBucket, environment: dict[str, str], clock: Path
) -> tuple[list[Measured], list[Counter[str]]]:
    """Do runs of an age in a process of its own; gives what each took, and its requests by kind."""
    arguments = [str(age), str(first), str(runs), str(clock)]
    measured, requests = list[Measured](), list[Counter[str]]()
    with subprocess.Popen(
        [sys.executable, "-m", "tools.bench.year", *arguments],
        cwd=PROJECT_ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            measured.append(Measured(*json.loads(line)))
            requests.append(Counter(call.operation for call in bucket.calls))
            bucket.forget()
    if child.returncode or len(measured) != runs:
        raise RuntimeError(f"the runs at {age} days ended with {child.returncode}")
    return measured, requests


def _at(age: int, runs: int, bucket: WireBucket, environment: dict[str, str], clock: Path) -> tuple[float, list[Row]]:
    measured, requests = _run_child(age, 1, runs, bucket, environment, clock)
    sizes = {key.removeprefix("live/"): len(stored.data) for key, stored in bucket.objects.items()}
    pages = {key: size for key, size in sizes.items() if key.endswith(".html")}
    documents = {key: size for key, size in sizes.items() if key.endswith(".json")}
    # The first of the process also imports.
    used = median(item.seconds for item in measured[1:])
    asked = {kind: median(counted[kind] for counted in requests[1:]) for kind in ("GET", "PUT", "LIST")}
    largest = sorted(documents, key=documents.__getitem__, reverse=True)[:3]
    title = f"{age} days"
    return used, [
        Row(f"{title}: processor time of a run", f"{used:.2f} s"),
        Row(f"{title}: requests of a run", ", ".join(f"{kind} {count:g}" for kind, count in asked.items())),
        Row(f"{title}: peak memory", f"{measured[-1].peak_bytes / 1e6:.0f} MB"),
        Row(f"{title}: objects", f"{len(sizes):,}, {sum(sizes.values()) / 1e6:.0f} MB"),
        *(
            Row(f"{title}: page {key}", f"{pages[key] / 1000:.1f} kB")
            for key in sorted(pages, key=pages.__getitem__, reverse=True)[:6]
        ),
        *(Row(f"{title}: document {key}", f"{documents[key] / 1000:.1f} kB") for key in largest),
    ]


def network_at(age: int) -> RecordedNetwork:
    """The network at the begin of a day, which closes a ledger for each run."""
    start = BEGINS + timedelta(days=age)
    return RecordedNetwork(
        start_ledger=FIRST_LEDGER + age * RUNS_A_DAY, start_time=int(start.timestamp()), close_seconds=RUN_SECONDS
    )


def add_days(store: Store, begin: int, end: int) -> None:
    """Put whole days of runs into the history, from one age to before another; the newest pools with other numbers."""
    pools = to_file_types(read_tables(direct(network_at(begin))).pools)
    passphrase = settings_for().passphrase
    random = Random(begin)
    entries = list[HistoryFile]()
    manifest = read_history_manifest(store)
    assert manifest is not None  # a tree begins with a run
    for day in range(begin, end):
        first = FIRST_LEDGER + day * RUNS_A_DAY
        ledgers = [ledger for ledger in range(first, first + RUNS_A_DAY) if ledger > manifest.observed_ledger]
        starts = int((BEGINS + timedelta(days=day)).timestamp())
        rows = pl.concat(
            _moved(pools, ledger, starts + (ledger - first) * RUN_SECONDS, random) for ledger in ledgers
        ).sort(ORDER)
        schema = ARROW_SCHEMA.with_metadata(
            {
                "table": "pools",
                "network": passphrase,
                "first_ledger": str(ledgers[0]),
                "last_ledger": str(ledgers[-1]),
                "exporter_version": EXPORTER_VERSION,
            }
        )
        buffer = io.BytesIO()
        pq.write_table(rows.to_arrow().cast(schema), buffer, compression="zstd")
        data = buffer.getvalue()
        folder = f"{HISTORY_FILES_PREFIX}date={BEGINS + timedelta(days=day):%Y-%m-%d}/"
        key = f"{folder}{ledgers[0]}-{ledgers[-1]}-{hashlib.sha256(data).hexdigest()[:12]}.parquet"
        store.put(key, data)
        entries.append(history_entry(key, data, rows.height))
    files = sorted([*manifest.files, *entries], key=lambda file: file.first_ledger)
    changed = msgspec.structs.replace(manifest, observed_ledger=files[-1].last_ledger, files=files)
    store.put(HISTORY_MANIFEST_KEY, file_of(changed).data)


def _moved(pools: pl.DataFrame, ledger: int, time: int, random: Random) -> pl.DataFrame:
    """The rows of a run: amounts and yields are up to a fifth away from where they were."""
    factor = random.randint(8_000, 12_000)
    return pools.with_columns(
        pl.lit(ledger).cast(FILE_SCHEMA["observed_ledger"]).alias("observed_ledger"),
        pl.lit(time * 1_000_000).cast(FILE_SCHEMA["ledger_close_time"]).alias("ledger_close_time"),
        *(
            (pl.col(name) * factor // 10_000).cast(FILE_SCHEMA[name])
            for name in (
                "supply_apy_bps",
                "borrow_apy_bps",
                "tvl_usd_cents",
                "supplied_usd_cents",
                "borrowed_usd_cents",
            )
        ),
    )


def _runs(age: int, first: int, runs: int, clock: Path) -> None:
    """Do the runs of an age, and print what each took. The benchmark starts it as a process of its own."""
    settings = settings_for(output__uri=OUT, output__retention="1h", network__name=NETWORK)
    network = network_at(age)
    for _ in range(first):
        network.close()
    for number in range(first, first + runs):
        now = BEGINS + timedelta(days=age, seconds=number * RUN_SECONDS)
        clock.write_text(now.isoformat())
        began = process_time()
        run_once(settings, now=now, network=network)
        used = process_time() - began
        status = Path("/proc/self/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0])
        print(json.dumps((used, peak * 1024)), flush=True)
        network.close()


if __name__ == "__main__":
    _runs(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
