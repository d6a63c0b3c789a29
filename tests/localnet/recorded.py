"""Markets of the recorded network, and what tests do to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from exporter.deployments.networks import NETWORKS
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval_encode import symbol
from exporter.localnet.mover import Field, Pool
from exporter.localnet.oracle import ORACLE
from exporter.localnet.player import NETWORK, RecordedNetwork

LISTED = [(item.protocol, market) for item in NETWORKS[NETWORK].deployments for market in item.markets]
"""Every market that the lists have, after its protocol."""

BLEND_V1, BLEND_V2 = (market for protocol, market in LISTED if protocol == "blend")
"""Blend's markets, of two pools and of four."""


def only(*protocols: str) -> dict[str, Any]:
    """Flags of settings that read the listed markets of some protocols, and no other."""
    markets = [{"protocol": protocol, "address": market} for protocol, market in LISTED if protocol in protocols]
    return {"discovery__enabled": False, "markets": markets}


def pools_of(network: RecordedNetwork, market: str) -> list[Pool]:
    """The pools of a market that move."""
    return [pool for pool in network.pools if pool.market == market]


def lose_oracle(network: RecordedNetwork, markets: Iterable[str]) -> None:
    """Close a ledger in which markets of Blend name an oracle that is not there, so that their pools have no price."""
    known, nobody = strkey.decode(ORACLE)[1], bytes(32)
    written = {}
    for market in markets:
        entry = network.chain.stored(instance_key(market))
        assert entry is not None
        assert known in entry.data
        written[instance_key(market)] = entry.data.replace(known, nobody)
    network.close(written)


def freeze(network: RecordedNetwork, market: str) -> None:
    """Close a ledger in which a market of Blend is frozen."""
    status = Field(instance_key(market), (symbol("Config"), symbol("status")))
    network.close({status.key: status.write(network.look, 4)})
