"""Proving published runs: their evidence is held against the next checkpoint of the network's history archives.

It is a step of its own, because a checkpoint can be proven only when the next one is there. The proofs are no part of
any run: the files are added, then `v1/proofs.json` is replaced.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path

import msgspec
import polars as pl

from exporter.console import Console
from exporter.errors import ArchiveError, CheckError, DecodeError, RefutedError, StoreError
from exporter.job.evidence import unpacked
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.past.archive.checkpoint_proof import NotProvableError, make_proof
from exporter.past.archive.stellar_proof import (
    LEVELS,
    Proven,
    RefusedError,
    Trust,
    check_entries,
    check_proof,
    read_claims,
)
from exporter.past.archive.trusted_organisations import signed_by, trust_file, trust_of
from exporter.publishing.standing import RUNS_PREFIX, manifest_keys, read_current_listing, read_listing, read_published
from exporter.stores.store import Clock, Store, utc_now
from exporter.tree.decoding import decode_json
from exporter.tree.documents import ManifestFile, Proof, ProofList, timestamp
from exporter.tree.families import EVIDENCE, PROOF, PROOFS, RUN, TRUST, VERIFIER
from exporter.tree.read_back import render_document
from exporter.tree.run_listing import listed_files

MAX_RUNS = 100
"""So many of the newest runs are looked at."""

NEWEST_LEVELS = 3
"""Entries that were changed within some 1,000 ledgers stand in these levels of the buckets, a few megabytes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a proof says of the evidence of a run."""

    proven: Proven
    entries: int
    confirmed: int
    changed_since: int
    not_looked_up: int
    calls: int


@dataclass(frozen=True, slots=True)
class ProveResult:
    """The proofs that were added; and of the other runs, by id, why none could be."""

    added: list[Proof]
    waiting: dict[str, str]


def prove(
    store: Store, archives: Sequence[str], trust: Path | None, console: Console, *, full: bool = False,
    now: Clock = utc_now,
) -> ProveResult:  # fmt: skip
    """Prove each published run that has evidence and no proof yet, and add what readers need to check it.

    Args:
        store: the tree.
        archives: history archives (folder, https://, s3://); those of the trusted organisations where none is named.
        trust: a file with the organisations to trust; None for those that are known for the network.
        console: is told what happens.
        full: look every entry up in all buckets, also where the run's ledger is no checkpoint.
        now: the wall clock.

    Raises:
        RefutedError: the evidence of a run is not the network's state. What could be proven before was published.
        ArchiveError: no archive can be read.
        CheckError, StoreError, ConfigError: there is no tree, or nobody to trust.
    """
    published = read_published(store)
    if published is None or published.pointer.network is None:
        raise CheckError(f"{store.uri}: no run is published there; run `exporter run` first")
    network = published.pointer.network
    trusted = trust_of(network, trust)
    read_current_listing(store, published.pointer)  # raises for a tree that is damaged
    runs = {key[len(RUNS_PREFIX) : -len(".json")]: key for key in manifest_keys(store)}
    known = {proof.run_id for proof in _known(store)}
    added, waiting = list[tuple[Proof, bytes]](), dict[str, str]()
    refuted: RefutedError | None = None
    with tempfile.TemporaryDirectory() as folder, store.exclusive():
        opened = Archives.open(archives or trusted.archives, Path(folder))
        for run_id in sorted(runs, key=lambda run_id: -_ledger(run_id))[:MAX_RUNS]:
            evidence = None if run_id in known else _evidence_of(store, runs[run_id])
            if evidence is None:
                continue
            stored = store.get(evidence.key)
            if stored is None or hashlib.sha256(stored.data).hexdigest() != evidence.sha256:
                raise StoreError(f"{evidence.key} is missing or damaged, though run {run_id} has it")
            try:
                content = make_proof(opened, _ledger(run_id), trusted)[1]
                outcome = hold_against(content, stored.data, trusted, opened, LEVELS if full else NEWEST_LEVELS)
            except NotProvableError as error:
                waiting[run_id] = str(error)
            except RefutedError as error:
                refuted = refuted or RefutedError(f"run {run_id}: {error}")
                console.warning(f"run {run_id}: {error}")
            else:
                added.append((_proof(run_id, evidence.key, content, outcome, trusted, now), content))
        if added:
            _add(store, network, trust, added)
    if refuted is not None:
        raise refuted
    return ProveResult([proof for proof, _ in added], waiting)


def add_proof(
    store: Store, network: str, trust: Path | None, run_id: str, evidence_key: str, entries: int, content: bytes,
    now: Clock,
) -> None:  # fmt: skip
    """Add the proof file of the checkpoint that a run was read from: all its entries came out of proven buckets."""
    trusted = trust_of(network, trust)
    outcome = Outcome(check_proof(content, trusted), entries, entries, 0, 0, 0)
    with store.exclusive():
        _add(store, network, trust, [(_proof(run_id, evidence_key, content, outcome, trusted, now), content)])


def _proof(run_id: str, evidence_key: str, content: bytes, outcome: Outcome, trust: Trust, now: Clock) -> Proof:
    digest = hashlib.sha256(content).hexdigest()
    return Proof(
        run_id, _ledger(run_id), evidence_key, outcome.proven.ledger, PROOF.key(sha256=digest), digest, outcome.entries,
        outcome.confirmed, outcome.changed_since, outcome.not_looked_up, outcome.calls,
        signed_by(outcome.proven, trust), len(trust.organisations), trust.needed, timestamp(int(now().timestamp())),
    )  # fmt: skip


def _add(store: Store, network: str, trust: Path | None, added: Sequence[tuple[Proof, bytes]]) -> None:
    """First the files, then the list that names them."""
    for proof, content in added:
        store.put_new(proof.proof_key, content)
    store.put(VERIFIER.template, files("exporter.past.archive").joinpath("stellar_proof.py").read_bytes())
    store.put(TRUST.template, trust_file(network, trust)[0])
    names = {proof.run_id for proof, _ in added}
    kept = [proof for proof in _known(store) if proof.run_id not in names and store.get(RUN.key(run_id=proof.run_id))]
    proofs = sorted([*(proof for proof, _ in added), *kept], key=lambda proof: -proof.observed_ledger)
    document = ProofList(network, VERIFIER.template, TRUST.template, proofs)
    store.put(PROOFS.template, render_document(document).data)


def hold_against(proof: bytes, evidence: bytes, trust: Trust, archives: Archives, levels: int) -> Outcome:
    """Hold evidence against the checkpoint that a proof file is of; at the run's own ledger in all buckets.

    Raises:
        RefutedError: the proof does not hold, or the evidence is not the state; the message names what is not so.
        ArchiveError: no archive gave the buckets.
    """
    try:
        proven = check_proof(proof, trust)
        claims = read_claims(unpacked(evidence))
        found = check_entries(
            claims, proven, [partial(_bucket, archive) for archive in archives.each],
            LEVELS if claims.ledger == proven.ledger else levels,
        )  # fmt: skip
    except (RefusedError, DecodeError) as error:
        raise RefutedError(str(error)) from None
    except OSError as error:
        raise ArchiveError(str(error)) from None
    confirmed, changed_since, not_looked_up = map(len, found)
    return Outcome(proven, len(claims.entries), confirmed, changed_since, not_looked_up, claims.calls)


def _bucket(archive: HistoryArchive, digest: bytes) -> Iterator[bytes]:
    try:
        yield from archive.bucket(digest)
    except ArchiveError as error:
        raise OSError(str(error)) from None  # the next archive may have it


def _ledger(run_id: str) -> int:
    return int(run_id.partition("-")[0])


def _evidence_of(store: Store, manifest_key: str) -> ManifestFile | None:
    listing = read_listing(store, manifest_key)
    if listing is None:
        return None
    return next(listed_files(listing.where(pl.col("key").str.starts_with(EVIDENCE.prefix))), None)


def _known(store: Store) -> list[Proof]:
    stored = store.get(PROOFS.template)
    try:
        return [] if stored is None else decode_json(stored.data, ProofList).proofs
    except msgspec.DecodeError as error:
        raise StoreError(f"{PROOFS.template} cannot be understood ({error}); remove it, and prove again") from None
