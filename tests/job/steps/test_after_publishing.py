"""Tests of exporter/job/steps/after_publishing.py: what fails after publishing costs a warning or exit code 6."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.errors import ExitCode, PublishedCheckError, StoreError
from exporter.job import lost_prices
from exporter.job.lost_prices import LostPrices
from exporter.job.steps.after_publishing import (
    compact_closed,
    judge_history,
    report_proven,
    save_history_state,
    sweep_expired,
)
from exporter.stores.held_store import HeldStore
from exporter.stores.memory import MemoryStore
from exporter.tables import PoolKey
from exporter.tree.documents import Proof, ProofList
from exporter.tree.families import INTENT_KEY, PROOFS
from exporter.tree.read_back import render_document
from tests.history.frames import manifest_of
from tests.job.steps.made_job import made_job
from tests.publishing.published_tree import make_run, published
from tests.stores.bucket_simulator import BucketSimulator


def test_damage_ends_the_run_after_it_was_published() -> None:
    """The first damaged file is named, with the number of all, and the exit code says that the run is published."""
    store, _ = published(100)
    with pytest.raises(PublishedCheckError, match="damage in the history, 2 in all; the first: a is missing") as failed:
        judge_history(made_job(store).job, HeldStore(store), ["a is missing", "b is missing"])

    assert ExitCode.PUBLISHED_CHECK == failed.value.exit_code


def closed_at(close_time: int) -> Any:
    """The tables of a run whose ledger closed at this time, of which the steps ask nothing else."""
    return SimpleNamespace(close_time=close_time)


def proof(ledger: int, confirmed: int) -> Proof:
    """The entry of a run of this ledger in the list of proofs."""
    digest = "0" * 64
    return Proof(
        run_id=f"{ledger}-{'0' * 12}",
        observed_ledger=ledger,
        evidence_key=f"v1/evidence/{digest}.jsonl.gz",
        proof_key=f"v1/proofs/{digest}.json",
        proof_sha256=digest,
        entries=9,
        confirmed=confirmed,
        proven_at="2026-11-21T10:00:00Z",
        checkpoint=127,
        changed_since=0,
        not_looked_up=0,
        short_lived=0,
        absent=0,
        calls=0,
        organisations_signed=1,
        organisations_trusted=1,
        organisations_needed=1,
    )


def test_the_report_has_the_newest_proof() -> None:
    """Of several proofs the report has that of the highest ledger; without a list it has none."""
    store = MemoryStore()
    none, some = made_job(store), made_job(store)
    report_proven(none.job, HeldStore(store))
    document = ProofList("network", "v1/verifier/a.py", "v1/verifier/b.json", [proof(101, 7), proof(102, 8)])
    store.put(PROOFS.only_key, render_document(document).data)
    report_proven(some.job, HeldStore(store))

    assert "proven" not in none.facts
    assert {"ledger": 102, "entries": 9, "confirmed": 8} == some.facts["proven"]


def test_a_damaged_list_of_proofs_costs_a_warning() -> None:
    """The report then names no proof."""
    store = MemoryStore()
    store.put(PROOFS.only_key, b"{")
    made = made_job(store)
    report_proven(made.job, HeldStore(store))

    assert "proven" not in made.facts
    assert "the list of proofs cannot be read, so the report names none" in made.said.getvalue()


def test_state_that_cannot_be_saved_costs_a_warning_each() -> None:
    """The history's state and the missing prices are saved one by one, so each failure is told by itself."""
    bucket = BucketSimulator()
    bucket.fail_from(0, StoreError("the disk is full"))
    made = made_job(bucket)
    lost = LostPrices(1, (PoolKey("C", "P"),), 0.0)
    series: Any = SimpleNamespace(row_count=3)
    gathered: Any = SimpleNamespace(inputs=SimpleNamespace(series=series), lost=lost)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("exporter.job.steps.after_publishing.save_series", lambda held, _: held.put("state/x", b""))
        save_history_state(made.job, HeldStore(bucket), gathered)

    assert "the next run reads the history again: the disk is full" in made.said.getvalue()
    assert "the next run compares with an older one: the disk is full" in made.said.getvalue()
    assert not bucket.inner.has(lost_prices.KEY)


@pytest.mark.parametrize("compact", [True, False])
def test_a_clock_that_disagrees_with_the_ledger_compacts_nothing(compact: bool) -> None:
    """If the machine's clock is wrong, nothing is compacted, and a warning says so; not if nothing had to be."""
    store, clock = published(100)
    closed, before = int((clock() + timedelta(days=1)).timestamp()), manifest_of(store)
    made = made_job(store, now=clock, history__compact=compact, network__name="mainnet")
    compact_closed(made.job, HeldStore(store), closed_at(closed))

    assert before == manifest_of(store)
    assert compact == ("the history was not compacted; a later run tries again" in made.said.getvalue())


def test_a_sweep_that_refuses_costs_a_warning() -> None:
    """An unfinished run keeps everything, and the warning names it."""
    store, clock = published(100)
    store.put(INTENT_KEY, b'{"run_id":"103-x","observed_ledger":103,"started_at":""}')
    made = made_job(store, now=clock)
    sweep_expired(made.job, HeldStore(store), closed_at(int(clock().timestamp())))

    assert "no expired files were removed: run 103-x began to replace documents" in made.said.getvalue()


def test_parquet_files_that_nothing_names_are_told() -> None:
    """They are kept, are in the report, and a warning says how to put them back."""
    store, clock = published(100)
    stray = make_run(90).history.file
    store.put(stray.key, stray.data)
    made = made_job(store, now=clock)
    sweep_expired(made.job, HeldStore(store), closed_at(int(clock().timestamp())))

    assert [stray.key] == made.facts["unnamed_history"]
    assert f"1 Parquet file of the history, the first {stray.key}, belong to no manifest" in made.said.getvalue()
