"""Proving published runs, once a checkpoint of the network's history archives is there that has what they read."""

from __future__ import annotations

import base64
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from exporter.audit.unproven import Reason, Unproven
from exporter.console import Console
from exporter.errors import ArchiveError, CheckError, RefutedError, StoreError
from exporter.ledger.codec import strkey
from exporter.past.archive.archive_places import Archives, Deadline
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.past.archive.checkpoint_proof import NotProvableError, make_proof
from exporter.past.archive.stellar_proof import (
    REASONS,
    Claims,
    Proven,
    RefusedError,
    Trust,
    check_entries,
    check_proof,
    read_claims,
)
from exporter.past.archive.trusted_organisations import trust_of
from exporter.past.proof_list import ProvenEntries, add_when_free, proof_entry
from exporter.publishing.proofs import published_proofs
from exporter.publishing.published_state import (
    RUNS_PREFIX,
    manifest_keys,
    read_current_listing,
    read_listing,
    read_published,
)
from exporter.stores.store import Clock, Store, utc_now
from exporter.tree.documents import Proof
from exporter.tree.families import EVIDENCE
from exporter.tree.run_listing import ledger_of

MAX_RUNS = 100
"""How many of the newest runs are looked at."""

_DATA_OF_CONTRACT = b"\0\0\0\6\0\0\0\1"
"""How the LedgerKey of a contract's data begins."""


class Outcome(NamedTuple):
    """What a proof says of the evidence of a run."""

    proven: Proven
    entries: int
    confirmed: int
    unproven: Unproven


class ProveResult(NamedTuple):
    """The proofs that were added, with what they leave unproven; and of the other runs, by id, why none could be."""

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
    """Prove each published run that has evidence and no proof yet, and add what readers need to check it.

    Runs can publish until all is checked. Arguments are those of `exporter.audit.verify.verify_tree`. After
    `RefutedError` and `ArchiveError` what could be proven is published. Also raises `LostRaceError`, `CheckError`.
    """
    published = read_published(store)
    if published is None or published.status.network is None:
        raise CheckError(f"{store.uri}: no run is published there; run `exporter run` first")
    network = published.status.network
    trusted = trust_of(network, trust)
    read_current_listing(store, published.status)  # raises for a tree that is damaged
    runs = {key[len(RUNS_PREFIX) : -len(".json")]: key for key in manifest_keys(store)}
    known = {proof.run_id for proof in published_proofs(store)}
    added, waiting, unproven = list[tuple[Proof, bytes]](), dict[str, str](), Unproven()
    refuted: RefutedError | None = None
    failed: ArchiveError | None = None
    with tempfile.TemporaryDirectory() as folder:
        opened = Archives.open(archives or trusted.archives, Path(folder), Deadline(deadline, "--deadline"))
        for run_id in sorted(runs, key=lambda run_id: -ledger_of(run_id))[:MAX_RUNS]:
            listing = None if run_id in known else read_listing(store, runs[run_id])
            evidence = None if listing is None else next(listing.under(EVIDENCE.prefix), None)
            stored = None if evidence is None else store.get(evidence.key)
            if evidence is None or (stored is None and store.get(runs[run_id]) is None):  # swept since
                continue
            if stored is None or hashlib.sha256(stored.data).hexdigest() != evidence.sha256:
                raise StoreError(f"{evidence.key} is missing or damaged, though run {run_id} has it")
            try:
                content = make_proof(opened, ledger_of(run_id), trusted)[1]
                outcome = hold_against(content, stored.data, trusted, opened, full=full)
            except NotProvableError as error:
                waiting[run_id] = str(error)
                unproven.add(Reason.WAITING, [run_id])
            except ArchiveError as error:
                failed = error  # as it will of the other runs
                break
            except RefutedError as error:
                refuted = refuted or RefutedError(f"run {run_id}: {error}")
                console.warning(f"run {run_id}: {error}")
            else:
                added.append((proof_of(run_id, evidence.key, content, outcome, trusted, now), content))
                unproven.update(outcome.unproven)
    proofs = add_when_free(store, network, trust, added) if added else []
    if problem := refuted or failed:
        raise problem
    return ProveResult(proofs, waiting, unproven)


def proof_of(run_id: str, evidence_key: str, content: bytes, outcome: Outcome, trust: Trust, now: Clock) -> Proof:
    """The entry of a run in the list of proofs; ``content`` is the proof file's."""
    counts = outcome.unproven.counts
    counted = ProvenEntries(
        entries=outcome.entries,
        confirmed=outcome.confirmed,
        changed_since=counts.get(Reason.CHANGED, 0),
        not_looked_up=counts.get(Reason.NOT_LOOKED_UP, 0),
        short_lived=counts.get(Reason.SHORT_LIVED, 0),
        absent=counts.get(Reason.ABSENT, 0),
        calls=counts.get(Reason.CALLS, 0),
    )
    return proof_entry(run_id, evidence_key, content, outcome.proven, counted, trust, now)


def claims_of(evidence: bytes) -> Claims:
    """The claims of evidence about the state. Raises `RefutedError`, `NotProvableError`."""
    try:
        return read_claims(evidence)
    except RefusedError as error:
        raise RefutedError(str(error)) from None
    except OSError as error:
        raise NotProvableError(str(error)) from None


def hold_against(proof: bytes, evidence: bytes, trust: Trust, archives: Archives, *, full: bool) -> Outcome:
    """Hold evidence against the checkpoint of a proof file. Raises `RefutedError`, `ArchiveError`."""
    claims = claims_of(evidence)
    try:
        proven = check_proof(proof, trust)
        newest = not full and claims.ledger != proven.ledger
        found = check_entries(claims, proven, [partial(_bucket, archive) for archive in archives.each], newest)
    except RefusedError as error:
        raise RefutedError(str(error)) from None
    except OSError as error:
        raise ArchiveError(str(error)) from None
    unproven = Unproven()
    unproven.add(Reason.CALLS, claims.calls)
    for reason in REASONS:
        for key in found[reason]:
            spelled = base64.b64encode(key).decode()
            of_contract = key[:8] == _DATA_OF_CONTRACT
            unproven.add(Reason(reason), [f"{strkey.encode_contract(key[8:40])} {spelled}" if of_contract else spelled])
    if not claims.entries:
        unproven.add(Reason.NO_ENTRIES, [f"that of ledger {claims.ledger}"])
    return Outcome(proven, len(claims.entries), len(found["confirmed"]), unproven)


def _bucket(archive: HistoryArchive, digest: bytes) -> Iterator[bytes]:
    try:
        yield from archive.bucket(digest)
    except ArchiveError as error:
        raise OSError(str(error)) from None  # the next archive may have it
