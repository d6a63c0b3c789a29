"""The terms of pools as documents write them, out of the run's own Parquet file."""

from __future__ import annotations

from typing import Any

import polars as pl

from exporter.tree.values import as_written

BLOCK = 1_000
"""So many rows are taken out of a frame together."""


class Terms:
    """What the run's own Parquet file has of each pool beside its snapshot, as documents write it.

    Each pool has one document, so each is asked for once; then nothing is kept any more.
    """

    def __init__(self, key: str, frame: pl.DataFrame) -> None:
        self.key = key
        self._frame, self._due = frame, frame.height
        self._first, self._block = 0, list[tuple[Any, ...]]()

    def at(self, place: int) -> list[object]:
        """The terms of the pool at a place, in the order of the columns; nearly all are asked for in their order."""
        if not self._first <= place < self._first + len(self._block):
            self._first = place - place % BLOCK
            self._block = self._frame.slice(self._first, BLOCK).rows()
        self._due -= 1
        if not self._due:
            self._frame = self._frame.clear()
        return [as_written(value) for value in self._block[place - self._first]]
