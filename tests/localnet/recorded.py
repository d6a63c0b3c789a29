"""Markets of the recorded network, and what tests do to them."""

from __future__ import annotations

from typing import Any

from exporter.deployments.networks import NETWORKS
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval_encode import symbol
from exporter.localnet.oracle import ORACLE
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.protocols.movement import MovingPool, NumberField

LISTED = [(item.protocol, market) for item in NETWORKS[NETWORK].deployments for market in item.markets]
"""Every market that the lists have, after its protocol."""

BLEND_V1, BLEND_V2 = (market for protocol, market in LISTED if protocol == "blend")
"""Blend's markets, of two pools and of four."""


def only(*names: str) -> dict[str, Any]:
    """Flags of settings that read some of the listed markets, named by their protocols or addresses, and no other."""
    named = [(protocol, market) for protocol, market in LISTED if protocol in names or market in names]
    markets = [{"protocol": protocol, "address": market} for protocol, market in named]
    return {"discovery__enabled": False, "markets": markets}


def pools_of(network: RecordedNetwork, market: str) -> list[MovingPool]:
    """The pools of a market that move."""
    return [pool for pool in network.pools if pool.market == market]


def without_oracle(network: RecordedNetwork, *markets: str) -> dict[bytes, bytes | None]:
    """Entries with which Blend's markets name an oracle that does not exist, so that no pool has a price."""
    known, nobody = strkey.decode(ORACLE)[1], bytes(32)
    written: dict[bytes, bytes | None] = {}
    for key in map(instance_key, markets):
        data = network.look(key) or b""
        assert known in data
        written[key] = data.replace(known, nobody)
    return written


def unreadable(network: RecordedNetwork, market: str) -> dict[bytes, bytes | None]:
    """The entry with which a market of Blend cannot be read, because its configuration has another name."""
    key = instance_key(market)
    return {key: (network.look(key) or b"").replace(b"Config", b"Konfig")}


def readable(network: RecordedNetwork, market: str) -> dict[bytes, bytes | None]:
    """The entry with which an `unreadable` market can be read again."""
    key = instance_key(market)
    return {key: (network.look(key) or b"").replace(b"Konfig", b"Config")}


def with_collateral_factor(network: RecordedNetwork, market: str, factor: int) -> dict[bytes, bytes | None]:
    """The entry with which the first pool of a market of Blend has another collateral factor, of 7 decimals."""
    own = strkey.decode(market)[1]
    key = min(key for key in network.chain.known_keys() if own in key and b"ResConfig" in key)
    return with_number(network, factor, key, "c_factor")


def with_number(network: RecordedNetwork, number: int, key: bytes, *path: str) -> dict[bytes, bytes | None]:
    """The entry with another number in the field to which the symbols lead."""
    return {key: NumberField(key, tuple(map(symbol, path))).write(network.look, number)}


def with_rewards(network: RecordedNetwork, market: str) -> dict[bytes, bytes | None]:
    """Entries with which a v1 market of Blend and its backstop pay rewards for another year."""
    own, end = strkey.decode(market)[1], network.chain.close_time(network.chain.latest) + 365 * 86_400
    written: dict[bytes, bytes | None] = {}
    for key in network.chain.known_keys():
        if own in key and (b"EmisConfig" in key or b"BEmisCfg" in key):
            written |= with_number(network, end, key, "expiration")
    return written


def with_status(network: RecordedNetwork, market: str, status: int) -> dict[bytes, bytes | None]:
    """The entry with which a market of Blend has another status (docs/protocols/blend.md, "Statuses")."""
    return with_number(network, status, instance_key(market), "Config", "status")
