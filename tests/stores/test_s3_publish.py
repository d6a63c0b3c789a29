"""Whole runs in a bucket: publishing, reading back and sweeping give there what they give anywhere."""

from __future__ import annotations

from datetime import timedelta

import pytest

from exporter.errors import LostRaceError
from exporter.publishing.publish import verify
from exporter.publishing.retention import sweep
from exporter.publishing.standing import LedgerNotNewerError
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tree.families import POINTER_KEY, alias_of
from tests.publishing.published_tree import (
    TestClock,
    assert_whole,
    make_run,
    publish_run,
    published_ledger,
    tree_of,
    walk,
)
from tests.stores.s3_servers import S3Server

MARKETS = {"C" + "A" * 55: 3, "C" + "B" * 55: 2}
FEWER = {"C" + "A" * 55: 3}


def publish_three(store: Store) -> list[object]:
    """Publish three runs, the last of them without a market, sweep after each, and look again later."""
    clock = TestClock()
    told: list[object] = []
    for ledger, markets in ((100, MARKETS), (110, MARKETS), (120, FEWER)):
        result = publish_run(store, make_run(ledger, markets), clock)
        told += [result.pages, result.history, result.documents, verify(store, result.summary)]
        told.append(sweep(store, timedelta(hours=1), now=clock))
        clock.advance(timedelta(minutes=15))
    return told


def test_runs(server: S3Server) -> None:
    """Three runs leave in a bucket what they leave in memory, count the same, and each document has its alias."""
    store, memory = server.store(), MemoryStore()
    assert publish_three(memory) == publish_three(store)
    assert_whole(store, make_run(120, FEWER))
    tree = tree_of(store)
    assert tree_of(memory) == tree

    aliases = {key: alias for key in tree if (alias := alias_of(key))}
    assert {".exporter.lease", *aliases.values()} == set(server.keys(store)) - set(tree)
    for key, alias in aliases.items():
        assert store.get(key) == store.get(alias)
    store.close()


def test_old_pages_are_swept(server: S3Server) -> None:
    """Readers of an earlier run go on for the retention time; afterwards its pages and its manifest are gone."""
    store = server.store()
    publish_three(store)
    first = make_run(100, MARKETS)
    walks = [walk(store, first.document(key)) for key in first.rows]
    assert list(first.rows.values()) == walks

    clock = TestClock()
    clock.advance(timedelta(days=3650))
    result = sweep(store, timedelta(hours=1), now=clock)
    clock.advance(timedelta(days=1))
    second = sweep(store, timedelta(hours=1), now=clock)

    assert (None, None) == (result.refused, second.refused)
    assert 0 < result.pages + second.pages
    assert_whole(store, make_run(120, FEWER))
    with pytest.raises(KeyError):
        walk(store, first.document("v1/assets/limit/1.json"))
    store.close()


def test_an_older_run_is_refused(server: S3Server) -> None:
    """A run at the published ledger or below it, and one beside another publisher, change nothing."""
    store = server.store()
    publish_run(store, make_run(100, MARKETS))
    before = tree_of(store)
    for ledger in (99, 100):
        with pytest.raises(LedgerNotNewerError):
            publish_run(store, make_run(ledger, FEWER))
    other = server.store(store.uri.rpartition("/")[2])
    with other.exclusive():
        with pytest.raises(LostRaceError, match="holds"):
            publish_run(store, make_run(110, MARKETS))
        assert "holds" in str(sweep(store, timedelta(0)).refused)
    other.close()

    assert before == tree_of(store)
    assert 100 == published_ledger(store)
    store.close()


def test_a_dry_run_over_a_bucket(server: S3Server) -> None:
    """A run in memory over a bucket sees what is there and leaves nothing, not even a lease."""
    store = server.store()
    dry = MemoryStore(store)
    publish_run(dry, make_run(100, MARKETS))

    assert 100 == published_ledger(dry)
    assert [] == server.keys(store)
    assert None is store.get(POINTER_KEY)
    store.close()
