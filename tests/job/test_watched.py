"""Each run is compared with the published one, whatever happened in between, and its manifest says by which values."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

import exporter
from exporter.errors import StoreError
from exporter.job.watched import run_before, watched_in
from exporter.localnet.player import RecordedNetwork
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tree.documents import ChangeList, RunChange, RunManifest, SystemStatus
from exporter.tree.families import CHANGES, STATUS_KEY, WATCHED
from tests.job_runs import run, settings_for
from tests.localnet.recorded import (
    BLEND_V2,
    only,
    readable,
    unreadable,
    with_collateral_factor,
    without_oracle,
)
from tests.stores.bucket_simulator import BucketSimulator

pytestmark = pytest.mark.usefixtures("without_pages")

BLEND_ALONE: dict[str, Any] = only("blend")


def document(store: Store, key: str, model: type[Any]) -> Any:
    stored = store.get(key)
    assert stored is not None
    return msgspec.json.decode(stored.data, type=model)


def publish(store: Store, network: RecordedNetwork, **options: Any) -> None:
    run(settings_for(**BLEND_ALONE), store, network=network, **options)


def changes_of(store: Store) -> list[tuple[str, str | None, int, int]]:
    listed: list[RunChange] = document(store, CHANGES.only_key, ChangeList).data
    return [(item.kind, item.pool, item.observed_ledger, item.previous_ledger) for item in listed]


def inputs_of(store: Store, name: str) -> list[str]:
    manifest = document(store, document(store, STATUS_KEY, SystemStatus).manifest_key, RunManifest)
    return [item.key for item in manifest.inputs if item.name == name]


def watched_keys(store: Store) -> list[str]:
    return [info.key for info in store.list(WATCHED.prefix)]


def test_a_run_that_died_loses_no_change_and_says_none_twice() -> None:
    """A price is lost while a run dies after it replaced the list of changes; the next run says so once, by its own."""
    network, store = RecordedNetwork(), MemoryStore()
    publish(store, network)
    published = document(store, STATUS_KEY, SystemStatus)
    network.close(without_oracle(network, BLEND_V2))
    bucket = BucketSimulator(MemoryStore(store))
    publish(bucket, network)
    swap = [call.operation for call in bucket.calls].index("swap")
    dying = BucketSimulator(store)
    dying.fail_from(swap, StoreError("no"))
    with pytest.raises(StoreError):
        publish(dying, network)
    said_by_the_dead = changes_of(store)
    network.advance()
    publish(store, network)

    assert published.observed_ledger + 1 in {ledger for *_, ledger, _ in said_by_the_dead}
    found = changes_of(store)
    assert [kind for kind, *_ in said_by_the_dead] == [kind for kind, *_ in found]
    assert {(published.observed_ledger + 2, published.observed_ledger)} == {tuple(item[2:]) for item in found}


SLOW = pytest.mark.slow


@pytest.mark.parametrize("lost", ["removed", *(pytest.param(lost, marks=SLOW) for lost in ("damaged", "all removed"))])
def test_values_that_are_lost_follow_from_the_evidence(tmp_path: Path, lost: str) -> None:
    """If files of watched values are lost, evidence gives them, also those from before a market was unread.

    They have the same digest, so a change of that time is said, and the run can be rendered again. If the values of two
    runs in a row are lost, the next run still finds the change. A check then says that it cannot.
    """
    network, store = RecordedNetwork(), MemoryStore()
    first = network.chain.latest
    publish(store, network)
    older = watched_keys(store)
    network.close(unreadable(network, BLEND_V2))
    publish(store, network)
    (newer,) = set(watched_keys(store)) - set(older)
    if lost == "damaged":
        store.put(newer, b"{}")
    else:
        store.delete([newer, *(older if lost == "all removed" else [])])
    network.close(with_collateral_factor(network, BLEND_V2, 1_234_567) | readable(network, BLEND_V2))
    publish(store, network)
    for info in store.list(""):
        stored = store.get(info.key)
        (tmp_path / info.key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / info.key).write_bytes(b"" if stored is None else stored.data)

    assert [newer] == inputs_of(store, "watched")
    assert [("configuration", first), ("parameter", first), ("unread", first)] == sorted(
        (kind, previous) for kind, _, _, previous in changes_of(store)
    )
    not_rerendered = exporter.check_tree(str(tmp_path)).not_rerendered
    assert (f"depends on {newer}: it is gone" in (not_rerendered or "")) is (lost == "all removed")
    assert lost == "all removed" or not_rerendered is None


def test_without_values_and_evidence_nothing_is_compared() -> None:
    """The run is published, says that it does not know what changed, and keeps what earlier runs found."""
    network, store = RecordedNetwork(), MemoryStore()
    publish(store, network)
    network.close(without_oracle(network, BLEND_V2))
    publish(store, network)
    before = changes_of(store)
    store.delete([*watched_keys(store), *(info.key for info in store.list("v1/evidence/"))])
    network.advance()
    publish(store, network)

    assert [] == inputs_of(store, "watched")
    assert before == changes_of(store) != []


def test_the_run_before_is_that_of_the_ledger_before() -> None:
    """If there is no status document, the previous run is the one with the highest ledger that left a manifest."""
    store = MemoryStore()
    for run_id in ("9-bbbbbbbbbbbb", "10-aaaaaaaaaaaa", "11-aaaaaaaaaaaa"):
        store.put(f"v1/runs/{run_id}.json", b"{}")

    assert [None, "9-bbbbbbbbbbbb", "10-aaaaaaaaaaaa", "11-aaaaaaaaaaaa"] == [
        run_before(store, ledger) for ledger in (9, 10, 11, 100)
    ]


def test_only_the_file_of_its_own_digest_has_watched_values() -> None:
    """A file of watched values under another key, or that is none, is not used; under its own it is."""
    network, store = RecordedNetwork(), MemoryStore()
    publish(store, network)
    (key,) = watched_keys(store)
    stored = store.get(key)
    assert stored is not None
    other, nothing = WATCHED.key(sha256="0" * 64), WATCHED.key(sha256=sha256(b"{}").hexdigest())
    found = watched_in(key, stored.data)

    assert found is not None
    assert (key, stored.data) == (found.file.key, found.file.data)
    assert [None, None] == [watched_in(other, stored.data), watched_in(nothing, b"{}")]
