"""Pools frames for the tests of the history, small and with every column filled, and stores that record them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from exporter.history.manifest import extend_history, read_history_manifest
from exporter.history.parquet import render_history
from exporter.stores.store import Store
from exporter.tables import COLUMNS, FRAME_DTYPES
from exporter.tree.documents import HistoryManifest
from exporter.tree.read_back import render_document
from exporter.tree.values import ParquetType

LEDGER = 55_261_759
CLOSE_TIME = 1_742_200_000  # 2025-03-17T08:26:40Z

_DEFAULTS: Mapping[ParquetType, object] = {
    ParquetType.UTF8: "text",
    ParquetType.INT64: 7,
    ParquetType.DECIMAL: 126_430_667_051_058,
    ParquetType.TIMESTAMP: CLOSE_TIME,
    ParquetType.BOOLEAN: True,
}

_NAMED: Mapping[str, object] = {
    "listed_reason": "package_list",
    "risk_scope": "reserve",
    "liquidation_kind": "auction",
    "shortfall": 0,
    "reward_token": "C" + 55 * "A",
    "supply_reward_reason": "valid",
    "borrow_reward_reason": "expired",
}


def pools_frame(
    rows: Sequence[Mapping[str, object]], ledger: int = LEDGER, close_time: int = CLOSE_TIME
) -> pl.DataFrame:
    """Make a pools frame of these rows; a column that a row does not give has a default of its type.

    Rows without a market and pool get ascending ones.
    """
    columns: dict[str, pl.Series] = {}
    run_wide = {"observed_ledger": ledger, "ledger_close_time": close_time}
    for column in COLUMNS:
        values = [
            row.get(column.name, run_wide.get(column.name, _default(column.name, column.type, position)))
            for position, row in enumerate(rows)
        ]
        columns[column.name] = pl.Series(column.name, values, dtype=FRAME_DTYPES[column.type])
    return pl.DataFrame(columns)


def _default(name: str, kind: ParquetType, position: int) -> object:
    if name in ("market", "pool"):
        return f"{name}-{position:06d}"
    return _NAMED.get(name, _DEFAULTS[kind])


def record(store: Store, frame: pl.DataFrame, ledger: int, time: int, network: str = "made") -> None:
    """Write the Parquet file of a run and name it in the manifest, as publishing does."""
    part = render_history(frame, observed_ledger=ledger, ledger_close_time=time, network=network)
    store.put_new(part.file.key, part.file.data)
    manifest = render_document(extend_history(read_history_manifest(store), part.entry))
    store.put(manifest.key, manifest.data)


def manifest_of(store: Store) -> HistoryManifest:
    """The manifest of a history that is there."""
    manifest = read_history_manifest(store)
    assert manifest is not None
    return manifest
