"""Runs a few minutes apart keep the web pages of an earlier one, and say so; the API is always of the run itself."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

import exporter
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.stores.folder import FolderStore
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tree.families import CHANGES, INTENT_KEY, POINTER_KEY
from tests.jobs import NOW, run, settings_for


def pages_of(store: Store) -> dict[str, bytes]:
    """Every web page of a tree."""
    keys = [info.key for info in store.list("") if info.key.endswith(".html")]
    return {key: stored.data for key in keys if (stored := store.get(key)) is not None}


def ledger_of(store: Store) -> int:
    stored = store.get(POINTER_KEY)
    assert stored is not None
    return int(json.loads(stored.data)["observed_ledger"])


@pytest.mark.parametrize(
    ("minutes", "later", "kept"),
    [
        pytest.param(15, 5, True, id="kept"),
        pytest.param(15, 14, False, id="nearly-as-old-as-they-get"),
        pytest.param(15, 60, False, id="hourly-runs"),
        pytest.param(0, 5, False, id="never-kept"),
        pytest.param(None, 5, False, id="folder"),
    ],
)
def test_pages_stay_a_while(minutes: int | None, later: int, kept: bool) -> None:
    """A quiet run keeps all pages but the one that lists the history's files, until they are old enough."""
    network, store = RecordedNetwork(), MemoryStore()
    with running(create_app(network)) as url:
        flags = {} if minutes is None else {"output__site_minutes": minutes}
        settings = settings_for(None, url, **flags)
        run(settings, store)
        before = pages_of(store)
        network.advance()
        run(settings, store, now=NOW + timedelta(minutes=later))
    changed = {key for key, data in pages_of(store).items() if before[key] != data}

    assert ({"data.html"} if kept else {*before} - {"404.html"}) == changed


@pytest.mark.parametrize("happened", ["unfinished", "lost", "another version", "news"])
def test_pages_are_rendered_where_they_might_be_wrong(happened: str) -> None:
    """After a run that died, after another version, with a new market, and where a page is missing."""
    network, store = RecordedNetwork(), MemoryStore()
    with running(create_app(network)) as url:
        settings = settings_for(None, url, output__site_minutes=15)
        run(settings, store)
        before, ledger = pages_of(store), ledger_of(store)
        if happened == "unfinished":
            began = {"run_id": f"{ledger + 1}-0123456789ab", "observed_ledger": ledger + 1, "started_at": "2026"}
            store.put(INTENT_KEY, json.dumps(began).encode())
        elif happened == "lost":
            store.delete(["index.html"])
        else:
            stored = store.get(CHANGES.template)
            assert stored is not None
            changes = json.loads(stored.data)
            if happened == "news":
                del changes["markets"][0]
            else:
                changes["exporter_version"] = "0"
            store.put(CHANGES.template, json.dumps(changes).encode())
        network.advance()
        run(settings, store, now=NOW + timedelta(minutes=5))
    changed = {key for key, data in pages_of(store).items() if before[key] != data}

    assert ({"index.html", "data.html"} if happened == "lost" else {*before} - {"404.html"}) == changed


def test_a_check_says_which_pages_are_older(tmp_path: Path) -> None:
    """Rendering again compares all but the pages of the earlier run, which its summary names by their time."""
    network, store = RecordedNetwork(), FolderStore(tmp_path, durable=False)
    with running(create_app(network)) as url:
        settings = settings_for(tmp_path, url, output__site_minutes=15)
        for minutes in (0, 5, 10):
            network.advance()
            run(settings, store, now=NOW + timedelta(minutes=minutes))
    looked, pages = (
        exporter.check_tree(str(tmp_path)),
        len(pages_of(store)) - 2,
    )  # the list of files, and a page without numbers

    assert f"not rendered again: {pages} web pages, of the run published at 2026-11-21T12:00:00Z" in looked.lines()
    assert looked.rerendered > pages

    index = tmp_path / "index.html"
    index.write_bytes(index.read_bytes() + b" ")
    with pytest.raises(exporter.TreeFaultsError, match=r"index\.html"):
        exporter.check_tree(str(tmp_path))
