"""Finds faults in what a run says about itself: its status document, manifest, listing, and the list of proofs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from exporter.past.archive.stellar_proof import RefusedError, Trust, check_proof
from exporter.past.archive.trusted_organisations import signed_by
from exporter.publishing.faults import Fault
from exporter.tree.documents import InputName, Proof, ProofList, RunManifest, SystemStatus
from exporter.tree.families import PROOF, PROOFS, STATUS_KEY, WATCHED, kind_of
from exporter.tree.run_listing import RunListing

_INPUT_ORDER: tuple[InputName, ...] = ("evidence", "risk", "watched", "history")
"""The order in which a manifest names its inputs."""


def manifest_faults(
    status: SystemStatus, manifest: RunManifest, content: bytes, listing: RunListing
) -> Iterator[Fault]:
    """Faults of the status document, the manifest and the listing, by key. ``content`` has the manifest's bytes."""
    key = status.manifest_key
    if hashlib.sha256(content).hexdigest() != status.manifest_sha256:
        yield Fault(key, "does not have the digest that the status gives for it")
    if manifest.run_id != status.run_id or manifest.observed_ledger != status.observed_ledger:
        yield Fault(key, f"is of run {manifest.run_id} at ledger {manifest.observed_ledger}, not of the status's")
    if manifest.published_at != status.generated_at:
        yield Fault(STATUS_KEY, f"$.generated_at is {status.generated_at}, not the manifest's")
    run_id = listing.run_id(manifest.observed_ledger)
    if manifest.run_id != run_id:
        yield Fault(key, f"$.run_id is {manifest.run_id}, but the files listed give {run_id}")
    if (manifest.file_count, manifest.bytes) != listing.size:
        yield Fault(key, f"counts {manifest.file_count} files of {manifest.bytes} bytes, but lists {listing.size}")
    for file in listing:
        if file.kind != kind_of(file.key):
            yield Fault(key, f"lists {file.key} as a {file.kind}")
    for text in input_faults(status, manifest, listing):
        yield Fault(key, text)


def input_faults(status: SystemStatus, manifest: RunManifest, listing: RunListing) -> Iterator[str]:
    """Faults of the inputs that a manifest names. The history files among them are not judged here."""
    if listing.sha256_of(status.evidence_key) is None:
        yield f"run {status.run_id} left no evidence, so nothing of it can be verified"
    evidence = [(item.key, item.sha256) for item in manifest.inputs if item.name == "evidence"]
    if evidence != [(status.evidence_key, listing.sha256_of(status.evidence_key))]:
        yield f"its inputs must name the evidence {status.evidence_key} once, as it is listed"
    risk = [(item.key, item.sha256) for item in manifest.inputs if item.name == "risk"]
    if risk != ([] if status.risk_key is None else [(status.risk_key, status.risk_sha256)]):
        yield "its inputs must name the risk that the status document names"
    watched = [item for item in manifest.inputs if item.name == "watched"]
    if len(watched) > 1 or any(item.key != WATCHED.key(sha256=item.sha256) for item in watched):
        yield "its inputs must name the watched values of one run at most, by their digest"
    if [item.name for item in manifest.inputs] != sorted(
        (item.name for item in manifest.inputs), key=_INPUT_ORDER.index
    ):
        yield f"its inputs must be in the order {', '.join(_INPUT_ORDER)}"


def proof_list_faults(status: SystemStatus, proof_list: ProofList) -> Iterator[str]:
    """Faults of the list of proofs that show without reading the proofs."""
    ledgers = [proof.observed_ledger for proof in proof_list.proofs]
    if ledgers != sorted(ledgers, reverse=True) or len({proof.run_id for proof in proof_list.proofs}) < len(ledgers):
        yield "$.proofs must begin with the newest run, each once"
    for index, proof in enumerate(proof_list.proofs):
        path = f"$.proofs[{index}]"
        if proof.run_id.partition("-")[0] != str(proof.observed_ledger):
            yield f"{path} is of ledger {proof.observed_ledger}, but names run {proof.run_id}"
        if proof.run_id == status.run_id and proof.evidence_key != status.evidence_key:
            yield f"{path}.evidence_key is {proof.evidence_key}, but the status has {status.evidence_key}"
        if proof.proof_key != PROOF.key(sha256=proof.proof_sha256):
            yield f"{path}.proof_key is {proof.proof_key}, which is not that of its digest"
        parts = proof.confirmed + proof.changed_since + proof.not_looked_up + proof.short_lived + proof.absent
        if parts != proof.entries:
            yield f"{path}.entries is {proof.entries}, but its parts sum up to {parts}"


def proof_faults(proof: Proof, content: bytes, trust: Trust) -> Iterator[str]:
    """The faults of a proof file, and those of its row in the list of proofs."""
    try:
        proven = check_proof(content, trust)
    except RefusedError as error:
        yield f"proves nothing: {error}"
        return
    shown = proven.ledger, signed_by(proven, trust), len(trust.organisations), trust.needed
    claimed = proof.organisations_signed, proof.organisations_trusted, proof.organisations_needed
    if shown != (proof.checkpoint, *claimed):
        yield (
            f"proves ledger {proven.ledger}, signed by {shown[1]} of {shown[2]} organisations where {shown[3]} must, "
            f"which is not what {PROOFS.only_key} says"
        )
    if proof.observed_ledger not in proven.closed:
        yield f"does not say when ledger {proof.observed_ledger} closed"
