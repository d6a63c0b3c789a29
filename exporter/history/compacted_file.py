"""One compacted file: the very rows of several files of the history, sorted by market, pool and ledger.

The parts are held compressed and taken in a stretch of markets at a time, so that memory is bounded by the parts and
one stretch, not by all rows. The same parts give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import exporter
from exporter.api.documents import HistoryFile
from exporter.errors import CheckError, StoreError
from exporter.history.manifest import data_of, file_reference
from exporter.history.parquet import ROW_GROUP_ROWS
from exporter.history.schema import ARROW_SCHEMA, FILE_SCHEMA
from exporter.stores.reading import read_many
from exporter.stores.store import Store, StoredObject

ORDER = ("market", "pool", "observed_ledger")
"""How the rows of a compacted file are sorted."""


@dataclass(frozen=True, slots=True)
class CompactedFile:
    """A compacted file, and its entry for the manifest."""

    data: bytes
    entry: HistoryFile


def compact_files(store: Store, folder: str, files: Sequence[HistoryFile]) -> CompactedFile:
    """Make one file of several, ascending by their first ledger and of one schema version.

    Raises:
        StoreError: a file is missing, not the one that is named, or has columns that this version does not know.
        CheckError: what was written does not read back as the rows of the parts, or the parts contradict each other.
    """
    by_key = {file.key: file for file in files}
    read = {key: _Part.of(stored, by_key[key]) for key, stored in read_many(store, by_key)}
    parts = [read[file.key] for file in files]
    stretches = list(_stretches(parts))
    metadata = {
        "table": "pools",
        "schema_version": str(files[0].schema_version),
        "network": _common_network(parts),
        "first_ledger": str(files[0].first_ledger),
        "last_ledger": str(max(file.last_ledger for file in files)),
        "exporter_version": exporter.__version__,
    }
    buffer = io.BytesIO()
    schema = ARROW_SCHEMA.with_metadata(metadata)
    with pq.ParquetWriter(buffer, schema, compression="zstd", compression_level=9) as writer:
        for stretch in stretches:
            writer.write_table(_rows(parts, stretch).to_arrow().cast(schema), row_group_size=ROW_GROUP_ROWS)
    data = buffer.getvalue()
    rows = sum(file.rows for file in files)
    _check_written(folder, data, parts, stretches, rows)
    digest = hashlib.sha256(data).hexdigest()
    first, last = files[0].first_ledger, max(file.last_ledger for file in files)
    key = f"{folder}{first}-{last}-{digest[:12]}.parquet"
    entry = HistoryFile(
        key=key,
        url=file_reference(key),
        rows=rows,
        bytes=len(data),
        sha256=digest,
        first_ledger=first,
        last_ledger=last,
        schema_version=files[0].schema_version,
    )
    return CompactedFile(data, entry)


@dataclass(frozen=True, slots=True)
class _Part:
    file: HistoryFile
    data: bytes
    network: str

    @classmethod
    def of(cls, stored: StoredObject | None, file: HistoryFile) -> _Part:
        data = data_of(stored, file)
        try:
            parquet = pq.ParquetFile(pa.BufferReader(data))
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"{file.key} is not a Parquet file: {error}") from error
        unknown = sorted(set(parquet.schema_arrow.names) - FILE_SCHEMA.keys())
        if unknown:
            raise StoreError(
                f"{file.key} has the columns {', '.join(unknown)}, which this version does not know and would lose; "
                "compact with the version that wrote it, or a later one"
            )
        metadata = parquet.metadata.metadata or {}
        return cls(file, data, metadata.get(b"network", b"").decode(errors="replace"))


def _common_network(parts: Sequence[_Part]) -> str:
    networks = sorted({part.network for part in parts})
    if len(networks) != 1:
        raise CheckError(f"{parts[0].file.key} and its neighbours are of different networks: {', '.join(networks)}")
    return networks[0]


def _scan(parts: Sequence[_Part]) -> pl.LazyFrame:
    return pl.scan_parquet(
        [part.data for part in parts], schema=FILE_SCHEMA, missing_columns="insert", extra_columns="raise"
    )


def _stretches(parts: Sequence[_Part]) -> Iterator[tuple[str, str]]:
    """The first and the last market of consecutive stretches, each of about a row group or of one market."""
    counts = _scan(parts).group_by("market").len("rows").sort("market").collect()
    ends = accumulate(counts["rows"].to_list())
    first, begin = None, 0
    for market, end in zip(counts["market"].to_list(), ends, strict=True):
        first = market if first is None else first
        if end - begin >= ROW_GROUP_ROWS:
            yield first, market
            first, begin = None, end
    if first is not None:
        yield first, counts["market"][-1]


def _rows(parts: Sequence[_Part], stretch: tuple[str, str]) -> pl.DataFrame:
    return _scan(parts).filter(_inside(stretch)).sort(ORDER).collect()


def _inside(stretch: tuple[str, str]) -> pl.Expr:
    first, last = stretch
    return pl.col("market").is_between(pl.lit(first), pl.lit(last))


def _check_written(
    folder: str, data: bytes, parts: Sequence[_Part], stretches: Sequence[tuple[str, str]], rows: int
) -> None:
    """Read the file back, and compare every stretch with the rows of the parts, read once more."""
    written = _Part(parts[0].file, data, "")
    found = pq.ParquetFile(pa.BufferReader(data)).metadata.num_rows
    if found != rows:
        raise CheckError(f"{folder}: the compacted file has {found} rows, but its parts have {rows}")
    for stretch in stretches:
        back = _scan([written]).filter(_inside(stretch)).collect()
        expected = _rows(parts, stretch)
        if not back.equals(expected):
            raise CheckError(f"{folder}: the compacted file did not read back as the rows of its parts")
        if expected.select(ORDER).is_duplicated().any():
            raise CheckError(f"{folder}: a pool has two rows of one ledger in the files to compact")
