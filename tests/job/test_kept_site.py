"""Runs a few minutes apart keep the web pages of an earlier one, and say so; the API is always of the run itself."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import exporter
from exporter.localnet.player import RecordedNetwork
from exporter.stores.folder import FolderStore
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tree.families import CHANGES, INTENT_KEY, POINTER_KEY
from tests.check.trees import seal, write
from tests.jobs import NOW, run, settings_for
from tests.localnet.recorded import only

First = tuple[RecordedNetwork, MemoryStore]


@pytest.fixture(scope="module")
def first() -> First:
    """A network at its second ledger, and a store with the run of its first."""
    network, store = RecordedNetwork(), MemoryStore()
    publish(network, store, 0)
    network.advance()
    return network, store


def publish(network: RecordedNetwork, store: Store, minutes: int, **flags: Any) -> None:
    settings = settings_for(**only("slender"), **flags)
    run(settings, store, network=network, now=NOW + timedelta(minutes=minutes))


def pages_of(store: Store) -> dict[str, bytes]:
    keys = [info.key for info in store.list("") if info.key.endswith(".html")]
    return {key: stored.data for key in keys if (stored := store.get(key)) is not None}


def changed_pages(network: RecordedNetwork, store: Store, before: Store, minutes: int, **flags: int) -> set[str]:
    """The pages that a run changes so much later, but for the one that is the same at every ledger."""
    publish(network, store, minutes, **flags)
    was = pages_of(before)
    return {key for key, data in pages_of(store).items() if was[key] != data}


@pytest.mark.parametrize(
    ("flags", "later", "kept"),
    [
        pytest.param({"output__site_minutes": 15}, 5, True, id="kept"),
        pytest.param({"output__site_minutes": 15}, 14, False, id="nearly-as-old-as-they-get"),
        pytest.param({"output__site_minutes": 0}, 5, False, id="never-kept"),
        pytest.param({}, 5, False, id="not-on-s3"),
    ],
)
def test_pages_stay_a_while(first: First, flags: dict[str, int], later: int, kept: bool) -> None:
    """A quiet run keeps all pages but the one that lists the history's files, until they are old enough."""
    network, before = first
    changed = changed_pages(network, MemoryStore(before), before, later, **flags)

    assert ({"data.html"} if kept else {*pages_of(before)} - {"404.html"}) == changed


@pytest.mark.parametrize("happened", ["unfinished", "lost", "another version", "news"])
def test_pages_are_rendered_where_they_might_be_wrong(first: First, happened: str) -> None:
    """After a run that died, after another version, with a new market, and where a page is missing."""
    network, before = first
    store, pointer, stored = MemoryStore(before), before.get(POINTER_KEY), before.get(CHANGES.template)
    assert pointer is not None
    assert stored is not None
    ledger, changes = json.loads(pointer.data)["observed_ledger"], json.loads(stored.data)
    if happened == "unfinished":
        began = {"run_id": f"{ledger + 1}-0123456789ab", "observed_ledger": ledger + 1, "started_at": "2026"}
        store.put(INTENT_KEY, json.dumps(began).encode())
    elif happened == "lost":
        store.delete(["index.html"])
    elif happened == "news":
        del changes["markets"][0]
    else:
        changes["exporter_version"] = "0"
    store.put(CHANGES.template, json.dumps(changes).encode())
    changed = changed_pages(network, store, before, 5, output__site_minutes=15)

    assert ({"index.html", "data.html"} if happened == "lost" else {*pages_of(before)} - {"404.html"}) == changed


def test_a_check_says_which_pages_are_older(tmp_path: Path) -> None:
    """Rendering again compares all but the pages of the earlier run, which its summary names by their time."""
    network, store = RecordedNetwork(), FolderStore(tmp_path)
    for minutes in (0, 5, 10):
        network.advance()
        publish(network, store, minutes, output__site_minutes=15)
    looked = exporter.check_tree(str(tmp_path))
    pages = len(pages_of(store)) - 2  # the list of the history's files, and a page without numbers
    assert f"not rendered again: {pages} web pages, of the run published at 2026-11-21T12:00:00Z" in looked.lines()
    assert looked.rerendered > pages


def test_a_page_that_no_run_keeps_is_compared(first: First, tmp_path: Path) -> None:
    """Where pages were kept, one that lists other files of the history than there are is still refused."""
    network, before = first
    store = MemoryStore(before)
    publish(network, store, 5, output__site_minutes=15)
    files = {info.key: stored.data for info in store.list("") if (stored := store.get(info.key)) is not None}
    files["data.html"] += b" "
    seal(files)
    with pytest.raises(exporter.TreeFaultsError, match=r"data\.html: does not follow from the run's evidence"):
        exporter.check_tree(str(write(files, tmp_path / "forged")))
