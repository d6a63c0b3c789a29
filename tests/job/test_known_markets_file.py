"""The memory that a run leaves for the next: kept whatever happens, refused if it is malformed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from exporter.discovery import learn
from exporter.discovery.known_markets import CandidateKey, KnownMarket, Memory, RoleKey, StreamKey
from exporter.errors import LostRaceError, StoreError
from exporter.job.known_markets_file import MEMORY_KEY, SET_ASIDE_PREFIX, load_memory, save_memory
from exporter.protocols.base import Candidate, DeploymentRole, Market, Origin, ProtocolReading
from exporter.stores.memory import MemoryStore
from tests.protocols.made_ledger import account, contract

NETWORK, OTHER = "1" * 64, "2" * 64
A, B, FACTORY = contract("A"), contract("B"), contract("factory")
STREAM = StreamKey("blend", FACTORY, ("deploy",))


def known(address: str = A, **changes: Any) -> KnownMarket:
    values: dict[str, Any] = {"protocol": "blend", "address": address, "origin": Origin.NAMED_BY_CONTRACT}
    return KnownMarket(**values | {"first_seen_ledger": 100} | changes)


def memory_of(*markets: KnownMarket, network: str = NETWORK) -> Memory:
    memory = Memory(network)
    for market in markets:
        memory.learn(market)
    return memory


def addresses(memory: Memory) -> list[str]:
    return [market.address for market in memory.markets.values()]


def set_aside(store: MemoryStore) -> list[bytes]:
    return [stored.data for item in store.list(SET_ASIDE_PREFIX) if (stored := store.get(item.key)) is not None]


def test_what_is_remembered_comes_back_for_each_network() -> None:
    """Markets, pools, cursors of events and learned contracts come back as they were, each network its own."""
    store = MemoryStore()
    memory = memory_of(known(), known(B, pool="1-x", origin=Origin.EVENT, confirmed=False, voucher=FACTORY))
    memory.streams[STREAM] = 77
    memory.contracts[RoleKey("blend", "v2.1", "factory")] = FACTORY
    assert save_memory(store, memory)
    assert save_memory(store, memory_of(known(), network=OTHER))

    assert memory == load_memory(store, NETWORK)
    assert [A] == addresses(load_memory(store, OTHER))
    assert [] == list(load_memory(store, "3" * 64).candidates())


def test_two_runs_at_once() -> None:
    """Markets that another run remembered meanwhile are kept next to this run's, and the further cursor is."""
    store = MemoryStore()
    one, two = memory_of(known()), memory_of(known(B))
    one.streams[STREAM], two.streams[STREAM] = 90, 80
    written = [save_memory(store, memory) for memory in (one, two, two)]
    merged = load_memory(store, NETWORK)

    assert [True, True, False] == written
    assert {A, B} == {*addresses(merged)}
    assert {STREAM: 90} == merged.streams


def test_a_writer_between_reading_and_writing_is_not_overwritten() -> None:
    """A writer that comes between reading and writing is not overwritten."""

    class Racing(MemoryStore):
        rivals = 2

        def swap(self, key: str, data: bytes, expected_etag: str | None) -> str:
            if self.rivals:
                self.rivals -= 1
                super().put(key, msgspec.json.encode({"version": 1, "networks": {}}) + b" " * self.rivals)
            return super().swap(key, data, expected_etag)

    store = Racing()
    save_memory(store, memory_of(known()))
    assert [A] == addresses(load_memory(store, NETWORK))

    store.rivals = 10**6
    with pytest.raises(LostRaceError):
        save_memory(store, memory_of(known(B)))


def test_first_finding_counts() -> None:
    """How and when a market was found first is kept; that it was read, and who vouches, is added."""
    memory = memory_of(known(origin=Origin.EVENT, confirmed=False))
    assert not memory.learn(known(first_seen_ledger=200, voucher=FACTORY))

    assert [known(origin=Origin.EVENT, voucher=FACTORY)] == list(memory.markets.values())
    remembered = Candidate("blend", A, Origin.REMEMBERED, voucher=FACTORY, known_since=100)
    assert [remembered] == list(memory.candidates())


def test_a_full_memory_takes_no_more_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory that is full takes no more and says so; what no run would read again is not written."""
    monkeypatch.setattr("exporter.discovery.known_markets.MAX_MARKETS", 1)
    memory = memory_of(known(), known(B))
    monkeypatch.setattr("exporter.job.known_markets_file.MAX_MEMORY_BYTES", 100)

    assert [A] == addresses(memory)
    assert [True] == ["is not added" in notice for notice in memory.notices]
    with pytest.raises(StoreError, match="more than 100"):
        save_memory(MemoryStore(), memory)


@pytest.mark.parametrize(
    "damaged",
    [
        b"\xff\xfe",
        b"{}",
        b'{"version": 2, "networks": {}}',
        b'{"version": 1, "networks": {"short": {"markets": [], "events": [], "contracts": []}}}',
        b"[" * 100_000,
    ],
)
def test_a_memory_that_cannot_be_read_is_set_aside(damaged: bytes) -> None:
    """The run goes on with what else is known, and the damaged bytes stay under another key."""
    store = MemoryStore()
    store.put(MEMORY_KEY, damaged)
    memory = load_memory(store, NETWORK)
    assert [True] == ["cannot be read" in notice for notice in memory.notices]
    memory.learn(known())
    save_memory(store, memory)
    again = load_memory(store, NETWORK)

    assert [damaged] == set_aside(store)
    assert ([A], []) == (addresses(again), again.notices)


@pytest.mark.parametrize(
    "record",
    [
        *({"address": text} for text in ("garbage", account("x"))),
        *({"protocol": "../blend"}, {"origin": "heaven"}, {"first_seen_ledger": -1}, {"voucher": "x"}),
        *({"pool": "<script>"}, {"origin": None}),
        7,
    ],
)
def test_garbage_among_good_ones(record: Any) -> None:
    """An invalid record is refused and named; the others are used, and the bytes kept."""
    store = MemoryStore()
    save_memory(store, memory_of(known()))
    stored = store.get(MEMORY_KEY)
    assert stored is not None
    document = json.loads(stored.data)
    good = {"protocol": "blend", "address": B, "origin": "event", "first_seen_ledger": 1}
    document["networks"][NETWORK]["markets"].append(good | record if isinstance(record, dict) else record)
    damaged = json.dumps(document).encode()
    store.put(MEMORY_KEY, damaged)
    memory = load_memory(store, NETWORK)
    assert [True] == ["1 invalid records" in notice for notice in memory.notices]
    save_memory(store, memory)

    assert [A] == addresses(memory)
    assert [damaged] == set_aside(store)


def reading(*, members: tuple[str, ...] = (), **changes: Any) -> ProtocolReading:
    market = Market(A, "blend", "v1", "x", "active", None, "0" * 16, None, members)
    return ProtocolReading("blend", markets=[market], **changes)


@pytest.mark.parametrize(
    ("origin", "is_new", "is_kept"),
    [
        (Origin.CONFIGURATION, False, False),
        (Origin.DEPLOYMENT, False, True),
        (Origin.REMEMBERED, True, True),
        (Origin.EVENT, True, True),
        (Origin.SNAPSHOT, True, False),
        (None, True, True),
    ],
)
def test_what_is_learned(origin: Origin | None, is_new: bool, is_kept: bool) -> None:
    """Markets of operator and lists are not new; those that only operator or a file name are kept if vouched for."""
    tried = [] if origin is None else [Candidate("blend", A, origin)]
    for verified in ({}, {A: FACTORY}):
        memory = Memory(NETWORK)
        found = learn(memory, [reading(verified=verified)], tried, (), 100)

        assert [A] * is_new == [item.market for item in found]
        assert [A] * (is_kept or bool(verified)) == addresses(memory)


def test_learned_pools_and_contracts() -> None:
    """A pool that nothing lists is kept once its market has it, and a contract that only the chain names."""
    memory = Memory(NETWORK)
    tried = [Candidate("blend", A, Origin.EVENT, pool) for pool in ("1-x", "2-x")]
    found = learn(
        memory,
        [reading(members=("1-x",), contracts={DeploymentRole("v2.1", "factory"): FACTORY})],
        tried,
        [CandidateKey("blend", A)],
        100,
    )

    assert [("1-x", "event")] == [(item.pool, item.origin) for item in found]
    assert [("blend", A, None), ("blend", A, "1-x")] == list(memory.markets)
    assert {("blend", "v2.1", "factory"): FACTORY} == memory.contracts
