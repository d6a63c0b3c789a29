"""An archived entry of any kind: the pools that follow from it keep their numbers, and say so."""

from __future__ import annotations

import pytest

from exporter.ledger.codec.entries import ARCHIVED, instance_key
from exporter.ledger.source import RawEntry
from exporter.protocols import PROTOCOLS
from exporter.tables import POOLS_SCHEMA
from tests.protocols.world import World

CONTRACTS = ("market", "token_address", "oracle", "share_token")


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_an_archived_instance(protocol: str) -> None:
    """Market, token, oracle or share token: the pools that have the contract say archived, no other pool changes.

    What the contract allows is as it was: the next call restores the entry.
    """
    before = World(protocol).compute().pools.rows(named=True)
    named = {row[name] for row in before for name in CONTRACTS if row[name] is not None}
    for contract in sorted(named):
        world = World(protocol)
        key = instance_key(contract)
        entry = world.chain.entry(key, world.chain.latest)
        # The recording has nothing of Slender's sTokens, because nothing of them is decoded.
        world.chain.instead[key] = RawEntry(b"" if entry is None else entry.data, 1, ARCHIVED)
        tables = world.compute()

        marked = [row | {"archived": contract in {row[name] for name in CONTRACTS}} for row in before]
        assert ([], [], marked) == (tables.unread, tables.absent, tables.pools.rows(named=True))
    assert not any(row["archived"] for row in before)


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_everything_is_archived(protocol: str) -> None:
    """A protocol that nobody has used for long has the same numbers, and every pool of it is archived."""
    world = World(protocol)
    before = world.compute().pools
    for key in world.source.asked:
        entry = world.chain.entry(key, world.chain.latest)
        if entry is not None and entry.live_until is not None:
            world.archive(key)
    tables = world.compute()

    assert ([], []) == (tables.unread, tables.absent)
    assert before.drop("archived").equals(tables.pools.drop("archived"))
    assert tables.pools["archived"].all()
    assert "archived" in POOLS_SCHEMA
