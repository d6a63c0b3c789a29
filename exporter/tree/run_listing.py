"""The list of all files of a run: the Parquet file that the run's manifest names."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from exporter.errors import CheckError, DecodeError
from exporter.parquet_bounds import POLARS_ERRORS, frame_of, open_parquet
from exporter.tree.documents import ManifestFile
from exporter.tree.files import KEY_SEGMENT, MAX_KEY_BYTES, FileKind

ROW_GROUP_FILES = 10_000

_SCHEMA = {
    "key": pl.String(),
    "kind": pl.Enum([kind.value for kind in FileKind]),
    "bytes": pl.Int64(),
    "sha256": pl.Binary(),
}
_IN_FILE = pa.schema({"key": pa.string(), "kind": pa.string(), "bytes": pa.int64(), "sha256": pa.binary()})
_KEY = f"^{KEY_SEGMENT}(/{KEY_SEGMENT})*$"


class RunListing:
    """Every file of a run with its kind, size and SHA-256, ascending by key. ``parquet`` are the bytes of the list."""

    def __init__(self, parquet: bytes) -> None:
        self.parquet = parquet

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The list as a frame: ``key``, ``kind``, ``bytes`` and ``sha256``."""
        table = open_parquet(self.parquet, _SCHEMA).read([*_SCHEMA], use_threads=False)
        return frame_of(table).select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())

    def __len__(self) -> int:
        return self.frame.height

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(self.frame["key"])

    def __iter__(self) -> Iterator[ManifestFile]:
        return listed_files(self.frame)

    @classmethod
    def of(cls, files: Iterable[ManifestFile]) -> RunListing:
        """The list of these files, which may have any order. Raises `CheckError` if a key occurs twice."""
        rows = sorted((file.key, file.kind, file.bytes, bytes.fromhex(file.sha256)) for file in files)
        for (key, *_), (following, *_) in pairwise(rows):
            if key == following:
                raise CheckError(f"{key}: rendered twice in one run")
        columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(_IN_FILE)
        sink = io.BytesIO()
        table = pa.Table.from_arrays(
            [pa.array(own, kind.type) for own, kind in zip(columns, _IN_FILE, strict=True)], schema=_IN_FILE
        )
        pq.write_table(
            table,
            sink,
            row_group_size=ROW_GROUP_FILES,
            compression="zstd",
            compression_level=3,
            write_statistics=False,
            use_dictionary=["kind"],
        )
        return cls(sink.getvalue())

    def under(self, prefix: str) -> Iterator[ManifestFile]:
        """The files whose keys start with a prefix."""
        return listed_files(self.frame.filter(pl.col("key").str.starts_with(prefix)))

    @property
    def size(self) -> tuple[int, int]:
        """The number of files, and their size in bytes."""
        return len(self), int(self.frame["bytes"].sum())

    def sha256_of(self, key: str) -> str | None:
        """The SHA-256 of a file, in hex digits. None if the list does not have it."""
        digests = self.frame.filter(pl.col("key") == key)["sha256"]
        return digests[0].hex() if len(digests) else None

    def run_id(self, observed_ledger: int) -> str:
        """The id of a run that has these files: the ledger, a dash, and 12 hex digits.

        The digits are the start of the SHA-256 over what ``sha256sum`` prints for all files in the order of their keys.
        """
        digest = hashlib.sha256()
        for key, sha256 in self.frame.select("key", "sha256").iter_rows():
            digest.update(f"{sha256.hex()}  {key}\n".encode())
        return f"{observed_ledger}-{digest.hexdigest()[:12]}"

    @classmethod
    def from_parquet(cls, data: bytes) -> RunListing:
        """The list in the bytes of a file. Raises `CheckError` if they are not such a list."""
        listing = cls(data)
        try:
            _check(listing.frame)
        except (
            DecodeError,
            pa.ArrowException,
            *POLARS_ERRORS,
            OSError,
            ValueError,
        ) as error:
            raise CheckError(f"is not a listing of files: {error}") from error
        return listing


def ledger_of(run_id: str) -> int:
    """The ledger of a run, with which its id starts."""
    return int(run_id.partition("-")[0])


def listed_files(frame: pl.DataFrame) -> Iterator[ManifestFile]:
    """The files in the rows of a list's frame."""
    for key, kind, size, digest in frame.iter_rows():
        yield ManifestFile(key, kind, size, digest.hex())


def _check(frame: pl.DataFrame) -> None:
    key, digest = pl.col("key"), pl.col("sha256")
    expected = {
        "a file without key, kind, size or digest": ~pl.any_horizontal(pl.all().is_null()),
        "a malformed key": key.str.contains(_KEY) & (key.str.len_bytes() <= MAX_KEY_BYTES),
        "a size below 0": pl.col("bytes") >= 0,
        "a digest that is not a SHA-256": digest.bin.size() == 32,
        "keys that do not ascend, each once": key > key.shift(fill_value=""),
    }
    answers = frame.select(holds.all().alias(what) for what, holds in expected.items()).row(0, named=True)
    for what, holds in answers.items():
        if not holds:
            raise CheckError(f"is not a listing of files: it has {what}")


def listing_of(key: str, sha256: str, data: bytes | None) -> RunListing:
    """The list of files whose key and digest a manifest states, from the bytes at that key. Raises `CheckError`."""
    if data is None or hashlib.sha256(data).hexdigest() != sha256:
        raise CheckError(f"{key} does not have the digest that the run's manifest gives for it")
    return RunListing.from_parquet(data)
