"""Tests what is proven of a change across a gap in reading: only what follows from runs that were repeated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from exporter.audit.earlier_runs import judge_inputs, repeat_earlier
from exporter.audit.fetched_tree import fetch
from exporter.audit.unproven import UnprovenReason
from exporter.errors import RefutedError
from exporter.localnet.player import RecordedNetwork
from exporter.stores.memory import MemoryStore
from exporter.tree.families import STATUS_KEY, WATCHED
from tests.audit.trees import Files, change, seal, write
from tests.job_runs import run, settings_for
from tests.localnet.recorded import BLEND_V2, only, readable, unreadable, with_collateral_factor

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_pages")]


@pytest.fixture
def files() -> Files:
    """A tree whose last run reads a market again that the two runs before it did not read."""
    network, store = RecordedNetwork(), MemoryStore()
    written: tuple[dict[bytes, bytes | None], ...] = (
        {},
        unreadable(network, BLEND_V2),
        with_collateral_factor(network, BLEND_V2, 1_234_567),
        readable(network, BLEND_V2),
    )
    for entries in written:
        network.close(entries)
        run(settings_for(**only("blend")), store, network=network)
    return {info.key: content.data for info in store.list("") if (content := store.get(info.key)) is not None}


def unproven(files: Files, folder: Path, most: int) -> list[str]:
    """The changes that are not proven if at most so many earlier runs are repeated."""
    tree = asyncio.run(fetch(str(write(files, folder / f"tree-{most}")), folder / f"fetched-{most}", most))
    return judge_inputs(tree, repeat_earlier(tree)).names[UnprovenReason.CHANGES]


def named_input(files: Files) -> tuple[str, str]:
    """The key of the manifest, and that of the watched values that it names as an input."""
    manifest_key = json.loads(files[STATUS_KEY])["manifest_key"]
    (key,) = [item["key"] for item in json.loads(files[manifest_key])["inputs"] if item["name"] == "watched"]
    return manifest_key, key


def test_a_gap_is_proven_by_all_of_its_runs(files: Files, tmp_path: Path) -> None:
    """The runs of the gap have to be repeated, and the one before it; the file of the values may be gone."""
    gaps = [[text for text in unproven(files, tmp_path, most) if "did not read" in text] for most in (1, 2, 3)]
    del files[named_input(files)[1]]
    without_file = unproven(files, tmp_path, 5)

    assert [1, 1, 0] == [len(texts) for texts in gaps]
    assert not any("did not read" in text for text in without_file)


def lie(values: dict[str, Any]) -> None:
    values["carried"][0]["pools"][0]["parameters"]["c_factor"] = "0.5"


def forget(values: dict[str, Any]) -> None:
    del values["carried"]


def date_back(values: dict[str, Any]) -> None:
    values["carried"][0]["observed_ledger"] -= 1


@pytest.mark.parametrize("forge", [lie, forget, date_back])
def test_forged_values_are_refused(files: Files, tmp_path: Path, forge: Callable[[dict[str, Any]], None]) -> None:
    """Other carried values than the run had, or none, or those of another ledger, contradict the repeated run."""
    manifest_key, key = named_input(files)
    values = json.loads(files[key])
    forge(values)
    data = json.dumps(values, separators=(",", ":")).encode()
    digest = sha256(data).hexdigest()
    other = WATCHED.key(sha256=digest)
    files[other] = data

    def name_other(manifest: dict[str, Any]) -> None:
        for item in manifest["inputs"]:
            if item["key"] == key:
                item.update(key=other, sha256=digest)

    change(files, manifest_key, name_other)
    seal(files)
    with pytest.raises(RefutedError, match="the run was compared with these values"):
        unproven(files, tmp_path, 1)
