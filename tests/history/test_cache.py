"""What is kept of the histories between runs: it is used when it fits the manifest, and recomputed when it does not."""

from __future__ import annotations

import hashlib
from random import Random

import msgspec
import pytest

from exporter.errors import StoreError
from exporter.history.buckets import observations_of
from exporter.history.manifest import read_history_manifest
from exporter.history.series import STATE_KEY, Series, catch_up, load_series, save_series
from exporter.stores.memory import MemoryStore
from tests.history.runs import MONDAY, Historian, frame_of, observe, places

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


def contents(series: Series) -> dict[tuple[str, str], list[tuple[object, ...]]]:
    """Everything that a series holds."""
    return {
        (form, name): list(frames.get(name).iter_rows())
        for form, frames in (("pools", series.pools), ("totals", series.totals))
        for name in frames.packed
    }


def same(one: Series, other: Series) -> bool:
    """Whether two series are the same in everything."""
    return (one.through_ledger, one.through_time, one.row_count, contents(one)) == (
        other.through_ledger,
        other.through_time,
        other.row_count,
        contents(other),
    )


def kept_bytes(historian: Historian) -> dict[str, bytes]:
    found = {info.key: historian.store.get(info.key) for info in historian.store.list("state/")}
    return {key: stored.data for key, stored in found.items() if stored is not None}


def test_what_was_kept_is_what_was_made() -> None:
    """A series reads back as it was kept, and keeping it again gives the same bytes."""
    historian = after_runs(12)
    series = loaded(historian, LEDGER + 12)
    state = kept_bytes(historian)
    save_series(historian.store, series)

    assert (LEDGER + 11, 24) == (series.through_ledger, series.row_count)
    assert same(series, loaded(historian, LEDGER + 12))
    assert state == kept_bytes(historian)


def test_a_run_that_dies_while_it_keeps_the_state_leaves_the_one_before() -> None:
    """Where the new state cannot be written, the old one stays."""

    class Dying(MemoryStore):
        left = 99

        def put(self, key: str, data: bytes) -> bool:
            """See Store."""
            self.left -= key.startswith("state/")
            if self.left < 0:
                raise StoreError("no space left")
            return super().put(key, data)

    historian = Historian(store := Dying())
    for number in range(3):
        observed = observe(Random(number), places(1, 2), LEDGER + number, MONDAY + number)
        historian.run(observed, LEDGER + number, MONDAY + number)
    series = loaded(historian, LEDGER + 3)
    frame = observe(Random(9), places(1, 2), LEDGER + 3, MONDAY + 9000)
    list(series.extend(observations_of(frame_of(frame, LEDGER + 3, MONDAY + 9000)), LEDGER + 3, MONDAY + 9000))
    store.left = 0
    with pytest.raises(StoreError):
        save_series(store, series)

    assert LEDGER + 2 == loaded(historian, LEDGER + 3).through_ledger


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "flipped", "version"])
def test_a_damaged_state_is_not_used(damage: str) -> None:
    """Whatever happened to the state, it is either whole or not used at all."""
    historian = after_runs(3)
    state = historian.store.get(STATE_KEY)
    assert state is not None
    data = bytearray(state.data)
    if damage == "missing":
        historian.store.delete([STATE_KEY])
    elif damage == "version":
        kept = msgspec.msgpack.decode(bytes(data[32:])) | {"version": 0}
        other = msgspec.msgpack.encode(kept)
        historian.store.put(STATE_KEY, hashlib.sha256(other).digest() + other)
    else:
        data[-1] ^= damage == "flipped"
        historian.store.put(STATE_KEY, bytes(data[: {"empty": 0, "cut": -1}.get(damage, len(data))]))

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
