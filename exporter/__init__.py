"""Exact snapshots of every lending market on Soroban, as files.

What is listed in ``__all__`` is the public API; docs/library.md shows it at work. Each name is imported when it is
first used, so that ``import exporter`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exporter.check.published_tree import check_tree
    from exporter.check.whole import Looked, TreeFaultsError
    from exporter.config import Settings, load_settings
    from exporter.errors import ExporterError
    from exporter.history.export import scan_history
    from exporter.job.reading import LedgerTables, read
    from exporter.job.run import RunResult, run
    from exporter.ledger.view import Certificate
    from exporter.numbers.compute import Tables

__version__ = "0.1.0"

__all__ = [
    "Certificate", "ExporterError", "LedgerTables", "Looked", "RunResult", "Settings", "Tables", "TreeFaultsError",
    "check_tree", "load_settings", "read", "run", "scan_history",
]  # fmt: skip

_HOME = {
    "Certificate": "ledger.view", "ExporterError": "errors", "LedgerTables": "job.reading", "Looked": "check.faults",
    "RunResult": "job.run", "Settings": "config", "Tables": "numbers.compute", "TreeFaultsError": "check.faults",
    "check_tree": "check.published_tree", "load_settings": "config", "read": "job.reading", "run": "job.run",
    "scan_history": "history.export",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value
