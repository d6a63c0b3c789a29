"""Writing the files of a run: the folder store against a loop that makes each folder once and writes each file.

Both write into memory where there is room, into a new folder each time. Processor time is compared, because that is
what the program has in its hands; the store also sees to it that no reader finds half a file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from exporter.stores.folder import FolderStore
from exporter.stores.memory import MemoryStore
from exporter.tree.families import kind_of
from exporter.tree.files import FileKind
from tests.bench.bare_writing import write_bare
from tests.bench.job import publishing_folder
from tests.bench.localnet import localnet
from tests.bench.timing import Finding, Spread, Target
from tests.jobs import run as run_job
from tests.jobs import settings_for

POOLS = 1_000
ROUNDS = 15

Files = Sequence[tuple[str, bytes]]


def run(quick: bool = False) -> list[Finding]:
    """The whole tree of a run, written into a new folder."""
    pages, documents = made_tree(10 if quick else POOLS)
    parent, where = publishing_folder()
    took: dict[str, list[float]] = {"store": [], "loop": []}
    contenders: dict[str, Callable[[str], None]] = {
        "store": lambda root: write_by_store(root, pages, documents),
        "loop": lambda root: write_bare(root, [*pages, *documents]),
    }
    for number in range(1 if quick else ROUNDS):
        for name in sorted(contenders, reverse=number % 2 == 1):
            with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as folder:
                took[name].append(_processor_seconds(lambda: contenders[name](f"{folder}/tree")))  # noqa: B023
                count = sum(path.is_file() for path in Path(folder).rglob("*"))
                if count != len(pages) + len(documents):
                    raise AssertionError(f"{name} left {count} files")
    ratios = [store / loop for store, loop in zip(took["store"], took["loop"], strict=True)]
    milliseconds = {f"{name}_ms": round(1000 * Spread.of(times).median) for name, times in took.items()}
    facts = milliseconds | {"files": len(pages) + len(documents), "where": where}
    return [
        Finding("folder store / bare writing: processor time", Spread.of(ratios), "times", Target(2.0, False), facts)
    ]


def made_tree(pools: int) -> tuple[Files, Files]:
    """The pages and the documents of a run."""
    store = MemoryStore()
    with localnet(pools) as url:
        run_job(settings_for(None, url), store)
    files = [(info.key, stored.data) for info in store.list("") if (stored := store.get(info.key)) is not None]
    pages = [file for file in files if kind_of(file[0]) is FileKind.PAGE]
    return pages, [file for file in files if kind_of(file[0]) is not FileKind.PAGE]


def write_by_store(root: str, pages: Files, documents: Files) -> None:
    """Write as the publisher does."""
    store = FolderStore(root)
    store.put_new_many(pages)
    store.put_many(documents)


def _processor_seconds(action: Callable[[], None]) -> float:
    before = os.times()
    action()
    after = os.times()
    return after.user + after.system - before.user - before.system
