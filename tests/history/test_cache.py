"""What is kept of the histories between runs: it is used when it fits the manifest, and recomputed when it does not."""

from __future__ import annotations

import hashlib
from random import Random

import msgspec
import pytest

from exporter.errors import StoreError
from exporter.history.manifest import read_history_manifest
from exporter.history.series import STATE_KEY, Series, catch_up, load_series
from exporter.stores.memory import MemoryStore
from tests.history.runs import MONDAY, Historian, observe, places

LEDGER = 65_000_000


def after_runs(count: int, step: int = 1800, pools: int = 2) -> Historian:
    """A store after some runs."""
    historian = Historian(MemoryStore())
    random = Random(count)
    for number in range(count):
        ledger, time = LEDGER + number, MONDAY + number * step
        historian.run(observe(random, places(1, pools), ledger, time), ledger, time)
    return historian


def loaded(historian: Historian, before: int) -> Series:
    return load_series(historian.store, read_history_manifest(historian.store), before)


@pytest.mark.parametrize("damage", ["cut", "flipped", "version"])
def test_a_damaged_state_is_not_used(damage: str) -> None:
    """Whatever happened to the state, it is either whole or not used at all."""
    historian = after_runs(3)
    state = historian.store.get(STATE_KEY)
    assert state is not None
    data = bytearray(state.data)
    if damage == "version":
        kept = msgspec.msgpack.decode(bytes(data[32:])) | {"version": 0}
        other = msgspec.msgpack.encode(kept)
        historian.store.put(STATE_KEY, hashlib.sha256(other).digest() + other)
    else:
        data[-1] ^= damage == "flipped"
        historian.store.put(STATE_KEY, bytes(data[: len(data) - (damage == "cut")]))

    assert 0 == loaded(historian, LEDGER + 3).through_ledger


def test_a_state_of_another_history_is_not_used() -> None:
    """A state with other observations than the manifest lists, or of ledgers from the run on, is left alone."""
    historian = after_runs(4)
    manifest = read_history_manifest(historian.store)
    assert manifest is not None
    shorter = msgspec.structs.replace(manifest, files=manifest.files[:-1])
    other = msgspec.structs.replace(
        manifest, files=[msgspec.structs.replace(manifest.files[0], rows=3), *manifest.files[1:]]
    )

    assert LEDGER + 3 == load_series(historian.store, manifest, LEDGER + 4).through_ledger
    assert 0 == load_series(historian.store, manifest, LEDGER + 3).through_ledger
    assert 0 == load_series(historian.store, shorter, LEDGER + 4).through_ledger
    assert 0 == load_series(historian.store, other, LEDGER + 4).through_ledger
    assert 0 == load_series(historian.store, None, LEDGER + 4).through_ledger


@pytest.mark.parametrize("damage", ["is missing", "is not the file", "has 5 rows, but it has 2"])
def test_a_lost_history_file_is_named(damage: str) -> None:
    """A file that the manifest names and the store does not have, or has otherwise, is an error and no gap."""
    historian = after_runs(3)
    manifest = read_history_manifest(historian.store)
    assert manifest is not None
    key = manifest.files[1].key
    if damage.startswith("has"):
        manifest.files[1] = msgspec.structs.replace(manifest.files[1], rows=5)
    else:
        historian.store.delete([key])
    if damage == "is not the file":
        historian.store.put(key, b"PAR1")

    with pytest.raises(StoreError, match=f"{key} {damage}"):
        list(catch_up(historian.store, manifest, LEDGER + 3, Series()))
    manifest.files[1] = msgspec.structs.replace(manifest.files[1], rows=2)
    # A series that knows it already has no need of it.
    assert [] == list(catch_up(historian.store, manifest, LEDGER + 3, loaded(historian, LEDGER + 3)))
