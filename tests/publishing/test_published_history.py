"""Tests of exporter/publishing/published_history.py: a manifest older than the published run is refused, no other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from unittest.mock import Mock

import msgspec
import pytest

from exporter import FORMAT
from exporter.errors import StoreError
from exporter.history.manifest import history_entry
from exporter.publishing import publication
from exporter.publishing.published_history import lost_inputs, read_checked_history_manifest
from exporter.publishing.published_state import read_published
from exporter.stores.memory import MemoryStore
from exporter.stores.store import etag_of
from exporter.tree.documents import HistoryManifest, Intent
from exporter.tree.families import HISTORY_MANIFEST_KEY, INTENT_KEY, STATUS_KEY
from exporter.tree.read_back import render_document
from tests.publishing.published_tree import TestClock, make_run, publish_run

RUN_ID = "40-aaaaaaaaaaaa"
DAY = "history/pools/date=2026-11-21/"
INPUTS = ("10", "20", "30")
"""The ledgers of the files that the published run of ledger 40 went on from."""


def published(inputs: Iterable[str] = INPUTS) -> MemoryStore:
    """What the publisher reads of a tree with a run of ledger 40, and the Parquet files of its history."""
    store = MemoryStore()
    names = [{"name": "history", "key": f"{DAY}{name}.parquet", "sha256": etag_of(name.encode())} for name in inputs]
    manifest = msgspec.json.encode({"inputs": names})
    status = {
        "format": FORMAT,
        "run_id": RUN_ID,
        "observed_ledger": 40,
        "manifest_key": f"v1/runs/{RUN_ID}.json",
        "manifest_sha256": etag_of(manifest),
    }
    store.put(STATUS_KEY, msgspec.json.encode(status))
    store.put(f"v1/runs/{RUN_ID}.json", manifest)
    for name in (*inputs, "40"):
        store.put(f"{DAY}{name}.parquet", name.encode())
    return store


def write_manifest(store: MemoryStore, names: Sequence[str]) -> None:
    """Write the manifest of a history that has these files, by the ledgers in their names."""
    files = [history_entry(f"{DAY}{name}.parquet", name.encode(), 1) for name in names]
    newest = max((file.last_ledger for file in files), default=0)
    store.put(HISTORY_MANIFEST_KEY, render_document(HistoryManifest(FORMAT, newest, files)).data)


@pytest.mark.parametrize(
    ("names", "lacking"),
    [
        (["10", "20", "90"], "lacks ledger 40"),
        (["10", "30", "40"], f"lacks {DAY}20.parquet"),
        (["10", "20", "40", "90"], f"lacks {DAY}30.parquet"),
        (["10", "20", "30"], "ends at ledger 30"),
    ],
)
def test_an_older_manifest(names: list[str], lacking: str) -> None:
    """A manifest that lacks a ledger of the published run, or one that it went on from, is refused by name."""
    store = published()
    write_manifest(store, names)

    with pytest.raises(StoreError, match=rf"^v1/history.json {lacking}.* exporter history rebuild memory:"):
        read_checked_history_manifest(store)


@pytest.mark.parametrize(
    "names",
    [
        ["10", "20", "30", "40"],
        ["40", "30", "20", "10"],
        ["10-30-aaaaaaaaaaaa", "40"],
        ["5", "10", "15-25-aaaaaaaaaaaa", "30", "40", "50"],
    ],
    ids=["as published", "in another order", "compacted", "with ledgers of a backfill and of a later run"],
)
def test_a_manifest_of_a_later_writer(names: list[str]) -> None:
    """Compaction, a backfill and a run that died after it replaced the manifest lose no ledger."""
    store = published()
    write_manifest(store, names)

    assert read_checked_history_manifest(store) is not None


def test_an_input_that_is_gone() -> None:
    """A file that is gone for good or damaged, which a rebuilt manifest leaves out, is named, and no run is refused."""
    store = published()
    store.delete([f"{DAY}20.parquet"])
    store.put(f"{DAY}30.parquet", b"damaged")
    write_manifest(store, ["10", "40"])
    manifest, run = read_checked_history_manifest(store), read_published(store)

    assert manifest is not None
    assert run is not None
    assert [f"{DAY}20.parquet", f"{DAY}30.parquet"] == [item.key for item in lost_inputs(store, run, manifest)]


@pytest.mark.parametrize("died", [False, True], ids=["this run", "a run that died"])
def test_ledgers_that_are_undone(died: bool) -> None:
    """Ledgers from the replaced one on may be missing, and no others."""
    store, replaced = published(), None if died else 30
    if died:
        intent = Intent("35-bbbbbbbbbbbb", 35, started_at="", history_ledger=20, replaced_ledger=30)
        store.put(INTENT_KEY, msgspec.json.encode(intent))
    write_manifest(store, ["10", "20", "35"])
    whole = read_checked_history_manifest(store, replaced_ledger=replaced)
    write_manifest(store, ["10", "35"])

    assert whole is not None
    with pytest.raises(StoreError, match=f"lacks {DAY}20.parquet"):
        read_checked_history_manifest(store, replaced_ledger=replaced)


def test_two_runs_that_die_after_a_replacement_lose_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that undoes ledgers dies, and so does the one after it. The next run publishes."""
    store, clock = MemoryStore(), TestClock()

    def run(ledger: int, replaced_ledger: int | None = None, *, dies: bool = False) -> None:
        clock.advance(timedelta(minutes=5))
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) if dies else nullcontext():
            if dies:
                patch.setattr(publication, "_swap_status", Mock(side_effect=KeyboardInterrupt))
            publish_run(store, make_run(ledger), clock, replaced_ledger=replaced_ledger)

    for ledger in (10, 20, 30, 40):
        run(ledger)
    run(45, 30, dies=True)
    run(50, dies=True)
    run(60)
    manifest = read_checked_history_manifest(store)

    assert manifest is not None
    assert [10, 20, 45, 50, 60] == [file.first_ledger for file in manifest.files]
