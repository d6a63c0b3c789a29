"""The steps that need a hold, each with one of its own, as tests do them one by one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from exporter.publishing import compaction, retention
from exporter.publishing.compaction import Compacted
from exporter.publishing.retention import SweepResult
from exporter.stores.held_store import hold
from exporter.stores.store import Store


def sweep(store: Store, expires_after: timedelta, **options: Any) -> SweepResult:
    """Hold a store and sweep it."""
    with hold(store) as held:
        return retention.sweep(held, expires_after, **options)


def compact_history(store: Store, **options: Any) -> Compacted:
    """Hold a store and compact its history."""
    with hold(store) as held:
        return compaction.compact_history(held, **options)
