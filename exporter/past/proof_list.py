"""Adds proofs of runs to a published tree, with the files that a reader needs to check them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from exporter.past.archive.stellar_proof import Proven, Trust
from exporter.past.archive.trusted_organisations import signed_by, trust_file
from exporter.publishing.proofs import published_proofs
from exporter.stores.held_store import HeldStore, hold_when_free
from exporter.stores.store import Clock, Store
from exporter.tree.documents import Proof, ProofList, timestamp
from exporter.tree.families import PROOF, PROOFS, RUN, TRUST, VERIFIER
from exporter.tree.read_back import render_document
from exporter.tree.run_listing import ledger_of
from exporter.tree.verifier import verifier_file

WAIT_SECONDS = 60.0
"""Longest time that proofs wait while somebody publishes. A run that publishes should finish in it."""


class ProvenEntries(Struct, frozen=True, kw_only=True):
    """The number of entries in a run's evidence, how many of them a checkpoint confirms, and the others by reason."""

    entries: int
    confirmed: int
    changed_since: int = 0
    not_looked_up: int = 0
    short_lived: int = 0
    absent: int = 0
    calls: int = 0


def proof_entry(
    run_id: str,
    evidence_key: str,
    content: bytes,
    proven: Proven,
    counted: ProvenEntries,
    trust: Trust,
    now: Clock,
) -> Proof:
    """The entry of a run in the list of proofs. ``content`` has the bytes of the proof file."""
    digest = hashlib.sha256(content).hexdigest()
    return Proof(
        run_id=run_id,
        observed_ledger=ledger_of(run_id),
        evidence_key=evidence_key,
        checkpoint=proven.ledger,
        proof_key=PROOF.key(sha256=digest),
        proof_sha256=digest,
        entries=counted.entries,
        confirmed=counted.confirmed,
        changed_since=counted.changed_since,
        not_looked_up=counted.not_looked_up,
        short_lived=counted.short_lived,
        absent=counted.absent,
        calls=counted.calls,
        organisations_signed=signed_by(proven, trust),
        organisations_trusted=len(trust.organisations),
        organisations_needed=trust.needed,
        proven_at=timestamp(int(now().timestamp())),
    )


def add_when_free(store: Store, network: str, trust: Path | None, added: Sequence[tuple[Proof, bytes]]) -> list[Proof]:
    """Add proofs as `add_proofs` does, as soon as no other publisher holds the store.

    Raises `LostRaceError` if that takes more than a minute.
    """
    with hold_when_free(store, WAIT_SECONDS) as held:
        return add_proofs(held, network, trust, added)


def add_proofs(held: HeldStore, network: str, trust: Path | None, proofs: Sequence[tuple[Proof, bytes]]) -> list[Proof]:
    """Add the proofs of runs that are still in the tree, and return those that were added.

    ``proofs`` has the entry of each proof, and the content of its file.
    """
    added = [(proof, content) for proof, content in proofs if held.get(RUN.key(run_id=proof.run_id))]
    if added:
        _add(held, network, trust, added)
    return [proof for proof, _ in added]


def _add(store: HeldStore, network: str, trust: Path | None, added: Sequence[tuple[Proof, bytes]]) -> None:
    for proof, content in added:
        store.put_new(proof.proof_key, content)
    store.put(VERIFIER.only_key, verifier_file())
    store.put(TRUST.only_key, trust_file(network, trust)[0])
    by_run = {proof.run_id: proof for proof in published_proofs(store) if store.get(RUN.key(run_id=proof.run_id))}
    by_run |= {proof.run_id: proof for proof, _ in added}
    proofs = sorted(by_run.values(), key=lambda proof: -proof.observed_ledger)
    document = ProofList(network, VERIFIER.only_key, TRUST.only_key, proofs)
    store.put(PROOFS.only_key, render_document(document).data)
