"""The files of a run as columns, in memory and as the Parquet file that a run's manifest names."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator

import polars as pl
from msgspec import Struct

from exporter.errors import CheckError
from exporter.tree.documents import ManifestFile
from exporter.tree.files import KEY_SEGMENT, MAX_KEY_BYTES, FileKind

CHUNK_FILES = 10_000
"""So many files are held as objects before they become columns, and stand in a row group."""

_SCHEMA = {
    "key": pl.String(),
    "kind": pl.Enum([kind.value for kind in FileKind]),
    "bytes": pl.Int64(),
    "sha256": pl.Binary(),
}
_KEY = f"^{KEY_SEGMENT}(/{KEY_SEGMENT})*$"


class RunListing:
    """Every file of a run with its kind, size and SHA-256, ascending by key.

    Attributes:
        frame: the columns ``key``, ``kind``, ``bytes`` and ``sha256`` (32 bytes).
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame

    def __len__(self) -> int:
        return self.frame.height

    def __iter__(self) -> Iterator[ManifestFile]:
        for key, kind, size, digest in self.frame.iter_rows():
            yield ManifestFile(key, kind, size, digest.hex())

    @classmethod
    def of(cls, files: Iterable[ManifestFile]) -> RunListing:
        """List files in any order. Raises `CheckError` for a key that is there twice."""
        builder = ListingBuilder()
        for file in files:
            builder.add(file.key, file.kind, file.bytes, file.sha256)
        return builder.finish()

    @property
    def size(self) -> tuple[int, int]:
        """How many files there are, and how many bytes they have together."""
        return self.frame.height, int(self.frame["bytes"].sum())

    def sha256_of(self, key: str) -> str | None:
        found = self.frame.filter(pl.col("key") == key)["sha256"]
        return found[0].hex() if len(found) else None

    def run_id(self, observed_ledger: int) -> str:
        """The id of the run: a digest of its pages, documents and Parquet file.

        It is the ledger, a dash, and the first 12 hex digits of the SHA-256 over one line for each file, ascending by
        key: the file's own SHA-256, two spaces, the key, a line feed (what ``sha256sum`` prints).
        """
        digest = hashlib.sha256()
        for key, sha256 in self.frame.select("key", "sha256").iter_rows():
            digest.update(f"{sha256.hex()}  {key}\n".encode())
        return f"{observed_ledger}-{digest.hexdigest()[:12]}"

    def to_parquet(self) -> bytes:
        buffer = io.BytesIO()
        self.frame.write_parquet(
            buffer, compression="zstd", compression_level=3, statistics=False, row_group_size=CHUNK_FILES
        )
        return buffer.getvalue()

    @classmethod
    def from_parquet(cls, data: bytes) -> RunListing:
        """Read a Parquet file. Raises `CheckError` for what is no listing."""
        try:
            frame = pl.read_parquet(io.BytesIO(data), columns=list(_SCHEMA)).cast(_SCHEMA)  # type: ignore[arg-type]
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
            raise CheckError(f"is no listing of files: {error}") from error
        key, digest = pl.col("key"), pl.col("sha256")
        expected = {
            "a file without key, kind, size or digest": ~pl.any_horizontal(pl.all().is_null()),
            "a malformed key": key.str.contains(_KEY) & (key.str.len_bytes() <= MAX_KEY_BYTES),
            "a size below 0": pl.col("bytes") >= 0,
            "a digest that is no SHA-256": digest.bin.size() == 32,
            "keys that do not ascend, each once": (key > key.shift()).fill_null(value=True),
        }
        for what, holds in expected.items():
            if not frame.select(holds.all()).item():
                raise CheckError(f"is no listing of files: it has {what}")
        return cls(frame)


class ManifestOfAnyAge(Struct, frozen=True):
    """The manifest of a run as far as readers need it. Versions before listed the files in the manifest itself."""

    run_id: str = ""
    observed_ledger: int = 0
    published_at: str = ""
    files: list[ManifestFile] | None = None
    file_count: int = 0
    bytes: int = 0
    files_key: str = ""
    files_sha256: str = ""


def listing_of(manifest: ManifestOfAnyAge, data: bytes | None) -> RunListing:
    """The listing that a manifest is of; ``data`` are the bytes of its ``files_key``, where it names one.

    Raises `CheckError` for bytes that are not those, or no listing.
    """
    if manifest.files is not None:
        return RunListing.of(manifest.files)
    if data is None or hashlib.sha256(data).hexdigest() != manifest.files_sha256:
        raise CheckError(f"{manifest.files_key} does not have the digest that the run's manifest gives for it")
    return RunListing.from_parquet(data)


class ListingBuilder:
    """Makes a `RunListing` of files that come in any order; until then most are held as compressed columns."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._rows: list[tuple[str, str, int, bytes]] = []

    def add(self, key: str, kind: str, size: int, sha256: str) -> None:
        self._rows.append((key, kind, size, bytes.fromhex(sha256)))
        if len(self._rows) >= CHUNK_FILES:
            self._end_chunk()

    def extend(self, listing: RunListing) -> None:
        self._chunks.append(listing.to_parquet())

    def finish(self) -> RunListing:
        """Give the listing. Raises `CheckError` for a key that was listed twice."""
        self._end_chunk()
        chunks, self._chunks = self._chunks, []
        frame = pl.concat(pl.read_parquet(io.BytesIO(chunks.pop())) for _ in range(len(chunks))).sort("key")
        twice = frame.filter(pl.col("key") == pl.col("key").shift())
        if twice.height:
            raise CheckError(f"{twice['key'][0]}: rendered twice in one run")
        return RunListing(frame)

    def _end_chunk(self) -> None:
        self._chunks.append(RunListing(pl.DataFrame(self._rows, schema=_SCHEMA, orient="row")).to_parquet())
        self._rows.clear()
