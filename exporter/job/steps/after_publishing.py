"""The steps after publishing, for which no reader waits.

They read a sample of the published files back, publish the ledger's proof, save what the next run needs, judge the
history's earlier files, join files of closed days, and remove what has expired.
"""

from __future__ import annotations

from collections.abc import Sequence

from exporter.errors import CheckError, PublishedCheckError, pluralize
from exporter.history.manifest import find_lost_rollups, read_history_manifest
from exporter.history.series import save_series
from exporter.job.lost_prices import save_missed
from exporter.job.reading import MarketsReading
from exporter.job.steps.gather import Gathered
from exporter.job.steps.job import Job
from exporter.protocols.compute import Tables
from exporter.publishing.compaction import compact_history
from exporter.publishing.proof_list import published_proofs
from exporter.publishing.publication import RunIdentity
from exporter.publishing.published_sample import read_back_sample
from exporter.publishing.retention import clock_problem, sweep
from exporter.stores.held_store import HeldStore
from exporter.stores.store import Store
from exporter.tree.documents import Proof

MAX_COMPACTED = 40
"""A run compacts at most this many files; the next run continues."""


def read_sample_back(job: Job, store: Store, identity: RunIdentity) -> None:
    """Read some of the published files back, as a reader would. Raises `PublishedCheckError` if one is wrong."""
    with job.log.step("read_back", "reading back") as facts:
        facts.update(files=read_back_sample(store, identity))


def add_proof(job: Job, held: HeldStore, identity: RunIdentity, evidence_key: str, reading: MarketsReading) -> None:
    """Publish the proof of the ledger, if the source has one. The report then has this proof as the newest."""
    if reading.proof is None:
        return
    with job.log.step("prove", "adding the proof of the checkpoint") as facts:
        network, entries = job.settings.passphrase, reading.entry_count
        job.source.publish_proof(held, network, identity.run_id, evidence_key, entries, reading.proof, job.now)
        facts.update(entries=entries)
    report_proven(job, held)


def report_proven(job: Job, held: HeldStore) -> None:
    """Put the newest proof in the tree into the report, if there is one."""
    proofs = list[Proof]()
    with job.log.optional("the list of proofs cannot be read, so the report names none"):
        proofs += published_proofs(held)
    if proofs:
        newest = max(proofs, key=lambda proof: proof.observed_ledger)
        job.log.add(proven={"ledger": newest.observed_ledger, "entries": newest.entries, "confirmed": newest.confirmed})


def save_history_state(job: Job, held: HeldStore, gathered: Gathered) -> None:
    """Save what the next run needs of the history. If that fails, the next run reads the history again."""
    with job.log.step("remember", "saving the history's state for the next run") as facts:
        with job.log.optional("the history's state was not saved; the next run reads the history again"):
            series = gathered.inputs.series
            facts.update(observations=series.row_count, bytes=save_series(held, series))
        with job.log.optional("the list of missing prices was not saved; the next run compares with an older one"):
            save_missed(held, gathered.lost)


def judge_history(job: Job, held: HeldStore, damage: list[str]) -> None:
    """Raise `PublishedCheckError` if earlier files of the history are damaged, or rollups still lack rows.

    The run is published then, but nothing is compacted or removed.
    """
    with job.log.step("history", "checking the history's earlier files") as facts:
        damage = damage + find_lost_rollups(held, read_history_manifest(held))
        facts.update(damaged=len(damage))
        if damage:
            raise PublishedCheckError(damage_text(damage))


def damage_text(damage: Sequence[str]) -> str:
    """The message of a run that ends with 6 because files of the history are damaged."""
    return (
        f"damage in the history, {len(damage)} in all; the first: {damage[0]}. The run is published, and nothing was "
        "compacted or swept. `exporter check` names every file; restore them from a copy"
    )


def compact_closed(job: Job, held: HeldStore, tables: Tables) -> None:
    """Join files of closed days and months of the history, if the settings ask for it."""
    with (
        job.log.step("compact", "compacting the history") as facts,
        job.log.optional("the history was not compacted; a later run tries again"),
    ):
        if not job.settings.history.compact:
            return
        if job.judges_clocks and (problem := clock_problem(job.now(), tables.close_time)) is not None:
            raise CheckError(problem)
        done = compact_history(held, months=job.settings.history.months, most=MAX_COMPACTED, now=job.now)
        facts.update(files_before=len(done.joined), files_after=len(done.files))


def sweep_expired(job: Job, held: HeldStore, tables: Tables) -> None:
    """Remove files that no published run within the retention needs, and warn of what could not be removed."""
    with job.log.step("sweep", "removing what has expired") as facts:
        retention = job.settings.output.retention
        swept = sweep(held, retention, now=job.now, closed=tables.close_time)
        if swept.refused is not None:
            job.log.warning(f"no {'more ' if swept.documents else ''}expired files were removed: {swept.refused}")
        if swept.ageless is not None and job.judges_clocks:
            job.log.warning(f"old files were kept: {swept.ageless}")
        if swept.unnamed:
            job.log.add(unnamed_history=list(swept.unnamed))
            job.log.warning(
                f"{pluralize(len(swept.unnamed), 'Parquet file')} of the history, the first {swept.unnamed[0]}, "
                "belong to no manifest and were kept; put back the newest v1/history.json, or run exporter history "
                f"rebuild {held.uri}"
            )
        facts.update(pages=swept.pages, documents=swept.documents, runs=swept.runs)
