"""The history of every pool in buckets, carried on from run to run without reading it all again.

Of what was observed, a series keeps what later runs still need:

- ``recent``: the observations of the week that is open, of which every open bucket is made (a median needs them all);
- ``closed``: the closed buckets that the newest page of each history holds. These are those of the span of the page
  that is open, and of the newest span before it that has any, so that the newest page is never nearly empty;
- ``cursors``: the page before these, for each bucket and pool;
- ``first_seen``: the lowest ledger of each token.

Whatever is older stands in pages that never change: a page covers a fixed span, holds only closed buckets, and is
named by its content, so that it is the same whenever and in however many steps it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import polars as pl

from exporter.api.asset_documents import AssetHistory, HistoryBucket
from exporter.api.documents import encode, page_token
from exporter.api.render import read_back, render_document
from exporter.api.routes import bucket_page_key, history_key
from exporter.errors import CheckError
from exporter.files import FileKind, RenderedFile
from exporter.history.buckets import BUCKETS, BUCKETS_FRAME, LONGEST, OBSERVATIONS, Bucket, aggregate

_ORDER = ("market", "pool", "start")
_Place = tuple[str, str]


@dataclass(slots=True)
class Series:
    """The histories as they stand after the ledger ``through_ledger``, which closed at ``through_time``.

    ``row_count`` counts the observations that went in; 0 for all three means that there was none yet.
    """

    through_ledger: int = 0
    through_time: int = 0
    row_count: int = 0
    recent: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=OBSERVATIONS))
    closed: dict[str, pl.DataFrame] = field(
        default_factory=lambda: {bucket.name: pl.DataFrame(schema=BUCKETS_FRAME) for bucket in BUCKETS}
    )
    cursors: dict[str, dict[_Place, str]] = field(default_factory=lambda: {bucket.name: {} for bucket in BUCKETS})
    first_seen: dict[str, int] = field(default_factory=dict)

    def extend(self, observations: pl.DataFrame, ledger: int, close_time: int) -> Iterator[RenderedFile]:
        """Take in later observations; gives the pages that are complete by now, oldest first.

        Args:
            observations: rows of `OBSERVATIONS`, of ledgers above ``through_ledger``.
            ledger: the newest ledger that they are of; it may have none itself.
            close_time: its close time, unix seconds.

        Raises:
            CheckError: they are of a ledger or a time before those that went in already.
        """
        self._check_later(observations, ledger, close_time)
        known = pl.concat([self.recent, observations])
        for bucket in BUCKETS:
            yield from self._close(bucket, known, close_time)
        self.recent = known.filter(pl.col("ledger_close_time") >= LONGEST.start(close_time))
        seen = observations.group_by("token_address").agg(pl.col("observed_ledger").min())
        for token, first in seen.iter_rows():
            self.first_seen.setdefault(token, first)
        self.through_ledger, self.through_time = ledger, close_time
        self.row_count += observations.height

    def heads(self) -> Iterator[RenderedFile]:
        """Render the newest page of each history, which ends with the bucket that is open."""
        for bucket in BUCKETS:
            start = bucket.start(self.through_time)
            open_rows = aggregate(self.recent.filter(pl.col("ledger_close_time") >= start), bucket)
            rows = pl.concat([self.closed[bucket.name], open_rows]).sort(_ORDER)
            for place, buckets in _histories(rows, bucket):
                cursor = self.cursors[bucket.name].get(place)
                document = AssetHistory(*place, bucket.name, self.through_ledger, buckets, cursor)
                yield render_document(history_key(*place, bucket.name), document)

    def _check_later(self, observations: pl.DataFrame, ledger: int, close_time: int) -> None:
        first = observations.select(pl.col("observed_ledger").min(), pl.col("ledger_close_time").min()).row(0)
        lowest, earliest = (ledger if first[0] is None else first[0]), (close_time if first[1] is None else first[1])
        if lowest <= self.through_ledger or earliest < self.through_time:
            raise CheckError(
                f"ledger {lowest} closed at {earliest}, but the history already has ledger {self.through_ledger}, "
                f"which closed at {self.through_time}; a later ledger never closes earlier, so these are of two "
                "networks: use another output for each"
            )

    def _close(self, bucket: Bucket, known: pl.DataFrame, close_time: int) -> Iterator[RenderedFile]:
        """Move what is closed by now from the observations to the buckets, and from these to pages."""
        opened = bucket.start(close_time)
        time = pl.col("ledger_close_time")
        finished = known.filter((time >= bucket.start(self.through_time)) & (time < opened))
        if finished.is_empty() and bucket.page_start(close_time) == bucket.page_start(self.through_time):
            return
        rows = pl.concat([self.closed[bucket.name], aggregate(finished, bucket)])
        page = bucket.page_starts(pl.col("start")).alias("page")
        past = page < bucket.page_start(opened)
        rows = rows.with_columns(page, past.alias("past"))
        newest = pl.col("page").filter("past").max().over("market", "pool")
        leaving = (pl.col("page") < newest).fill_null(False)
        for place, pages in groupby(_rows(rows.filter(leaving), bucket), key=itemgetter(0, 1)):
            for _, page_rows in groupby(pages, key=itemgetter(2)):
                buckets = [HistoryBucket(*row[3:]) for row in page_rows]
                yield self._page(bucket, place, buckets)
        self.closed[bucket.name] = rows.filter(~leaving).select(BUCKETS_FRAME.keys()).sort(_ORDER)

    def _page(self, bucket: Bucket, place: _Place, buckets: list[HistoryBucket]) -> RenderedFile:
        cursors = self.cursors[bucket.name]
        document = AssetHistory(*place, bucket.name, buckets[-1].last_ledger, buckets, cursors.get(place))
        data = encode(document)
        cursors[place] = page_token(data)
        return read_back(RenderedFile(bucket_page_key(cursors[place]), data, FileKind.PAGE), document)


def _histories(rows: pl.DataFrame, bucket: Bucket) -> Iterator[tuple[_Place, list[HistoryBucket]]]:
    """The buckets of each pool, from rows that are sorted."""
    wire = rows.with_columns(pl.lit(0).alias("page"))
    for place, group in groupby(_rows(wire, bucket), key=itemgetter(0, 1)):
        yield place, [HistoryBucket(*row[3:]) for row in group]


def _rows(rows: pl.DataFrame, bucket: Bucket) -> Iterable[tuple[Any, ...]]:
    """Market, pool and page of each row, sorted by these and the start, with the fields of a `HistoryBucket`."""

    def text(seconds: pl.Expr) -> pl.Expr:
        return pl.from_epoch(seconds, "s").dt.strftime("%Y-%m-%dT%H:%M:%SZ")

    start = pl.col("start")
    digits = {"total_supplied", "total_borrowed", "tvl_usd_cents"}
    return (
        rows.sort(_ORDER)
        .select(
            "market",
            "pool",
            "page",
            text(start).alias("start_time"),
            text(start + bucket.seconds).alias("end_time"),
            *(
                pl.col(name).cast(pl.String) if name in digits else pl.col(name)
                for name in HistoryBucket.__struct_fields__[2:]
            ),
        )
        .iter_rows()
    )
