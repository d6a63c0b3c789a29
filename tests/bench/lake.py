"""The ledger lake: how fast ledgers are passed over and walked, what a second worker gives, and what a worker holds.

Real ledgers of mainnet are used where they are at hand; the rest is the embedded network's own lake.
"""

from __future__ import annotations

import gzip
import os
import resource
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from exporter.backfill.executors import processes, run_all
from exporter.config import load
from exporter.localnet.lake_writer import LakeWriter
from exporter.localnet.made import SOME, MadeNetwork
from exporter.localnet.made_past import live_through, remember
from exporter.past.lake.close_meta import header_of, walk
from exporter.past.lake.extract import RangeOfLedgers, extract
from exporter.past.lake.objects import open_batch
from exporter.past.lake.watch import Watch
from exporter.stores.memory import MemoryStore
from tests import real_data
from tests.bench.timing import Finding, Spread, Target, duel

UNTOUCHED = Target(400.0)
TOUCHED = Target(20.0)
WORKERS = Target(1.8)
MEMORY_MB = Target(500.0, at_least=False)
MONTH_SECONDS = Target(60.0, at_least=False)
CONTRACTS = 123
"""So many contracts of mainnet's lending markets are watched as a whole."""

_REAL = {
    "51,000,294 (2024-03, protocol 20)": "ledgers/ledger-51000294.xdr.gz",
    "53,312,000 (2024-09, protocol 21)": "lake/pubnet/FCD285FF--53312000-53375999/FCD285FF--53312000.xdr.zst",
    "57,500,008 (2025-06, protocol 22)": "ledgers/ledger-57500008.xdr.gz",
}


def run(quick: bool = False) -> list[Finding]:
    """All of it; without real ledgers only what the embedded network shows."""
    folder = Path(tempfile.mkdtemp(prefix="exporter-lake-"))
    try:
        return [*_real(folder, quick), *_made(folder, quick), _month(folder / "month", quick)]
    finally:
        shutil.rmtree(folder)


def _objects(folder: Path) -> dict[str, tuple[int, Path]]:
    """The real ledgers as objects of a lake, each with its number."""
    root = Path(os.environ.get(real_data.VARIABLE) or real_data.BESIDE)
    found = {}
    for title, name in _REAL.items():
        matches = sorted(root.glob(name.replace(".xdr.gz", "*")))
        if not matches:
            continue
        ledger = int(title.split(" ")[0].replace(",", ""))
        path = folder / f"{ledger}.xdr.zst"
        data = matches[0].read_bytes()
        if matches[0].suffix == ".gz":
            head = ledger.to_bytes(4, "big") * 2 + b"\0\0\0\1"
            data = pa.compress(head + gzip.decompress(data), codec="zstd", asbytes=True)
        path.write_bytes(data)
        found[title] = ledger, path
    return found


def _real(folder: Path, quick: bool) -> list[Finding]:
    objects = _objects(folder)
    if not objects:
        print(f"  (no real ledgers are at hand; {real_data.VARIABLE} says where they are)")
        return []
    watch = Watch([bytes((number,)) * 32 for number in range(CONTRACTS)])
    rounds, repeats = (1, 1) if quick else (7, 20)

    def pass_over() -> None:
        for ledger, path in objects.values():
            batch = open_batch(path.name, path.read_bytes(), ledger, ledger)
            meta = batch.raw[batch.start :]
            header_of(meta)
            assert not watch.touched_by(meta)

    rates = []
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(repeats):
            pass_over()
        rates.append(repeats * len(objects) / (time.process_time() - began))
    size = sum(path.stat().st_size for _, path in objects.values()) / len(objects)
    facts = {"objects": len(objects), "kB_an_object": round(size / 1000), "contracts_watched": CONTRACTS}
    title = "real ledgers of mainnet that touch nothing watched: file, zstd, header's hash, search"
    findings = [Finding(title, Spread.of(rates), "ledgers a second and core", UNTOUCHED, facts)]
    return findings + [_walked(title, *item, quick) for title, item in objects.items()]


def _walked(title: str, ledger: int, path: Path, quick: bool) -> Finding:
    from stellar_sdk import xdr

    raw = open_batch(path.name, path.read_bytes(), ledger, ledger).raw
    measured = duel(
        lambda: walk(raw[12:]),
        lambda: xdr.LedgerCloseMetaBatch.from_xdr_bytes(raw),
        rounds=1 if quick else 3,
    )
    facts = {
        "ours_ms": round(measured.ours.median * 1000, 1),
        "stellar_sdk_ms": round(measured.theirs.median * 1000),
        "kB": round(len(raw) / 1000),
    }
    return Finding(f"ledger {title}, walked whole / by stellar-sdk", measured.ratio, "times as fast", TOUCHED, facts)


def _made(folder: Path, quick: bool) -> list[Finding]:
    """A lake of the embedded network whose every ledger is touched."""
    count, size = (40, 20) if quick else (4_000, 250)
    network = MadeNetwork(pools=60, alula_markets=3, others=SOME, close_seconds=60)
    keys = list(network.chain.known_keys())
    contracts = frozenset(key[8:40] for key in keys if key[:4] == b"\0\0\0\6")
    first = network.chain.latest + 1
    with LakeWriter(network.chain, network.passphrase, folder / "lake"):
        for _ in range(count):
            network.advance()
    work = [
        RangeOfLedgers(
            str(folder / "lake"), None, network.passphrase, start, start + size - 1, contracts, frozenset()
        )
        for start in range(first, first + count, size)
    ]  # fmt: skip
    seconds = {workers: _extracted(work, workers) for workers in (1, 2)}
    facts = {"ledgers": count, **{f"{number}_workers_s": round(value, 1) for number, value in seconds.items()}}
    ratio = Spread.of([seconds[1] / seconds[2]])
    whole = RangeOfLedgers(
        str(folder / "lake"), None, network.passphrase, first, first + count - 1, contracts, frozenset()
    )
    with processes(1) as executor:
        peaks = [executor.submit(_peak_mb, item).result() for item in (work[0], whole)]
    held = {"first_range_MB": round(peaks[0]), "ledgers": count}
    return [
        Finding(f"{count} ledgers that are all touched: one worker / two", ratio, "times as long", WORKERS, facts),
        Finding("what a worker holds at the most", Spread.of([peaks[1]]), "MB", MEMORY_MB, held),
    ]


def _extracted(work: list[RangeOfLedgers], workers: int) -> float:
    """Seconds of the work alone: the workers are up before."""

    @contextmanager
    def ready() -> Any:
        with processes(workers) as executor:
            list(executor.map(_wait, [0.5] * workers))
            began.append(time.perf_counter())
            yield executor

    began: list[float] = []
    for _ in run_all(ready, extract, work, 2 * workers):
        pass
    return time.perf_counter() - began[0]


def _wait(seconds: float) -> None:
    time.sleep(seconds)


def _peak_mb(work: RangeOfLedgers) -> float:
    extract(work)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _month(folder: Path, quick: bool) -> Finding:
    """Thirty days of an embedded network, an observation each hour: processor time of extraction and replay."""
    hours = 6 if quick else 720
    network = MadeNetwork(pools=40, alula_markets=3, others=SOME, close_seconds=3600)
    network.prices_per_ledger = len(network.feeds)
    settings = load(None, {"network.name": "local"}, environment={}).settings
    store = MemoryStore()
    state = live_through(network, hours, folder)
    began = _cpu()
    result = remember(network, state, folder, 3600, settings, store, _in_line)
    seconds = _cpu() - began
    rows = result.rows // max(result.added, 1)
    facts = {"observations": result.added, "pools": rows, "ms_an_observation": round(seconds / result.added * 1000)}
    return Finding("a month of hourly observations", Spread.of([seconds]), "s of a processor", MONTH_SECONDS, facts)


@contextmanager
def _in_line() -> Any:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
