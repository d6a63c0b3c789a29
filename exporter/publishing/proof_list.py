"""The list of proofs in a published tree: reading it, and adding proofs with the files that a reader needs for them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from exporter.errors import StoreError
from exporter.stores.held_store import HeldStore
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.documents import Proof, ProofList
from exporter.tree.families import PROOFS, RUN, TRUST, VERIFIER
from exporter.tree.read_back import render_document
from exporter.tree.verifier import verifier_file


def published_proofs(store: Store) -> list[Proof]:
    """The proofs that a tree lists, none if it has no list. Raises `StoreError` if the list cannot be understood."""
    stored = store.get(PROOFS.only_key)
    try:
        return [] if stored is None else decode_json(stored.data, ProofList).proofs
    except msgspec.DecodeError as error:
        raise StoreError(f"{PROOFS.only_key} cannot be understood ({error}); remove it, and prove again") from None


def add_proofs(held: HeldStore, network: str, trust: bytes, proofs: Sequence[tuple[Proof, bytes]]) -> list[Proof]:
    """Add the proofs of runs that are still in the tree, and return those that were added.

    ``proofs`` has the entry of each proof, and the content of its file. ``trust`` is the list of trusted organisations
    by which they were made.
    """
    added = [(proof, content) for proof, content in proofs if held.get(RUN.key(run_id=proof.run_id))]
    if not added:
        return []
    for proof, content in added:
        held.put_new(proof.proof_key, content)
    held.put(VERIFIER.only_key, verifier_file())
    held.put(TRUST.only_key, trust)
    by_run = {proof.run_id: proof for proof in published_proofs(held) if held.get(RUN.key(run_id=proof.run_id))}
    by_run |= {proof.run_id: proof for proof, _ in added}
    newest_first = sorted(by_run.values(), key=lambda proof: -proof.observed_ledger)
    document = ProofList(network, VERIFIER.only_key, TRUST.only_key, newest_first)
    held.put(PROOFS.only_key, render_document(document).data)
    return [proof for proof, _ in added]
