"""Tests of exporter/publishing/acceptance.py: ledgers that are not newer, and files of somebody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from exporter.errors import ConfigError, SourceError, StoreError
from exporter.publishing.acceptance import LedgerNotNewerError, accept_run, refuse_files_of_others
from exporter.stores.folder import FolderStore
from exporter.stores.held_store import HeldStore
from exporter.tree.families import INTENT_KEY, ROOT_FILES
from exporter.tree.files import RenderedFile
from tests.publishing.published_tree import (
    START,
    assert_whole,
    fail_publishing,
    make_run,
    operations_until,
    publish_run,
    published,
    published_ledger,
)
from tests.stores.bucket_simulator import BucketSimulator


def refusal(store: FolderStore) -> str:
    """Why the output is refused; empty if it is accepted."""
    try:
        refuse_files_of_others(store)
    except StoreError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ROOT_FILES)
def test_a_file_of_somebody_is_named(tmp_path: Path, name: str) -> None:
    """Each name that a tree has at its root is refused if there is no tree."""
    (tmp_path / name).write_text("mine")

    assert f"has a file {name}, and no tree" in refusal(FolderStore(tmp_path))


@pytest.mark.parametrize("other", ["CNAME", "robots.txt", "v1/mine.txt"])
def test_what_no_run_writes_is_no_reason(tmp_path: Path, other: str) -> None:
    """A file that a run leaves alone may be there, and makes no tree of the files next to it."""
    store = FolderStore(tmp_path)
    (tmp_path / other).parent.mkdir(exist_ok=True)
    (tmp_path / other).write_text("mine")
    alone = refusal(store)
    (tmp_path / "index.html").write_text("mine")

    assert ("", True) == (alone, "has a file index.html" in refusal(store))


def test_a_first_run_that_died_is_no_reason(tmp_path: Path) -> None:
    """The web pages of a first run that died are those of a tree, as its intent says."""
    store = FolderStore(tmp_path)
    store.put_many([("index.html", b"ours"), (INTENT_KEY, b"{}")])
    with_intent = refusal(store)
    store.delete([INTENT_KEY])

    assert ("", True) == (with_intent, "has a file index.html" in refusal(store))


CLOSED = int(START.timestamp()) - 5
"""The close time of the ledgers of all made-up runs."""


@pytest.mark.parametrize("ledger", [99, 100])
def test_a_ledger_that_is_not_newer_is_refused(ledger: int) -> None:
    """A run at or below the published ledger is refused before anything is rendered or written."""
    bucket = BucketSimulator(published(100)[0])
    rendered: list[RenderedFile] = []

    def stream() -> Iterator[RenderedFile]:
        for file in make_run(ledger).files:
            rendered.append(file)
            yield file

    with pytest.raises(LedgerNotNewerError, match=f"ledger {ledger} is .*published") as refusal:
        publish_run(bucket, make_run(ledger), files=stream())

    assert refusal.value.already_published == (ledger == 100)
    assert ([], []) == (rendered, bucket.writes())
    with pytest.raises(LedgerNotNewerError):
        accept_run(HeldStore(bucket), ledger, CLOSED)


@pytest.mark.parametrize(
    ("ledger", "seconds", "refused"),
    [
        (1_100, 0, None),
        (1_160, 6, None),
        (10_000_100, 1_000_000, None),
        (101, 0, None),
        (1_101, 0, "1101 is 1001 above .* --replace-ledger 100$"),
        (1_161, 6, "1161 is 1061 above"),
        (1_000_100, 6, "1000100 is 1000000 above"),
        (101, -1, "101 closed at .* ledger 100 of .* --replace-ledger 100, which undoes"),
        (2**32 - 1, -1, "4294967295 closed at"),
    ],
)
def test_ledgers_that_a_network_can_reach(ledger: int, seconds: int, refused: str | None) -> None:
    """More ledgers than a network closes in the time, or an earlier close, are the source's fault."""
    store, _ = published(100)

    with nullcontext() if refused is None else pytest.raises(SourceError, match=refused):
        accept_run(HeldStore(store), ledger, CLOSED + seconds)


@pytest.mark.parametrize("named", [99, 101, 1_000_100])
def test_only_the_ledger_of_a_published_run_can_be_replaced(named: int) -> None:
    """Naming another ledger is refused with the newest that was published, and nothing is written."""
    bucket = BucketSimulator(published(100)[0])
    with pytest.raises(ConfigError, match=f"{named} is not .*; the newest that was published or begun is 100"):
        publish_run(bucket, make_run(90), replaced_ledger=named)

    assert [] == bucket.writes()


def test_an_unfinished_run_bars_earlier_ledgers() -> None:
    """After a run died while it replaced documents, only its ledger or a later one may be published."""
    store, _ = published(100)
    fail_publishing(store, make_run(110), 0)
    accept_run(HeldStore(store), 105, CLOSED)  # it failed before it touched a document

    fail_publishing(store, make_run(110), operations_until(store, make_run(110), INTENT_KEY) + 3)
    with pytest.raises(LedgerNotNewerError, match="below 110, at which a run began") as refusal:
        publish_run(store, make_run(105))

    assert not refusal.value.already_published
    assert 100 == published_ledger(store)
    publish_run(store, make_run(110))
    assert_whole(store, make_run(110))
