"""Tests of exporter/job/steps/gather.py."""

from __future__ import annotations

import pytest

from exporter.errors import CheckError
from exporter.history.changes_table import NO_ROWS
from exporter.job import lost_prices
from exporter.job.steps.gather import MAX_NAMED_DAMAGE, PreviousRun, _previous_run, read_missed_prices, report_damage
from exporter.localnet.player import RecordedNetwork
from exporter.publishing.published_state import read_published
from exporter.stores.held_store import HeldStore
from exporter.stores.memory import MemoryStore
from tests.history.frames import manifest_of
from tests.job.steps.made_job import made_job
from tests.job_runs import run, settings_for
from tests.publishing.published_tree import published


def test_a_run_that_finds_no_market_publishes_nothing() -> None:
    """Without any market the run fails before it publishes."""
    store = MemoryStore()
    with pytest.raises(CheckError, match="no market was read"):
        run(settings_for(discovery__enabled=False), store, network=RecordedNetwork())

    assert read_published(store) is None


def test_damage_is_named_up_to_a_limit_and_reported_whole() -> None:
    """The report has every damaged file of the history, and the console the first of them."""
    store, _ = published(*range(100, 103 + MAX_NAMED_DAMAGE))
    manifest = manifest_of(store)
    store.delete([file.key for file in manifest.files[1:]])
    store.put(manifest.files[0].key, b"?")
    made = made_job(store)
    damage = report_damage(made.job, HeldStore(store), manifest)

    assert len(manifest.files) == len(damage)
    assert damage == made.facts["damaged_history"]
    assert f"damage in the history: {manifest.files[0].key} has 1 bytes, not " in made.said.getvalue()
    assert MAX_NAMED_DAMAGE == made.said.getvalue().count("damage in the history: ")


def test_missed_prices_that_cannot_be_read_are_none() -> None:
    """A damaged list of missing prices costs a warning, and the run may report them again."""
    store = MemoryStore()
    store.put(lost_prices.KEY, b"[")
    made = made_job(store)

    assert frozenset() == read_missed_prices(made.job, HeldStore(store))
    assert "this run may report them again: state/lost-prices.memory cannot be understood" in made.said.getvalue()


def test_a_first_run_has_no_previous_one() -> None:
    """In an empty output there is nothing to compare with, and no earlier change."""
    store = MemoryStore()
    previous = _previous_run(made_job(store).job, HeldStore(store), 100)

    assert PreviousRun(None, [], NO_ROWS) == previous


def test_an_undoing_run_is_compared_with_none() -> None:
    """A run that undoes others does not ask what they watched; other runs say that it is not known."""
    store, _ = published(100)
    undoing, other = made_job(store, replaced_ledger=100), made_job(store)
    results = [_previous_run(made.job, HeldStore(store), 100) for made in (undoing, other)]

    assert [None, None] == [previous.watched for previous in results]
    unknown = "what changed since the previous run is not known"
    assert [False, True] == [unknown in made.said.getvalue() for made in (undoing, other)]
