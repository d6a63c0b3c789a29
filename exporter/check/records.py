"""The records next to a run's files, each against what leads to it: manifest and listing, proofs, rollups."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping

import msgspec

from exporter.check.checker import TreeChecker
from exporter.history.rollups import KINDS, Read, UnreadableHistoryError, differ, holds, updated_rollups
from exporter.past.archive.stellar_proof import RefusedError, Trust, check_proof, read_trust
from exporter.past.archive.trusted_organisations import signed_by
from exporter.tree.documents import (
    HistoryManifest,
    HistoryRollup,
    LiquidationsFile,
    Proof,
    ProofList,
    RunManifest,
    SystemStatus,
)
from exporter.tree.families import POINTER_KEY, PROOF, PROOFS, TRUST, kind_of
from exporter.tree.run_listing import RunListing

LASTING = {kind.key for kind in KINDS}


def record_faults(
    status: SystemStatus, manifest: RunManifest, content: bytes, listed: RunListing
) -> Iterator[tuple[str, str]]:
    """The faults of the files, by key; ``content`` are the manifest's bytes."""
    key = status.manifest_key
    if hashlib.sha256(content).hexdigest() != status.manifest_sha256:
        yield key, "does not have the digest that the status gives for it"
    if manifest.run_id != status.run_id or manifest.observed_ledger != status.observed_ledger:
        yield key, f"is of run {manifest.run_id} at ledger {manifest.observed_ledger}, not of the status's"
    if manifest.published_at != status.generated_at:
        yield POINTER_KEY, f"$.generated_at is {status.generated_at}, not the manifest's"
    if manifest.run_id != (made := listed.run_id(manifest.observed_ledger)):
        yield key, f"$.run_id is {manifest.run_id}, but the files listed give {made}"
    if (manifest.file_count, manifest.bytes) != listed.size:
        yield key, f"counts {manifest.file_count} files of {manifest.bytes} bytes, but lists {listed.size}"
    for file in listed:
        if file.kind != kind_of(file.key):
            yield key, f"lists {file.key} as a {file.kind}"


def named_files(listed: ProofList) -> list[str]:
    """The files that the list of proofs leads to."""
    return [*dict.fromkeys((listed.verifier, listed.trust, *(proof.proof_key for proof in listed.proofs)))]


def check_proofs(checker: TreeChecker, status: SystemStatus, listed: ProofList, files: Mapping[str, bytes]) -> None:
    """Note what is wrong with the proofs; ``files`` are those of `named_files` that are there."""
    checker.fault(PROOFS.template, *_list_faults(status, listed))
    for key in named_files(listed):
        if key not in files:
            checker.fault(key, f"is missing, though {PROOFS.template} names it")
    try:
        trust = read_trust(files.get(TRUST.template, b""))
    except RefusedError as error:
        checker.fault(TRUST.template, str(error))
        return
    newest = max((proof.proven_at for proof in listed.proofs), default="")
    for proof in listed.proofs:
        # The list of trust is the one by which the newest were made; earlier ones may have been made by another.
        if proof.proven_at == newest and proof.proof_key in files:
            checker.fault(proof.proof_key, *_proof_faults(proof, files[proof.proof_key], trust))


def _list_faults(status: SystemStatus, listed: ProofList) -> Iterator[str]:
    ledgers = [proof.observed_ledger for proof in listed.proofs]
    if ledgers != sorted(ledgers, reverse=True) or len({proof.run_id for proof in listed.proofs}) < len(ledgers):
        yield "$.proofs must begin with the newest run, each once"
    for index, proof in enumerate(listed.proofs):
        place = f"$.proofs[{index}]"
        if proof.run_id.partition("-")[0] != str(proof.observed_ledger):
            yield f"{place} is of ledger {proof.observed_ledger}, but names run {proof.run_id}"
        if proof.run_id == status.run_id and proof.evidence_key != status.evidence_key:
            yield f"{place}.evidence_key is {proof.evidence_key}, but the status has {status.evidence_key}"
        if proof.proof_key != PROOF.key(sha256=proof.proof_sha256):
            yield f"{place}.proof_key is {proof.proof_key}, which is not that of its digest"
        parts = proof.confirmed + proof.changed_since + proof.not_looked_up + proof.short_lived + proof.absent
        if parts != proof.entries:
            yield f"{place}.entries is {proof.entries}, but its parts sum up to {parts}"


def _proof_faults(proof: Proof, content: bytes, trust: Trust) -> Iterator[str]:
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
            f"which is not what {PROOFS.template} says"
        )
    if proof.observed_ledger not in proven.closed:
        yield f"does not say when ledger {proof.observed_ledger} closed"


def rollup_faults(
    manifest: HistoryManifest, read: Read, there: Collection[str] | None, *, whole: bool
) -> Iterator[tuple[str, str]]:
    """Faults of the rollups and of the table of liquidations, by key; ``whole`` recomputes the rollups."""
    named = {entry.key: entry for entry in manifest.rollups}
    if manifest.files and any(file.rows for file in manifest.files):
        yield from ((kind.key, "is not named by the history's manifest") for kind in KINDS if kind.key not in named)
    yield from ((key, "is not named by the history's manifest") for key in sorted({*(there or ())} - named.keys()))
    damaged = set[str]()
    files_of_tables: list[HistoryRollup | LiquidationsFile] = [*manifest.rollups]
    if manifest.liquidations is not None:
        files_of_tables.append(manifest.liquidations)
    for entry in files_of_tables:
        key = entry.key
        data = read(key)
        if data is None:
            damaged.add(key)
            yield key, "is missing, though the history's manifest names it"
        elif (len(data), hashlib.sha256(data).hexdigest()) != (entry.bytes, entry.sha256):
            damaged.add(key)
            yield key, "does not have the bytes that the history's manifest gives for it"
    if not whole or not all(holds(entry, manifest) for entry in manifest.rollups if entry.key in LASTING):
        return  # ledgers came into the past, and the next run recomputes them
    expected = set[str]()
    try:
        _, files = updated_rollups(msgspec.structs.replace(manifest, rollups=[]), read, most_reads=None)
        for file in files:
            key = file.entry.key
            expected.add(key)
            data = None if key in damaged or key not in named else read(key)
            if data is not None and differ(data, file.data):
                yield key, "is not what the files of the history make of it"
    except UnreadableHistoryError:
        return  # which file that is, is a fault of its own
    yield from ((key, "is not what the files of the history make of it") for key in sorted(named.keys() - expected))
