"""Extracts the changes of what is watched from a range of ledgers in a lake.

Ledgers whose objects are missing or damaged, or belong to another network or chain, are gaps. The result of a range is
stored as two files: a `LedgerRange`, and its `LedgerChanges`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec
import pyarrow as pa
from msgspec import Struct

from exporter.bounds import CHANGES_BYTES, decompress
from exporter.deployments.networks import network_id
from exporter.errors import DecodeError, StoreError
from exporter.ledger.codec.entries import ledger_key_end, ttl_key
from exporter.ledger.codec.ledger_header import LedgerHeader, require_known_protocol
from exporter.past.lake.close_meta import EVENT, STATE, Change, header_of, walk
from exporter.past.lake.closing_value import check_closing_value
from exporter.past.lake.objects import LOOK_AHEAD_BYTES, Lake, LakeConfig, split
from exporter.past.lake.watch import Watch

_TTL = b"\0\0\0\x09"


class Gap(msgspec.Struct, frozen=True, order=True):
    """A span of unknown ledgers, and the reason why they are unknown."""

    first: int
    last: int
    reason: str


class LedgerRange(msgspec.Struct, frozen=True):
    """What is known of a range of ledgers.

    Attributes:
        previous_hash: the hash of the ledger before the range, in hex; empty if the first ledger is a gap.
        last_hash: the hash of the last ledger, in hex; empty if that is a gap.
        ledgers: the close time in unix seconds and the protocol version of each ledger that is no gap, ascending.
        gaps: the ledgers about which nothing is known.
        touched: the number of ledgers that were walked, because they may have changed something that is watched.
    """

    previous_hash: str
    last_hash: str
    ledgers: dict[int, tuple[int, int]]
    gaps: tuple[Gap, ...]
    touched: int


class LedgerChanges(msgspec.Struct, frozen=True, array_like=True):
    """The changes in a ledger of what is watched, in their order.

    Each has its index among all changes of the ledger. ``close_time`` is in unix seconds.
    """

    ledger: int
    close_time: int
    protocol: int
    changes: list[tuple[int, Change]]


Content = TypeVar("Content")


def pack(content: LedgerRange | Sequence[LedgerChanges]) -> bytes:
    """The content of a file: compressed MessagePack. The same content always gives the same bytes."""
    return bytes(pa.compress(msgspec.msgpack.encode(content), codec="zstd", asbytes=True))


def unpack(data: bytes, content: type[Content], name: str) -> Content:
    """Decode a file that `pack` made. Raises `StoreError`, which names the file, for any other file."""
    try:
        return msgspec.msgpack.decode(decompress(data, CHANGES_BYTES), type=content)
    except (DecodeError, msgspec.DecodeError, RecursionError) as error:
        raise StoreError(f"{name} is not a file of changes of this version: {error}; remove it") from error


class RangeOfLedgers(Struct, frozen=True):
    """A piece of work for a worker.

    Attributes:
        name: the name of the files of its result.
        lake: the address of the lake.
        config: the lake's configuration, if it has no file with it.
        passphrase: the network.
        first: the first ledger of the range.
        last: the last ledger of the range.
        watch: what is watched.
        ahead_bytes: how many bytes of objects may be fetched before they are needed.
    """

    name: str
    lake: str
    config: LakeConfig | None
    passphrase: str
    first: int
    last: int
    watch: Watch
    ahead_bytes: int = LOOK_AHEAD_BYTES

    __repr__ = object.__repr__  # the watch of one is as large as the network


def extract(work: RangeOfLedgers) -> tuple[LedgerRange, bytes]:
    """Extract a range. Returns what is known of it, and the file of its changes.

    Raises `LakeError` if an object cannot be fetched.
    """
    watch, chain = work.watch, _Chain(work.passphrase)
    changed: list[LedgerChanges] = []
    touched = 0
    for meta, ledger in _metas(work, chain):
        try:
            header = chain.follow(meta, ledger)
            if watch.touched_by(meta):
                walked = walk(meta, watch.events_of).changes
                keys = {change.key for change in walked if change.key[:4] != _TTL and watch.wants(change.key)}
                keys |= {ttl_key(key) for key in (*keys, *_named_keys(watch, meta))}
                changes = [
                    (index, each)
                    for index, each in enumerate(walked)
                    if each.kind == EVENT or (each.kind != STATE and each.key in keys)
                ]
                if changes:
                    changed.append(LedgerChanges(ledger, header.close_time, header.protocol_version, changes))
                touched += 1
        except DecodeError as error:
            chain.lose(ledger, ledger, str(error))
            continue
        chain.take(header)
    first, last = chain.first, chain.last
    extracted = LedgerRange(
        first.previous_hash.hex() if first is not None and first.ledger == work.first else "",
        last.hash.hex() if last is not None and last.ledger == work.last else "",
        chain.ledgers,
        tuple(sorted(chain.gaps)),
        touched,
    )
    return extracted, pack(changed)


def _metas(work: RangeOfLedgers, chain: _Chain) -> Iterator[tuple[bytes, int]]:
    """The meta of each ledger, with its number. Ledgers whose meta is missing or damaged are gaps of the chain."""
    lake = Lake.open(work.lake, work.config)
    size = lake.config.ledgers_per_batch
    for start, batch in lake.batches(work.first, work.last, ahead_bytes=work.ahead_bytes):
        first, last = max(start, work.first), min(start + size - 1, work.last)
        try:
            if isinstance(batch, DecodeError):
                raise batch
            for meta, number in split(batch):
                if first <= number <= last:
                    yield meta, number
        except DecodeError as error:
            chain.lose(first, last, str(error))
            continue
        for begin, end in ((first, batch.first - 1), (max(batch.last + 1, first), last)):
            if begin <= min(end, last):
                chain.lose(begin, min(end, last), f"{batch.key} does not have it")


def _named_keys(watch: Watch, meta: bytes) -> Iterator[bytes]:
    """The watched keys that a ledger names anywhere.

    A change of a time to live has only the hash of the key. So the keys themselves have to be found in another way.
    """
    for position in watch.positions(meta):
        with suppress(DecodeError):  # these bytes only look like a key
            key = meta[position : ledger_key_end(meta, position)]
            if watch.wants(key):
                yield key


class _Chain:
    """Follows the headers of a range.

    Each must name the one before, and have a value that was signed for the network.
    """

    def __init__(self, passphrase: str) -> None:
        self._passphrase = passphrase
        self._network = bytes.fromhex(network_id(passphrase))
        self.first: LedgerHeader | None = None
        self.last: LedgerHeader | None = None
        self.ledgers: dict[int, tuple[int, int]] = {}
        self.gaps: list[Gap] = []

    def follow(self, meta: bytes, ledger: int) -> LedgerHeader:
        """The header of the next ledger. Raises `DecodeError` if it does not follow, or is of another network."""
        header = header_of(meta)
        if header.ledger != ledger:
            raise DecodeError(f"the header is of ledger {header.ledger}, not of {ledger}")
        require_known_protocol(header)
        previous = self.last if self.last is not None and self.last.ledger == ledger - 1 else None
        follows = previous is not None and header.previous_hash == previous.hash
        try:
            check_closing_value(header, self._network, previous if follows else None)
        except DecodeError as error:
            raise DecodeError(f"it is damaged, or of another network than {self._passphrase!r}: {error}") from None
        if previous is not None and not follows:
            raise DecodeError(f"it does not follow ledger {ledger - 1}: its header names another one before it")
        return header

    def take(self, header: LedgerHeader) -> None:
        """Accept a ledger as the last one of the chain."""
        self.first, self.last = self.first or header, header
        self.ledgers[header.ledger] = header.close_time, header.protocol_version

    def lose(self, first: int, last: int, reason: str) -> None:
        """Record a gap."""
        self.gaps.append(Gap(first, last, reason))
