"""Runs that are compared one after the other, as the job compares them."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.protocols.compute import Tables
from exporter.render.changes import change_list, own_changes, watched_values
from exporter.tree.documents import ChangeList, RunChange, WatchedValues


@dataclass(frozen=True)
class Compared:
    """What a run watched, and its list of changes."""

    watched: WatchedValues
    changes: ChangeList

    @property
    def data(self) -> list[RunChange]:
        return self.changes.data


def compared(tables: Tables, before: Compared | None, network: str) -> Compared:
    """A run compared with the one before; None: there was none."""
    watched, earlier = (None, []) if before is None else (before.watched, before.data)
    now = watched_values(tables)
    return Compared(
        now, change_list(own_changes(watched, now, network, tables.close_time), earlier, now.observed_ledger)
    )
