"""Runs that are compared one after the other, as the job compares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from msgspec import Struct

from exporter.protocols.base import Pending
from exporter.protocols.compute import Tables
from exporter.render.change_list import change_list
from exporter.render.changes import own_changes
from exporter.render.watched_values import watched_values
from exporter.tables import MARKETS_SCHEMA
from exporter.tree.documents import ChangeList, RunChange, Unread, WatchedValues
from tests.history.frames import pools_frame
from tests.render.rendering import contract, market_row

A, B, X, Y = (contract(number) for number in (1, 2, 11, 12))
TIME = 1_795_000_000
Row = Mapping[str, Any]


class Compared(Struct, frozen=True):
    """The watched values of a run, and its list of changes."""

    watched: WatchedValues
    changes: ChangeList

    @property
    def data(self) -> list[RunChange]:
        return self.changes.data


def compared(tables: Tables, before: Compared | None, network: str) -> Compared:
    """A run compared with the one before; None: there was none."""
    watched, earlier = (None, []) if before is None else (before.watched, before.data)
    now = watched_values(tables, network, watched)
    return Compared(
        now, change_list(own_changes(watched, now, network, tables.close_time), earlier, now.observed_ledger)
    )


def tables(
    ledger: int,
    pools: list[Row],
    markets: Mapping[str, Row] | None = None,
    unread: list[Unread] | None = None,
    pending: list[Pending] | None = None,
) -> Tables:
    """A run with these pools; markets are theirs, with what differs in them."""
    named: dict[str, Row] = {str(row["market"]): {} for row in pools} | dict(markets or {})
    usual = {"config_hash": "0" * 16, "observed_ledger": ledger}
    rows = [market_row(name, **{"name": f"M{name[-1]}"} | usual | dict(other)) for name, other in sorted(named.items())]
    usual_pool = {"symbol": "USDC", "utilization_bps": 100, "tvl_usd_cents": 100_000, "oracle_price_usd": "1.5"}
    usual_pool["archived"] = False
    time = TIME + ledger
    frames = (
        pools_frame([usual_pool | dict(row) for row in pools], ledger, time),
        pl.DataFrame(rows, schema=MARKETS_SCHEMA),
    )
    return Tables(ledger, time, *frames, unread=unread or [], pending=pending or [])


def pool(market: str = A, name: str = X, **other: object) -> Row:
    return {"market": market, "pool": name, "token_address": name, **other}
