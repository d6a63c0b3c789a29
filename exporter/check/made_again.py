"""The histories in buckets made again from the Parquet files: what their documents must be, byte for byte.

Older pages need no look of their own: a document's cursor is the digest of the page before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from itertools import takewhile

import msgspec
import polars as pl

from exporter.check.whole import Whole
from exporter.errors import CheckError, StoreError
from exporter.history.periods import periods_of
from exporter.history.series import BATCH_FILES, Series, read_observations
from exporter.tree.documents import HistoryFile, HistoryManifest, SystemStatus
from exporter.tree.families import HISTORY_MANIFEST_KEY, asset_key, token_key

OTHERWISE = (
    "is not what the files of the history make of it; where files came to it after the run (a backfill), the next run "
    "makes it anew"
)


class MadeAgain:
    """Takes in the history's files in any order; goes on whenever many are there that come next by their ledgers."""

    def __init__(self, whole: Whole) -> None:
        self._whole = whole
        self._series = Series()
        self._waiting: dict[str, pl.DataFrame] = {}
        self._taken = 0

    def add(self, key: str, data: bytes) -> None:
        """Take in a file. One that cannot be read is a fault elsewhere; then nothing is compared."""
        with suppress(StoreError):
            self._waiting[key] = read_observations(data)
        if (history := self._whole.one(HistoryManifest)) is not None and len(self._waiting) > BATCH_FILES:
            with suppress(CheckError):  # which comes again at the end
                self._go_on(history.files[self._taken : -1])

    def check(self, status: SystemStatus) -> None:
        """Note every document that is other than the files make it, in a tree that has no other fault."""
        whole, history = self._whole, self._whole.one(HistoryManifest)
        if whole.faults.total or history is None or not history.files:
            return
        try:
            self._go_on(history.files[self._taken : -1])
            own = self._waiting.pop(history.files[-1].key, None)
            if own is None or self._taken != len(history.files) - 1:
                return  # some are missing, which is said elsewhere
            closed = int(datetime.fromisoformat(status.ledger_close_time).timestamp())
            self._extend(own, status.observed_ledger, closed)
            self._compare(own)
        except CheckError as error:
            whole.faults.add(HISTORY_MANIFEST_KEY, f"its files make no histories: {error}")

    def _go_on(self, files: Sequence[HistoryFile]) -> None:
        """Take in the files that are there, up to the first that is not."""
        there = list(takewhile(lambda file: file.key in self._waiting, files))
        if not there:
            return
        rows = pl.concat([self._waiting[file.key] for file in there])
        if rows.height:
            newest = rows.select(pl.col("observed_ledger", "ledger_close_time").max()).row(0)
            self._extend(rows, *newest)
        for file in there:
            del self._waiting[file.key]
        self._taken += len(there)

    def _extend(self, rows: pl.DataFrame, ledger: int, close_time: int) -> None:
        for _ in self._series.extend(rows, ledger, close_time):
            pass

    def _compare(self, now: pl.DataFrame) -> None:
        whole = self._whole
        listed, made = whole.listed.histories(), set[str]()
        as_stated = {f"{sha256.hex()}  {key}" for key, sha256 in listed.iter_rows()}
        for file in self._series.heads():
            made.add(file.key)
            if f"{file.sha256}  {file.key}" not in as_stated:
                whole.faults.add(file.key, OTHERWISE if file.key in whole.listed else "is missing")
        for key in listed["key"]:
            if key not in made:
                whole.faults.add(key, "is of nothing in the history")
        for address, ledger in self._series.first_seen.items():
            stated = whole.first_seen.get(address, ledger)
            if stated != ledger:
                whole.faults.add(token_key(address), f"$.first_seen_ledger is {stated}, not {ledger}")
        names = now.select("market", "pool").iter_rows()
        for place, periods in zip(names, periods_of(self._series.pools, self._series.through_time, now), strict=True):
            found = None if whole.run.listing is None else whole.run.listing.find(*place)
            if found is not None and whole.periods[found[0]] not in (0, hash(msgspec.json.encode(periods))):
                whole.faults.add(asset_key(*place), f"$.periods {OTHERWISE}")
