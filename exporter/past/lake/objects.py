"""Where a lake's ledgers lie: the objects of SEP-54 in a folder, a bucket or behind HTTPS, and what is in them.

    lake = Lake.open("s3://aws-public-blockchain/v1.1/stellar/ledgers/pubnet")
    for raw in lake.batches(53_312_000, 53_312_063): ...

An object is one zstd frame of a LedgerCloseMetaBatch: the first ledger, the last, how many, and their metas.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec
import pyarrow as pa
from msgspec import Meta, Struct

from exporter.errors import ConfigError, DamagedLedgerError, DecodeError, LakeError, MissingLedgerError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

CONFIG = ".config.json"
MAX_OBJECT_BYTES = 256 * 2**20
MAX_BATCH_BYTES = 2**30
CHUNK_BYTES = 2**20
ENDINGS = (".xdr.zst", ".xdr.zstd")
"""Of today's exporters, and of those before their version 23."""
PUBLIC_REGION = "us-east-2"
TRIES = 5
_LAST_LEDGER = 0xFFFFFFFF

_Size = Annotated[int, Meta(ge=1, le=10_000_000)]


class LakeConfig(Struct, frozen=True, rename="camel"):
    """What a lake says of itself in its ``.config.json``. Fields that are not known are ignored."""

    network_passphrase: str
    ledgers_per_batch: _Size
    batches_per_partition: _Size
    compression: str = "zstd"

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
    """The ledgers of one object: ``first`` to ``last``, as their metas, one after the other, from ``start`` on."""

    key: str
    first: int
    last: int
    raw: bytes
    start: int = 12


class Lake:
    """A lake that is open for reading. Objects are fetched some ahead, in threads; every size and retry is bounded."""

    def __init__(self, store: ObjectStore, config: LakeConfig, label: str) -> None:
        self._store = store
        self.config = config
        self.label = label
        self._ending: str | None = None

    @classmethod
    def open(cls, uri: str, config: LakeConfig | None = None) -> Lake:
        """Open a lake by the address of its folder.

        Args:
            uri: a folder, ``s3://bucket/prefix`` (asked anonymously unless AWS credentials are in the environment), or
                ``https://``.
            config: what the lake's own ``.config.json`` would say, where it has none.

        Raises:
            ConfigError: the address is not one of a lake, or there is no usable ``.config.json``.
            LakeError: it cannot be read.
        """
        store, label = open_place(uri)
        lake = cls(store, config or LakeConfig("", 1, 1), label)
        if config is None:
            data = lake._get(CONFIG)
            if data is None:
                raise ConfigError(
                    f"{label} has no {CONFIG}, so it is no ledger lake, or one of before exporters wrote it; say what "
                    "it would say with --lake-config, as JSON"
                )
            lake.config = decode_config(data, label)
        if lake.config.compression != "zstd":
            raise ConfigError(f"{label}: its objects are compressed with {lake.config.compression}; only zstd is known")
        return lake

    def batches(self, first: int, last: int, *, ahead: int = 16) -> Iterator[Batch]:
        """The objects that hold the ledgers from ``first`` to ``last``, ascending.

        Raises:
            MissingLedgerError: an object is not there; ask again from its last ledger + 1 on to go over the gap.
            LakeError: one cannot be fetched, or is not what its key says.
        """
        size = self.config.ledgers_per_batch
        starts = iter(range(first - first % size, last + 1, size))
        with ThreadPoolExecutor(max_workers=ahead) as pool:
            waiting: deque[tuple[int, Future[Batch]]] = deque()
            try:
                while True:
                    while len(waiting) < ahead and (start := next(starts, None)) is not None:
                        waiting.append((start, pool.submit(self.batch_of, start)))
                    if not waiting:
                        return
                    yield waiting.popleft()[1].result()
            finally:
                for _, future in waiting:
                    future.cancel()

    def batch_of(self, ledger: int) -> Batch:
        """The object that holds a ledger. Raises `MissingLedgerError`, `LakeError`."""
        size = self.config.ledgers_per_batch
        first = ledger - ledger % size
        name = self.config.key_of(ledger)
        endings = ENDINGS if self._ending is None else (self._ending, *(set(ENDINGS) - {self._ending}))
        for ending in endings:
            data = self._get(name + ending)
            if data is not None:
                self._ending = ending
                return open_batch(name + ending, data, first, first + size - 1)
        raise MissingLedgerError(f"{self.label} has no object {name}{ENDINGS[0]}", max(first, 1), first + size - 1)

    def span(self) -> tuple[int, int]:
        """The oldest and the newest ledger, as the names of objects tell. Raises `LakeError` where nothing does."""
        try:
            partitions = [_first_of(str(name)) for name in self._listed("", "common_prefixes")]
            ends = []
            for wanted in (min, max):
                found = [first for first in partitions if first is not None]
                folder = "" if not found else self.config.key_of(wanted(found)).rpartition("/")[0] + "/"
                objects = [first for name in self._listed(folder, "objects") if (first := _first_of(name)) is not None]
                if not objects:
                    raise LakeError(f"{self.label} has no objects")
                ends.append(self.batch_of(wanted(objects)))
        except LakeError:
            raise
        except Exception as error:  # as in _get
            raise LakeError(
                f"{self.label} cannot be listed ({type(error).__name__}); say with --from and --to which ledgers to "
                "read, by their numbers"
            ) from error
        return ends[0].first, ends[1].last

    def _listed(self, folder: str, what: str) -> list[str]:
        result: Any = self._store.list_with_delimiter(folder or None)
        return [item if isinstance(item, str) else item["path"] for item in result[what]]

    def _get(self, key: str) -> bytes | None:
        for left in reversed(range(TRIES)):
            try:
                got: Any = self._store.get(key)
                if got.meta["size"] > MAX_OBJECT_BYTES:
                    raise DamagedLedgerError(
                        f"{self.label}: {key} has {got.meta['size']:,} bytes, too many for a ledger object"
                    )
                return bytes(got.bytes())
            except FileNotFoundError:
                return None
            except LakeError:
                raise
            except Exception as error:  # obstore's own errors have no common base that tells what to try again
                if not left or isinstance(error, PermissionError):
                    kind = type(error).__name__
                    raise LakeError(f"{self.label}: {key} cannot be fetched ({kind}); try again later") from error
        raise AssertionError("the last try returns or raises")


_NAME = re.compile(r"(?:^|/)[0-9A-F]{8}--([0-9]{1,10})(?:-[0-9]{1,10})?(?:/|\.xdr\.zstd?|)$")


def _first_of(name: str) -> int | None:
    """The first ledger of a partition or a batch, by its name; None for the name of anything else."""
    match = _NAME.search(name)
    return None if match is None else int(match[1])


def decode_config(data: bytes, label: str) -> LakeConfig:
    """A ``.config.json``. Raises `ConfigError`."""
    try:
        return msgspec.json.decode(data, type=LakeConfig)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{label}: its {CONFIG} cannot be used: {error}") from error


def open_batch(key: str, data: bytes, first: int, last: int) -> Batch:
    """Decompress an object, and see that it holds the ledgers that its key says. Raises `DamagedLedgerError`."""
    try:
        raw = decompress(data)
        start, end, count = (int.from_bytes(raw[at : at + 4], "big") for at in (0, 4, 8))
    except (DecodeError, OSError, pa.ArrowException) as error:
        raise DamagedLedgerError(f"{key} is damaged: {error}") from error
    # Ledger 1 is the genesis, of which there is no meta, and the newest batch of a lake may not be full yet.
    if not (max(first, 1) <= start <= end <= last and count == end - start + 1 and len(raw) > 12):
        raise DamagedLedgerError(f"{key} holds {count} ledgers from {start} to {end}, not those from {first} to {last}")
    return Batch(key, start, end, raw)


def decompress(data: bytes) -> bytes:
    """A zstd frame's content, within `MAX_BATCH_BYTES`; frames need not state its size. Raises `DecodeError`."""
    parts, total = [], 0
    with pa.input_stream(pa.py_buffer(data), compression="zstd") as stream:
        while part := stream.read(CHUNK_BYTES if total else 4 * CHUNK_BYTES):
            total += len(part)
            if total > MAX_BATCH_BYTES:
                raise DecodeError(f"it has more than {MAX_BATCH_BYTES:,} bytes when decompressed")
            parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def open_place(uri: str, what: str = "lake", *, verified: bool = False) -> tuple[ObjectStore, str]:
    """What reads objects below an address, and a name of it for people. Raises `ConfigError`.

    Plain HTTP will do where everything read is ``verified`` by its digest.
    """
    from obstore.store import HTTPStore, LocalStore, S3Store

    parts = urlsplit(uri)
    if parts.scheme == "s3":
        anonymous = parts.netloc == "aws-public-blockchain"
        options: dict[str, Any] = {"skip_signature": True, "region": PUBLIC_REGION} if anonymous else {}
        return S3Store(parts.netloc, prefix=parts.path.strip("/") or None, **options), uri
    if parts.scheme in ("https", "http"):
        place = HTTPStore.from_url(uri.rstrip("/"), client_options={"allow_http": verified})
        return place, f"the {what} at {parts.hostname}"
    if parts.scheme and len(parts.scheme) > 1:
        raise ConfigError(f"{parts.scheme}:// is no address of a {what}; use a folder, s3:// or https://")
    folder = Path(uri)
    if not folder.is_dir():
        raise ConfigError(f"{uri} is no folder, so no {what}")
    return LocalStore(folder.resolve()), uri
