"""Tests which risk document a run shows."""

from __future__ import annotations

import polars as pl

from exporter.protocols.compute import Tables
from exporter.publishing.published_risk import MAX_AGE_SECONDS, shown_risk
from exporter.stores.memory import MemoryStore
from exporter.tables import MARKETS_SCHEMA, POOLS_SCHEMA
from exporter.tree.documents import encode, timestamp
from exporter.tree.families import RISK
from exporter.tree.risk_documents import RiskDocument

NETWORK, CLOSED = "a network", 1_800_000_000


def store_with(*checkpoints: tuple[int, int], network: str = NETWORK) -> MemoryStore:
    """A store with documents of these checkpoints, each closed that many seconds before the run."""
    store = MemoryStore()
    for ledger, age in checkpoints:
        document = RiskDocument(network, ledger, timestamp(CLOSED - age), "0" * 64, [], [])
        store.put(RISK.key(checkpoint=ledger), encode(document))
    return store


def shown(store: MemoryStore, ledger: int = 1_000) -> str | None:
    """The key of what a run at a ledger shows."""
    tables = Tables(ledger, CLOSED, pl.DataFrame(schema=POOLS_SCHEMA), pl.DataFrame(schema=MARKETS_SCHEMA))
    found = shown_risk(store, tables, NETWORK)
    return None if found is None else found.key


def test_the_newest_that_is_not_after_the_run() -> None:
    """A checkpoint after the run's ledger is for a later run; one of exactly 48 hours is shown, an older one not."""
    assert "v1/risk/959.json" == shown(store_with((63, 9_000), (959, 100), (1_023, 0)))
    assert "v1/risk/63.json" == shown(store_with((63, MAX_AGE_SECONDS)))
    assert shown(store_with((63, MAX_AGE_SECONDS + 1))) is None
    assert shown(MemoryStore()) is None


def test_what_cannot_be_shown_is_passed_over() -> None:
    """A document of another network, another version or an impossible time is none; an earlier one is shown instead."""
    store = store_with((63, 9_000))
    store.put(RISK.key(checkpoint=127), b'{"version":"next"}')
    impossible = RiskDocument(NETWORK, 255, "2026-02-30T00:00:00Z", "0" * 64, [], [])
    store.put(RISK.key(checkpoint=255), encode(impossible))

    assert "v1/risk/63.json" == shown(store)
    assert shown(store_with((63, 9_000), network="another")) is None
