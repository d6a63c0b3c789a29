"""The histories cut by place into parts that wait compressed outside of memory, of which one is open at a time.

So what a run holds of the history does not grow with the number of pools. A part has the frames of all places from its
first one up to the first of the next part; one that has become too large is cut.
"""

from __future__ import annotations

import io
import sqlite3
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import polars as pl

from exporter.errors import StoreError
from exporter.history.buckets import BUCKETS, OBSERVATIONS, Bucket
from exporter.history.shelves import Form, Place, Shelf
from exporter.tree.files import RenderedFile

PART_ROWS = 150_000
"""A part of more rows is cut, where it has more than one place."""

BEGUN: dict[str, pl.DataType] = {
    name: OBSERVATIONS[name] for name in ("market", "pool", "token_address", "protocol", "observed_ledger")
}
"""The first ledger of each pool."""

_DAY = next(bucket for bucket in BUCKETS if bucket.name == "1d")


class Scratch:
    """Bytes by number in an unnamed database, which goes to the folder for temporary files once it is large."""

    def __init__(self) -> None:
        self._rows = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._rows.close)
        self._rows.execute("PRAGMA journal_mode = OFF")
        self._rows.execute("CREATE TABLE kept (number INTEGER PRIMARY KEY, data BLOB)")

    def add(self, data: bytes) -> int:
        """Keep bytes; gives the number to get them by."""
        with _reported():
            number = self._rows.execute("INSERT INTO kept (data) VALUES (?)", (data,)).lastrowid
        assert number is not None
        return number

    def get(self, number: int) -> bytes:
        with _reported():
            data: bytes = self._rows.execute("SELECT data FROM kept WHERE number = ?", (number,)).fetchone()[0]
        return data

    def remove(self, number: int) -> None:
        """Forget bytes; their room is used again."""
        with _reported():
            self._rows.execute("DELETE FROM kept WHERE number = ?", (number,))


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(
            f"cannot keep the histories in the folder for temporary files: {error}; free space there, or set TMPDIR"
        ) from error


@dataclass(slots=True)
class Part:
    """The frames of the places from ``first`` on, by name, each with its number and its rows; one without is empty."""

    form: Form
    scratch: Scratch
    first: Place = ("", "")
    frames: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.frames.values())

    def shelf(self, bucket: Bucket) -> Shelf:
        """The closed buckets of a length."""
        cursors = self.get(f"cursors/{bucket.name}").iter_rows()
        return Shelf(self.form, bucket, self.get(f"closed/{bucket.name}"), {row[:2]: row[2] for row in cursors})

    def close(self, bucket: Bucket, rows: pl.DataFrame) -> Iterator[RenderedFile]:
        """Take in buckets that closed; gives the pages that are complete now."""
        shelf = self.shelf(bucket)
        yield from shelf.add(rows)
        self.put(f"closed/{bucket.name}", shelf.closed)
        cursors = [(*place, cursor) for place, cursor in sorted(shelf.cursors.items())]
        self.put(f"cursors/{bucket.name}", pl.DataFrame(cursors, self._schema("cursors/"), orient="row"))

    def observe(self, rows: pl.DataFrame) -> None:
        for day in rows.select(_DAY.starts(pl.col("ledger_close_time"))).to_series().unique().sort().to_list():
            own = rows.filter(_DAY.starts(pl.col("ledger_close_time")) == day)
            name = f"observed/{day}"
            self.put(name, pl.concat([self.get(name), own]).sort("market", "pool", "observed_ledger"))
        known = pl.concat([self.get("begun"), rows.select(BEGUN.keys())])
        keys = [name for name in BEGUN if name != "observed_ledger"]
        self.put("begun", known.group_by(keys).agg(pl.col("observed_ledger").min()).sort(keys))

    def observed(self, begin: int, end: int) -> pl.DataFrame:
        """The observations from a time to before another."""
        days = [day for day in self._days() if day < end and day + _DAY.seconds > begin]
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
        if name not in self.frames:
            return pl.DataFrame(schema=schema)
        frame = pl.read_parquet(io.BytesIO(self.scratch.get(self.frames[name][0])))
        return frame.cast({name: dtype for name, dtype in schema.items() if dtype == pl.Int128})

    def put(self, name: str, frame: pl.DataFrame) -> None:
        if frame.height:
            self.put_bytes(name, _packed(frame), frame.height)
        elif name in self.frames:
            self.scratch.remove(self.frames.pop(name)[0])

    def put_bytes(self, name: str, data: bytes, rows: int) -> None:
        if name in self.frames:
            self.scratch.remove(self.frames[name][0])
        self.frames[name] = self.scratch.add(data), rows

    def cut(self) -> list[Part]:
        wanted = -(-self.rows // PART_ROWS)
        if wanted <= 1:
            return [self]
        frames = {name: self.get(name) for name in self.frames}
        keys = list(self.form.keys)
        places = pl.concat([frame.select(keys) for frame in frames.values()]).unique().sort(keys)
        step = -(-places.height // wanted)
        firsts = [self.first, *((one, other) for one, other in places.gather_every(step, step).iter_rows())]
        parts = [Part(self.form, self.scratch, first) for first in firsts]
        for name, frame in frames.items():
            for part, rows in Parts(parts).split(frame):
                part.put(name, rows)
            self.put(name, frame.clear())
        return parts

    def _days(self) -> list[int]:
        return sorted(int(name.partition("/")[2]) for name in self.frames if name.startswith("observed/"))

    def _schema(self, name: str) -> Mapping[str, pl.DataType]:
        if name == "begun":
            return BEGUN
        match name.partition("/")[0]:
            case "observed":
                return OBSERVATIONS
            case "closed":
                return self.form.frame
            case _:
                return dict.fromkeys((*self.form.keys, "cursor"), pl.String())


@dataclass(slots=True)
class Parts:
    """All parts of one form, ascending by their first places; together they have every place."""

    parts: list[Part]

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)

    def split(self, frame: pl.DataFrame) -> Iterator[tuple[Part, pl.DataFrame]]:
        """Each part with the rows of a frame that are of its places, in their order."""
        one, other = self.parts[0].form.keys
        for part, after in pairwise([*self.parts, None]):
            assert part is not None
            low, high = part.first, None if after is None else after.first
            own = (pl.col(one) > low[0]) | ((pl.col(one) == low[0]) & (pl.col(other) >= low[1]))
            if high is not None:
                own &= (pl.col(one) < high[0]) | ((pl.col(one) == high[0]) & (pl.col(other) < high[1]))
            yield part, frame if low == ("", "") and high is None else frame.filter(own)

    def cut(self) -> None:
        self.parts = [part for whole in self.parts for part in whole.cut()]


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
