"""What a bucket costs, by a formula over what a run writes; docs/operations.md has its tables.

``python -m tools.costs`` publishes recorded networks of two sizes, twice each, and prints `SMALL` and `LARGE` again.
Everything between and beyond the two is the straight line through them.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.localnet.player import RecordedNetwork, copies_for
from exporter.localnet.server import create_app, running
from exporter.publishing.published_sample import MAX_FILES_READ_BACK
from exporter.stores.memory import MemoryStore
from exporter.tree.families import kind_of
from exporter.tree.files import FileKind
from tests.job_runs import naming, run, settings_for

# List prices of AWS in us-east-1 for S3 Standard and CloudFront, in USD, as of 2026-11. Prices are inputs: check them.
PER_1000_PUTS = 0.005  # PUT and LIST
PER_1000_GETS = 0.0004  # GET and HEAD
PER_GIGABYTE_MONTH = 0.023
PER_GIGABYTE_OUT = 0.085  # CloudFront to North America and Europe; from S3 to CloudFront nothing
PER_GIGABYTE_READ = 0.09  # from S3 to a runner outside of AWS
PER_10000_QUESTIONS = 0.01  # HTTPS requests to CloudFront

RETENTION_MINUTES = 24 * 60
MINUTES_OF_A_MONTH = 60 * 24 * 365.25 / 12
BUCKET_MINUTES = (5, 60, 1440, 10080)  # of a pool; totals have those of a day alone
CSV_MINUTES = 1440  # a pool's days as CSV are written again when a day closes
BUCKET_ENTRY_BYTES = 350  # one bucket of one history in a page, as JSON
PARQUET_ROW_BYTES = 133  # one pool in the file of one run; less after compaction
STATE_ROW_BYTES = 17  # one observation of a pool in the state that a run reads; it holds half a week on average
FEW_REQUESTS = 25  # of a run, whatever its size, of each kind: status document, intent, manifests, the hold, folders


class RunSize(NamedTuple):
    """What one run writes over the run before it, at a later ledger: files and bytes.

    Documents are written again under the same key, pages are new and immutable; of a history a document of each length
    of bucket is written again when a bucket closes.
    """

    pools: int
    documents: int
    site: int
    pages: int
    histories: int
    document_bytes: int
    page_bytes: int


SMALL = RunSize(54, 283, 87, 185, 85, 3_341_765, 314_869)
LARGE = RunSize(504, 1_950, 695, 1_870, 685, 25_267_679, 3_765_166)


def size_at(pools: int) -> RunSize:
    """The size of a run with this many pools, on the line through the two that were measured."""
    share = (pools - SMALL.pools) / (LARGE.pools - SMALL.pools)
    return RunSize(*(max(0, round(low + (high - low) * share)) for low, high in zip(SMALL, LARGE, strict=True)))


def month(pools: int, interval_minutes: int) -> tuple[int, float, float, float]:
    """PUTs of a run; of a month the USD for requests, the bytes stored after a year, and the USD for all of it.

    requests   runs * (documents + web pages + pages + histories of what closes in a run + few)
               PUTs, and LISTs of a thousandth of all but pages, which are listed once a day
               runs * (read back + few) GETs and HEADs
    read       what is read back, the state, and the listings of three runs
    storage    documents, and pages and manifests of the runs that are retained, and of the history
               what a year adds: a Parquet row a run, and an entry in each bucket
    """
    size = size_at(pools)
    runs = MINUTES_OF_A_MONTH / interval_minutes
    totals = size.histories - pools
    closing = round(
        pools * sum(min(1, interval_minutes / minutes) for minutes in (*BUCKET_MINUTES, CSV_MINUTES))
        + totals * min(1, interval_minutes / 1440)
    )
    files = size.documents + size.site + size.pages + (len(BUCKET_MINUTES) + 1) * pools + totals
    retained = max(1.0, RETENTION_MINUTES / interval_minutes)
    puts = size.documents + size.site + size.pages + closing + FEW_REQUESTS
    lists = FEW_REQUESTS + files / 1000
    gets = min(MAX_FILES_READ_BACK, files) + FEW_REQUESTS
    requests_usd = runs * ((puts + lists) * PER_1000_PUTS + gets * PER_1000_GETS) / 1000

    manifest_bytes = 40 * files
    mean_bytes = size.document_bytes / (size.documents + size.site)
    state_bytes = STATE_ROW_BYTES * pools * BUCKET_MINUTES[-1] / 2 / interval_minutes
    read_bytes = min(MAX_FILES_READ_BACK, files) * mean_bytes + state_bytes + 3 * manifest_bytes
    buckets_of_a_year = sum(12 * MINUTES_OF_A_MONTH / max(interval_minutes, minutes) for minutes in BUCKET_MINUTES)
    entries = pools * buckets_of_a_year + totals * 365
    history_of_a_year = 12 * runs * pools * PARQUET_ROW_BYTES + entries * BUCKET_ENTRY_BYTES
    stored = size.document_bytes + retained * (size.page_bytes + manifest_bytes) + history_of_a_year
    bytes_usd = stored / 1e9 * PER_GIGABYTE_MONTH + runs * read_bytes / 1e9 * PER_GIGABYTE_READ
    return puts, requests_usd, stored, requests_usd + bytes_usd


def tables() -> str:
    """The two tables of docs/operations.md."""
    lines = [
        "pools | a run every | objects a run | requests, USD a month | stored after a year | together, USD a month",
        "---:|---|---:|---:|---:|---:",
    ]
    usual = (("30 minutes", 30), ("6 hours", 360), ("day", 1440))
    rows = [(50, *each) for each in usual] + [(165, "5 minutes", 5)] + [(5_000, *each) for each in usual]
    for pools, name, minutes in rows:
        puts, requests, stored, together = month(pools, minutes)
        size = f"{stored / 1e9:.1f} GB" if stored >= 1e9 else f"{stored / 1e6:.0f} MB"
        lines.append(f"{pools:,} | {name} | {puts:,} | {_usd(requests)} | {size} | {_usd(together)}")
    lines += ["", "a million requests for | bytes each | CDN, USD", "---|---:|---:"]
    answers = (("`/v1/system/status`", 1_500), ("`/v1/assets`, 50 pools", 23_000), ("the same, compressed", 4_000))
    for name, bytes_each in answers:
        usd = 1e6 * bytes_each / 1e9 * PER_GIGABYTE_OUT + 1e6 / 10_000 * PER_10000_QUESTIONS
        lines.append(f"{name} | {bytes_each:,} | {_usd(usd)}")
    return "\n".join(lines)


def _usd(amount: float) -> str:
    return f"{amount:,.2f}" if amount < 100 else f"{amount:,.0f}"


def measure(pools: int) -> RunSize:
    """Publish a recorded network twice into memory, at different ledgers, and look at what the second run changed."""
    network = RecordedNetwork(copies=copies_for(pools))
    store = MemoryStore()
    before: dict[str, bytes] = {}
    after: dict[str, bytes] = {}
    with running(create_app(network)) as url:
        for _ in range(2):
            _, facts = run(settings_for(None, url, **naming(network)), store)
            # Manifests of runs are reckoned by their lines.
            keys = [info.key for info in store.list("") if not info.key.startswith("v1/runs/")]
            before, after = after, {key: stored.data for key in keys if (stored := store.get(key)) is not None}
            network.advance()
    changed = {key: data for key, data in after.items() if before.get(key) != data}
    pages = {key: data for key, data in changed.items() if kind_of(key) is FileKind.PAGE}
    documents = {key: data for key, data in changed.items() if key not in pages and "/history/" not in key}
    site = sum(key.endswith(".html") for key in documents)
    return RunSize(
        pools=next(step["pools"] for step in facts["steps"] if "pools" in step),
        documents=len(documents) - site,
        site=site,
        pages=len(pages),
        histories=sum(key.endswith("/history/1d.json") for key in after),
        document_bytes=sum(map(len, documents.values())),
        page_bytes=sum(map(len, pages.values())),
    )


if __name__ == "__main__":
    print(f"SMALL = {measure(50)}\nLARGE = {measure(500)}")
