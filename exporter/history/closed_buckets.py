"""Divides each history into its newest document and older pages, which never change.

A page covers a span of `Bucket.page_buckets` buckets. The newest document has the newest span in which there is a
bucket, and `Bucket.pages` spans before it in which there is one. So the document is never nearly empty, and it changes
only when a bucket of its length closes. A span that leaves the document is complete. It becomes a page, whose name is
made from its content.

If a length has `Bucket.kept_seconds`, its pages are published for that time only. A document or page has a cursor to
the page before it only if that one is published: for the newest document, now; for a page, when its own span began,
because a page never changes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

import polars as pl
from msgspec import Struct, field

from exporter.history.buckets import BUCKETS_FRAME, ENDS, OBSERVATIONS, TOTALS_FRAME, TotalKey
from exporter.history.days_csv import MAX_DAYS, PoolDay, days_csv
from exporter.history.realized import newest_of, with_interest
from exporter.history.time_buckets import BUCKETS, DAY, Bucket
from exporter.tables import PoolKey, document_fields, time_text
from exporter.tree.documents import AssetHistory, HistoryBucket, TotalsBucket, TotalsHistory, encode, page_token
from exporter.tree.families import BUCKET_PAGE, HISTORY_CSV, RECENT, TOTALS_PAGE, Family
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.read_back import file_of

Owner = TypeVar("Owner", bound=PoolKey | TotalKey)
"""The subject of a history: a pool, or a total."""


class HistoryKind(Struct, Generic[Owner], frozen=True):
    """A kind of history: of pools, or of totals.

    Attributes:
        owner: what each of its histories is of.
        buckets: its bucket lengths.
        frame: the columns of its buckets, which begin with those of the owner.
        bucket: the model of a bucket.
        document: the model of a document or page.
        page: the family of its pages.
        csv: the family of the days as CSV, which lies next to the newest document of days; None if there is none.
    """

    owner: type[Owner]
    buckets: tuple[Bucket, ...]
    frame: Mapping[str, pl.DataType]
    bucket: type[HistoryBucket] | type[TotalsBucket]
    document: type[AssetHistory] | type[TotalsHistory]
    page: Family
    csv: Family | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that say what the subject of a history is."""
        return self.owner._fields


POOL_HISTORY = HistoryKind(
    PoolKey, BUCKETS, {**BUCKETS_FRAME, **ENDS}, HistoryBucket, AssetHistory, BUCKET_PAGE, HISTORY_CSV
)
TOTALS_HISTORY = HistoryKind(TotalKey, (DAY,), TOTALS_FRAME, TotalsBucket, TotalsHistory, TOTALS_PAGE)


BEGUN: dict[str, pl.DataType] = {
    name: OBSERVATIONS[name] for name in ("market", "pool", "token_address", "protocol", "observed_ledger")
}
"""Columns of the frame with the first ledger of each pool."""


OLDER = "older"
"""The name of the frame with the days before those of the newest documents."""

DAYS_FRAME: dict[str, pl.DataType] = {**BUCKETS_FRAME, "last_decimals": ENDS["last_decimals"]}
"""Columns of the days that the files of days as CSV are made from. A token can change its decimals."""


class EarlierPage(NamedTuple):
    """The page before a newest document: its cursor, and when its span ended, in unix seconds."""

    cursor: str
    end: int


class Histories(Struct, Generic[Owner]):
    """The histories of one kind, and the frames that they are continued from.

    A frame is packed as Parquet. A frame that is missing is empty. These are the names of frames:

    * ``observed/DAY``: the observations of the day that starts at these unix seconds;
    * ``begun``: the first ledger of each pool;
    * ``newest``: the last observation of each pool;
    * ``closed/BUCKET``: the buckets of the newest documents, sorted;
    * ``older``: the days before these of the last `MAX_DAYS`, for the files of days as CSV, sorted;
    * ``cursors/BUCKET``: the page before each newest document (`EarlierPage`).

    ``older`` is large and seldom needed. As long as ``read_older`` is not None, it gives that frame, which is not in
    ``packed`` then.
    """

    kind: HistoryKind[Owner]
    packed: dict[str, bytes] = field(default_factory=dict)
    read_older: Callable[[], bytes | None] | None = None

    def closed(self, bucket: Bucket) -> pl.DataFrame:
        """The buckets of the newest documents."""
        return self.get(f"closed/{bucket.name}")

    def earlier_pages(self, bucket: Bucket) -> dict[Owner, EarlierPage]:
        """The page before each newest document that has one."""
        rows = self.get(f"cursors/{bucket.name}").iter_rows()
        return {self.kind.owner(*row[:2]): EarlierPage(*row[2:]) for row in rows}

    def close(self, bucket: Bucket, rows: pl.DataFrame, time: int) -> Iterator[RenderedFile]:
        """Add later buckets, which closed by a time in unix seconds, and yield the pages that are complete by then."""
        keys, earlier_pages = self.kind.keys, self.earlier_pages(bucket)
        rows = pl.concat([self.closed(bucket), rows.select(self.kind.frame.keys())])
        rows = rows.with_columns(bucket.page_starts(pl.col("start")).alias("page"))
        spans = rows.select(*keys, "page").unique()
        older = spans.filter(pl.col("page").rank("dense", descending=True).over(keys) > bucket.pages + 1)
        if older.height:
            leaving = rows.join(older, on=[*keys, "page"], how="semi")
            if self.kind.csv is not None and bucket is DAY:
                self._keep_older(leaving.drop("page"))
            leaving_rows = self._document_rows(bucket, leaving.sort(*keys, "start"))
            for names, pages in groupby(leaving_rows, key=itemgetter(0, 1)):
                owner = self.kind.owner(*names)
                for begin, page_rows in groupby(pages, key=itemgetter(2)):
                    buckets = [self.kind.bucket(*row[3:]) for row in page_rows]
                    data = encode(self._document(owner, bucket, buckets, begin, earlier_pages.get(owner)))
                    cursor = ("" if bucket.kept_seconds is None else RECENT) + page_token(data)
                    page = EarlierPage(cursor, begin + bucket.seconds * bucket.page_buckets)
                    earlier_pages[owner] = page
                    if _is_published(bucket, page.end, time):
                        yield RenderedFile(self.kind.page.key(cursor=cursor), data, FileKind.PAGE)
            rows = rows.join(older, on=[*keys, "page"], how="anti")
        self.put(f"closed/{bucket.name}", rows.drop("page").sort(*keys, "start"))
        cursor_rows = [(*owner, *page) for owner, page in sorted(earlier_pages.items())]
        self.put(f"cursors/{bucket.name}", pl.DataFrame(cursor_rows, self._schema("cursors/"), orient="row"))

    def newest_documents(self, bucket: Bucket, begun: pl.DataFrame, time: int) -> Iterator[RenderedFile]:
        """Render all newest documents as of a time in unix seconds.

        ``begun`` has the first ledger of every pool or total. One that has no closed bucket yet gets an empty document.
        """
        closed, earlier_pages = self.closed(bucket), self.earlier_pages(bucket)
        rows = self._document_rows(bucket, closed.with_columns(pl.lit(0).alias("page")))
        for names, group in groupby(rows, key=itemgetter(0, 1)):
            owner = self.kind.owner(*names)
            buckets = [self.kind.bucket(*row[3:]) for row in group]
            yield file_of(self._document(owner, bucket, buckets, time, earlier_pages.get(owner)))
        yield from self.empty_documents(bucket, begun.join(closed, on=self.kind.keys, how="anti"))
        if bucket is DAY:
            yield from self._days_as_csv(closed, time)

    def empty_documents(self, bucket: Bucket, begun: pl.DataFrame) -> Iterator[RenderedFile]:
        """Render documents without buckets, for the pools or totals in ``begun``, with their first ledger."""
        for *names, ledger in begun.iter_rows():
            owner = self.kind.owner(*names)
            yield file_of(self.kind.document(owner[0], owner[1], bucket.name, ledger, [], None))
            if self.kind.csv is not None and bucket is DAY:
                yield self._csv(self.kind.csv, owner, [])

    def _keep_older(self, leaving: pl.DataFrame) -> None:
        """Keep days that leave the newest documents for the CSV, and forget those that are too old for it."""
        older = pl.concat([self.get(OLDER), leaving.select(DAYS_FRAME.keys())])
        kept = older.filter(pl.col("start") > pl.col("start").max() - MAX_DAYS * DAY.seconds)
        self.put(OLDER, kept.sort(*self.kind.keys, "start"))

    def _days_as_csv(self, closed: pl.DataFrame, time: int) -> Iterator[RenderedFile]:
        """Render the days of each pool as CSV: those of its newest document, and those of `MAX_DAYS` before a time."""
        if self.kind.csv is None:
            return
        first = DAY.start(time) - MAX_DAYS * DAY.seconds
        days = pl.concat([self.get(OLDER).filter(pl.col("start") >= first), closed.select(DAYS_FRAME.keys())]).sort(
            *self.kind.keys, "start"
        )
        rows = self._document_rows(DAY, days.with_columns(pl.lit(0).alias("page")), PoolDay)
        rows_with_decimals = zip(rows, days["last_decimals"], strict=True)
        for names, own_rows in groupby(rows_with_decimals, key=lambda pair: pair[0][:2]):
            own_days = ((PoolDay(*row[3:]), decimals) for row, decimals in own_rows)
            yield self._csv(self.kind.csv, self.kind.owner(*names), own_days)

    @staticmethod
    def _csv(family: Family, owner: Owner, days: Iterable[tuple[PoolDay, int]]) -> RenderedFile:
        return RenderedFile(family.key(**owner._asdict()), days_csv(days), FileKind.DOCUMENT)

    def _document(
        self, owner: Owner, bucket: Bucket, buckets: list[Any], time: int, earlier: EarlierPage | None
    ) -> AssetHistory | TotalsHistory:
        """The document or page with these buckets, which leads to the page before it if that is published."""
        next_cursor = earlier.cursor if earlier and _is_published(bucket, earlier.end, time) else None
        return self.kind.document(owner[0], owner[1], bucket.name, buckets[-1].last_ledger, buckets, next_cursor)

    def _document_rows(
        self, bucket: Bucket, rows: pl.DataFrame, model: type[Struct] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """The rows as their documents have them: what they are of, their page, and the fields of a bucket."""
        start = pl.col("start")
        return rows.select(
            *self.kind.keys,
            "page",
            time_text(start).alias("start_time"),
            time_text(start + bucket.seconds).alias("end_time"),
            *document_fields(self.kind.bucket if model is None else model)[2:],
        ).iter_rows()

    def observe(self, rows: pl.DataFrame) -> None:
        """Add later observations, each with the interest since the previous observation of its pool."""
        newest = self.get("newest")
        rows = with_interest(rows, newest)
        self.put("newest", newest_of(pl.concat([newest, rows])))
        for day in rows.select(DAY.start(pl.col("ledger_close_time"))).to_series().unique().sort().to_list():
            rows_of_day = rows.filter(DAY.start(pl.col("ledger_close_time")) == day)
            name = f"observed/{day}"
            self.put(name, pl.concat([self.get(name), rows_of_day]).sort(*PoolKey._fields, "observed_ledger"))
        begun = pl.concat([self.get("begun"), rows.select(BEGUN.keys())])
        keys = [name for name in BEGUN if name != "observed_ledger"]
        self.put("begun", begun.group_by(keys).agg(pl.col("observed_ledger").min()).sort(keys))

    def observed(self, begin: int, end: int) -> pl.DataFrame:
        """The observations from ``begin`` to before ``end``, in unix seconds."""
        days = [day for day in self._days() if day < end and day + DAY.seconds > begin]
        time = pl.col("ledger_close_time")
        frames = [self.get(f"observed/{day}").filter((time >= begin) & (time < end)) for day in days]
        return pl.concat([_empty(tuple(OBSERVATIONS.items())), *frames])

    def forget(self, before: int) -> None:
        """Drop the observations of days that started before a time in unix seconds."""
        for day in self._days():
            if day < before:
                del self.packed[f"observed/{day}"]

    def get(self, name: str) -> pl.DataFrame:
        """Unpack a frame. One that is missing is empty."""
        if name == OLDER and self.read_older is not None:
            read_older, self.read_older = self.read_older, None
            if (older := read_older()) is not None:
                self.packed[OLDER] = older
        data = self.packed.get(name)
        return _empty(tuple(self._schema(name).items())) if data is None else pl.read_parquet(io.BytesIO(data))

    def put(self, name: str, frame: pl.DataFrame) -> None:
        """Pack a frame. An empty one is ignored."""
        if frame.height:
            buffer = io.BytesIO()
            frame.write_parquet(buffer, compression="zstd", statistics=False)
            self.packed[name] = buffer.getvalue()

    def _days(self) -> list[int]:
        return sorted(int(name.partition("/")[2]) for name in self.packed if name.startswith("observed/"))

    def _schema(self, name: str) -> Mapping[str, pl.DataType]:
        match name.partition("/")[0]:
            case "begun":
                return BEGUN
            case "observed" | "newest":
                return OBSERVATIONS
            case _ if name == OLDER:
                return DAYS_FRAME
            case "closed":
                return self.kind.frame
            case _:
                return {**dict.fromkeys((*self.kind.keys, "cursor"), pl.String()), "end": pl.Int64()}


@cache
def _empty(columns: tuple[tuple[str, pl.DataType], ...]) -> pl.DataFrame:
    """A frame without rows. A run asks for the same few again and again, and to make one takes milliseconds."""
    return pl.DataFrame(schema=columns)


def _is_published(bucket: Bucket, end: int, time: int) -> bool:
    """Whether a page whose span ended at ``end`` is still published at a time, both in unix seconds."""
    return bucket.kept_seconds is None or end > bucket.start(time) - bucket.kept_seconds
