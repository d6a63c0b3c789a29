"""Many ledgers' pools computed at once: a projection's cost is that of its steps, hardly that of its rows.

The pools of several ledgers are projected in one frame, each to its own close time, and split again, each ledger's
to its own table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import polars as pl

from exporter.protocols import PROTOCOLS
from exporter.protocols.base import ProtocolModule, ProtocolReading

Modules = Mapping[str, ProtocolModule]


def project_batch(ledgers: Sequence[tuple[int, Sequence[ProtocolReading]]]) -> list[Modules]:
    """For each ledger, by its close time and readings, the modules to compute its table with.

    They give what the protocols' own modules give; where a pool has no result, they are these.
    """
    given: list[dict[str, ProtocolModule]] = [dict(PROTOCOLS) for _ in ledgers]
    if len(ledgers) < 2:
        return list(given)
    for name, protocol in PROTOCOLS.items():
        parts = [
            (number, close_time, reading)
            for number, (close_time, readings) in enumerate(ledgers)
            for reading in readings
            if reading.protocol == name and reading.columns.get("market")
        ]
        try:
            known = _project(protocol, [part[1:] for part in parts])
        except Exception:  # each ledger is computed for itself, and names the pool whose numbers have no result
            continue
        for (number, _, _), module in zip(parts, known, strict=True):
            given[number][name] = cast("ProtocolModule", module)
    return list(given)


def _project(module: ProtocolModule, parts: Sequence[tuple[int, ProtocolReading]]) -> list[_Known]:
    if not parts:
        return []
    columns: dict[str, list[Any]] = {name: [] for name in (*parts[0][1].columns, "close_time")}
    for close_time, reading in parts:
        reading.settle(close_time)
        for name, values in reading.columns.items():
            columns[name] += values
        columns["close_time"] += [close_time] * len(reading.columns["market"])
    frame = module.project(columns)
    known, start = [], 0
    for _, reading in parts:
        pairs = list(zip(reading.columns["market"], reading.columns["pool"], strict=True))
        known.append(_Known(module, frame[start : start + len(pairs)], pairs))
        start += len(pairs)
    return known


class _Known:
    """A module that knows the projection of one ledger's pools; all else is the protocol's own."""

    def __init__(self, module: ProtocolModule, frame: pl.DataFrame, pairs: Sequence[tuple[object, object]]) -> None:
        self._module = module
        self._frame = frame
        self._rows = {pair: row for row, pair in enumerate(pairs)}

    def project(self, columns: Mapping[str, list[object]]) -> pl.DataFrame:
        """The numbers of these pools."""
        return self._frame[[self._rows[pair] for pair in zip(columns["market"], columns["pool"], strict=True)]]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
