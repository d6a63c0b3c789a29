"""Blend's terms on the host: the deployed code lets through what is available, and not one base unit more."""

from __future__ import annotations

import random
from collections import Counter
from hashlib import sha256
from typing import Any, cast

import pytest

from exporter.ledger.codec import strkey
from exporter.ledger.codec.scval_encode import u32
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.protocols.base import Market, PoolReading
from exporter.protocols.blend.layout import STATUS_NAMES, WASM_HASHES, decode_reserve, reserve_config_key
from exporter.protocols.blend.layout import reserve_data_key as data_key
from exporter.protocols.blend.math import project
from exporter.protocols.compute import row_of
from tests.host.blend_world import (
    BORROW,
    MUCH,
    POOL,
    SUPPLY,
    SUPPLY_COLLATERAL,
    WITHDRAW,
    Step,
    World,
    balance_entry,
    submit,
)
from tests.host.test_blend_numbers import changed

V2_CODE = next(code for code, generation in WASM_HASHES.items() if generation == "v2").hex()
WHALE = strkey.encode(strkey.CONTRACT, sha256(b"whale").digest())
POOL_STATUS, UTILIZATION, SUPPLY_CAP, DISABLED, NOTHING_MINTED = (
    f"Error(Contract, #{number})" for number in (1206, 1207, 1220, 1223, 1216)
)


def published(world: World, asset: str) -> dict[str, Any]:
    """What is published about a reserve at the world's time."""
    config, data = (Entry(key(POOL, asset), entry) for key, entry in zip(_KEYS, world.reserve(asset), strict=True))
    settings = world.config()
    status = STATUS_NAMES[settings.u32("status")]
    market = Market(POOL, "blend", "v2", "x", status, None, "", V2_CODE, (asset,))
    reserve = decode_reserve(config, data, settings.u32("bstop_rate"))
    pool = PoolReading(market, asset, asset, reserve.config.decimals, None, reserve)
    return cast(dict[str, Any], row_of(pool, project(pool, world.info.close_time)))


_KEYS = (reserve_config_key, data_key)


def refusal(world: World, *wanted: tuple[int, str, int]) -> str | None:
    """Why the contract refuses what the whale asks for at the world's time; None when it does not. Nothing is kept."""
    world.machine.at(world.info)
    contract, function, arguments = submit(WHALE, *wanted)
    return world.machine.call(contract, function, *arguments, authorised=True).error


def done(world: World, *wanted: tuple[int, str, int]) -> bool:
    """Let the whale do something, in the same ledger."""
    return world.transact(Step(0, 0, *submit(WHALE, *wanted))).error is None


def arrange(world: World, chance: random.Random) -> None:
    """Give the market a status, and each reserve a state."""
    world.transact(Step(60, 12, POOL, "set_status", (u32(chance.choice([0, 0, 2, 3, 4])),)))
    for asset in world.assets:
        config, data = world.reserve(asset)
        supply = int(10 ** chance.uniform(6, 15))
        numbers = {"b_supply": supply, "d_supply": int(supply * chance.choice([0, 0.3, 0.6, 0.9, 0.97]))}
        numbers |= {name: chance.randint(10**12, 13 * 10**11) for name in ("b_rate", "d_rate")}
        limits = {"max_util": chance.choice([10**7, 9_500_000, 5_000_000]), "enabled": chance.random() < 0.9}
        written = balance_entry(asset, POOL, 2 * supply, world.info.ledger)
        written |= {
            reserve_config_key(POOL, asset): changed(config, limits),
            data_key(POOL, asset): changed(data, numbers),
        }
        world.entries |= written
        world.machine.put(written)


def keep(world: World, entry: RawEntry, asset: str) -> None:
    """Put a reserve's configuration by hand."""
    key = reserve_config_key(POOL, asset)
    world.entries[key] = entry
    world.machine.put({key: entry})


def confirm(world: World, asset: str, other: str, seen: Counter[str]) -> None:
    """Try gates and amounts of one reserve; what cannot be tried in this state is not."""
    row = published(world, asset)
    refused = refusal(world, (SUPPLY, asset, 10**6))
    assert row["can_supply"] == (refused not in (POOL_STATUS, DISABLED)), (row, refused)
    assert row["can_borrow"] == (refusal(world, (BORROW, asset, 1)) not in (POOL_STATUS, DISABLED))
    seen["gates of a reserve"] += 2
    uncapped = world.entries[reserve_config_key(POOL, asset)]
    for more in (-1, 0, 1, 2, 10**9 + 7):
        keep(world, changed(uncapped, {"supply_cap": max(0, row["total_supplied"] + more)}), asset)
        room = published(world, asset)["available_to_supply"]
        if refused is None:  # not where another contract fails
            assert room == 0 or refusal(world, (SUPPLY, asset, room)) is None
            assert refusal(world, (SUPPLY, asset, room + 1)) in (SUPPLY_CAP, NOTHING_MINTED)
            seen["most that can be supplied"] += 1
    keep(world, uncapped, asset)
    if not done(world, (SUPPLY, asset, 10 * row["total_supplied"] + 10**9), (SUPPLY_COLLATERAL, other, 10**20)):
        return
    lent = published(world, asset)["available_to_borrow"]
    if lent and refusal(world, (BORROW, asset, lent)) is None:
        assert UTILIZATION == refusal(world, (BORROW, asset, lent + 1))
        assert done(world, (BORROW, asset, lent))
        seen["most that can be borrowed"] += 1
    row = published(world, asset)
    taken = row["available_to_withdraw"]
    shares = world.positions(WHALE)["supply"][world.assets.index(asset)]
    if 0 < taken < shares * row["supply_index"] // 10**12:  # who asks for more than he has gets what he has
        assert refusal(world, (WITHDRAW, asset, taken)) is None
        assert UTILIZATION == refusal(world, (WITHDRAW, asset, taken + 1))
        seen["most that can be withdrawn"] += 1


@pytest.mark.parametrize("part", range(4))
def test_what_is_available_passes_and_one_more_does_not(world: World, part: int) -> None:
    """A submit to the deployed code meets what is published about each reserve, in any state."""
    seen: Counter[str] = Counter()
    for seed in range(part, 16, 4):
        world.restart()
        arrange(world, random.Random(seed))
        for asset in world.assets:
            world.machine.put(balance_entry(asset, WHALE, MUCH, world.info.ledger))
        for position, asset in enumerate(world.assets):
            confirm(world, asset, world.assets[position - 1], seen)

    assert {"gates of a reserve", "most that can be borrowed", "most that can be withdrawn"} <= set(seen)
