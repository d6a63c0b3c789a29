"""The parts of a tree that no signature and no evidence confirms, and files that its published run does not list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from exporter.config import Settings
from exporter.deployments.networks import network_of
from exporter.errors import RefutedError
from exporter.history.rollups import holds
from exporter.history.series import STATE_KEY
from exporter.job.evidence import Evidence
from exporter.job.known_markets_file import MEMORY_KEY, SET_ASIDE_PREFIX
from exporter.job.reading import read_again
from exporter.job.rerender import FetchedTree
from exporter.job.unproven import Reason
from exporter.past.archive.trusted_organisations import trust_file, verifier_file
from exporter.publishing.retention import SUPERSEDED_KEY
from exporter.stores.store import Store
from exporter.tree.documents import HistoryManifest, Proof, SystemStatus
from exporter.tree.families import (
    BUCKET_PAGE,
    CENSUS,
    HISTORY_MANIFEST_KEY,
    INTENT_KEY,
    JOURNAL_KEY,
    POINTER_KEY,
    PROOFS,
    RUN,
    RUN_FILES,
    TOTALS_PAGE,
    TRUST,
    VERIFIER,
    family_of,
)
from exporter.tree.files import FileKind

_RECORDS = {
    *(POINTER_KEY, HISTORY_MANIFEST_KEY, PROOFS.template, CENSUS.template, VERIFIER.template, TRUST.template),
    *(INTENT_KEY, SUPERSEDED_KEY, STATE_KEY, MEMORY_KEY, JOURNAL_KEY),
}
"""Documents that are judged by themselves, and the publisher's own records, which no reader is given."""

_CLAIMED = (
    "entries",
    "calls",
    "checkpoint",
    *("organisations_signed", "organisations_trusted", "organisations_needed"),
)
"""The fields of a proof in the list that any proof of the run must have alike."""

_NUMBERED = re.compile(rf"{SET_ASIDE_PREFIX}[0-9a-f]+\.memory")


def plain_words(status: SystemStatus, history: HistoryManifest) -> Iterator[str]:
    """Statements of the status about the future, and of the history's manifest about a replayed past."""
    if status.next_expected_at is not None:
        yield f"{POINTER_KEY}: next_expected_at {status.next_expected_at}"
    if history.transitions:
        yield f"{HISTORY_MANIFEST_KEY}: transitions of {', '.join(item.protocol for item in history.transitions)}"


def evidence_words(evidence: Evidence, settings: Settings) -> Iterator[str]:
    """The parts of evidence that are not an entry and do not follow from one."""
    network = network_of(evidence.passphrase)
    for notice in evidence.notices:
        yield f"notice: {notice}"
    if evidence.contracts:
        found = {
            (reading.protocol, label, role, address)
            for reading in read_again(evidence, settings).protocols
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


def check_proof_claims(claimed: Proof, found: Proof) -> Iterator[str]:
    """Compare a published proof with what was found; gives what was not looked up. Raises `RefutedError`."""
    where = f"{PROOFS.template}: run {claimed.run_id}"
    for name in (
        "entries",
        "calls",
        "checkpoint",
        *(f"organisations_{kind}" for kind in ("signed", "trusted", "needed")),
    ):
        if (claim := getattr(claimed, name)) != (expected := getattr(found, name)):
            raise RefutedError(f"{where}: expected {name} {expected} but found {claim}")
    most = found.confirmed + found.not_looked_up
    confirmed = f"{where}: {claimed.confirmed} confirmed entries"
    if claimed.confirmed > most:
        raise RefutedError(f"{confirmed} are claimed of {claimed.entries}, and at most {most} can be")
    if claimed.confirmed > found.confirmed:
        yield f"{confirmed}, of which {found.confirmed} were looked up here; --full looks up all"


def checker_words(found: Mapping[str, bytes], network: str, trust: Path | None) -> Iterator[str]:
    """The tree's verifier and list of organisations, where they are not those that are in use here."""
    for key, own in {VERIFIER.template: verifier_file(), TRUST.template: trust_file(network, trust)[0]}.items():
        if key in found and found[key] != own:
            digests = [sha256(data).hexdigest() for data in (found[key], own)]
            yield f"{key} has the SHA-256 {digests[0]}, and the one in use here {digests[1]}"


def unlisted_files(tree: FetchedTree, repeated: Store) -> Iterator[tuple[Reason, str]]:
    """The keys of files that the run does not list, with the reason under which they count.

    Where the run was ``repeated`` are also the older pages of histories, which no run lists.
    """
    history = tree.history
    runs = [tree.status.run_id, *(run.run_id for run in tree.earlier)]
    known = {file.key for file in tree.files} | _RECORDS
    known |= {family.key(run_id=run_id) for run_id in runs for family in (RUN, RUN_FILES)}
    known |= {file.key for file in (*history.files, *tree.before)}
    known |= {proof.proof_key for proof in tree.proofs} | {run.evidence_key for run in tree.earlier}
    known |= {info.key for family in (BUCKET_PAGE, TOTALS_PAGE) for info in repeated.list(family.prefix)}
    if all(holds(entry, history) for entry in history.rollups):  # then the check has recomputed all of them
        known |= {entry.key for entry in history.rollups}
    if history.liquidations is not None:
        known.add(history.liquidations.key)
    if tree.keys is None:
        yield Reason.UNLISTED, "whatever else is there: this tree cannot be listed"
    for key in sorted(tree.keys or ()):
        family = family_of(key)
        if key in known or _NUMBERED.fullmatch(key):
            continue
        of_a_run = family is not None and (
            family in (RUN, RUN_FILES)
            or (family.kind in (FileKind.PAGE, FileKind.HISTORY) and family not in (BUCKET_PAGE, TOTALS_PAGE))
        )
        yield Reason.EARLIER if of_a_run else Reason.UNLISTED, key
