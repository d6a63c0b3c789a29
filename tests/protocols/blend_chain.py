"""A ledger of Blend pools: the entries of the recording, of both generations, with fields changed.

ledger = BlendLedger()
ledger.add_market("A", "v2", ["USDC", "XLM"])
ledger.set_price("A oracle", "USDC", 10**7, NOW)
ledger.replace(reserve_data("A", "XLM", "v2", d_supply=0))
tables = ledger.compute([demanded("A")])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from exporter.deployments import BACKSTOP, MARKET, Deployment
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, i128, symbol, u32, u64, vec
from exporter.protocols.base import Origin
from tests.entries import code_of, recorded, recorded_instance
from tests.protocols.made_ledger import (
    NOW,
    MadeLedger,
    Raw,
    Written,
    candidate_of,
    changed,
    changed_entry,
    contract,
    entry,
    instance,
    known,
    struct_of,
    token_instance,
)

_POOLS = {
    "v1": recorded_instance("Config", "IsInit"),
    "v2": recorded_instance("Config", field="min_collateral"),
}
CODE = {label: code_of(pool) for label, pool in _POOLS.items()}
RATE = {"v1": 10**9, "v2": 10**12}
_MODIFIER = {"v1": 10**9, "v2": 10**7}
_NOT_IN_V1: dict[str, Raw] = {"enabled": None, "supply_cap": None}

# Configuration A of the contracts' own tests
RESERVE_CONFIG: dict[str, int] = {
    "c_factor": 7_500_000,
    "decimals": 7,
    "index": 0,
    "l_factor": 7_500_000,
    "max_util": 9_500_000,
    "r_base": 100_000,
    "r_one": 500_000,
    "r_three": 15_000_000,
    "r_two": 5_000_000,
    "reactivity": 20,
    "util": 7_500_000,
}

candidate = partial(candidate_of, "blend")
demanded = partial(candidate_of, "blend", origin=Origin.CONFIGURATION)


def pool_instance(
    market: str,
    generation: str = "v1",
    *,
    wasm_hash: bytes | None = None,
    name: bytes = b"Test",
    status: int = 1,
    oracle: str | None = None,
    bstop_rate: int = 2_000_000,
    config: Mapping[str, Raw] | None = None,
    storage: Mapping[str, Raw] | None = None,
) -> Written:
    """The instance of a pool; ``config`` and ``storage`` replace or remove fields of the Config and of the storage."""
    settings: dict[str, Raw] = {"bstop_rate": u32(bstop_rate), "max_positions": u32(4), "status": u32(status)}
    settings["oracle"] = address(oracle or contract(f"{market} oracle"))
    written = instance(contract(market), _POOLS[generation].storage, CODE[generation])
    written = changed_entry(written, settings | dict(config or {}), symbol("Config"))
    around = {"BLNDTkn": "BLND", "Backstop": "backstop"}
    stored: dict[str, Raw] = {key: address(contract(label)) for key, label in around.items()}
    stored |= {"Name": (scval.STRING, name)}
    return changed_entry(written, stored | dict(storage or {}), wasm_hash=wasm_hash)


def reserve_list(market: str, assets: Sequence[str]) -> Written:
    """``ResList`` of assets given by label."""
    return entry(contract(market), symbol("ResList"), vec(*(address(contract(asset)) for asset in assets)))


def reserve_config(market: str, asset: str, generation: str = "v1", /, **changes: Any) -> Written:
    """``ResConfig``; a change is a number, a value of any kind, or None to leave the field out."""
    fields = RESERVE_CONFIG | changes
    values = {name: u32(value) if isinstance(value, int) else value for name, value in fields.items()}
    more = {"enabled": (scval.BOOL, True), "supply_cap": i128(2**127 - 1)} if generation == "v2" else _NOT_IN_V1
    key = vec(symbol("ResConfig"), address(contract(asset)))
    return entry(contract(market), key, changed(recorded("ResConfig"), more | values))


def reserve_data(market: str, asset: str, generation: str = "v1", /, **changes: Any) -> Written:
    """``ResData``: 1000 tokens supplied and 500 lent a hundred seconds ago; changes as for ``reserve_config``."""
    fields: dict[str, Any] = {
        "b_rate": RATE[generation],
        "b_supply": 1000 * 10**7,
        "backstop_credit": 0,
        "d_rate": RATE[generation],
        "d_supply": 500 * 10**7,
        "ir_mod": _MODIFIER[generation],
        "last_time": NOW - 100,
    }
    fields |= changes
    for name, value in fields.items():
        if isinstance(value, int):
            fields[name] = u64(value) if name == "last_time" else i128(value)
    return entry(contract(market), vec(symbol("ResData"), address(contract(asset))), struct_of(fields))


def reward_zone(backstop: str, value: ScVal) -> Written:
    """``RZ`` of a backstop given by label."""
    return entry(contract(backstop), symbol("RZ"), value)


class BlendLedger(MadeLedger):
    """A ledger of Blend pools."""

    protocol = "blend"

    def add_market(self, market: str, generation: str = "v1", assets: Sequence[str] = ("USDC",)) -> None:
        """A pool with reserves, tokens, and an oracle of 7 decimals that prices each of them at 2 dollars now."""
        self.replace(pool_instance(market, generation), reserve_list(market, assets))
        self.set_decimals(f"{market} oracle", u32(7))
        for index, asset in enumerate(assets):
            self.replace(
                reserve_config(market, asset, generation, index=index), reserve_data(market, asset, generation)
            )
            self.replace(token_instance(asset, asset.encode()))
            self.set_price(f"{market} oracle", asset, 2 * 10**7, NOW)


def zone_of(*labels: str) -> ScVal:
    """The value of a reward zone of pools given by label."""
    return vec(*(address(contract(label)) for label in labels))


def deployment(backstop: str = "backstop", markets: Sequence[str] = ()) -> Deployment:
    """A deployment with a backstop and the markets known of it, by label."""
    return Deployment("blend", "test", (known(backstop, BACKSTOP), *(known(market, MARKET) for market in markets)))
