"""The ledger lake: passing over ledgers and walking them against stellar-sdk, and what a second worker gives.

Real ledgers of mainnet are used where they are at hand; the rest is the embedded network's own lake.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

import pyarrow as pa

from exporter.localnet.lake_writer import LakeWriter
from exporter.localnet.player import RecordedNetwork
from exporter.past.backfill.executors import processes
from exporter.past.lake.close_meta import header_of, walk
from exporter.past.lake.extract import RangeOfLedgers, extract
from exporter.past.lake.objects import open_batch
from exporter.past.lake.watch import Watch
from tools import real_data
from tools.bench.table import Row, in_turn

CONTRACTS = 123
"""How many contracts of mainnet's lending markets are watched as a whole."""

_REAL = {51_000_294: "ledgers/ledger-51000294*", 57_500_008: "ledgers/ledger-57500008*"}


def run(quick: bool = False) -> list[Row]:
    """All of it; without real ledgers only what the embedded network shows."""
    root = Path(os.environ.get(real_data.VARIABLE) or real_data.DEFAULT_FOLDER)
    found = {ledger: sorted(root.glob(name)) for ledger, name in _REAL.items()}
    rows = [_real(ledger, paths[0], quick) for ledger, paths in found.items() if paths]
    with tempfile.TemporaryDirectory() as folder:
        return [*(row for pair in rows for row in pair), _workers(Path(folder), quick)]


def _real(ledger: int, path: Path, quick: bool) -> list[Row]:
    from stellar_sdk import xdr

    head = ledger.to_bytes(4, "big") * 2 + b"\0\0\0\1"
    stored: bytes = pa.compress(head + gzip.decompress(path.read_bytes()), codec="zstd", asbytes=True)
    raw = head + gzip.decompress(path.read_bytes())
    watch = Watch(frozenset(bytes((number,)) * 32 for number in range(CONTRACTS)))

    def pass_over() -> None:
        meta = open_batch(path.name, stored, ledger, ledger).metas
        header_of(meta)
        assert not watch.touched_by(meta)

    def by_sdk() -> None:
        xdr.LedgerCloseMetaBatch.from_xdr_bytes(raw)

    rows = []
    for title, ours in (("passed over", pass_over), ("walked whole", lambda: walk(raw[12:]))):
        our_times, their_times, ratios = in_turn(ours, by_sdk, 1 if quick else 5)
        figure, other = f"{1000 * median(our_times):.1f} ms", f"stellar-sdk, {1000 * median(their_times):.0f} ms"
        rows.append(Row(f"ledger {ledger:,} of mainnet, {len(raw) / 1e6:.1f} MB, {title}", figure, other, ratios))
    return rows


def _workers(folder: Path, quick: bool) -> Row:
    """Ledgers that are all touched, extracted by one process and by two."""
    count, size = (40, 20) if quick else (4_000, 250)
    network = RecordedNetwork(copies=7, close_seconds=60)
    contracts = frozenset(key[8:40] for key in network.chain.known_keys() if key[:4] == b"\0\0\0\6")
    first = network.chain.latest + 1
    with LakeWriter(network.chain, network.passphrase, folder):
        for _ in range(count):
            network.advance()
    work = [
        RangeOfLedgers(str(start), str(folder), None, network.passphrase, start, start + size - 1, Watch(contracts))
        for start in range(first, first + count, size)
    ]
    seconds = []
    for workers in (1, 2):
        with processes(workers) as executor:
            list(executor.map(sleep, [0.5] * workers))  # they are up before
            began = perf_counter()
            list(executor.map(extract, work))
            seconds.append(perf_counter() - began)
    title = f"{count:,} ledgers that are all touched, extracted by two workers"
    return Row(title, f"{seconds[1]:.1f} s", f"one worker, {seconds[0]:.1f} s", [seconds[0] / seconds[1]])
