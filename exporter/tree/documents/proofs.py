"""The list of proofs, each of which shows that a run's evidence was in the state of a ledger."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from exporter.tree.documents.kinds import ObservedLedger, Passphrase
from exporter.tree.values import Count, Digest, Ledger, ObjectKey, Positive, RunId, Timestamp, doc


class Proof(Struct, frozen=True, forbid_unknown_fields=True):
    """The proof of a run: its evidence compared with a checkpoint for whose header enough organisations signed.

    Entries that are not `confirmed`, and the results of `calls`, are only the RPC's word.
    """

    run_id: RunId
    observed_ledger: ObservedLedger
    evidence_key: Annotated[ObjectKey, doc("Key of the run's evidence.")]
    checkpoint: Annotated[Ledger, doc("The ledger of the checkpoint.")]
    proof_key: Annotated[ObjectKey, doc("Key of the file by which the proof can be checked.")]
    proof_sha256: Annotated[Digest, doc("SHA-256 of the file of `proof_key`, 64 hex digits.")]
    entries: Annotated[Count, doc("Ledger entries in the evidence.")]
    confirmed: Annotated[Count, doc("Entries that the checkpoint has as they were at the run's ledger.")]
    changed_since: Annotated[Count, doc("Entries that changed between the two ledgers.")]
    not_looked_up: Annotated[Count, doc("Entries that were not looked for in the older buckets.")]
    short_lived: Annotated[Count, doc("Entries that left no trace at the checkpoint.")]
    absent: Annotated[Count, doc("Entries that are absent at the checkpoint.")]
    calls: Annotated[Count, doc("Results of calls in the evidence, which are only the RPC's word.")]
    organisations_signed: Annotated[Count, doc("Trusted organisations that signed for the checkpoint's header.")]
    organisations_trusted: Annotated[Positive, doc("Organisations that are trusted.")]
    organisations_needed: Annotated[Positive, doc("Trusted organisations that must sign.")]
    proven_at: Annotated[Timestamp, doc("When the run was proven.")]


class ProofList(Struct, frozen=True, forbid_unknown_fields=True):
    """The proofs of the newest runs, newest first.

    A run is listed when a checkpoint after it can be proven, about six to twelve minutes later.
    """

    network: Passphrase
    verifier: Annotated[ObjectKey, doc("Key of the program that checks the proofs.")]
    trust: Annotated[ObjectKey, doc("Key of the list of trusted organisations.")]
    proofs: Annotated[list[Proof], doc("The proofs, newest run first.")]
