"""Exact snapshots of every lending market on Soroban, as files.

``__all__`` is the public API; docs/library.md shows it at work. Each name is imported when it is first used, so that
``import exporter`` costs nothing; type checkers read ``__init__.pyi``.
"""

from importlib import import_module
from typing import Any

__version__ = "0.9.0"

FORMAT = 2
"""The format number of the trees that this version makes (`exporter.tree.decoding`)."""

_HOME = {
    "Certificate": "ledger.view",
    "ExporterError": "errors",
    "FromArchive": "past.archive_source",
    "LedgerTables": "job.library",
    "CheckSummary": "audit.check_summary",
    "RunResult": "job.run",
    "Settings": "config",
    "Tables": "protocols.compute",
    "TreeFaultsError": "publishing.faults",
    "check_tree": "audit.check",
    "load_settings": "config",
    "read": "job.library",
    "run": "job.run",
    "scan_history": "history.export",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value
