"""Reads the objects of a lake (SEP-54) from a folder, an S3 bucket or a web server, and the ledgers in them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from exporter.bounds import LAKE_BATCH_BYTES, LAKE_LEDGER_BYTES, LAKE_OBJECT_BYTES, decompress
from exporter.errors import ConfigError, DecodeError, LakeError
from exporter.http_environment import check_aws, check_requests_to
from exporter.ledger.rpc.endpoints import url_or_none
from exporter.past.lake.close_meta import end_of, header_of
from exporter.user_files import no_folder, user_path

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore

CONFIG = ".config.json"

MAX_AHEAD = 16
"""Largest number of objects that are fetched before they are needed."""

LOOK_AHEAD_BYTES = 2**30
"""Number of compressed bytes that all workers of a machine together may fetch before they are needed."""

EXTENSIONS = (".xdr.zst", ".xdr.zstd")
"""Extensions of the names of objects: today's, and those before version 23 of the programs that write lakes."""

PUBLIC_REGION = "us-east-2"
"""The region of the public lake's bucket."""

TRIES = 5
_LAST_LEDGER = 0xFFFFFFFF
_BUCKET = r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}"

_Size = Annotated[int, Meta(ge=1, le=10_000_000)]


class LakeConfig(Struct, frozen=True, rename="camel"):
    """The file ``.config.json`` of a lake. Unknown fields are ignored."""

    network_passphrase: str
    ledgers_per_batch: _Size
    batches_per_partition: _Size
    compression: str = "zstd"
    version: str = "1.0"

    def key_of(self, ledger: int) -> str:
        """The key of the object with a ledger, without its extension. Keys of newer ledgers sort first."""
        first = ledger - ledger % self.ledgers_per_batch
        name = f"{_LAST_LEDGER - first:08X}--{first}"
        if self.ledgers_per_batch > 1:
            name += f"-{first + self.ledgers_per_batch - 1}"
        if self.batches_per_partition == 1:
            return name
        size = self.ledgers_per_batch * self.batches_per_partition
        start = ledger - ledger % size
        return f"{_LAST_LEDGER - start:08X}--{start}-{start + size - 1}/{name}"


class Batch(Struct, frozen=True):
    """The content of one object: the ledgers ``first`` to ``last``, with their metas one after the other."""

    key: str
    first: int
    last: int
    metas: bytes


class Lake:
    """A lake that is open for reading. Threads fetch objects before they are needed. Sizes and retries are bounded."""

    def __init__(self, store: ObjectStore, config: LakeConfig, label: str) -> None:
        self._store = store
        self.config = config
        self.label = label

    @classmethod
    def open(cls, uri: str, config: LakeConfig | None = None) -> Lake:
        """Open the lake at an address. ``config`` is for a lake without a ``.config.json``.

        Raises `ConfigError` if there is no lake or it cannot be used, and `LakeError` if it cannot be read.
        """
        store, label = open_place(uri)
        lake = cls(store, config or LakeConfig("", 1, 1), label)
        if config is None:
            data = lake._get(CONFIG)
            if data is None:
                raise ConfigError(
                    f"{label} has no {CONFIG}, so it is not a ledger lake, or an old one without that file; if it is "
                    "one, give what the file would say with --lake-config, as JSON"
                )
            lake.config = decode_config(data, label)
        if lake.config.compression != "zstd":
            raise ConfigError(f"{label}: its objects are compressed with {lake.config.compression}, not with zstd")
        return lake

    def batches(
        self, first: int, last: int, *, ahead_bytes: int = LOOK_AHEAD_BYTES
    ) -> Iterator[tuple[int, Batch | DecodeError]]:
        """The objects of these ledgers, ascending: the first ledger of each, and its content or what is wrong with it.

        At most ``ahead_bytes`` and `MAX_AHEAD` objects are fetched before they are needed. Raises `LakeError` if an
        object cannot be fetched.
        """
        size = self.config.ledgers_per_batch
        starts = iter(range(first - first % size, last + 1, size))
        ahead = 1
        with ThreadPoolExecutor(max_workers=MAX_AHEAD) as pool:
            waiting: deque[tuple[int, Future[tuple[str, bytes]]]] = deque()
            while True:
                for start in islice(starts, max(ahead - len(waiting), 0)):
                    waiting.append((start, pool.submit(self._fetch, start)))
                if not waiting:
                    return
                start, future = waiting.popleft()
                try:
                    key, data = future.result()
                    ahead = min(max(ahead_bytes // max(len(data), 1), 1), MAX_AHEAD)
                    batch: Batch | DecodeError = open_batch(key, data, start, start + size - 1)
                except DecodeError as error:
                    batch = error
                yield start, batch

    def batch_of(self, ledger: int) -> Batch:
        """The object with a ledger. Raises `DecodeError` if it is missing or damaged, `LakeError` if fetching fails."""
        _, batch = next(self.batches(ledger, ledger))
        if isinstance(batch, DecodeError):
            raise batch
        return batch

    def close_of(self, ledger: int) -> tuple[int, int]:
        """The close time of a ledger in unix seconds, and its protocol version. Raises as `batch_of` does."""
        header = next(header_of(meta) for meta, number in split(self.batch_of(ledger)) if number == ledger)
        return header.close_time, header.protocol_version

    def _fetch(self, ledger: int) -> tuple[str, bytes]:
        name = self.config.key_of(ledger)
        for extension in EXTENSIONS:
            data = self._get(name + extension)
            if data is not None:
                return name + extension, data
        raise DecodeError(f"{self.label} has no object {name}{EXTENSIONS[0]}")

    def span(self) -> tuple[int, int]:
        """The oldest and the newest ledger, by the names of objects.

        Raises `LakeError` if the lake cannot be listed or has no objects.
        """
        try:
            partitions = self._listed("", "common_prefixes")
            ends = []
            for choose in (min, max):
                folder = "" if not partitions else self.config.key_of(choose(partitions)).rpartition("/")[0] + "/"
                objects = self._listed(folder, "objects")
                if not objects:
                    raise LakeError(f"{self.label} has no objects")
                ends.append(self.batch_of(choose(objects)))
        except (LakeError, DecodeError):
            raise
        except Exception as error:  # obstore's own errors have no common base
            raise LakeError(
                f"{self.label} cannot be listed ({type(error).__name__}); say with --from and --to which ledgers to "
                "read, by their numbers"
            ) from error
        return ends[0].first, ends[1].last

    def _listed(self, folder: str, what: str) -> list[int]:
        """The first ledger of each object or partition in a folder, by their names."""
        result: Any = self._store.list_with_delimiter(folder or None)
        names = (item if isinstance(item, str) else item["path"] for item in result[what])
        matches = (_NAME.search(str(name)) for name in names)
        return [int(match[1]) for match in matches if match is not None]

    def _get(self, key: str) -> bytes | None:
        """Fetch an object; None if there is none.

        Raises `DecodeError` if it is too large, `LakeError` if that fails.
        """
        for tries_left in reversed(range(TRIES)):
            try:
                answer: Any = self._store.get(key)
                size = answer.meta["size"]  # the answer never has more bytes than this
                if size > LAKE_OBJECT_BYTES:
                    raise DecodeError(f"{key} has {size:,} bytes, too many for a ledger object")
                return bytes(answer.bytes())
            except FileNotFoundError:
                return None
            except DecodeError:
                raise
            except Exception as error:  # obstore's own errors have no common base
                if not tries_left or isinstance(error, PermissionError):
                    kind = type(error).__name__
                    raise LakeError(f"{self.label}: {key} cannot be fetched ({kind}); try again later") from error
        raise AssertionError("the last try returns or raises")


_NAME = re.compile(r"(?:^|/)[0-9A-F]{8}--([0-9]{1,10})(?:-[0-9]{1,10})?(?:/|\.xdr\.zstd?|)$")


def decode_config(data: bytes, label: str) -> LakeConfig:
    """Decode a ``.config.json``. Raises `ConfigError` if it cannot be used."""
    try:
        return msgspec.json.decode(data, type=LakeConfig)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{label}: its {CONFIG} cannot be used: {error}") from error


def open_batch(key: str, data: bytes, first: int, last: int) -> Batch:
    """Decompress an object. Raises `DecodeError` if it is damaged, or does not have the ledgers that its key says."""
    try:
        raw = decompress(data, min(LAKE_BATCH_BYTES, (last - first + 1) * LAKE_LEDGER_BYTES))
        start, end, count = (int.from_bytes(raw[offset : offset + 4], "big") for offset in (0, 4, 8))
    except DecodeError as error:
        raise DecodeError(f"{key} is damaged: {error}") from error
    # Ledger 1, the genesis ledger, has no meta. The newest object of a lake may not be full yet.
    if not (max(first, 1) <= start <= end <= last and count == end - start + 1 and len(raw) > 12):
        raise DecodeError(f"{key} holds {count} ledgers from {start} to {end}, not those from {first} to {last}")
    return Batch(key, start, end, raw[12:])


def split(batch: Batch) -> Iterator[tuple[bytes, int]]:
    """The meta of each ledger in a batch, with its number. Raises `DecodeError` at once if they cannot be separated."""
    if batch.first == batch.last:  # the only meta ends where the bytes end
        yield batch.metas, batch.first
        return
    ends = [0]
    for _ in range(batch.first, batch.last + 1):
        ends.append(end_of(batch.metas, ends[-1]))
    for number, (begin, end) in enumerate(pairwise(ends), batch.first):
        yield batch.metas[begin:end], number


def open_place(
    uri: str, what: str = "lake", *, verified: bool = False, seconds: float | None = None
) -> tuple[ObjectStore, str]:
    """A reader of the objects below an address, and its name for people.

    Plain HTTP is accepted only if the caller says that everything is ``verified`` by digests. A request fails after
    ``seconds``; None for the library's default. Raises `ConfigError` for an address that is not accepted.
    """
    from obstore.store import HTTPStore, LocalStore, S3Store

    try:
        parts = urlsplit(uri)
    except ValueError:  # the address is not repeated, because it may hold a secret
        raise ConfigError(f"this is not the address of a {what}; use a folder, s3:// or https://") from None
    client: ClientConfig = {"allow_http": verified}
    bounds: dict[str, Any] = {}
    if seconds is not None:
        client["timeout"] = client["connect_timeout"] = timedelta(seconds=seconds)
        bounds = {"client_options": client, "retry_config": {"max_retries": 0}}
    if parts.scheme == "s3":
        check_aws()
        if parts.netloc == "aws-public-blockchain":
            bounds |= {"skip_signature": True, "region": PUBLIC_REGION}
        if re.fullmatch(_BUCKET, parts.netloc) is None:
            raise ConfigError(f"this is not the bucket of a {what}; write s3://bucket or s3://bucket/prefix")
        try:
            return S3Store(parts.netloc, prefix=parts.path.strip("/") or None, **bounds), uri
        except ValueError:
            raise ConfigError(
                f"this is not the prefix of a {what} in a bucket: it has an empty name, a dot for a name, or a "
                "character that no key has; write s3://bucket/prefix"
            ) from None
    if parts.scheme in ("https", "http"):
        if url_or_none(uri) is None:
            raise ConfigError(f"this is not the URL of a {what}: its host or port is invalid; write https://host/path")
        check_requests_to(uri)
        store = HTTPStore.from_url(uri.rstrip("/"), **{"client_options": client, **bounds})
        return store, f"the {what} at {parts.hostname}"
    if parts.scheme and len(parts.scheme) > 1:
        raise ConfigError(f"{parts.scheme}:// is not an address of a {what}; use a folder, s3:// or https://")
    folder = user_path(uri)
    if reason := no_folder(folder):
        raise ConfigError(f"{uri} {reason}, so it is not a {what}")
    return LocalStore(folder.resolve()), uri
