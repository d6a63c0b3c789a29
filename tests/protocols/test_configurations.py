"""What changes the hash of a configuration and what does not, for all protocols' markets; and endless names."""

from __future__ import annotations

import pytest

from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval import STRING
from tests.protocols.places import (
    MARKET,
)
from tests.protocols.protocol_facts import Write, all_facts
from tests.protocols.world import World

INSTANCE = {protocol: instance_key(market) for protocol, market in MARKET.items()}


def hash_of(protocol: str, change: Write = ()) -> str:
    """The hash of a market with a change."""
    world = World(protocol)
    if change:
        world.put(*change)
    (found,) = (item for item in world.read().result.markets if item.address == MARKET[protocol])
    return found.config_hash


@pytest.mark.parametrize("protocol", all_facts())
def test_the_hash_moves_with_the_configuration_alone(protocol: str) -> None:
    """The hash stays with the state, whatever moves or cannot be read; each change of the configuration moves it."""
    before, facts = hash_of(protocol), all_facts()[protocol]
    hashes = [before, *(hash_of(protocol, item) for item in facts.configuration)]

    assert [] == [change for change in facts.state if hash_of(protocol, change) != before]
    assert len(hashes) == len(set(hashes))
    assert 16 == len(before)


@pytest.mark.parametrize("protocol", ["alula", "blend"])
def test_an_endless_name_is_cut_but_hashed_whole(protocol: str) -> None:
    """A name without end is cut, in the rows of the pools too, with a notice; the hash is of the whole of it."""
    hashes = {hash_of(protocol, (INSTANCE[protocol], (STRING, b"x" * 10_000 + end), "Name")) for end in (b"a", b"b")}
    world = World(protocol)
    world.put(INSTANCE[protocol], (STRING, b"x" * 10_001), "Name")
    tables = world.compute()
    rows = tables.pools.rows(named=True)

    assert {"x" * 200} == {row["market_name"] for row in rows if row["market"] == MARKET[protocol]}
    assert [f"market {MARKET[protocol]} has a name of 10001 characters; 200 of them are shown"] == tables.notices
    assert 2 == len(hashes)
