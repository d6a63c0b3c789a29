"""Proves published runs, as soon as the network's history archives have a checkpoint with what the runs read."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from exporter.audit.evidence_proof import hold_against, proof_of
from exporter.audit.unproven import Unproven, UnprovenReason
from exporter.console import Console
from exporter.errors import ArchiveError, NothingPublishedError, RefutedError, StoreError
from exporter.past.archive.archive_places import Archives, Deadline
from exporter.past.archive.checkpoint_proof import NotProvableError, make_proof
from exporter.past.archive.trusted_organisations import trust_file, trust_of
from exporter.publishing.proof_list import add_proofs, published_proofs
from exporter.publishing.published_state import (
    RUNS_PREFIX,
    manifest_keys,
    read_current_listing,
    read_listing,
    read_published,
)
from exporter.publishing.sweep_state import SweepState, is_undone_run, read_sweep_state
from exporter.stores.held_store import hold_when_free
from exporter.stores.store import Clock, Store, utc_now
from exporter.tree.documents import Proof
from exporter.tree.families import EVIDENCE
from exporter.tree.run_listing import ledger_of

WAIT_SECONDS = 60.0
"""Longest time that proofs wait while somebody publishes. A run that publishes should finish in it."""

MAX_RUNS = 100
"""Number of the newest runs that are looked at."""


class ListedBytes(NamedTuple):
    """A file that a run lists, with the bytes that have the listed digest."""

    key: str
    data: bytes


class ProveResult(NamedTuple):
    """What proving gave.

    Attributes:
        added: the proofs that were added to the tree.
        waiting: why other runs could not be proven yet, by run id.
        unproven: what the added proofs do not prove, and the runs that wait.
    """

    added: list[Proof]
    waiting: dict[str, str]
    unproven: Unproven


def prove(
    store: Store,
    archives: Sequence[str],
    trust: Path | None,
    console: Console,
    *,
    full: bool = False,
    deadline: float = 300.0,
    now: Clock = utc_now,
) -> ProveResult:
    """Prove each published run that has evidence and no proof yet, and publish the proofs.

    Runs that a later run undid are left out.

    The store is held only to publish the proofs, so runs can publish while they are made. The arguments are those of
    `exporter.audit.verify.verify_tree`.

    Raises `RefutedError` if a run is contradicted, `ArchiveError` if archives cannot be read, and `StoreError` if the
    evidence of a run is damaged. What could be proven is published before. Raises `StoreError` also if the published
    run is damaged, `NothingPublishedError` if no run is published, and `LostRaceError` if somebody else holds the store
    for too long.
    """
    published = read_published(store)
    if published is None or published.status.network is None:
        raise NothingPublishedError(f"{store.uri}: no run is published there; run `exporter run` first")
    network = published.status.network
    trusted = trust_of(network, trust)
    read_current_listing(store, published.status)  # raises `StoreError` if the tree is damaged
    added, waiting, unproven = list[tuple[Proof, bytes]](), dict[str, str](), Unproven()
    refuted: RefutedError | None = None
    failed: ArchiveError | StoreError | None = None
    with tempfile.TemporaryDirectory() as folder:
        opened = Archives.open(archives or trusted.archives, Path(folder), Deadline(deadline, "--deadline"))
        sweep_state = read_sweep_state(store)
        for run_id, manifest_key in _runs_without_proof(store):
            try:
                evidence = _evidence_of(store, manifest_key, sweep_state)
                if evidence is None:
                    continue
                content = make_proof(opened, ledger_of(run_id), trusted)[1]
                outcome = hold_against(content, evidence.data, trusted, opened, full=full)
            except NotProvableError as error:
                waiting[run_id] = str(error)
                unproven.add(UnprovenReason.WAITING, [run_id])
            except ArchiveError as error:
                failed = error  # other runs would fail in the same way
                break
            except StoreError as error:
                failed = failed or error
                console.warning(str(error))
            except RefutedError as error:
                refuted = refuted or RefutedError(f"run {run_id}: {error}")
                console.warning(f"run {run_id}: {error}")
            else:
                added.append((proof_of(run_id, evidence.key, content, outcome, trusted, now), content))
                unproven.update(outcome.unproven)
    proofs = list[Proof]()
    if added:
        with hold_when_free(store, WAIT_SECONDS) as held:
            proofs = add_proofs(held, network, trust_file(network, trust)[0], added)
    if problem := refuted or failed:
        raise problem
    return ProveResult(proofs, waiting, unproven)


class _PublishedRun(NamedTuple):
    """A run of which the tree has a manifest."""

    run_id: str
    manifest_key: str


def _runs_without_proof(store: Store) -> list[_PublishedRun]:
    """The published runs without a proof, the newest first."""
    proven_runs = {proof.run_id for proof in published_proofs(store)}
    runs = [_PublishedRun(key.removeprefix(RUNS_PREFIX).removesuffix(".json"), key) for key in manifest_keys(store)]
    newest = sorted(runs, key=lambda run: ledger_of(run.run_id), reverse=True)[:MAX_RUNS]
    return [run for run in newest if run.run_id not in proven_runs]


def _evidence_of(store: Store, manifest_key: str, sweep_state: SweepState) -> ListedBytes | None:
    """The evidence of the run with this manifest, if there is anything to prove of it.

    None if the run has none, if a sweep removed the run meanwhile, or if a run with ``--replace-ledger`` undid it.
    Raises `StoreError` if the evidence is missing or damaged.
    """
    listing = read_listing(store, manifest_key)
    if listing is None or is_undone_run(listing, sweep_state):
        return None
    evidence = next(listing.under(EVIDENCE.prefix), None)
    if evidence is None:
        return None
    stored = store.get(evidence.key)
    if stored is None and store.get(manifest_key) is None:
        return None
    if stored is None or hashlib.sha256(stored.data).hexdigest() != evidence.sha256:
        raise StoreError(f"{evidence.key} is missing or damaged, though the run of {manifest_key} has it")
    return ListedBytes(evidence.key, stored.data)
