"""What a bucket costs, by a formula over what a run writes: ``python -m tests.costs`` prints the tables of the docs.

``python -m tests.costs --measure`` publishes recorded networks of two sizes, twice each, and prints `SMALL` and `LARGE`
again; that takes some seconds. Everything between and beyond the two is the straight line through them.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

from exporter.localnet.player import RecordedNetwork, copies_for
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.publishing.publish import MAX_FILES
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tree.families import alias_of, kind_of, may_be_kept
from exporter.tree.files import FileKind
from tests.jobs import run, settings_for

PAGE = Path(__file__).parent.parent / "docs" / "operations.md"
BEGIN, END = "<!-- made by scripts/docs: costs -->", "<!-- end of what is made -->"

# List prices of AWS in us-east-1 for S3 Standard and CloudFront, in USD, as of 2026-11. Prices are inputs: check them.
PER_1000_PUTS = 0.005  # PUT and LIST
PER_1000_GETS = 0.0004  # GET and HEAD
PER_GIGABYTE_MONTH = 0.023
PER_GIGABYTE_OUT = 0.085  # CloudFront to North America and Europe; from S3 to CloudFront nothing
PER_GIGABYTE_READ = 0.09  # from S3 to a runner outside of AWS
PER_10000_QUESTIONS = 0.01  # HTTPS requests to CloudFront

SITE_MINUTES = 0.9 * 15  # a run replaces web pages on S3 that are older
MINUTES_OF_A_MONTH = 60 * 24 * 365.25 / 12
BUCKET_MINUTES = (5, 60, 1440, 10080)  # of a pool; totals have those of a day alone
BUCKET_ENTRY_BYTES = 350  # one bucket of one history in a page, as JSON
PARQUET_ROW_BYTES = 133  # one pool in the file of one run; less after compaction
FEW_REQUESTS = 25  # of a run, whatever its size, of each kind: pointer, intent, manifests, the hold, folders
STATE_ROW_BYTES = (
    17  # one observation of a pool in the state that a run reads, which holds half a week of them on average
)


@dataclass(frozen=True, slots=True)
class RunSize:
    """What one run writes over the run before it, at a later ledger.

    Attributes:
        pools: pools in the run.
        documents: files that every run writes again under the same key.
        site: web pages, which stay a while.
        aliases: copies of documents under their extensionless path, in buckets.
        pages: new immutable pages, kept for the retention time.
        histories: of pools, markets, tokens and the like; a document of each length of bucket is written again when a
            bucket closes.
        document_bytes: bytes of the documents and their aliases.
        page_bytes: bytes of the pages.
    """

    pools: int
    documents: int
    site: int
    aliases: int
    pages: int
    histories: int
    document_bytes: int
    page_bytes: int


SMALL = RunSize(
    pools=54, documents=273, site=85, aliases=21, pages=184, histories=85, document_bytes=3304822, page_bytes=250144
)
LARGE = RunSize(
    pools=504,
    documents=1939,
    site=693,
    aliases=171,
    pages=1869,
    histories=685,
    document_bytes=25670520,
    page_bytes=3199107,
)


def size_at(pools: int) -> RunSize:
    """The size of a run with this many pools, on the line through the two that were measured."""

    def at(name: str) -> int:
        low: int = getattr(SMALL, name)
        high: int = getattr(LARGE, name)
        return max(0, round(low + (high - low) * (pools - SMALL.pools) / (LARGE.pools - SMALL.pools)))

    return RunSize(pools, *(at(name) for name in RunSize.__slots__[1:]))


@dataclass(frozen=True, slots=True)
class Month:
    """A month of runs, in USD and bytes; ``stored`` after a year of runs."""

    runs: float
    puts_of_a_run: int
    requests_usd: float
    stored: float
    stored_usd: float
    read_usd: float

    @property
    def usd(self) -> float:
        """All of it but what readers cause."""
        return self.requests_usd + self.stored_usd + self.read_usd


def month(pools: int, interval_minutes: int, retention_hours: int = 24) -> Month:
    """The formula.

    requests   runs * (documents + web pages by their age + aliases + pages + histories of what closes in a run + few)
               PUTs, and LISTs of a thousandth of all but pages, which are listed once a day
               runs * (read back + few) GETs and HEADs
    read       what is read back, a sample of the history, the state, and the listings of three runs
    storage    documents, and pages and manifests of the runs that are retained, and of the history
               what a year adds: a Parquet row a run, and an entry in each bucket
    """
    size = size_at(pools)
    runs = MINUTES_OF_A_MONTH / interval_minutes
    totals = size.histories - pools
    closing = round(
        pools * sum(min(1, interval_minutes / minutes) for minutes in BUCKET_MINUTES)
        + totals * min(1, interval_minutes / 1440)
    )
    rewritten = round(size.site / max(1, math.ceil(SITE_MINUTES / interval_minutes)))
    files = size.documents + size.site + size.pages + len(BUCKET_MINUTES) * pools + totals
    retained = max(1.0, retention_hours * 60 / interval_minutes)
    puts = size.documents + rewritten + size.pages + size.aliases + closing + FEW_REQUESTS
    lists = FEW_REQUESTS + (files + size.aliases) / 1000
    gets = min(MAX_FILES, files) + FEW_REQUESTS
    requests_usd = runs * ((puts + lists) * PER_1000_PUTS + gets * PER_1000_GETS) / 1000

    manifest_bytes = 40 * files
    mean_bytes = size.document_bytes / (size.documents + size.site + size.aliases)
    state_bytes = STATE_ROW_BYTES * pools * BUCKET_MINUTES[-1] / 2 / interval_minutes
    read_bytes = min(MAX_FILES, files) * mean_bytes + state_bytes + 3 * manifest_bytes
    buckets_of_a_year = sum(12 * MINUTES_OF_A_MONTH / max(interval_minutes, minutes) for minutes in BUCKET_MINUTES)
    entries = pools * buckets_of_a_year + totals * 365
    history_of_a_year = 12 * runs * pools * PARQUET_ROW_BYTES + entries * BUCKET_ENTRY_BYTES
    stored = size.document_bytes + retained * (size.page_bytes + manifest_bytes) + history_of_a_year
    return Month(
        runs,
        puts,
        requests_usd,
        stored,
        stored / 1e9 * PER_GIGABYTE_MONTH,
        runs * read_bytes / 1e9 * PER_GIGABYTE_READ,
    )


def tables() -> str:
    """The two tables of docs/operations.md."""
    lines = [
        "pools | a run every | objects a run | requests, USD a month | stored after a year | together, USD a month",
        "---:|---|---:|---:|---:|---:",
    ]
    usual = (("30 minutes", 30), ("6 hours", 360), ("day", 1440))
    rows = [(50, *each) for each in usual] + [(165, "5 minutes", 5)] + [(5_000, *each) for each in usual]
    for pools, name, minutes in rows:
        cost = month(pools, minutes)
        lines.append(
            f"{pools:,} | {name} | {cost.puts_of_a_run:,} | {_usd(cost.requests_usd)} | {_bytes(cost.stored)} |"
            f" {_usd(cost.usd)}"
        )
    lines += ["", "a million requests for | bytes each | CDN, USD", "---|---:|---:"]
    for name, size in (
        ("`/v1/system/status`", 1_500),
        ("`/v1/assets`, 50 pools", 23_000),
        ("the same, compressed", 4_000),
    ):
        usd = 1e6 * size / 1e9 * PER_GIGABYTE_OUT + 1e6 / 10_000 * PER_10000_QUESTIONS
        lines.append(f"{name} | {size:,} | {_usd(usd)}")
    return "\n".join(lines)


def _usd(amount: float) -> str:
    return f"{amount:,.2f}" if amount < 100 else f"{amount:,.0f}"


def _bytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def measure(pools: int) -> RunSize:
    """Publish a recorded network twice into memory, at different ledgers, and look at what the second run changed."""
    network = RecordedNetwork(copies=copies_for(pools))
    store = MemoryStore()
    states = []
    with running(create_app(network)) as url:
        for _ in range(2):
            _, facts = run(settings_for(None, url), store)
            pools = next(step["pools"] for step in facts["steps"] if "pools" in step)
            states.append(_objects(store))
            network.advance()
    before, after = states
    changed = {key: data for key, data in after.items() if before.get(key) != data}
    pages = {key: data for key, data in changed.items() if kind_of(key) is FileKind.PAGE}
    documents = {key: data for key, data in changed.items() if key not in pages and "/history/" not in key}
    site = [key for key in documents if may_be_kept(key)]
    aliases = {key: data for key, data in documents.items() if alias_of(key) is not None}
    return RunSize(
        pools=pools,
        documents=len(documents) - len(site),
        site=len(site),
        aliases=len(aliases),
        pages=len(pages),
        histories=sum(key.endswith("/history/1d.json") for key in after),
        document_bytes=sum(map(len, documents.values())) + sum(map(len, aliases.values())),
        page_bytes=sum(map(len, pages.values())),
    )


def _objects(store: Store) -> dict[str, bytes]:
    """Everything but the manifests of runs, which are reckoned by their lines."""
    keys = [info.key for info in store.list("") if not info.key.startswith("v1/runs/")]
    return {key: stored.data for key in keys if (stored := store.get(key)) is not None}


def written(page: str) -> str:
    """The page with its tables recomputed."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--measure"]:
        print(f"SMALL = {measure(50)}\nLARGE = {measure(500)}")
    elif sys.argv[1:] == ["--write"]:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(tables())
