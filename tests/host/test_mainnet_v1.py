"""Blend v1 on the host: the real mainnet market of a ledger snapshot file, where the file has its code."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.ledger.codec.entries import code_key, instance_key
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.observation import Entry
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import RawEntry
from exporter.protocols.blend.layout import (
    WASM_HASHES,
    decode_instance,
    decode_reserve,
    decode_reserve_list,
    market_keys,
    reserve_config_key,
    reserve_data_key,
)
from tests.host.blend_judge import accrued
from tests.host.blend_world import MUCH, SUPPLY, USERS, WITHDRAW, balance_entry, requests
from tests.host.host_network import load_snapshot
from tests.host.machine import Machine

V1_CODE = next(wasm for wasm, generation in WASM_HASHES.items() if generation == "v1")
STEPS = 150
MOVED = ("b_rate", "d_rate", "ir_mod", "backstop_credit")


@pytest.fixture(scope="module")
def snapshot(mainnet_snapshot_path: Path) -> LedgerSnapshot:
    snapshot = LedgerSnapshot.load(mainnet_snapshot_path)
    if code_key(V1_CODE) not in snapshot.entries:
        pytest.skip(f"{mainnet_snapshot_path.name} has no contract code in it")
    return snapshot


@pytest.fixture
def machine(program: Path, snapshot: LedgerSnapshot) -> Iterator[Machine]:
    with Machine(program) as machine:
        load_snapshot(machine, snapshot)
        yield machine


def test_a_v1_market_accrues_as_its_code_does(machine: Machine, snapshot: LedgerSnapshot) -> None:
    """Supplying and withdrawing at any time leaves the rates, modifier and credit that our projection gives.

    These pools have no view; every transaction stores what has accrued up to it.
    """
    market = next(name for name, found in snapshot.contract_instances() if found.wasm_hash == V1_CODE)
    entries = dict(snapshot.entries)
    assets = decode_reserve_list(Entry(market_keys(market)[1], entries[market_keys(market)[1]]))
    rate = decode_instance(Entry(instance_key(market), entries[instance_key(market)])).backstop_rate
    user = address(USERS[0])
    for asset in assets:
        machine.put(balance_entry(asset, USERS[0], MUCH, snapshot.ledger))
    chance = random.Random(1)
    rows, stored = [], []
    for _ in range(STEPS):
        machine.at(machine.info.after(chance.randint(0, chance.choice([10, 3_600, 86_400, 30 * 86_400])), 1))
        asset = chance.choice(assets)
        wanted = (chance.choice([SUPPLY, SUPPLY, WITHDRAW]), asset, int(10 ** chance.uniform(0, 15)))
        outcome = machine.call(market, "submit", user, user, user, requests(wanted), authorised=True, commit=True)
        if outcome.error is not None:
            continue
        keys = reserve_config_key(market, asset), reserve_data_key(market, asset)
        row = decode_reserve(*(Entry(key, entries[key]) for key in keys))
        rows.append({**row, "close_time": machine.info.close_time, "bstop_rate": rate})
        entries |= {
            key: RawEntry(entry[4:-4], machine.info.ledger, None) for key, entry in outcome.changes.items() if entry
        }
        after = decode_reserve(*(Entry(key, entries[key]) for key in keys))
        stored.append({name: after[name] for name in MOVED})
        assert machine.info.close_time == after["last_time"]
    ours = [{name: accrued(row)[name] for name in MOVED} for row in rows]

    assert stored == ours
    assert len(rows) > STEPS / 2
