"""A failure that nobody foresaw, in decoding any one entry, costs the pool or the market of that entry and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from exporter.deployments.listing import NOTHING_LISTED
from exporter.ledger.codec.entries import ContractData
from exporter.ledger.observation import Entry
from exporter.ledger.view import LedgerView
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import ProtocolReading
from exporter.protocols.compute import compute
from exporter.protocols.containment import read_contained
from tests.protocols.world import World

UNFORESEEN = "nobody thought of this"


class BrokenEntry(Entry):
    """An entry of which decoding fails as no reader expects it."""

    def contract_data(self) -> ContractData:
        raise KeyError(UNFORESEEN)


class BrokenView(LedgerView):
    """A view in which one entry is broken."""

    def __init__(self, world: World, broken: bytes | None) -> None:
        super().__init__(world.source)
        self._broken = broken

    async def read(self, keys: Iterable[bytes], never_removed: Iterable[bytes] = ()) -> Mapping[bytes, Entry | None]:
        entries = dict(await super().read(keys, never_removed))
        entry = None if self._broken is None else entries.get(self._broken)
        if entry is not None and self._broken is not None:
            entries[self._broken] = BrokenEntry(entry.key, entry.raw, entry.held)
        return entries


def read(world: World, broken: bytes | None) -> ProtocolReading:
    """The protocol's reading of its recorded markets, where one entry cannot be decoded."""
    view = BrokenView(world, broken)
    return asyncio.run(read_contained(PROTOCOLS[world.protocol], view, world.candidates(), world.deployments))


def places(reading: ProtocolReading, world: World) -> set[tuple[str, str]]:
    """Market and pool of every row that the reading gives."""
    tables = compute([reading], PROTOCOLS, world.chain.latest, world.time, NOTHING_LISTED)
    return set(tables.pools.select("market", "pool").iter_rows())


def entries_read(world: World) -> list[bytes]:
    """The keys of all entries that a reading of the world finds."""
    return [key for key in world.source.asked if world.chain.entry(key, world.chain.latest) is not None]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["a seventh", "each"])
@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_one_entry_costs_its_market_at_most(protocol: str, every: bool) -> None:
    """Whichever entry cannot be decoded, at most one market loses rows, and each lost row is unread, with the error."""
    world = World(protocol)
    before = places(read(world, None), world)
    assert before
    wrong = []
    for key in entries_read(world)[:: 1 if every else 7]:
        reading = read(world, key)
        lost = before - places(reading, world)
        unread = {(item.market, item.pool): item.detail for item in reading.unread}
        named = {place: unread.get(place) or unread.get((place[0], None)) or "" for place in lost}
        if len({market for market, _ in lost}) > 1 or not all(UNFORESEEN in detail for detail in named.values()):
            wrong.append((key, lost, unread))
    assert [] == wrong
