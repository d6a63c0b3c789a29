"""Extracting the changes of what is watched from a range of a lake's ledgers.

Objects that are missing, damaged, of another network or of another chain are gaps, with their reason. What came of a
range is kept as two files: a `LedgerRange`, and `LedgerChanges`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import pyarrow as pa

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
    """Ledgers about which nothing is known, and the reason."""

    first: int
    last: int
    reason: str


class LedgerRange(msgspec.Struct, frozen=True):
    """What is known of a range of ledgers.

    ``previous_hash`` is the hash that it follows, ``last_hash`` the one it ends with (hex; empty where that ledger is a
    gap). ``ledgers`` has each ledger's close time in unix seconds and its protocol, ascending, without the gaps.
    ``touched`` is how many of them were walked.
    """

    previous_hash: str
    last_hash: str
    ledgers: dict[int, tuple[int, int]]
    gaps: tuple[Gap, ...]
    touched: int


class LedgerChanges(msgspec.Struct, frozen=True, array_like=True):
    """A ledger's changes of what is watched, in their order, each with its place among all changes of the ledger."""

    ledger: int
    close_time: int
    protocol: int
    changes: list[tuple[int, Change]]


Content = TypeVar("Content")


def packed(content: LedgerRange | Sequence[LedgerChanges]) -> bytes:
    """The bytes of a file: the same for the same content."""
    return bytes(pa.compress(msgspec.msgpack.encode(content), codec="zstd", asbytes=True))


def unpacked(data: bytes, content: type[Content], name: str) -> Content:
    """The content of a file of this machine's or cluster's own. Raises `StoreError` with its name."""
    try:
        return msgspec.msgpack.decode(decompress(data, CHANGES_BYTES), type=content)
    except (DecodeError, msgspec.DecodeError, RecursionError) as error:
        raise StoreError(f"{name} is not a file of changes of this version: {error}; remove it") from error


@dataclass(frozen=True, slots=True)
class RangeOfLedgers:
    """A piece of work: the name of its files, which ledgers of which lake, and what is watched in them.

    ``ahead_bytes`` is how many bytes of objects may be fetched before they are needed.
    """

    name: str
    lake: str
    config: LakeConfig | None
    passphrase: str
    first: int
    last: int
    watch: Watch = field(repr=False)
    ahead_bytes: int = LOOK_AHEAD_BYTES


def extract(work: RangeOfLedgers) -> tuple[LedgerRange, bytes]:
    """The range, and the file of its changes. Raises `LakeError` where an object cannot be fetched."""
    watch, chain = work.watch, _Chain(work.passphrase)
    changed: list[LedgerChanges] = []
    touched = 0
    for meta, ledger in _metas(work, chain):
        try:
            header = chain.follow(meta, ledger)
            if watch.touched_by(meta):
                # Changes of what is watched and of its times to live, each with its place in the ledger.
                walked = walk(meta, watch.events_of).changes
                wanted = {change.key for change in walked if change.key[:4] != _TTL and watch.wants(change.key)}
                wanted |= {ttl_key(key) for key in (*wanted, *_named_keys(watch, meta))}
                changes = [
                    (order, each)
                    for order, each in enumerate(walked)
                    if each.kind == EVENT or (each.kind != STATE and each.key in wanted)
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
    return extracted, packed(changed)


def _metas(work: RangeOfLedgers, chain: _Chain) -> Iterator[tuple[bytes, int]]:
    """Each ledger's meta, with its number; those that cannot be had are noted as lost."""
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
    """The watched keys that a ledger names anywhere: only so it is known whose a time to live is."""
    for place in watch.places(meta):
        with suppress(DecodeError):  # these bytes only look like a key
            key = meta[place : ledger_key_end(meta, place)]
            if watch.wants(key):
                yield key


class _Chain:
    """Follows the headers: each must name the one before, and its closing value be signed for this network."""

    def __init__(self, passphrase: str) -> None:
        self._passphrase = passphrase
        self._network = bytes.fromhex(network_id(passphrase))
        self.first: LedgerHeader | None = None
        self.last: LedgerHeader | None = None
        self.ledgers: dict[int, tuple[int, int]] = {}
        self.gaps: list[Gap] = []

    def follow(self, meta: bytes, ledger: int) -> LedgerHeader:
        """The header of a ledger that is to follow. Raises `DecodeError` where it does not, or is another network's."""
        header = header_of(meta)
        if header.ledger != ledger:
            raise DecodeError(f"the header is of ledger {header.ledger}, not of {ledger}")
        require_known_protocol(header)
        before = self.last if self.last is not None and self.last.ledger == ledger - 1 else None
        follows = before is not None and header.previous_hash == before.hash
        try:
            check_closing_value(header, self._network, before if follows else None)
        except DecodeError as error:
            raise DecodeError(f"it is damaged, or of another network than {self._passphrase!r}: {error}") from None
        if before is not None and not follows:
            raise DecodeError(f"it does not follow ledger {ledger - 1}: its header names another one before it")
        return header

    def take(self, header: LedgerHeader) -> None:
        self.first, self.last = self.first or header, header
        self.ledgers[header.ledger] = header.close_time, header.protocol_version

    def lose(self, first: int, last: int, reason: str) -> None:
        self.gaps.append(Gap(first, last, reason))
