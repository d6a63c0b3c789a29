"""Tests of exporter/publishing/unchanged_histories.py: which history documents a run lists again."""

from __future__ import annotations

import pytest

from exporter.publishing.published_state import Published, read_published
from exporter.publishing.unchanged_histories import find_unchanged_histories
from exporter.stores.memory import MemoryStore
from exporter.tree.families import POOL_DOCUMENT
from exporter.tree.files import FileKind, RenderedFile
from tests.publishing.published_tree import make_run, publish_run

POOL = f"{POOL_DOCUMENT.prefix}{'C' * 56}/{'P' * 56}/history"
MARKET = f"v1/markets/{'C' * 56}/history"
DAYS = {f"{POOL}.csv", f"{POOL}/1d.json", f"{MARKET}/1d.json"}
HOURS = {f"{POOL}/1h.json", f"{MARKET}/1h.json"}
TOTALS = {f"{MARKET}/1d.json", f"{MARKET}/1h.json"}


@pytest.fixture
def tree() -> tuple[MemoryStore, Published]:
    """A published run that has histories of a pool and of a market, in days and hours."""
    store, run = MemoryStore(), make_run(100)
    histories = [RenderedFile(key, key.encode(), FileKind.DOCUMENT) for key in sorted(DAYS | HOURS)]
    publish_run(store, run, files=[*run.files, *histories])
    published = read_published(store)
    assert published is not None
    return store, published


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [([], set()), (["1d"], DAYS), (["1h"], HOURS), (["5m"], set()), (["1d", "1h"], DAYS | HOURS)],
)
def test_documents_of_the_given_lengths_are_listed_again(
    tree: tuple[MemoryStore, Published], lengths: list[str], expected: set[str]
) -> None:
    """Of the lengths in which no bucket closed, those with documents are reused; days are also there as CSV."""
    store, published = tree
    unchanged = find_unchanged_histories(store, published, lengths, TOTALS)

    assert expected == {file.key for file in unchanged.files}
    assert unchanged.lengths == {length for length in lengths if length != "5m"}


def test_one_lost_document_has_its_length_rendered_again(tree: tuple[MemoryStore, Published]) -> None:
    """A document that is missing or has another size takes all of its length along, and no other length."""
    store, published = tree
    store.put(f"{POOL}.csv", b"?")
    changed = find_unchanged_histories(store, published, ["1d", "1h"], TOTALS)
    store.delete([f"{MARKET}/1h.json"])
    lost = find_unchanged_histories(store, published, ["1d", "1h"], TOTALS)

    assert [{"1h"}, set()] == [changed.lengths, lost.lengths]
    assert [HOURS, set()] == [{file.key for file in each.files} for each in (changed, lost)]


def test_totals_without_a_pool_are_rendered_by_every_run(tree: tuple[MemoryStore, Published]) -> None:
    """Only the named totals are listed again."""
    store, published = tree

    assert DAYS - TOTALS == {file.key for file in find_unchanged_histories(store, published, ["1d"], ()).files}


def test_a_lost_listing_reuses_nothing(tree: tuple[MemoryStore, Published]) -> None:
    """Without the published run's listing every document is rendered."""
    store, published = tree
    store.delete([published.status.manifest_key])

    assert frozenset() == find_unchanged_histories(store, published, ["1d"], TOTALS).lengths
