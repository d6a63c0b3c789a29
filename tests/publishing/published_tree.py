"""Small made-up runs in the key layout of the API, and a reader who checks the promises of a published tree.

A run has two head documents of all pools (page sizes 2 and 1) and of each market, and the pages behind them; of a
market with one pool the first is also the second, as the renderer has it. Its rows name their ledger, so a reader
notices a mixture. Only what publishing cares for is realistic.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from exporter.errors import StoreError
from exporter.history.manifest import HistoryPart
from exporter.publishing.acceptance import accept_run
from exporter.publishing.publication import Publication, RunIdentity
from exporter.publishing.published_state import read_current_listing, read_published
from exporter.publishing.sweep_state import SWEEP_STATE_KEY
from exporter.stores.held_store import hold
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Clock, Store, etag_of
from exporter.tree.documents import HistoryFile, RunSettings, SystemStatus, page_token, timestamp
from exporter.tree.families import INTENT_KEY, RUN, STATUS_KEY
from exporter.tree.files import FileKind, RenderedFile
from tests.render.rendering import system_status
from tests.stores.bucket_simulator import WRITES, BucketSimulator, content

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
MARKETS: Mapping[str, int] = {"CAAA": 3, "CBBB": 2}
"""How many pools each market has in the usual run."""

SETTINGS = RunSettings("made", [1, 2], 2, 200)

CLOCK_FIELDS = ("published_at", "generated_at", "started_at", "manifest_sha256", "ledger_close_time", "began")
"""The files that differ between two publications of the same run at other times."""


class TestClock:
    """A wall clock that a test sets."""

    __test__ = False

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def advance(self, step: timedelta) -> None:
        self.now += step


@dataclass(frozen=True)
class MadeRun:
    """A run that was rendered and not published."""

    ledger: int
    files: tuple[RenderedFile, ...]
    history: HistoryPart
    rows: Mapping[str, list[str]]
    """The rows that a walk from each head document must find."""

    def document(self, key: str) -> bytes:
        return next(file.data for file in self.files if file.key == key)


def make_run(ledger: int, markets: Mapping[str, int] = MARKETS) -> MadeRun:
    """Render a run: pages first, then documents, as the real renderer streams them."""
    pools = {market: [f"{market}/{number}@{ledger}" for number in range(count)] for market, count in markets.items()}
    everything = [pool for market in sorted(pools) for pool in pools[market]]
    heads = {"v1/assets/index.json": (everything, 2), "v1/assets/limit/1.json": (everything, 1)}
    heads |= {f"v1/assets/market/{market}/index.json": (pools[market], 2) for market in pools}
    heads |= {f"v1/assets/market/{market}/limit/1.json": (pools[market], 1) for market in pools if markets[market] > 1}
    pages: dict[str, RenderedFile] = {}
    documents: list[RenderedFile] = []
    for key, (rows, size) in sorted(heads.items()):
        *chain, head = _chain(rows, size)
        for page in chain:  # two listings can share one
            name = f"v1/pages/{page_token(page)}.json"
            pages[name] = RenderedFile(name, page, FileKind.PAGE)
        limit = key.replace("index.json", "limit/1.json")
        replaces = () if limit in heads else ("limit/1.json",)
        documents.append(RenderedFile(key, head, FileKind.DOCUMENT, replaces=replaces))
    for market, names in sorted(pools.items()):
        data = json.dumps({"market": market, "observed_ledger": ledger, "pools": names}).encode()
        documents.append(RenderedFile(f"v1/markets/{market}.json", data, FileKind.DOCUMENT))
    documents.append(RenderedFile("index.html", f"<p>Ledger {ledger}".encode(), FileKind.DOCUMENT))
    files = (*pages.values(), *documents)
    return MadeRun(ledger, files, _history(ledger), {key: rows for key, (rows, _) in heads.items()})


def _chain(rows: Sequence[str], size: int) -> Iterator[bytes]:
    """The pages of some rows, last to first, because each names the next."""
    next_cursor: str | None = None
    starts = range(0, max(len(rows), 1), size)
    for start in reversed(starts):
        page = json.dumps({"data": rows[start : start + size], "next_cursor": next_cursor}).encode()
        next_cursor = page_token(page)
        yield page


def _history(ledger: int) -> HistoryPart:
    file = RenderedFile(
        f"history/pools/date=2026-11-21/{ledger}.parquet", f"PAR1 {ledger} PAR1".encode(), FileKind.HISTORY
    )
    entry = HistoryFile(file.key, f"../{file.key}", 1, len(file.data), file.sha256, ledger, ledger)
    return HistoryPart(file, entry)


def status_of(identity: RunIdentity) -> SystemStatus:
    """The status document of a made-up run."""
    published = int(identity.published_at.timestamp())
    return system_status(
        run_id=identity.run_id,
        observed_ledger=identity.observed_ledger,
        ledger_close_time=timestamp(published - 5),
        generated_at=timestamp(published),
        manifest_key=identity.manifest_key,
        manifest_sha256=identity.manifest_sha256,
        previous_run_id=identity.previous_run_id,
    )


def publish_run(
    store: Store,
    run: MadeRun,
    now: Clock | None = None,
    *,
    files: Iterable[RenderedFile] | None = None,
    build_status: Callable[[RunIdentity], SystemStatus] = status_of,
    history: HistoryPart | None = None,
    replaced_ledger: int | None = None,
) -> RunIdentity:
    """Publish a made-up run in one go, as the job does step by step, if wanted with other files, status or history."""
    with hold(store) as held:
        accepted = accept_run(held, run.ledger, replaced_ledger=replaced_ledger)
        publication = Publication(held, accepted, history or run.history, now or TestClock())
        publication.write(run.files if files is None else files)
        sealed = publication.seal(SETTINGS, ())
        publication.complete(sealed, build_status(sealed.identity))
    return sealed.identity


def fail_publishing(store: Store, run: MadeRun, position: int, now: Clock | None = None) -> None:
    """Let a run fail with an operation, and every write after it."""
    bucket = BucketSimulator(store)
    bucket.fail_from(position, StoreError("no"))
    with pytest.raises(StoreError, match="no"):
        publish_run(bucket, run, now)


def published(*ledgers: int) -> tuple[MemoryStore, TestClock]:
    """A store with the runs of these ledgers, all published at the time of its clock."""
    clock = TestClock()
    store = MemoryStore(clock=clock)
    for ledger in ledgers:
        publish_run(store, make_run(ledger), clock)
    return store, clock


def operations_until(store: Store, run: MadeRun, key: str) -> int:
    """How many operations publishing a run takes before it writes a key; nothing is changed."""
    bucket = BucketSimulator(MemoryStore(store))
    publish_run(bucket, run)
    return [call.key if call.operation in WRITES else "" for call in bucket.calls].index(key)


def walk(store: Store, head: bytes) -> list[str]:
    """Page through everything from a head document that a reader has at hand.

    Raises:
        KeyError: a page that a reader was sent to is not there.
    """
    rows: list[str] = []
    page = json.loads(head)
    while True:
        rows += page["data"]
        if page["next_cursor"] is None:
            return rows
        key = f"v1/pages/{page['next_cursor']}.json"
        stored = store.get(key)
        if stored is None:
            raise KeyError(key)
        page = json.loads(stored.data)


def published_ledger(store: Store) -> int | None:
    """The ledger that the status document names."""
    published = read_published(store)
    return None if published is None else published.status.observed_ledger


def assert_whole(store: Store, run: MadeRun) -> None:
    """Check that a run is published, and that whoever reads it is served to the end.

    The status document names it. Its manifest and pages are all there with their digests, and every walk from its own
    head documents finds its rows. Documents may be those of a run that died after it; these lead to the end as well.
    """
    published = read_published(store)
    assert published is not None
    assert run.ledger == published.status.observed_ledger
    for listed in read_current_listing(store, published.status):
        data = content(store, listed.key)
        if listed.kind != FileKind.DOCUMENT:
            assert (listed.sha256, listed.bytes) == (etag_of(data), len(data))
    for key, rows in run.rows.items():
        assert rows == walk(store, run.document(key))
    assert_every_head_leads_to_its_end(store)


def assert_every_head_leads_to_its_end(store: Store) -> None:
    """Check that every walk from the current documents is complete and of one ledger, and every limit is kept."""
    for info in store.list("v1/assets/"):
        head = content(store, info.key)
        rows = walk(store, head)
        assert 1 >= len({row.partition("@")[2] for row in rows})
        assert len(rows) == len(set(rows))
        if info.key.endswith("/index.json"):
            limited = info.key.replace("index.json", "limit/1.json")
            first = content(store, limited) if store.has(limited) else head
            assert 1 >= len(json.loads(first)["data"])


def tree_of(store: Store) -> dict[str, object]:
    """Every file of a store: bytes, or for the records of runs what does not depend on the clock."""
    tree: dict[str, object] = {}
    for info in store.list(""):
        data = content(store, info.key)
        if info.key in (STATUS_KEY, INTENT_KEY) or RUN.pattern.fullmatch(info.key):
            tree[info.key] = {key: value for key, value in json.loads(data).items() if key not in CLOCK_FIELDS}
        elif info.key == SWEEP_STATE_KEY:
            tree[info.key] = sorted(json.loads(data)["superseded"])
        else:
            tree[info.key] = data
    return tree
