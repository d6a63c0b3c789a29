"""Files of past ledgers go into the history in any order, between and inside its files, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from math import inf
from random import Random

import pytest

from exporter import FORMAT
from exporter.audit.history_files import rows_by_ledger
from exporter.errors import CheckError, LostRaceError
from exporter.history.liquidations_table import restore_table
from exporter.history.manifest import HistoryPart, find_damage, read_history_manifest
from exporter.history.parquet import render_history
from exporter.past.backfill import merge
from exporter.past.backfill.liquidations import Row
from exporter.past.backfill.merge import MergeResult, finish_history, merge_into_history
from exporter.publishing.rebuild import rebuild_history
from exporter.publishing.sweep_state import SWEEP_STATE_KEY
from exporter.stores import held_store
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store, Written
from exporter.tree.documents import LedgerSpan
from exporter.tree.families import HISTORY_MANIFEST_KEY
from tests.examples import sampled
from tests.history.runs import MONDAY, frame_of, observe, places
from tests.past.backfill.recorded_lake import history_of, rows_of
from tests.publishing.held import compact_history
from tests.publishing.published_tree import TestClock

NETWORK = "made"
LEDGERS = range(1000, 1008)


def part_of(ledger: int, pools: int = 2) -> HistoryPart:
    """A ledger's file with this many pools in each of two markets; ledgers are five hours apart."""
    time = MONDAY + (ledger - LEDGERS[0]) * 5 * 3600
    frame = frame_of(observe(Random(ledger), places(2, pools), ledger, time), ledger, time)
    return render_history(frame, observed_ledger=ledger, ledger_close_time=time, network=NETWORK)


def fill(store: Store, ledgers: Iterable[int] = LEDGERS) -> MergeResult:
    return merge_into_history(store, [part_of(ledger) for ledger in sorted(ledgers)], NETWORK)


@pytest.fixture(scope="module")
def whole() -> MemoryStore:
    store = MemoryStore()
    fill(store)
    return store


@pytest.mark.parametrize("seed", sampled(range(4), 4))
def test_order_and_batches_make_no_difference(whole: MemoryStore, seed: int) -> None:
    """The history has the same bytes in whatever order and batches ledgers come, and none is added twice."""
    random, store = Random(seed), MemoryStore()
    shuffled = random.sample(LEDGERS, len(LEDGERS))
    cut = random.randint(1, len(LEDGERS) - 1)

    first, second = fill(store, shuffled[:cut]), fill(store, shuffled)

    assert (set(shuffled[:cut]), set(shuffled[cut:])) == (first.added, second.added)
    assert history_of(whole) == history_of(store)


def test_inside_a_compacted_day(whole: MemoryStore) -> None:
    """A ledger inside a compacted file goes into it; the old file stays for the retention time."""
    clock = TestClock()
    store, compacted = MemoryStore(clock=clock), MemoryStore(whole)
    fill(store, [ledger for ledger in LEDGERS if ledger not in (1003, 1006)])
    compact_history(store, now=clock)
    before = history_of(store)

    result = fill(store)
    removed_later = store.get(SWEEP_STATE_KEY)

    assert {1003, 1006} == result.added
    assert removed_later is not None
    replaced = before.keys() - history_of(store).keys()
    assert replaced
    assert all(key in removed_later.data.decode() for key in replaced)
    assert rows_of(whole).equals(rows_of(store))
    compact_history(store)
    compact_history(compacted)
    assert history_of(compacted) == history_of(store)
    assert all(store.get(key) for key in before)
    assert set() == fill(store).added


def test_a_ledger_without_rows_is_added_once() -> None:
    """A ledger at which a market had no pools yet goes into a compacted file too, and the next backfill finds it."""
    store = MemoryStore()
    fill(store, [1000, 1002, 1005])
    compact_history(store)

    added = [merge_into_history(store, [part_of(1001, pools=0)], NETWORK).added for _ in range(2)]
    joined = history_of(store)
    assert [{1001}, set()] == added
    assert {1000: 4, 1001: 0, 1002: 4} == rows_by_ledger(next(joined[key] for key in joined if "/1000-1002-" in key))


def test_only_before_what_is_published() -> None:
    """A ledger above the published one is refused by name, and the others go in."""
    store = MemoryStore()
    fill(store, [1005])
    publish_status(store, 1005)

    result = fill(store)

    assert {*range(1000, 1005)} == result.added
    assert [1006, 1007] == sorted(result.refused)
    assert all("above the published ledger" in text for text in result.refused.values())
    assert 6 == len(history_of(store))


def publish_status(store: Store, ledger: int) -> None:
    """Put the status document into the store that a publisher of this ledger would leave."""
    status = {"format": FORMAT, "run_id": "1-a", "observed_ledger": ledger}
    status |= {"manifest_key": "v1/runs/1-a.json", "manifest_sha256": "0"}
    store.swap("v1/system/status.json", json.dumps(status).encode(), None)


def test_a_history_of_another_network_is_refused(whole: MemoryStore) -> None:
    """A history of another network is refused."""
    with pytest.raises(CheckError, match="use an output for each network"):
        merge_into_history(MemoryStore(whole), [part_of(LEDGERS[0])], "other")


def test_a_publisher_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backfill waits for a publisher, and gives up by name when that takes too long."""
    now, ends_at, publisher = 0.0, inf, ExitStack()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if now >= ends_at:
            publisher.close()

    monkeypatch.setattr(held_store, "monotonic", lambda: now)
    monkeypatch.setattr(held_store, "sleep", sleep)
    store, parts = MemoryStore(), [part_of(LEDGERS[0])]
    publisher.enter_context(store.exclusive())
    with pytest.raises(LostRaceError):
        merge_into_history(store, parts, NETWORK)
    assert merge.WAIT_SECONDS - 15 < now <= merge.WAIT_SECONDS

    now, ends_at = 0.0, 200.0
    assert {LEDGERS[0]} == merge_into_history(store, parts, NETWORK).added
    assert 200 <= now < 215


class DyingStore(MemoryStore):
    """A store whose process dies before it writes the history's manifest."""

    dies = False

    def put_many(self, files: Iterable[tuple[str, bytes]], *, immutable: bool = False) -> Written:
        files = list(files)
        if self.dies and any(key == HISTORY_MANIFEST_KEY for key, _ in files):
            raise KeyboardInterrupt
        return super().put_many(files, immutable=immutable)


def liquidation_at(ledger: int) -> Row:
    """A liquidation's row of the table."""
    names = ("blend", "market", "fill_auction", "user", "owner", "filler")
    return (ledger, MONDAY * 1_000_000, 0, *names, 100, "lot", "token", 5)


def test_a_backfill_that_died_before_the_manifest_is_repeated_or_undone() -> None:
    """Liquidations are written before the manifest. The same backfill goes on; a run or a rebuild puts them back."""
    store = DyingStore()
    fill(store)
    finish_history(store, [], [liquidation_at(10)], [LedgerSpan(1, 50)])
    manifest, table = read_history_manifest(store), store.get("history/liquidations.parquet")
    store.dies = True
    with pytest.raises(KeyboardInterrupt):
        finish_history(store, [], [liquidation_at(60)], [LedgerSpan(51, 90)])
    store.dies = False
    assert ["history/liquidations.parquet"] == [text.split()[0] for text in find_damage(store, manifest)]

    undone, repeated = MemoryStore(store), MemoryStore(store)
    assert restore_table(undone, manifest)
    assert table == undone.get("history/liquidations.parquet")
    assert [] == find_damage(undone, manifest)
    assert "history/liquidations.parquet" not in {finding.key for finding in rebuild_history(store).findings}
    assert table == store.get("history/liquidations.parquet")
    finish_history(repeated, [], [liquidation_at(60)], [LedgerSpan(51, 90)])
    finished = read_history_manifest(repeated)
    assert finished is not None
    assert finished.liquidations is not None
    assert (2, [LedgerSpan(1, 90)]) == (finished.liquidations.rows, finished.liquidations.spans)
    assert [] == find_damage(repeated, finished)
