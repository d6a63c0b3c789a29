"""Statements of a publisher that no signature and no evidence confirms: derived and compared, or named as not
covered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import msgspec

from exporter.config import Settings
from exporter.deployments.networks import network_of
from exporter.errors import RefutedError
from exporter.job.earlier_runs import repeat
from exporter.job.evidence import Evidence
from exporter.job.prove import Outcome
from exporter.job.unproven import Reason
from exporter.past.archive.stellar_proof import Trust
from exporter.past.archive.trusted_organisations import signed_by, trust_file, verifier_file
from exporter.tree.documents import HistoryManifest, Proof, SystemStatus
from exporter.tree.families import HISTORY_MANIFEST_KEY, POINTER_KEY, PROOFS, TRUST, VERIFIER

OF_PUBLISHING = frozenset({"generated_at", "manifest_sha256", "next_expected_at", "previous_run_id", "retention_hours"})
"""The fields of status.json that say when and how was published. The digest is that of a file with such a time."""


OF_THE_FILES = frozenset({"run_id", "manifest_key"})
"""Those that are digests of all files."""


def check_status(published: SystemStatus, repeated: SystemStatus, *, same_files: bool) -> None:
    """Compare a status with that of the repeated run, but for `OF_PUBLISHING`. Raises `RefutedError`.

    ``same_files`` says whether all files came out byte for byte; without that its id is another.
    """
    ours, theirs = msgspec.to_builtins(repeated), msgspec.to_builtins(published)
    apart = OF_PUBLISHING if same_files else OF_PUBLISHING | OF_THE_FILES
    for name, expected in ours.items():
        if name not in apart and theirs[name] != expected:
            raise RefutedError(
                f"{POINTER_KEY}: expected $.{name} {str(expected)[:200]!r} by the run's evidence but found "
                f"{str(theirs[name])[:200]!r}"
            )


def plain_words(status: SystemStatus, history: HistoryManifest) -> Iterator[str]:
    """Statements of the status about the future, and of the history's manifest about a replayed past."""
    if status.next_expected_at is not None:
        yield f"{POINTER_KEY}: next_expected_at {status.next_expected_at}"
    if history.transitions:
        yield f"{HISTORY_MANIFEST_KEY}: transitions of {', '.join(item.protocol for item in history.transitions)}"


def evidence_words(evidence: Evidence, settings: Settings) -> Iterator[str]:
    """The parts of evidence that are not an entry and do not follow from one.

    Raises:
        ExporterError: the run cannot be repeated.
    """
    network = network_of(evidence.passphrase)
    for notice in evidence.notices:
        yield f"notice: {notice}"
    if evidence.contracts:
        found = {
            (reading.protocol, label, role, address)
            for reading in repeat(evidence, settings).protocols
            for (label, role), address in reading.contracts.items()
        }
        for item in evidence.contracts:
            if (item.protocol, item.label, item.role, item.address) not in found:
                yield f"contract: {item.role} {item.address} of {item.protocol} {item.label} follows from no entry"
    if not evidence.whole:
        yield "looked: the run read a part of the ledger's contracts"
    if not network.deployments:
        return
    if not evidence.listed:
        yield "looked: the run did not compare the lists of known contracts"
        return
    tried = {(candidate.protocol, candidate.address) for candidate in evidence.candidates}
    for deployment in network.deployments:
        for address in deployment.markets:
            if (deployment.protocol, address) not in tried:
                yield f"candidate: {address} of {deployment.protocol}, a known market, was not looked for"


def check_proof_claims(proof: Proof, outcome: Outcome, trust: Trust) -> Iterator[str]:
    """Compare what the list of proofs says of a run with what was found; gives the claims that were not looked up.

    Raises:
        RefutedError: it claims more than the proof shows.
    """
    counts = outcome.unproven.counts
    signed = signed_by(outcome.proven, trust), len(trust.organisations), trust.needed
    claimed_signed = proof.organisations_signed, proof.organisations_trusted, proof.organisations_needed
    for name, claimed, found in (
        ("entries", proof.entries, outcome.entries),
        ("calls", proof.calls, counts.get(Reason.CALLS, 0)),
        ("checkpoint", proof.checkpoint, outcome.proven.ledger),
        ("organisations", claimed_signed, signed),
    ):
        if claimed != found:
            raise RefutedError(f"{PROOFS.template}: run {proof.run_id}: expected {name} {found} but found {claimed}")
    deeper = counts.get(Reason.NOT_LOOKED_UP, 0)
    if proof.confirmed > outcome.confirmed + deeper:
        raise RefutedError(
            f"{PROOFS.template}: run {proof.run_id}: {proof.confirmed} of {proof.entries} entries are claimed to be "
            f"confirmed, and at most {outcome.confirmed + deeper} can be"
        )
    if proof.confirmed > outcome.confirmed:
        yield (
            f"{PROOFS.template}: run {proof.run_id}: {proof.confirmed} confirmed entries, of which {outcome.confirmed} "
            "were looked up here; --full looks up all"
        )


def checker_words(found: Mapping[str, bytes], network: str, trust: Path | None) -> Iterator[str]:
    """The tree's verifier and list of organisations, where they are not those that are in use here."""
    for key, own in (
        (VERIFIER.template, verifier_file()),
        (TRUST.template, trust_file(network, trust)[0]),
    ):
        if key in found and found[key] != own:
            yield f"{key} has the SHA-256 {_digest(found[key])}, and the one in use here {_digest(own)}"


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
