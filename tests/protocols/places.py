"""The places of one market and one pool of each protocol in the recording: ledger keys, and what is stored there."""

from __future__ import annotations

from typing import Any

from exporter.ledger.codec.entries import instance_key, variant_key
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.protocols import PROTOCOLS
from exporter.protocols.alula import layout as alula
from exporter.protocols.blend import layout as blend
from exporter.protocols.k2 import layout as k2
from exporter.protocols.xoxno import layout as xoxno
from tests.localnet.recorded import BLEND_V2
from tests.protocols.world import World, token

XLM, USDC = token("native"), token("USDC")
MARKET = {protocol: World(protocol).market for protocol in PROTOCOLS} | {"blend": BLEND_V2}

ALULA = alula.pool_key(MARKET["alula"], XLM)
CONFIG, DATA = blend.reserve_config_key(BLEND_V2, XLM), blend.reserve_data_key(BLEND_V2, XLM)
K2 = k2.reserve_key(MARKET["k2"], XLM)
VAULT = str(World("peridot").row("native")["pool"])
SLENDER = instance_key(MARKET["slender"])
RESERVE, FEED = (vec(symbol(name), address(XLM)) for name in ("ReserveAssetKey", "PriceFeed"))
POOL_CONTRACT = World("xoxno").deployments[0].address("pool") or ""
STATE, PARAMETERS = (xoxno.pool_key(POOL_CONTRACT, name, xoxno.HubAsset(1, USDC)) for name in ("State", "Params"))


def field(key: bytes, *path: Any) -> Any:
    """What the recording has at a path into a struct or an instance."""
    value: Any = next(found for protocol in ("k2", "slender") if (found := World(protocol).value(key)) is not None)
    for step in path:
        pairs = value[1].storage if hasattr(value[1], "storage") else value[1]
        value = next(item for name, item in pairs if step in (name, name[1]))
    return value[1]


A_TOKEN, DEBT_TOKEN = (instance_key(field(K2, name)) for name in ("a_token_address", "debt_token_address"))
LOW = field(K2, "configuration", "data_low")
SLENDER_DEBT = field(SLENDER, RESERVE, "reserve_type")[2]


def vault(name: str) -> bytes:
    """The key of an entry of Peridot's vault."""
    return variant_key(VAULT, name)
