"""The proofs of a tree: that each file is there under its digest, and that the list says of it what it says itself.

Only the archives show whether the network confirms an entry (`exporter verify`); here only the tree is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporter.check.summary import Whole
from exporter.past.archive.archive_files import checkpoint_of
from exporter.past.archive.stellar_proof import RefusedError, Trust, check_proof, read_trust
from exporter.past.archive.trusted_organisations import signed_by
from exporter.tree.documents import Proof, ProofList, SystemStatus
from exporter.tree.families import PROOF, PROOFS, TRUST


def named_files(listed: ProofList) -> list[str]:
    """The files that the list of proofs leads to."""
    return [*dict.fromkeys((listed.verifier, listed.trust, *(proof.proof_key for proof in listed.proofs)))]


def check_proofs(whole: Whole, status: SystemStatus, listed: ProofList, files: Mapping[str, bytes]) -> None:
    """Note what is wrong with the proofs; ``files`` are those of `named_files` that are there."""
    whole.faults.add_all(PROOFS.template, _list_faults(status, listed))
    for key in named_files(listed):
        if key not in files:
            whole.faults.add(key, f"is missing, though {PROOFS.template} names it")
    try:
        trust = read_trust(files.get(TRUST.template, b""))
    except RefusedError as error:
        whole.faults.add(TRUST.template, str(error))
        return
    newest = max((proof.proven_at for proof in listed.proofs), default="")
    for proof in listed.proofs:
        # The list of trust is the one by which the newest were made; earlier ones may have been made by another.
        if proof.proven_at == newest and proof.proof_key in files:
            whole.faults.add_all(proof.proof_key, _proof_faults(proof, files[proof.proof_key], trust))


def _list_faults(status: SystemStatus, listed: ProofList) -> Iterator[str]:
    if listed.network != status.network:
        yield f"$.network is {listed.network!r}, but the status says {status.network!r}"
    ledgers = [proof.observed_ledger for proof in listed.proofs]
    if ledgers != sorted(ledgers, reverse=True) or len({proof.run_id for proof in listed.proofs}) < len(ledgers):
        yield "$.proofs must begin with the newest run, each once"
    for index, proof in enumerate(listed.proofs):
        place = f"$.proofs[{index}]"
        if proof.run_id.partition("-")[0] != str(proof.observed_ledger):
            yield f"{place} is of ledger {proof.observed_ledger}, but names run {proof.run_id}"
        if proof.run_id == status.run_id and proof.evidence_key != status.evidence_key:
            yield f"{place}.evidence_key is {proof.evidence_key}, but the status has {status.evidence_key}"
        if proof.checkpoint != checkpoint_of(proof.observed_ledger):
            yield f"{place}.checkpoint is {proof.checkpoint}, which is not the one after {proof.observed_ledger}"
        if proof.proof_key != PROOF.key(sha256=proof.proof_sha256):
            yield f"{place}.proof_key is {proof.proof_key}, which is not that of its digest"
        parts = proof.confirmed + proof.changed_since + proof.not_looked_up + proof.short_lived + proof.absent
        if parts != proof.entries:
            yield f"{place}.entries is {proof.entries}, but its parts sum up to {parts}"
        if not proof.organisations_needed <= proof.organisations_signed <= proof.organisations_trusted:
            yield f"{place} was signed by {proof.organisations_signed} of {proof.organisations_trusted}"


def _proof_faults(proof: Proof, content: bytes, trust: Trust) -> Iterator[str]:
    try:
        proven = check_proof(content, trust)
    except RefusedError as error:
        yield f"proves nothing: {error}"
        return
    signed, trusted, needed = signed_by(proven, trust), len(trust.organisations), trust.needed
    if (proven.ledger, signed, trusted, needed) != (
        proof.checkpoint,
        proof.organisations_signed,
        proof.organisations_trusted,
        proof.organisations_needed,
    ):
        yield (
            f"proves ledger {proven.ledger}, signed by {signed} of {trusted} organisations where {needed} must, "
            f"which is not what {PROOFS.template} says"
        )
    if proof.observed_ledger not in proven.closed:
        yield f"does not say when ledger {proof.observed_ledger} closed"
