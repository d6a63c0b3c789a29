"""The work on a range of ledgers: out of the lake's objects, the changes of what is watched.

Objects that are missing, damaged, of another network or of another chain are gaps, with their reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from exporter.deployments.networks import network_id
from exporter.errors import DamagedLedgerError, DecodeError, MissingLedgerError
from exporter.ledger.codec.entries import ledger_key_end, ttl_key
from exporter.ledger.codec.ledger_header import LedgerHeader
from exporter.past.lake.change_files import Gap, LedgerChanges, LedgerRange, packed
from exporter.past.lake.close_meta import EVENT, STATE, header_of, walk
from exporter.past.lake.objects import LOOK_AHEAD_BYTES, Lake, LakeConfig, split
from exporter.past.lake.watch import Watch

_TTL = b"\0\0\0\x09"


@dataclass(frozen=True, slots=True)
class RangeOfLedgers:
    """A piece of work: which ledgers of which lake, and what is watched in them."""

    lake: str
    config: LakeConfig | None
    passphrase: str
    first: int
    last: int
    watch: Watch = field(repr=False)
    ahead_bytes: int = LOOK_AHEAD_BYTES
    """How many bytes of objects may be fetched before they are needed."""

    @property
    def name(self) -> str:
        return f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Extracted:
    """The two files of a range (`exporter.past.lake.change_files`), the first also taken apart."""

    ledgers: LedgerRange
    changes: bytes = field(repr=False)


def extract(work: RangeOfLedgers) -> Extracted:
    """Extract a range. Raises `LakeError` where an object cannot be fetched: that says nothing about it."""
    lake = Lake.open(work.lake, work.config)
    watch = work.watch
    chain = _Chain(work.passphrase)
    ledgers: dict[int, tuple[int, int]] = {}
    changed: list[LedgerChanges] = []
    touched = 0
    for meta, ledger in _metas(lake, work, chain):
        try:
            header = chain.follow(meta, ledger)
            if watch.touched_by(meta):
                # Of what is watched, and of its times to live, each with its place in the ledger.
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
        ledgers[ledger] = header.close_time, header.protocol_version
    ends = chain.ends(work.first, work.last)
    return Extracted(LedgerRange(work.first, work.last, *ends, ledgers, tuple(chain.gaps), touched), packed(changed))


def _metas(lake: Lake, work: RangeOfLedgers, chain: _Chain) -> Iterator[tuple[bytes, int]]:
    """Each ledger's meta, with its number; those that cannot be had are noted as lost."""
    size = lake.config.ledgers_per_batch
    ledger = work.first
    while ledger <= work.last:
        try:
            for batch in lake.batches(ledger, work.last, ahead_bytes=work.ahead_bytes):
                for meta, number in split(batch):
                    if ledger <= number <= work.last:
                        yield meta, number
                begin = ledger
                ledger = batch.first - batch.first % size + size
                for first, last in ((begin, batch.first - 1), (max(begin, batch.last + 1), ledger - 1)):
                    if first <= min(last, work.last):
                        chain.lose(first, min(last, work.last), f"{batch.key} does not have it")
        except MissingLedgerError as error:
            chain.lose(ledger, min(error.last, work.last), str(error))
            ledger = error.last + 1
        except (DamagedLedgerError, DecodeError) as error:
            last = ledger - ledger % size + size - 1
            chain.lose(ledger, min(last, work.last), str(error))
            ledger = last + 1


def _named_keys(watch: Watch, meta: bytes) -> Iterator[bytes]:
    """The watched keys that a ledger names anywhere: only so it is known whose a time to live is."""
    for place in watch.places(meta):
        with suppress(DecodeError):  # bytes that only look like one
            key = meta[place : ledger_key_end(meta, place)]
            if watch.wants(key):
                yield key


class _Chain:
    """Follows the headers: each must name the one before, and the first after a gap be signed for this network."""

    def __init__(self, passphrase: str) -> None:
        self._network_id = bytes.fromhex(network_id(passphrase))
        self._network = passphrase
        self._last: LedgerHeader | None = None
        self._first: LedgerHeader | None = None
        self.gaps: list[Gap] = []

    def follow(self, meta: bytes, ledger: int) -> LedgerHeader:
        """The header of a ledger that is to follow. Raises `DecodeError` where it does not, or is another network's."""
        header = header_of(meta)
        if header.ledger != ledger:
            raise DecodeError(f"the header is of ledger {header.ledger}, not of {ledger}")
        if self._last is not None and self._last.ledger == ledger - 1 and header.previous_hash == self._last.hash:
            return header
        if signed_for(header, self._network_id) is False:
            raise DecodeError(f"it is of another network than {self._network!r}")
        if self._last is not None and self._last.ledger == ledger - 1:
            raise DecodeError(f"it does not follow ledger {ledger - 1}: its header names another one before it")
        return header

    def take(self, header: LedgerHeader) -> None:
        self._first = self._first or header
        self._last = header

    def lose(self, first: int, last: int, reason: str) -> None:
        self.gaps.append(Gap(first, last, reason))

    def ends(self, first: int, last: int) -> tuple[str, str]:
        """The hash that the range follows, and the one it ends with; empty where that ledger is lost."""
        begin, end = self._first, self._last
        return (
            begin.previous_hash.hex() if begin is not None and begin.ledger == first else "",
            end.hash.hex() if end is not None and end.ledger == last else "",
        )


def signed_for(header: LedgerHeader, network: bytes) -> bool | None:
    """Whether the closing value is signed for a network (its id); None where a header carries no signature.

    It shows which network a header was made for, and not that the network agreed on it.
    """
    if header.value_kind not in (1, 2):  # what exactly is signed from protocol 30 on was not seen yet
        return None
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    data = header.content
    end = header.value_end
    set_hash = data[36:68] if header.value_kind == 1 else data[end - 172 : end - 140]
    validator, signature = data[end - 100 : end - 68], data[end - 64 : end]
    try:
        VerifyKey(validator).verify(network + b"\0\0\0\4" + set_hash + data[68:76], signature)
    except (BadSignatureError, ValueError):
        return False
    return True
