"""The objects of a lake (SEP-54) in a folder, a bucket or behind HTTPS, and the metas of ledgers in them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from exporter.bounds import LAKE_BATCH_BYTES, LAKE_LEDGER_BYTES, LAKE_OBJECT_BYTES, decompress
from exporter.errors import ConfigError, DecodeError, LakeError
from exporter.http_environment import check_aws, check_requests_to
from exporter.past.lake.close_meta import end_of, header_of
from exporter.user_files import user_path

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore

CONFIG = ".config.json"
AHEAD = 16
LOOK_AHEAD_BYTES = 2**30
"""Compressed bytes that all workers of a machine may have fetched and not yet read."""
ENDINGS = (".xdr.zst", ".xdr.zstd")
"""Endings of objects' names: by today's exporters of ledgers, and by those before version 23."""
PUBLIC_REGION = "us-east-2"
TRIES = 5
_LAST_LEDGER = 0xFFFFFFFF

_Size = Annotated[int, Meta(ge=1, le=10_000_000)]


class LakeConfig(Struct, frozen=True, rename="camel"):
    """A lake's own ``.config.json``. Fields that are not known are ignored."""

    network_passphrase: str
    ledgers_per_batch: _Size
    batches_per_partition: _Size
    compression: str = "zstd"
    version: str = "1.0"

    def key_of(self, ledger: int) -> str:
        """The key of the object that holds a ledger, without its ending: the newest sort first."""
        first = ledger - ledger % self.ledgers_per_batch
        name = f"{_LAST_LEDGER - first:08X}--{first}"
        if self.ledgers_per_batch > 1:
            name += f"-{first + self.ledgers_per_batch - 1}"
        if self.batches_per_partition == 1:
            return name
        size = self.ledgers_per_batch * self.batches_per_partition
        start = ledger - ledger % size
        return f"{_LAST_LEDGER - start:08X}--{start}-{start + size - 1}/{name}"


@dataclass(frozen=True, slots=True)
class Batch:
    """The ledgers of one object: ``first`` to ``last``, and their metas, one after the other."""

    key: str
    first: int
    last: int
    metas: bytes


class Lake:
    """A lake that is open for reading. Objects are fetched some ahead, in threads; every size and retry is bounded."""

    def __init__(self, store: ObjectStore, config: LakeConfig, label: str) -> None:
        self._store = store
        self.config = config
        self.label = label

    @classmethod
    def open(cls, uri: str, config: LakeConfig | None = None) -> Lake:
        """Open a lake: ``config`` is for one without a ``.config.json``. Raises `ConfigError`, `LakeError`."""
        store, label = open_place(uri)
        lake = cls(store, config or LakeConfig("", 1, 1), label)
        if config is None:
            data = lake._get(CONFIG)
            if data is None:
                raise ConfigError(
                    f"{label} has no {CONFIG}, so it is not a ledger lake, or an old one without that file; say what "
                    "it would say with --lake-config, as JSON"
                )
            lake.config = decode_config(data, label)
        if lake.config.compression != "zstd":
            raise ConfigError(f"{label}: its objects are compressed with {lake.config.compression}; only zstd is known")
        return lake

    def batches(
        self, first: int, last: int, *, ahead_bytes: int = LOOK_AHEAD_BYTES
    ) -> Iterator[tuple[int, Batch | DecodeError]]:
        """The objects of these ledgers, ascending: the first ledger by the key, and the content or what is wrong.

        They are fetched ahead, up to ``ahead_bytes`` and `AHEAD` of them. Raises `LakeError` where that fails.
        """
        size = self.config.ledgers_per_batch
        starts = iter(range(first - first % size, last + 1, size))
        ahead = 1
        with ThreadPoolExecutor(max_workers=AHEAD) as pool:
            waiting: deque[tuple[int, Future[tuple[str, bytes]]]] = deque()
            try:
                while True:
                    for start in islice(starts, max(ahead - len(waiting), 0)):
                        waiting.append((start, pool.submit(self._fetch, start)))
                    if not waiting:
                        return
                    start, future = waiting.popleft()
                    try:
                        key, data = future.result()
                        ahead = min(max(ahead_bytes // max(len(data), 1), 1), AHEAD)
                        batch: Batch | DecodeError = open_batch(key, data, start, start + size - 1)
                    except DecodeError as error:
                        batch = error
                    yield start, batch
            finally:
                for _, future in waiting:
                    future.cancel()

    def batch_of(self, ledger: int) -> Batch:
        """The object that holds a ledger. Raises `DecodeError`, `LakeError`."""
        _, batch = next(self.batches(ledger, ledger))
        if isinstance(batch, DecodeError):
            raise batch
        return batch

    def close_of(self, ledger: int) -> tuple[int, int]:
        """When a ledger closed, in unix seconds, and its protocol. Raises `LakeError`, `DecodeError`."""
        header = next(header_of(meta) for meta, number in split(self.batch_of(ledger)) if number == ledger)
        return header.close_time, header.protocol_version

    def _fetch(self, ledger: int) -> tuple[str, bytes]:
        name = self.config.key_of(ledger)
        for ending in ENDINGS:
            data = self._get(name + ending)
            if data is not None:
                return name + ending, data
        raise DecodeError(f"{self.label} has no object {name}{ENDINGS[0]}")

    def span(self) -> tuple[int, int]:
        """The oldest and the newest ledger, by the names of objects. Raises `LakeError` where no name gives one."""
        try:
            partitions = self._listed("", "common_prefixes")
            ends = []
            for wanted in (min, max):
                folder = "" if not partitions else self.config.key_of(wanted(partitions)).rpartition("/")[0] + "/"
                objects = self._listed(folder, "objects")
                if not objects:
                    raise LakeError(f"{self.label} has no objects")
                ends.append(self.batch_of(wanted(objects)))
        except (LakeError, DecodeError):
            raise
        except Exception as error:  # obstore raises what it does in `_get`
            raise LakeError(
                f"{self.label} cannot be listed ({type(error).__name__}); say with --from and --to which ledgers to "
                "read, by their numbers"
            ) from error
        return ends[0].first, ends[1].last

    def _listed(self, folder: str, what: str) -> list[int]:
        """The first ledgers of the objects in a folder, by their names."""
        result: Any = self._store.list_with_delimiter(folder or None)
        names = (item if isinstance(item, str) else item["path"] for item in result[what])
        return [int(found[1]) for name in names if (found := _NAME.search(str(name)))]

    def _get(self, key: str) -> bytes | None:
        for left in reversed(range(TRIES)):
            try:
                got: Any = self._store.get(key)  # this reader never gives more than that size
                if got.meta["size"] > LAKE_OBJECT_BYTES:
                    raise DecodeError(f"{key} has {got.meta['size']:,} bytes, too many for a ledger object")
                return bytes(got.bytes())
            except FileNotFoundError:
                return None
            except DecodeError:
                raise
            except Exception as error:  # obstore's own errors have no common base that says what to try again
                if not left or isinstance(error, PermissionError):
                    kind = type(error).__name__
                    raise LakeError(f"{self.label}: {key} cannot be fetched ({kind}); try again later") from error
        raise AssertionError("the last try returns or raises")


_NAME = re.compile(r"(?:^|/)[0-9A-F]{8}--([0-9]{1,10})(?:-[0-9]{1,10})?(?:/|\.xdr\.zstd?|)$")


def decode_config(data: bytes, label: str) -> LakeConfig:
    """A ``.config.json``. Raises `ConfigError`."""
    try:
        return msgspec.json.decode(data, type=LakeConfig)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{label}: its {CONFIG} cannot be used: {error}") from error


def open_batch(key: str, data: bytes, first: int, last: int) -> Batch:
    """Decompress an object, and see that it holds the ledgers that its key says. Raises `DecodeError`."""
    try:
        raw = decompress(data, min(LAKE_BATCH_BYTES, (last - first + 1) * LAKE_LEDGER_BYTES))
        start, end, count = (int.from_bytes(raw[at : at + 4], "big") for at in (0, 4, 8))
    except DecodeError as error:
        raise DecodeError(f"{key} is damaged: {error}") from error
    # Ledger 1 is the genesis and has no meta; the newest batch of a lake may not be full yet.
    if not (max(first, 1) <= start <= end <= last and count == end - start + 1 and len(raw) > 12):
        raise DecodeError(f"{key} holds {count} ledgers from {start} to {end}, not those from {first} to {last}")
    return Batch(key, start, end, raw[12:])


def split(batch: Batch) -> Iterator[tuple[bytes, int]]:
    """The metas of a batch. Raises `DecodeError` before the first where they cannot be separated."""
    if batch.first == batch.last:  # the only ledger of the batch ends where the bytes end
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
    """A reader of objects below an address, and its name for people. Raises `ConfigError`.

    Plain HTTP is allowed where all is ``verified`` by digests. A request fails after ``seconds``; None: the library's.
    """
    from obstore.store import HTTPStore, LocalStore, S3Store

    parts = urlsplit(uri)
    client: ClientConfig = {"allow_http": verified}
    bounds: dict[str, Any] = {}
    if seconds is not None:
        client["timeout"] = client["connect_timeout"] = timedelta(seconds=seconds)
        bounds = {"client_options": client, "retry_config": {"max_retries": 0}}
    if parts.scheme == "s3":
        check_aws()
        if parts.netloc == "aws-public-blockchain":
            bounds |= {"skip_signature": True, "region": PUBLIC_REGION}
        return S3Store(parts.netloc, prefix=parts.path.strip("/") or None, **bounds), uri
    if parts.scheme in ("https", "http"):
        check_requests_to(uri)
        place = HTTPStore.from_url(uri.rstrip("/"), **{"client_options": client, **bounds})
        return place, f"the {what} at {parts.hostname}"
    if parts.scheme and len(parts.scheme) > 1:
        raise ConfigError(f"{parts.scheme}:// is not an address of a {what}; use a folder, s3:// or https://")
    folder = user_path(uri)
    if not folder.is_dir():
        raise ConfigError(f"{uri} is not a folder, so it is not a {what}")
    return LocalStore(folder.resolve()), uri
