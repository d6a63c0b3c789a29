"""A small published tree with everything in it, and how tests break it.

The tree is what eight runs leave of a recorded network: pools of two protocols, one archived, one missing
and two without a price, histories whose older pages are complete, and files of earlier runs that the last one does not
list.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from exporter.audit.check_summary import CheckSummary
from exporter.audit.published_tree import check_source
from exporter.localnet.player import DEFAULT_START_LEDGER, DEFAULT_START_TIME, RecordedNetwork
from exporter.publishing.faults import TreeFaultsError
from exporter.stores.memory import MemoryStore
from exporter.stores.tree_sources import StoreSource
from exporter.tree.documents import ManifestFile
from exporter.tree.families import STATUS_KEY, kind_of
from exporter.tree.run_listing import RunListing
from tests.job_runs import NOW, leaving_out_pages, run, settings_for
from tests.localnet.recorded import BLEND_V1, BLEND_V2, only, pools_of, with_rewards, without_oracle
from tests.made_once import once

SIZES = (1, 2, 5)
RUNS = 8
FLAGS = {"output__page_sizes": list(SIZES), "output__default_page_size": 2, "output__market_pools_cap": 2}

Files = dict[str, bytes]
Change = Callable[[Any], object]


def tree_of(
    network: RecordedNetwork,
    *names: str,
    runs: int = 1,
    apart: timedelta = timedelta(days=2),
    flags: Mapping[str, Any] = FLAGS,
) -> Files:
    """The files that some runs leave of a network (`only` some markets; all), which moves on after each.

    Only the last run renders web pages, because each run replaces all pages.
    """
    store = MemoryStore()
    settings = settings_for(None, **flags, **(only(*names) if names else {}))
    for number in range(runs):
        with nullcontext() if number == runs - 1 else leaving_out_pages():
            run(settings, store, now=NOW + apart * number, network=network)
        network.advance()
    return {info.key: content.data for info in store.list("") if (content := store.get(info.key)) is not None}


def _good_tree() -> Files:
    archived, missing, *_ = (pool.key for pool in pools_of(RecordedNetwork(), BLEND_V2))
    step = 2 * 86_400
    first, time = DEFAULT_START_LEDGER - 1, DEFAULT_START_TIME - step
    network = RecordedNetwork(
        start_ledger=first, start_time=time, close_seconds=step, archived=[archived], without=[missing]
    )
    network.close(with_rewards(network, BLEND_V1) | without_oracle(network, BLEND_V1))
    return tree_of(network, "blend", "alula", runs=RUNS)


def good_tree() -> Files:
    """The files of a good tree, which the test may change."""
    return dict(once("good tree", _good_tree))


def small_tree() -> Files:
    """The files of a good tree of one run, whose three pools are one page; the test may change them."""
    return dict(once("small tree", lambda: tree_of(RecordedNetwork(), "alula")))


def check(files: Files, sample: int | None = None) -> CheckSummary:
    store = MemoryStore()
    for key, data in files.items():
        store.put(key, data)
    return asyncio.run(check_source(StoreSource(store), sample))


_last: tuple[Files, int | None, list[str]] = ({}, None, [])
"""Files that were checked last, and what was wrong with them: a test asks several things of one check."""


def faults(files: Files, sample: int | None = None) -> list[str]:
    global _last
    if _last[:2] != (files, sample):
        with pytest.raises(TreeFaultsError) as caught:
            check(files, sample)
        _last = dict(files), sample, [str(fault) for fault in caught.value.faults]
    return _last[2]


def assert_named(files: Files, key: str, text: str) -> None:
    """The checker names a key, with a text (a regular expression) about it."""
    found = faults(files)
    assert any(re.match(f"{re.escape(key)}: .*{text}", fault) for fault in found), found


def write(files: Files, folder: Path) -> Path:
    for key, data in files.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(data)
    return folder


def read(folder: Path) -> Files:
    """The files of a folder, except for hidden ones."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def status_of(files: Files) -> Any:
    return json.loads(files[STATUS_KEY])


def manifest_of(files: Files) -> Any:
    return json.loads(files[status_of(files)["manifest_key"]])


def listed_of(files: Files) -> list[ManifestFile]:
    return list(RunListing.from_parquet(files[manifest_of(files)["files_key"]]))


def keys(files: Files, start: str, end: str = ".json") -> list[str]:
    listed = [file.key for file in listed_of(files)]
    return [key for key in listed if key.startswith(start) and key.endswith(end)]


def summaries(files: Files) -> list[str]:
    return [key for key in keys(files, "v1/markets/") if "/history/" not in key]


def encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def change(files: Files, key: str, how: Change) -> None:
    """Change a document in place, without a word to the manifest."""
    document = json.loads(files[key])
    how(document)
    files[key] = encoded(document)


def lie(files: Files, key: str, how: Change) -> None:
    """Change a document and make the manifest and the status agree, as a renderer with a bug would."""
    change(files, key, how)
    seal(files)


def seal(files: Files, *more: str) -> None:
    """Make the run's manifest and the status describe the files as they are now, and ``more`` of them; those that are
    gone leave it.
    """
    status, manifest = status_of(files), manifest_of(files)
    kept = [entry.key for entry in listed_of(files) if entry.key in files]
    listing = RunListing.of(
        ManifestFile(key, kind_of(key).value, len(files[key]), digest(files[key])) for key in (*kept, *more)
    )
    del files[status["manifest_key"]], files[manifest["files_key"]]
    run_id = listing.run_id(manifest["observed_ledger"])
    if (proofs := files.get("v1/proofs.json")) is not None:
        files["v1/proofs.json"] = proofs.replace(status["run_id"].encode(), run_id.encode())
    count, size = listing.size
    manifest |= {"run_id": run_id, "file_count": count, "bytes": size, "files_key": f"v1/runs/{run_id}.parquet"}
    files[manifest["files_key"]] = listing.parquet
    manifest["files_sha256"] = digest(listing.parquet)
    evidence = status["evidence_key"]
    manifest["inputs"][0] = {"name": "evidence", "key": evidence, "sha256": digest(files[evidence])}
    status |= {"run_id": run_id, "manifest_key": f"v1/runs/{run_id}.json", "manifest_sha256": digest(encoded(manifest))}
    files[status["manifest_key"]] = encoded(manifest)
    files[STATUS_KEY] = encoded(status)


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def add_listed(files: Files, key: str, data: bytes) -> None:
    """Add a file to the tree and to the run's manifest."""
    files[key] = data
    seal(files, key)
