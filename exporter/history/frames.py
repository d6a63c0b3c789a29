"""One form of history in a series: frames by name, compressed until one of them is needed."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from exporter.history.buckets import DAY, OBSERVATIONS, Bucket
from exporter.history.closed_buckets import ClosedBuckets, Form
from exporter.tree.files import RenderedFile

BEGUN: dict[str, pl.DataType] = {
    name: OBSERVATIONS[name] for name in ("market", "pool", "token_address", "protocol", "observed_ledger")
}
"""The first ledger of each pool."""


@dataclass(slots=True)
class Frames:
    """The frames of a form as Parquet, by name; one that is not there is empty."""

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
