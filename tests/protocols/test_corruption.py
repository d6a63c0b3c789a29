"""What is corrupted costs what is read from it, and nothing else: every entry and every call result of each protocol.

The recorded markets of a protocol have a second market next to them, with the same tokens and the same oracle, so that
what one market loses can be told from what the protocol loses. One entry, or one result, is corrupted at a time.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

import pytest
from msgspec.structs import replace

from exporter.deployments.listing import NOTHING_LISTED
from exporter.errors import DecodeError
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import CONTRACT_DATA, ContractData
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.observation import Entry
from exporter.ledger.source import ContractCall, RawEntry
from exporter.ledger.view import LedgerView
from exporter.localnet.network import PlayedAnswers
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from exporter.protocols.compute import Tables, compute
from exporter.protocols.containment import read_contained
from exporter.protocols.numbers import PoolFrameRow
from exporter.tables import REQUIRED_COLUMNS, rows_as
from tests.protocols.protocol_facts import all_facts
from tests.protocols.test_one_entry import name_of, other_kind
from tests.protocols.world import Answer, Source, World
from tests.recorded_entries import decode_data_key

Place = tuple[str, str]
"""Market and pool."""

UNFORESEEN: Final = "nobody thought of this"

SAMPLE: Final = 30
"""The fast suite corrupts one entry of this many."""


class BrokenEntry(Entry):
    """An entry whose decoding fails in a way that no reader expects."""

    def contract_data(self) -> ContractData:
        raise KeyError(UNFORESEEN)


class BrokenView(LedgerView):
    """A view in which one entry is broken."""

    def __init__(self, source: Source, broken: bytes | None) -> None:
        super().__init__(source)
        self._broken = broken

    async def read(self, keys: Iterable[bytes], never_removed: Iterable[bytes] = ()) -> Mapping[bytes, Entry | None]:
        entries = dict(await super().read(keys, never_removed))
        entry = None if self._broken is None else entries.get(self._broken)
        if entry is not None and self._broken is not None:
            entries[self._broken] = BrokenEntry(entry.key, entry.raw, entry.held)
        return entries


class Twins:
    """A protocol's recorded markets, and a copy of the first with contracts of its own, as one reading."""

    def __init__(self, protocol: str) -> None:
        self.world = World(protocol)
        self.protocol = protocol
        alone = self._read(self.world.candidates())
        self.copy = self._copied(alone)
        named = [pool.pool for pool in alone.pools if protocol == "xoxno"]  # its contracts do not list its pools
        copy = Candidate(protocol, self.copy, Origin.CONFIGURATION)
        copies = [replace(copy, pool=pool) for pool in named] or [copy]
        self.candidates = [*self.world.candidates(), *copies]
        self.reading = self._read(self.candidates)
        self.source = self.world.source
        self.rows = self.rows_of(self.reading)
        self.users: dict[bytes, set[Place]] = defaultdict(set)
        for place, keys in self.reading.entry_keys.items():
            for key in keys:
                self.users[key].add(place)
        self.tokens = {pool.token_address for pool in self.reading.pools}
        self.oracles = {pool.oracle for pool in self.reading.pools}

    def _copied(self, reading: ProtocolReading) -> str:
        """Put into the chain a copy of each entry of the first market's own contracts; gives the copy's address."""
        market, chain = self.world.market, self.world.chain
        pools = [pool for pool in reading.pools if pool.market.address == market]
        keys = {key for pool in pools for key in reading.entry_keys[pool.key] if key[:4] == _DATA}
        shared = {pool.token_address for pool in pools} | {pool.oracle for pool in pools}
        own = {decode_data_key(key).contract for key in keys} - shared
        renamed = {id_of(each): sha256(id_of(each)).digest() for each in own}

        def copied(data: bytes) -> bytes:
            for before, after in renamed.items():
                data = data.replace(before, after)
            return data

        for key in list(chain.known_keys()):
            entry = chain.entry(key, chain.latest)
            if entry is not None and copied(key) != key:
                chain.instead[copied(key)] = RawEntry(copied(entry.data), entry.last_modified, entry.live_until)
        return strkey.encode_contract(renamed[id_of(market)])

    def _read(self, candidates: list[Candidate], broken: bytes | None = None) -> ProtocolReading:
        source = self.world.source = Source(self.world.chain, self.world.answers)
        view = BrokenView(source, broken)
        return asyncio.run(read_contained(PROTOCOLS[self.protocol], view, candidates, self.world.deployments))

    def read(self, broken: bytes | None = None) -> ProtocolReading:
        """The reading of all markets, in which one entry may be broken."""
        return self._read(self.candidates, broken)

    def tables(self, reading: ProtocolReading) -> Tables:
        """What is published about a reading."""
        return compute([reading], PROTOCOLS, self.world.chain.latest, self.world.time, NOTHING_LISTED)

    def rows_of(self, reading: ProtocolReading) -> dict[Place, PoolFrameRow]:
        """The rows of a reading, keyed by market and pool."""
        return {(row["market"], row["pool"]): row for row in rows_as(PoolFrameRow, self.tables(reading).pools)}

    def readers_of(self, key: bytes) -> set[Place]:
        """The pools that an entry may cost: those that are read from it. An oracle's entry costs prices alone."""
        is_oracle = key[:4] == _DATA and decode_data_key(key).contract in self.oracles - self.tokens
        return set() if is_oracle else self.users.get(key, set())

    def askers_of(self, call: ContractCall) -> set[Place]:
        """The pools that a result may cost: those of the token or market that is asked about one of their contracts."""
        if call.contract in self.oracles - self.tokens:
            return set()
        named = {value for kind, value in call.arguments if kind == scval.ADDRESS}
        return {
            pool.key
            for pool in self.reading.pools
            if call.contract in (pool.token_address, pool.market.address)
            and named & {decode_data_key(key).contract for key in self.reading.entry_keys[pool.key] if key[:4] == _DATA}
        }

    def damage(self, reading: ProtocolReading, may_cost: set[Place]) -> list[str]:
        """What a corruption did that it must not do."""
        tables = self.tables(reading)
        now = {(row["market"], row["pool"]): row for row in rows_as(PoolFrameRow, tables.pools)}
        named = {(item.market, item.pool) for item in tables.unread} | {(item.market, None) for item in tables.absent}
        wrong = []
        for place, row in self.rows.items():
            if place in now:
                changed = [name for name in CORE if row[name] != now[place][name]]  # type: ignore[literal-required]
                if changed and place not in may_cost:
                    wrong.append(f"{place} has another {changed[0]}")
            elif place not in may_cost:
                wrong.append(f"{place} is lost")
            elif place not in named and (place[0], None) not in named:
                wrong.append(f"{place} is lost and nobody says so")
        return wrong


_DATA: Final = CONTRACT_DATA.to_bytes(4, "big")

CORE: Final = sorted(REQUIRED_COLUMNS)
"""The columns that every protocol gives."""


def numbers_of(row: PoolFrameRow) -> tuple[str, int, int, int]:
    """A pool's token, and some of its numbers."""
    return row["token_address"], row["total_supplied"], row["total_borrowed"], row["accrued_borrow_apr"]


def id_of(contract: str) -> bytes:
    """The 32 bytes of a contract's address."""
    return strkey.decode_contract(contract)


Corruption = tuple[str, Callable[[ScVal], bytes]]
"""A kind of corruption, and the XDR of a value that is corrupted so."""

_LARGEST: Final = {scval.U32: 2**32 - 1, scval.U64: 2**64 - 1, scval.U128: 2**128 - 1, scval.I128: 2**127 - 1}
_LOWEST: Final = {scval.U32: 0, scval.U64: 0, scval.U128: 0, scval.I128: -1}


def with_numbers(value: ScVal, numbers: Mapping[int, int]) -> ScVal:
    """A value with another number in the place of each of its numbers, by their kind."""
    kind, payload = value
    if kind in numbers:
        return kind, numbers[kind]
    if kind == scval.CONTRACT_INSTANCE:
        pairs = tuple((key, with_numbers(item, numbers)) for key, item in payload.storage or ())
        return kind, payload._replace(storage=pairs)
    if kind == scval.MAP and payload:
        return kind, tuple((key, with_numbers(item, numbers)) for key, item in payload)
    if kind == scval.VEC and payload:
        return kind, tuple(with_numbers(item, numbers) for item in payload)
    return value


def emptied(value: ScVal, left: slice = slice(0)) -> ScVal:
    """A value without what is in it; an instance keeps its code. ``left`` says which items stay."""
    kind, payload = value
    if kind == scval.CONTRACT_INSTANCE:
        return kind, payload._replace(storage=tuple(payload.storage or ())[left])
    if kind in (scval.MAP, scval.VEC):
        return kind, tuple(payload or ())[left]
    return scval.MAP, ()


CORRUPTIONS: Final[tuple[Corruption, ...]] = (
    ("wrong type", lambda value: encode_scval(other_kind(value))),
    ("first key missing", lambda value: encode_scval(emptied(value, slice(1, None)))),
    ("last key missing", lambda value: encode_scval(emptied(value, slice(-1)))),
    ("empty", lambda value: encode_scval(emptied(value))),
    ("negative numbers", lambda value: encode_scval(with_numbers(value, _LOWEST))),
    ("huge numbers", lambda value: encode_scval(with_numbers(value, _LARGEST))),
    ("truncated", lambda value: encode_scval(value)[:-4]),
    ("cut in half", lambda value: encode_scval(value)[: len(encode_scval(value)) // 8 * 4]),
)


SHORTENS: Final = ("first key missing", "last key missing", "empty")


def is_list(value: ScVal) -> bool:
    """Whether a value is a list, as a market has of its pools: with a shorter one the contract has fewer pools."""
    return value[0] == scval.VEC and len({item[0] for item in value[1] or ()}) == 1


def is_taken(every: bool, *what: str) -> bool:
    """Whether a corruption is in the sample, which is the same at every run."""
    return every or zlib.crc32(" ".join(what).encode()) % SAMPLE == 0


def entries_of(twins: Twins) -> Iterator[tuple[bytes, RawEntry]]:
    """The entries that a reading finds, without those of the copy, which are as those that it is a copy of."""
    chain = twins.world.chain
    for key in twins.source.asked:
        entry = chain.entry(key, chain.latest)
        if entry is not None and key not in chain.instead:
            yield key, entry


def value_of(key: bytes, entry: RawEntry) -> ScVal | None:
    """The value of an entry of contract data; None for other entries."""
    try:
        return decode_scval(entry.data[len(key) + 4 :]) if key[:4] == _DATA else None
    except DecodeError:
        return None


EVERY = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["a sample", "each"])


@EVERY
@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_a_corrupted_entry_costs_what_is_read_from_it(protocol: str, every: bool) -> None:
    """A pool's entry costs this pool, a market's shared entry costs this market; every other pool is as before."""
    twins = Twins(protocol)
    chain, wrong, tried = twins.world.chain, [], 0
    for key, entry in list(entries_of(twins)):
        name, value = (
            f"{decode_data_key(key).contract}{name_of(key)}" if key[:4] == _DATA else "code",
            value_of(key, entry),
        )
        may_cost = twins.readers_of(key)
        if is_taken(every, name, UNFORESEEN):
            tried += 1
            wrong += [(name, UNFORESEEN, said) for said in twins.damage(twins.read(key), may_cost)]
        for kind, corrupted in CORRUPTIONS:
            if value is None or not is_taken(every, name, kind) or (kind in SHORTENS and is_list(value)):
                continue
            data = entry.data[: len(key) + 4] + corrupted(value)
            chain.instead[key] = RawEntry(data, entry.last_modified, entry.live_until)
            tried += 1
            wrong += [(name, kind, said) for said in twins.damage(twins.read(), may_cost)]
            del chain.instead[key]
    assert [] == wrong
    assert tried > (5 if every else 0)


@EVERY
@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_a_corrupted_result_costs_who_asked(protocol: str, every: bool) -> None:
    """A result of an oracle costs prices alone; one about a pool's contract costs this pool."""
    twins = Twins(protocol)
    chain, wrong = twins.world.chain, []
    for call in list(twins.source.calls):
        simulation = PlayedAnswers().simulate(chain, chain.latest, call)
        assert simulation.result is not None
        value = decode_scval(simulation.result)
        answers: list[tuple[str, Answer]] = [("refused", "HostError: Error(Contract, #1)")]
        answers += [(kind, corrupted(value)) for kind, corrupted in CORRUPTIONS]
        may_cost = twins.askers_of(call)
        for kind, answer in answers:
            if is_taken(every, protocol, call.function, kind):
                twins.world.answers[call.contract, call.function] = _only(call, answer)
                wrong += [(call.function, kind, said) for said in twins.damage(twins.read(), may_cost)]
        twins.world.answers.clear()
    assert [] == wrong


def _only(asked: ContractCall, answer: Any) -> Callable[[ContractCall], Any]:
    """An answer to one call; other calls have what the entries say."""
    return lambda call: answer if call == asked else None


@pytest.mark.parametrize("protocol", all_facts())
def test_what_several_pools_hang_on_is_named(protocol: str) -> None:
    """An entry that costs more than one pool is on the list, and only a token's contract costs more than one market."""
    twins = Twins(protocol)
    unnamed, wide = set[str](), set[str]()
    for key, _ in entries_of(twins):
        places = twins.readers_of(key)
        name = f"{name_of(key)}."
        if len(places) > 1 and not name.startswith(("instance.", *all_facts()[protocol].shared)):
            unnamed.add(name)
        if len({market for market, _ in places}) > 1:
            wide.add(decode_data_key(key).contract)
    assert set() == unnamed, f"what several pools follow from is in `shared` of the facts of {protocol}"
    assert wide <= twins.tokens


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_the_copy_is_a_market_of_its_own(protocol: str) -> None:
    """The copy of a market has the same pools with the same numbers, so the sweep has two markets to tell apart."""
    twins = Twins(protocol)
    own = [row for (market, _), row in twins.rows.items() if market == twins.world.market]
    copied = [row for (market, _), row in twins.rows.items() if market == twins.copy]
    assert sorted(map(numbers_of, own)) == sorted(map(numbers_of, copied))
    assert own
