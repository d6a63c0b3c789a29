"""The history in buckets as the job carries it on, whatever becomes of the state that it keeps."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from exporter.errors import StoreError
from exporter.history import series
from exporter.history.buckets import BUCKETS
from exporter.history.series import STATE_KEY
from exporter.localnet.made import MadeNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.publishing.retention import sweep
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from tests.jobs import run, settings_for

RUNS = 4
STATE_PREFIX = STATE_KEY.removesuffix(".bin")


@pytest.fixture(autouse=True)
def short_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest documents of one span, so that a few runs make older pages."""
    monkeypatch.setattr(series, "BUCKETS", tuple(replace(bucket, pages=0) for bucket in BUCKETS))


class StubbornStore(MemoryStore):
    """A store that refuses to keep the state."""

    def put(self, key: str, data: bytes) -> bool:
        """See Store."""
        if key.startswith(STATE_PREFIX):
            raise StoreError(f"{key}: no space left")
        return super().put(key, data)


def publish_runs(store: Store, between: Callable[[], object]) -> tuple[dict[str, bytes], str]:
    """Some runs of the job, hours apart; gives the tree without the state, and what the console said."""
    network = MadeNetwork(pools=6, close_seconds=5 * 3600)
    said = io.StringIO()
    with running(create_app(network)) as url:
        for _ in range(RUNS):
            assert 0 == run(settings_for(None, url), store, said=said)[0]
            between()
            network.advance()
    tree = {info.key: stored.data for info in store.list("") if (stored := store.get(info.key)) is not None}
    return {key: data for key, data in tree.items() if not key.startswith(STATE_PREFIX)}, said.getvalue()


def test_what_becomes_of_the_state_changes_no_byte() -> None:
    """The tree is the same whether the state is kept, lost after every run, damaged, or could never be written."""
    kept, lost, damaged, stubborn = MemoryStore(), MemoryStore(), MemoryStore(), StubbornStore()
    tree, _ = publish_runs(kept, lambda: None)

    assert kept.get(STATE_KEY) is not None
    assert any(key.startswith("v1/buckets/") for key in tree)
    assert tree == publish_runs(lost, lambda: lost.delete([STATE_KEY]))[0]
    assert tree == publish_runs(damaged, lambda: damaged.put(STATE_KEY, b"damaged"))[0]
    other, said = publish_runs(stubborn, lambda: None)
    assert tree == other
    assert RUNS == said.count("the next run has to read the history again")


def test_pages_of_histories_outlive_the_retention_time() -> None:
    """The sweep takes expired pages of assets and leaves those of histories, which never expire."""
    store = MemoryStore()
    tree, _ = publish_runs(store, lambda: None)
    buckets = {key for key in tree if key.startswith("v1/buckets/")}

    later = datetime.now(UTC) + timedelta(days=400)
    sweep(store, timedelta(hours=24), now=lambda: later)
    swept = sweep(store, timedelta(hours=24), now=lambda: later + timedelta(days=400))
    assert swept.refused is None
    assert buckets
    assert buckets <= {info.key for info in store.list("")}
    assert store.get(STATE_KEY) is not None
