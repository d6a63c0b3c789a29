"""Exports rows of a published history to one file: Parquet, CSV or Arrow.

Each file of the history is compared with its digest before a row of it is used.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from msgspec import Struct
from polars.io.plugins import register_io_source

from exporter.bounds import FILE_BYTES
from exporter.errors import CheckError, ConfigError, DecodeError, SourceError
from exporter.event_loops import refuse_running_loop
from exporter.history.manifest import decode_history_manifest, folder_of, span_of
from exporter.history.parquet import ARROW_SCHEMA, FILE_SCHEMA, scan_rows
from exporter.history.spreadsheet import without_formulas
from exporter.parquet_bounds import POLARS_ERRORS
from exporter.stores.tree_sources import TreeSource, open_tree
from exporter.tree.documents import HistoryFile, HistoryManifest
from exporter.tree.families import HISTORY_MANIFEST_KEY
from exporter.tree.values import CONTRACT
from exporter.user_files import writing

MAX_MANIFEST_BYTES = FILE_BYTES

_LAST_LEDGER = 2**32 - 1


class Moment(Struct, frozen=True):
    """One end of a range: a ledger or an aware UTC time. An end without either has no limit."""

    ledger: int | None = None
    time: datetime | None = None


def parse_moment(text: str | None, option: str) -> Moment:
    """Parse one end of a range: the number of a ledger, a day in UTC, or an RFC 3339 time; None for no limit.

    A year or a day without hyphens is refused, because it is a ledger's number as well: that of a ledger before there
    were contracts. A 0 before it says that the ledger is meant.

    Raises `ConfigError`, whose text names the option, for anything else, and for times before the year 1 or after 9999.
    """
    if text is None:
        return Moment()
    if (day := _unhyphenated(text)) is not None:
        raise ConfigError(
            f"{option}: {text} may be a ledger or a date; write {day} for the date, 0{text} for the ledger"
        )
    if re.fullmatch(r"[0-9]{1,10}", text, re.ASCII):
        if not 1 <= int(text) <= _LAST_LEDGER:
            raise ConfigError(f"{option}: {text} is not the number of a ledger (1 to {_LAST_LEDGER})")
        return Moment(ledger=int(text))
    try:
        time = datetime.fromisoformat(text)
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):  # 30 February; the year 1 east of UTC, which began in the year 0 there
        raise ConfigError(
            f"{option}: {text!r} is neither a ledger's number, nor a day such as 2026-11-21, nor a time such as "
            "2026-11-21T10:30:00Z"
        ) from None
    return Moment(time=time)


def _unhyphenated(text: str) -> str | None:
    """The date that a number from 2015, when the network began, may be meant for; None if it is none."""
    if re.fullmatch(r"20[0-9]{2}([0-9]{4})?", text, re.ASCII) is None or text < "2015":
        return None
    try:
        day = date.fromisoformat(text if len(text) == 8 else f"{text}0101")
    except ValueError:  # no day of the calendar
        return None
    return day.isoformat()


def refuse_reversed(start: Moment, end: Moment) -> None:
    """Raise `ConfigError` if a range ends before it begins."""
    for low, high in ((start.ledger, end.ledger), (start.time, end.time)):
        if low is not None and high is not None and low > high:  # type: ignore[operator]
            raise ConfigError(f"--from {low} is after --to {high}")


class Selection(Struct, frozen=True):
    """Which rows to export.

    Attributes:
        start: the first ledger, day or time whose rows are exported.
        end: the last ledger whose rows are exported, or the day or time before which they are.
        market: the contract of the only market whose rows are exported; None for all markets.
        token: the contract of the only token whose rows are exported; None for all tokens.
    """

    start: Moment = Moment()
    end: Moment = Moment()
    market: str | None = None
    token: str | None = None

    def __post_init__(self) -> None:
        for option, address in (("--market", self.market), ("--token", self.token)):
            if address is not None and re.fullmatch(CONTRACT, address) is None:
                raise ConfigError(
                    f"{option}: {address!r} is not the address of a contract (C...), which "
                    "v1/tokens.json has for each symbol and v1/markets.json for each market's name"
                )
        refuse_reversed(self.start, self.end)

    def files(self, files: Iterable[HistoryFile]) -> list[HistoryFile]:
        """The files that may have rows of the selection, ascending by ledger."""
        return sorted((file for file in files if self._may_have(file)), key=lambda file: file.first_ledger)

    def rows(self) -> pl.Expr:
        """An expression that is true for the rows to export."""
        ledger, time = pl.col("observed_ledger"), pl.col("ledger_close_time")
        conditions = (
            (ledger.ge, self.start.ledger),
            (ledger.le, self.end.ledger),
            (time.ge, self.start.time),
            (time.lt, self.end.time),
            (pl.col("market").eq, self.market),
            (pl.col("token_address").eq, self.token),
        )
        return pl.all_horizontal(pl.lit(True), *(holds(value) for holds, value in conditions if value is not None))

    def _may_have(self, file: HistoryFile) -> bool:
        first_time, end_time = span_of(folder_of(file.key))
        return (
            (self.start.ledger is None or file.last_ledger >= self.start.ledger)
            and (self.end.ledger is None or file.first_ledger <= self.end.ledger)
            and (self.start.time is None or end_time > self.start.time)
            and (self.end.time is None or first_time < self.end.time)
        )


class Exported(Struct, frozen=True):
    """The number of rows that were written, and of the history files that were read for them."""

    rows: int
    files: int


async def read_manifest(source: TreeSource) -> HistoryManifest:
    """Read the history's manifest of a tree.

    Raises `SourceError` if there is none or it cannot be understood, and `CheckError` if it is too large.
    """
    data = await source.get(HISTORY_MANIFEST_KEY, MAX_MANIFEST_BYTES)
    if data is None:
        raise SourceError(f"{source.uri} has no {HISTORY_MANIFEST_KEY}, so no history is published there")
    if len(data) > MAX_MANIFEST_BYTES:
        raise CheckError(f"{source.uri}: {HISTORY_MANIFEST_KEY} is larger than {MAX_MANIFEST_BYTES} bytes")
    try:
        return decode_history_manifest(data)
    except msgspec.DecodeError as error:
        raise SourceError(f"{source.uri}: {HISTORY_MANIFEST_KEY} is not a history manifest: {error}") from error


def scan_history(uri: str, start: str | None = None, end: str | None = None) -> pl.LazyFrame:
    """The Parquet history of a published tree as a lazy frame, with the columns that docs/history.md describes.

        >>> history = scan_history("./public", start="65000000")
        >>> history.select("observed_ledger").unique().collect().item()
        65000000

    The manifest is read at once. Files are fetched one at a time when the frame is collected, and each is compared with
    its digest before a row of it is used.

    Args:
        uri: a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root.
        start: the first ledger, day (UTC) or RFC 3339 time of the rows. Files before it are not fetched.
        end: the last ledger of the rows, or the day or time before which they are.

    Raises:
        SourceError: no history is published there. Collecting the frame also raises it for a file that is missing, or
            that is not the one that the manifest names.
        ConfigError: the URI, ``start`` or ``end`` is invalid, or an event loop runs in this thread. Collecting the
            frame needs a thread without a loop, too.
    """
    refuse_running_loop("scan_history")
    selection = Selection(parse_moment(start, "start"), parse_moment(end, "end"))

    async def list_files() -> list[HistoryFile]:
        async with open_tree(uri) as source:
            return selection.files((await read_manifest(source)).files)

    files = asyncio.run(list_files())

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, most: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        with asyncio.Runner() as runner:
            stack = AsyncExitStack()
            try:
                source = runner.run(stack.enter_async_context(open_tree(uri)))
                for file in files:
                    if most == 0:
                        return
                    frame = rows_of(runner.run(_read(source, file)), file).filter(selection.rows())
                    if most is not None:
                        frame = frame.head(most)
                        most -= frame.height
                    if predicate is not None:
                        frame = frame.filter(predicate)
                    yield frame if columns is None else frame.select(columns)
            finally:
                runner.run(stack.aclose())

    return register_io_source(frames, schema=FILE_SCHEMA)


async def export_history(
    source: TreeSource,
    manifest: HistoryManifest,
    selection: Selection,
    target: Path,
    file_format: str,
    *,
    raw: bool,
    on_file: Callable[[], None],
) -> Exported:
    """Write the selected rows of a history to the file ``target``, in the order of its files.

    ``file_format`` is ``parquet``, ``csv`` or ``arrow``. In CSV, a text that a spreadsheet would run as a formula gets
    a ``'`` in front, unless ``raw``. ``on_file`` is called after each file of the history.

    Raises `SourceError` if the history cannot be read, and `ConfigError` if the target cannot be written.
    """
    rows, files = 0, selection.files(manifest.files)
    condition = selection.rows()
    with _writing(target, file_format) as writer:
        for file in files:
            frame = rows_of(await _read(source, file), file).filter(condition)
            if file_format == "csv" and not raw:
                frame = without_formulas(frame)
            if frame.height:
                writer.write_table(frame.to_arrow().cast(ARROW_SCHEMA))
                rows += frame.height
            on_file()
    return Exported(rows, len(files))


async def _read(source: TreeSource, file: HistoryFile) -> bytes:
    """Read a history file. Raises `SourceError` unless it has the digest that the manifest gives."""
    data = await source.get(file.key, file.bytes)
    if data is None:
        raise SourceError(
            f"{source.uri}: {file.key} is missing, though the manifest names it. If it was compacted in the meantime, "
            "try again"
        )
    if len(data) != file.bytes or hashlib.sha256(data).hexdigest() != file.sha256:
        raise SourceError(f"{source.uri}: {file.key} does not have the bytes that the manifest gives for it")
    return data


def rows_of(data: bytes, file: HistoryFile) -> pl.DataFrame:
    """All rows of a history file in the columns of this version.

    Raises `SourceError` if it does not have the columns, and `CheckError` if it exceeds a limit of `exporter.bounds`.
    """
    try:
        return scan_rows(data).collect()
    except DecodeError as error:
        raise CheckError(f"{file.key}: {error}") from error
    except POLARS_ERRORS as error:
        raise SourceError(f"{file.key} does not have the columns of a history file: {error}") from error


@contextmanager
def _writing(target: Path, file_format: str) -> Iterator[Any]:
    writers: dict[str, Callable[[Path, pa.Schema], Any]] = {
        "parquet": partial(pq.ParquetWriter, compression="zstd"),
        "csv": pc.CSVWriter,
        "arrow": pa.ipc.new_file,
    }
    with writing(target, "--out") as path, writers[file_format](path, ARROW_SCHEMA) as writer:
        yield writer
