"""The closed buckets of one length: the newest document of each history, and the pages before it, which never change.

A page covers a span of `Bucket.page_buckets` lengths. The newest document of a history has the newest
span that has any bucket, and of the spans before it that have any as many as `Bucket.pages` says. So it is never nearly
empty, and changes only when a bucket of its length closes. A span that leaves it is complete and becomes a page, named
by its content, so that the page is the same whenever and in however many steps it is made.

Pages of a length with `Bucket.kept` are published for that long. The newest document leads to the page before it if
that is still published, and a page to the one before it if that was when its own span began.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import polars as pl

from exporter.history.buckets import BUCKETS, BUCKETS_FRAME, DAY, OBSERVATIONS, Bucket
from exporter.history.totals import TOTALS_FRAME
from exporter.tables import document_fields, time_text
from exporter.tree.documents import AssetHistory, HistoryBucket, TotalsBucket, TotalsHistory, encode, page_token
from exporter.tree.families import BUCKET_PAGE, RECENT, TOTALS_PAGE, Family
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.read_back import file_of

Place = tuple[str, str]
"""Whose history it is: the market and pool, or the scope and id of a total."""


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of history: its lengths, the frame of its buckets, which begins with the place, and the models."""

    buckets: tuple[Bucket, ...]
    frame: Mapping[str, pl.DataType]
    bucket: type[HistoryBucket] | type[TotalsBucket]
    document: type[AssetHistory] | type[TotalsHistory]
    page: Family

    @property
    def keys(self) -> tuple[str, str]:
        market, pool, *_ = self.frame
        return market, pool


POOLS = Form(BUCKETS, BUCKETS_FRAME, HistoryBucket, AssetHistory, BUCKET_PAGE)
TOTALS = Form((DAY,), TOTALS_FRAME, TotalsBucket, TotalsHistory, TOTALS_PAGE)


@dataclass(slots=True)
class ClosedBuckets:
    """Histories of one form in buckets of one length.

    ``closed`` has the buckets of the newest documents, sorted, ``cursors`` the page before each and when its span ended
    (unix seconds), by place.
    """

    form: Form
    bucket: Bucket
    closed: pl.DataFrame
    cursors: dict[Place, tuple[str, int]]

    def add(self, rows: pl.DataFrame, time: int) -> Iterator[RenderedFile]:
        """Take in buckets that closed by a time, later than those that are there; gives the pages complete by then."""
        keys = self.form.keys
        rows = pl.concat([self.closed, rows.select(self.form.frame.keys())])
        rows = rows.with_columns(self.bucket.page_starts(pl.col("start")).alias("page"))
        spans = rows.select(*keys, "page").unique()
        older = spans.filter(pl.col("page").rank("dense", descending=True).over(keys) > self.bucket.pages + 1)
        if older.height:
            leaving = rows.join(older, on=[*keys, "page"], how="semi")
            for place, pages in groupby(self._wire(leaving.sort(*keys, "start")), key=itemgetter(0, 1)):
                for begin, page in groupby(pages, key=itemgetter(2)):
                    buckets = [self.form.bucket(*row[3:]) for row in page]
                    document = self._document(place, buckets[-1].last_ledger, buckets, begin)
                    data = encode(document)
                    cursor = ("" if self.bucket.kept is None else RECENT) + page_token(data)
                    end = begin + self.bucket.seconds * self.bucket.page_buckets
                    self.cursors[place] = cursor, end
                    if self._published(end, time):
                        yield RenderedFile(self.form.page.key(cursor=cursor), data, FileKind.PAGE)
            rows = rows.join(older, on=[*keys, "page"], how="anti")
        self.closed = rows.drop("page").sort(*keys, "start")

    def heads(self, begun: pl.DataFrame, time: int) -> Iterator[RenderedFile]:
        """Render the newest document of each place as of a time, also of those in ``begun``, with a first ledger."""
        rows = self.closed.with_columns(pl.lit(0).alias("page"))
        for place, group in groupby(self._wire(rows), key=itemgetter(0, 1)):
            buckets = [self.form.bucket(*row[3:]) for row in group]
            yield file_of(self._document(place, buckets[-1].last_ledger, buckets, time))
        yield from self.heads_of(begun.join(self.closed, on=self.form.keys, how="anti"))

    def heads_of(self, begun: pl.DataFrame) -> Iterator[RenderedFile]:
        """Render the newest document of places that have a first ledger and no closed bucket."""
        for one, other, ledger in begun.iter_rows():
            yield file_of(self.form.document(one, other, self.bucket.name, ledger, [], None))

    def _document(self, place: Place, ledger: int, buckets: list[Any], time: int) -> AssetHistory | TotalsHistory:
        cursor, end = self.cursors.get(place, (None, 0))
        shown = cursor if self._published(end, time) else None
        return self.form.document(*place, self.bucket.name, ledger, buckets, shown)

    def _published(self, end: int, time: int) -> bool:
        """Whether a page whose span ended then is published at a time, which counts as that its bucket began at."""
        return self.bucket.kept is None or end > self.bucket.start(time) - self.bucket.kept

    def _wire(self, rows: pl.DataFrame) -> Iterable[tuple[Any, ...]]:
        """Place and page of each row, with the fields of its bucket."""
        start = pl.col("start")
        return rows.select(
            *self.form.keys,
            "page",
            time_text(start).alias("start_time"),
            time_text(start + self.bucket.seconds).alias("end_time"),
            *document_fields(self.form.bucket)[2:],
        ).iter_rows()


BEGUN: dict[str, pl.DataType] = {
    name: OBSERVATIONS[name] for name in ("market", "pool", "token_address", "protocol", "observed_ledger")
}
"""The first ledger of each pool."""


@dataclass(slots=True)
class Frames:
    """The frames of a form in a series as Parquet, by name, until one is needed; one that is not there is empty."""

    form: Form
    packed: dict[str, bytes] = field(default_factory=dict)

    def closed_buckets(self, bucket: Bucket) -> ClosedBuckets:
        """The closed buckets of a length."""
        cursors = self.get(f"cursors/{bucket.name}").iter_rows()
        return ClosedBuckets(
            self.form, bucket, self.get(f"closed/{bucket.name}"), {row[:2]: row[2:] for row in cursors}
        )

    def close(self, bucket: Bucket, rows: pl.DataFrame, time: int) -> Iterator[RenderedFile]:
        """Take in buckets that closed by a time; gives the pages that are complete by then."""
        buckets = self.closed_buckets(bucket)
        yield from buckets.add(rows, time)
        self.put(f"closed/{bucket.name}", buckets.closed)
        cursors = [(*place, *cursor) for place, cursor in sorted(buckets.cursors.items())]
        self.put(f"cursors/{bucket.name}", pl.DataFrame(cursors, self._schema("cursors/"), orient="row"))

    def observe(self, rows: pl.DataFrame) -> None:
        for day in rows.select(DAY.start(pl.col("ledger_close_time"))).to_series().unique().sort().to_list():
            own = rows.filter(DAY.start(pl.col("ledger_close_time")) == day)
            name = f"observed/{day}"
            self.put(name, pl.concat([self.get(name), own]).sort("market", "pool", "observed_ledger"))
        known = pl.concat([self.get("begun"), rows.select(BEGUN.keys())])
        keys = [name for name in BEGUN if name != "observed_ledger"]
        self.put("begun", known.group_by(keys).agg(pl.col("observed_ledger").min()).sort(keys))

    def observed(self, begin: int, end: int) -> pl.DataFrame:
        """The observations from a time to before another."""
        days = [day for day in self._days() if day < end and day + DAY.seconds > begin]
        time = pl.col("ledger_close_time")
        frames = [self.get(f"observed/{day}").filter((time >= begin) & (time < end)) for day in days]
        return pl.concat([pl.DataFrame(schema=OBSERVATIONS), *frames])

    def forget(self, before: int) -> None:
        """Drop the observations of all days before one that begins then."""
        for day in self._days():
            if day < before:
                self.put(f"observed/{day}", pl.DataFrame(schema=OBSERVATIONS))

    def get(self, name: str) -> pl.DataFrame:
        schema = self._schema(name)
        if name not in self.packed:
            return pl.DataFrame(schema=schema)
        frame = pl.read_parquet(io.BytesIO(self.packed[name]))
        return frame.cast({name: dtype for name, dtype in schema.items() if dtype == pl.Int128})

    def put(self, name: str, frame: pl.DataFrame) -> None:
        if frame.height:
            self.packed[name] = _packed(frame)
        else:
            self.packed.pop(name, None)

    def _days(self) -> list[int]:
        return sorted(int(name.partition("/")[2]) for name in self.packed if name.startswith("observed/"))

    def _schema(self, name: str) -> Mapping[str, pl.DataType]:
        if name == "begun":
            return BEGUN
        match name.partition("/")[0]:
            case "observed":
                return OBSERVATIONS
            case "closed":
                return self.form.frame
            case _:
                return {**dict.fromkeys((*self.form.keys, "cursor"), pl.String()), "end": pl.Int64()}


def _packed(frame: pl.DataFrame) -> bytes:
    """A frame as Parquet, which has no 128-bit integers: as 64 bits where all fit, else as decimals of 38 digits."""
    columns = []
    for column in frame:
        if column.dtype == pl.Int128:
            narrow = column.cast(pl.Int64, strict=False)
            column = narrow if narrow.null_count() == column.null_count() else column.cast(pl.Decimal(38, 0))
        columns.append(column)
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer, compression="zstd", statistics=False)
    return buffer.getvalue()
