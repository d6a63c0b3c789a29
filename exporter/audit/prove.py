"""Proves published runs, as soon as the network's history archives have a checkpoint with what the runs read."""

from __future__ import annotations

import base64
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from exporter.audit.unproven import Unproven, UnprovenReason
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
"""Number of the newest runs that are looked at."""

_CONTRACT_DATA_PREFIX = b"\0\0\0\6\0\0\0\1"
"""The beginning of the LedgerKey of contract data that belongs to a contract."""


class Outcome(NamedTuple):
    """What a proof says of the evidence of a run.

    Attributes:
        proven: the checkpoint, as the proof proves it.
        entries: the number of entries in the evidence.
        confirmed: the number of them that the checkpoint confirms.
        unproven: what of the evidence is not proven.
    """

    proven: Proven
    entries: int
    confirmed: int
    unproven: Unproven


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

    The store is held only to publish the proofs, so runs can publish while they are made. The arguments are those of
    `exporter.audit.verify.verify_tree`.

    Raises `RefutedError` if a run is contradicted, and `ArchiveError` if archives cannot be read. What could be proven
    is published before. Raises `CheckError` if no run is published, `StoreError` if the tree is damaged, and
    `LostRaceError` if somebody else holds the store for too long.
    """
    published = read_published(store)
    if published is None or published.status.network is None:
        raise CheckError(f"{store.uri}: no run is published there; run `exporter run` first")
    network = published.status.network
    trusted = trust_of(network, trust)
    read_current_listing(store, published.status)  # raises `StoreError` if the tree is damaged
    runs = {key[len(RUNS_PREFIX) : -len(".json")]: key for key in manifest_keys(store)}
    proven_runs = {proof.run_id for proof in published_proofs(store)}
    added, waiting, unproven = list[tuple[Proof, bytes]](), dict[str, str](), Unproven()
    refuted: RefutedError | None = None
    failed: ArchiveError | None = None
    with tempfile.TemporaryDirectory() as folder:
        opened = Archives.open(archives or trusted.archives, Path(folder), Deadline(deadline, "--deadline"))
        for run_id in sorted(runs, key=lambda run_id: -ledger_of(run_id))[:MAX_RUNS]:
            listing = None if run_id in proven_runs else read_listing(store, runs[run_id])
            evidence = None if listing is None else next(listing.under(EVIDENCE.prefix), None)
            stored = None if evidence is None else store.get(evidence.key)
            if evidence is None or (stored is None and store.get(runs[run_id]) is None):
                continue  # the run has a proof or no evidence, or a sweep removed it since
            if stored is None or hashlib.sha256(stored.data).hexdigest() != evidence.sha256:
                raise StoreError(f"{evidence.key} is missing or damaged, though run {run_id} has it")
            try:
                content = make_proof(opened, ledger_of(run_id), trusted)[1]
                outcome = hold_against(content, stored.data, trusted, opened, full=full)
            except NotProvableError as error:
                waiting[run_id] = str(error)
                unproven.add(UnprovenReason.WAITING, [run_id])
            except ArchiveError as error:
                failed = error  # other runs would fail in the same way
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
    """The entry of a run in the list of proofs. ``content`` has the bytes of the proof file."""
    counts = outcome.unproven.counts
    counted = ProvenEntries(
        entries=outcome.entries,
        confirmed=outcome.confirmed,
        changed_since=counts.get(UnprovenReason.CHANGED, 0),
        not_looked_up=counts.get(UnprovenReason.NOT_LOOKED_UP, 0),
        short_lived=counts.get(UnprovenReason.SHORT_LIVED, 0),
        absent=counts.get(UnprovenReason.ABSENT, 0),
        calls=counts.get(UnprovenReason.CALLS, 0),
    )
    return proof_entry(run_id, evidence_key, content, outcome.proven, counted, trust, now)


def claims_of(evidence: bytes) -> Claims:
    """What evidence claims about the state of the ledger.

    Raises `RefutedError` if the evidence is malformed, and `NotProvableError` if it is too large to read.
    """
    try:
        return read_claims(evidence)
    except RefusedError as error:
        raise RefutedError(str(error)) from None
    except OSError as error:
        raise NotProvableError(str(error)) from None


def hold_against(proof: bytes, evidence: bytes, trust: Trust, archives: Archives, *, full: bool) -> Outcome:
    """Compare evidence with the checkpoint that a proof file proves.

    With ``full``, every entry is looked up in all archive buckets, and not only in the newest. Raises `RefutedError` if
    the checkpoint contradicts the evidence, or if the file proves nothing. Raises `ArchiveError` if archive buckets
    cannot be read.
    """
    claims = claims_of(evidence)
    try:
        proven = check_proof(proof, trust)
        newest = not full and claims.ledger != proven.ledger
        keys = check_entries(claims, proven, [partial(_bucket, archive) for archive in archives.each], newest)
    except RefusedError as error:
        raise RefutedError(str(error)) from None
    except OSError as error:
        raise ArchiveError(str(error)) from None
    unproven = Unproven()
    unproven.add(UnprovenReason.CALLS, claims.calls)
    for reason in REASONS:
        unproven.add(UnprovenReason(reason), map(_key_name, keys[reason]))
    if not claims.entries:
        unproven.add(UnprovenReason.NO_ENTRIES, [f"that of ledger {claims.ledger}"])
    return Outcome(proven, len(claims.entries), len(keys["confirmed"]), unproven)


def _key_name(key: bytes) -> str:
    """A LedgerKey in base64, after the contract that the entry belongs to, if there is one."""
    encoded = base64.b64encode(key).decode()
    is_of_contract = key[:8] == _CONTRACT_DATA_PREFIX
    return f"{strkey.encode_contract(key[8:40])} {encoded}" if is_of_contract else encoded


def _bucket(archive: HistoryArchive, digest: bytes) -> Iterator[bytes]:
    """The content of an archive bucket. Raises `OSError` if this archive does not have it, so that others are asked."""
    try:
        yield from archive.bucket(digest)
    except ArchiveError as error:
        raise OSError(str(error)) from None
