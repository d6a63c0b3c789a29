"""A backstop of another layout, as one of three tiers is proposed: it costs what hangs on it, and no pool."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from exporter.deployments import BACKSTOP
from exporter.ledger.codec.entries import data_key, instance_key, variant_key
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, struct_map, symbol, u32, vec
from exporter.protocols.blend import backstop
from exporter.protocols.blend.layout import reward_zone_key
from exporter.protocols.compute import Tables
from exporter.tables import POOLS_SCHEMA
from tests.localnet.recorded import BLEND_V1, BLEND_V2
from tests.protocols.world import World

BACKSTOPS = [item.address(BACKSTOP) or "" for item in World("blend").deployments]
TIERS = ("blnd_usdc", "blnd_xlm", "usdc")
TIERED = struct_map({tier: struct_map({"shares": i128(7), "tokens": i128(9)}) for tier in TIERS})
REWARDS = {name for name in POOLS_SCHEMA if "reward" in name} | {"total_supply_apy_bps"}


def with_another_layout(value: ScVal) -> Tables:
    """Every entry of both backstops has this value, and their instances no name that is known but the factory's."""
    world = World("blend")
    for contract in BACKSTOPS:
        for name in ("BLNDTkn", "BToken", "USDCTkn", "Emitter"):
            world.put(instance_key(contract), None, name)
        keys = [reward_zone_key(contract), *(data_key(contract, symbol(name)) for name in ("Backfill", "BackfillEmis"))]
        for market in (BLEND_V1, BLEND_V2):
            keys += [variant_key(contract, name, address(market)) for name in ("PoolBalance", "BEmisCfg", "BEmisData")]
        for key in keys:
            world.put(key, value)
    return world.compute()


@pytest.mark.parametrize(
    "value", [TIERED, VOID, vec(u32(1)), i128(2**127 - 1)], ids=["tiers", "void", "list", "number"]
)
def test_a_backstop_of_another_layout(value: ScVal) -> None:
    """Each pool has the same numbers, except for its rewards; what is not known about the backstop is null."""
    before, now = World("blend").compute(), with_another_layout(value)

    assert ([], [], before.markets["market"].to_list()) == (now.unread, now.absent, now.markets["market"].to_list())
    assert before.pools.drop(REWARDS).equals(now.pools.drop(REWARDS))
    for name in ("lp_token", "lp_tokens", "blnd", "usdc", "value_usd_cents", "status_after_update", "in_reward_zone"):
        assert now.backstops[name].is_null().all(), name


@pytest.mark.parametrize("part", ["BackstopKeys.read", "PoolBackstop.row"])
def test_an_error_that_nobody_foresaw(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """An unforeseen error costs the backstop, with a notice, and no pool."""
    before = World("blend").compute()

    def fails(*_: Any) -> None:
        raise ZeroDivisionError("tiers")

    owner, _, method = part.partition(".")
    monkeypatch.setattr(getattr(backstop, owner), method, fails)
    now = World("blend").compute()

    assert [] == now.unread
    assert before.pools.drop(REWARDS).equals(now.pools.drop(REWARDS))
    assert pl.DataFrame(schema=now.backstops.schema).equals(now.backstops)
    assert len([text for text in now.notices if "ZeroDivisionError: tiers" in text]) == before.markets.height
