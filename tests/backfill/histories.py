"""Histories as a backfill leaves them, and a worker for tests of everything else."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import polars as pl

from exporter.history.manifest import read_history_manifest
from exporter.stores.store import Store

IN_LINE = ThreadPoolExecutor(1)
"""An executor of one thread."""


def history_of(store: Store) -> dict[str, bytes]:
    """The files that the manifest names, by key."""
    manifest = read_history_manifest(store)
    assert manifest is not None
    return {file.key: stored.data for file in manifest.files if (stored := store.get(file.key)) is not None}


def rows_of(store: Store) -> pl.DataFrame:
    """All rows of a history, by market, pool and ledger."""
    frames = [pl.read_parquet(io.BytesIO(data)) for data in history_of(store).values()]
    return pl.concat(frames).sort("market", "pool", "observed_ledger")
