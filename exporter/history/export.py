"""Writing a part of a published history into one file: Parquet, CSV or Arrow, from a folder, a bucket or the web.

Every file is compared with the digest that the history's manifest has for it before a row of it is used. One file of
the history is in memory at a time. What is written appears under its name when it is whole.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from exporter.api.documents import HistoryFile, HistoryManifest
from exporter.api.render import HISTORY_MANIFEST_KEY
from exporter.check.sources import TreeSource
from exporter.errors import ConfigError, SourceError
from exporter.history.manifest import decode_history_manifest
from exporter.history.schema import ARROW_SCHEMA, FILE_SCHEMA, ParquetType, column_names
from exporter.history.selection import Selection

FORMATS = ("parquet", "csv", "arrow")

_FORMULA = r"^(\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|[\t\r\n])"
"""How a text begins that a spreadsheet would run as a formula. Names of tokens are whatever their contracts say."""

MAX_MANIFEST_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Exported:
    """How many rows were written, and how many files of the history were read for them."""

    rows: int
    files: int


class _Writer(Protocol):
    def write_table(self, table: pa.Table) -> None: ...


async def read_manifest(source: TreeSource) -> HistoryManifest:
    """Read the history's manifest of an open tree.

    Raises:
        SourceError: there is none, or it cannot be understood.
    """
    data = await source.get(HISTORY_MANIFEST_KEY, MAX_MANIFEST_BYTES)
    if data is None:
        raise SourceError(f"{source.uri} has no {HISTORY_MANIFEST_KEY}, so no history is published there")
    if len(data) > MAX_MANIFEST_BYTES:
        raise SourceError(f"{source.uri}: {HISTORY_MANIFEST_KEY} is larger than {MAX_MANIFEST_BYTES} bytes")
    try:
        return decode_history_manifest(data)
    except msgspec.DecodeError as error:
        raise SourceError(f"{source.uri}: {HISTORY_MANIFEST_KEY} is not a history manifest: {error}") from error


async def export_history(
    source: TreeSource,
    selection: Selection,
    target: Path,
    form: str,
    on_file: Callable[[], None] = lambda: None,
    manifest: HistoryManifest | None = None,
    *,
    raw: bool = False,
) -> Exported:
    """Write the selected rows of a history into a file.

    Rows are sorted by file, that is by ledger or compacted stretch of ledgers, and inside one as the file has them.

    Args:
        source: an open tree.
        selection: which rows.
        target: the file to write; one that is there is replaced when all is written.
        form: one of `FORMATS`.
        on_file: is called when a file of the history was taken in.
        manifest: the history's manifest, when it was read already.
        raw: in CSV, leave texts as they are that a spreadsheet would run as a formula. Otherwise they get a ``'`` in
            front, which spreadsheets take for "this is text".

    Raises:
        SourceError: a file is missing or not the one that the manifest names.
        ConfigError: the target cannot be written.
    """
    manifest = manifest or await read_manifest(source)
    rows, files = 0, selection.files(manifest.files)
    condition = selection.rows()
    with _replacing(target) as temporary, _writing(temporary, form) as writer:
        for file in files:
            frame = _rows(await _read(source, file), file).filter(condition)
            if form == "csv" and not raw:
                frame = _harmless(frame)
            if frame.height:
                writer.write_table(frame.to_arrow().cast(ARROW_SCHEMA))
                rows += frame.height
            on_file()
    return Exported(rows, len(files))


async def _read(source: TreeSource, file: HistoryFile) -> bytes:
    data = await source.get(file.key, file.bytes)
    if data is None:
        raise SourceError(
            f"{source.uri}: {file.key} is missing, though the manifest names it. If it was compacted in the meantime, "
            "try again"
        )
    if len(data) != file.bytes or hashlib.sha256(data).hexdigest() != file.sha256:
        raise SourceError(f"{source.uri}: {file.key} does not have the bytes that the manifest gives for it")
    return data


def _rows(data: bytes, file: HistoryFile) -> pl.DataFrame:
    """All rows of a file in the columns of this version: later ones are dropped, those that it has not are null."""
    try:
        frame = pl.read_parquet(io.BytesIO(data))
        return frame.select(
            (pl.col(name) if name in frame.columns else pl.lit(None).alias(name)).cast(dtype)
            for name, dtype in FILE_SCHEMA.items()
        )
    except pl.exceptions.PolarsError as error:
        raise SourceError(f"{file.key} does not have the columns of a history file: {error}") from error


def _harmless(frame: pl.DataFrame) -> pl.DataFrame:
    texts = pl.col(column_names(ParquetType.UTF8))
    return frame.with_columns(pl.when(texts.str.contains(_FORMULA)).then("'" + texts).otherwise(texts).name.keep())


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A name beside the target, which takes its place when all went well."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(target)
    except OSError as error:
        raise ConfigError(f"--out: cannot write {target}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _writing(path: Path, form: str) -> Iterator[_Writer]:
    writer: Any
    if form == "parquet":
        writer = pq.ParquetWriter(path, ARROW_SCHEMA, compression="zstd")
    elif form == "csv":
        writer = pc.CSVWriter(path, ARROW_SCHEMA)
    else:
        writer = pa.ipc.new_file(path, ARROW_SCHEMA)
    try:
        yield writer
    finally:
        writer.close()
