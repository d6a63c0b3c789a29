"""Verifying a published tree without trusting whoever published it.

1. The tree is checked as `exporter check` does it: every file has its digest, and all of them agree.
2. The run is made again from its own evidence. Its id is a digest of all its files: the same id, the same numbers.
3. The evidence is held against a checkpoint of the network, whose header enough organisations signed for.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import polars as pl
from msgspec import structs

from exporter.check.published_tree import MAX_DOCUMENT_BYTES, check_tree
from exporter.config import load
from exporter.console import Console, Silence
from exporter.deployments.networks import NETWORKS
from exporter.errors import CheckError, ExporterError, RefutedError, SourceError
from exporter.history.export import read_manifest
from exporter.job.prove import NEWEST_LEVELS, Outcome, hold_against
from exporter.job.report import RunReport
from exporter.job.run import execute
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint_proof import make_proof
from exporter.past.archive.stellar_proof import LEVELS, Trust
from exporter.past.archive.trusted_organisations import days_old, signed_by, trust_of
from exporter.publishing.standing import read_current_listing, read_published
from exporter.stores import open_store
from exporter.stores.tree_sources import TreeSource, open_tree
from exporter.tree.decoding import decode_json
from exporter.tree.documents import ProofList, SystemStatus
from exporter.tree.families import HISTORY_MANIFEST_KEY, POINTER_KEY, PROOFS
from exporter.tree.read_back import render_document
from exporter.tree.run_listing import ManifestOfAnyAge, RunListing, listing_of

BEYOND_A_RUN = re.compile(r"data\.html|datapackage\.json|v1/changes\.json|.*\.atom")
"""The keys of files that also tell of the history's files, or of earlier runs: that they agree with the rest of the
tree is all that can be said of them."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What is known of a tree now.

    ``files`` are those of the run, of which ``made_again`` came out of its evidence byte for byte; ``signed`` of the
    ``trust``ed organisations signed.
    """

    run_id: str
    ledger: int
    files: int
    made_again: int
    outcome: Outcome
    signed: int
    trust: Trust

    def lines(self) -> list[str]:
        found, trust = self.outcome, self.trust
        left = found.changed_since + found.not_looked_up
        names, days = ", ".join(trust.organisations), days_old(trust, datetime.now(UTC).date())
        return [
            f"run {self.run_id}: {self.signed} of {len(trust.organisations)} organisations signed ledger "
            f"{found.proven.signed_ledger}, where {trust.needed} must; it proves checkpoint {found.proven.ledger}",
            f"{found.confirmed} of {found.entries} entries of ledger {self.ledger} are proven; {left} are not "
            f"({found.changed_since} were changed before the checkpoint, {found.not_looked_up} were not looked up in "
            f"older buckets), and the results of {found.calls} calls are the RPC's word",
            f"{self.made_again} of {self.files} files follow from these, byte for byte; the others agree with them",
            f"trusted: {names} (a list of {trust.date}, {days} days old: {trust.source})",
        ]

    def as_dict(self) -> dict[str, object]:
        found = self.outcome
        return {
            "run_id": self.run_id, "ledger": self.ledger, "checkpoint": found.proven.ledger, "signed": self.signed,
            "trusted": len(self.trust.organisations), "needed": self.trust.needed, "entries": found.entries,
            "confirmed": found.confirmed, "changed_since": found.changed_since, "not_looked_up": found.not_looked_up,
            "calls": found.calls, "files": self.files, "made_again": self.made_again,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Got:
    """What is needed of a tree: its status, the listing of the run's files, its evidence, and its proof."""

    status: SystemStatus
    files: RunListing
    evidence: bytes
    proof: bytes | None


def verify_tree(
    uri: str, archives: Sequence[str], trust: Path | None, console: Console, *, full: bool = False
) -> Verified:
    """Verify the published run of the tree at a URI (a folder, s3://, http(s)).

    Args:
        uri: where the tree is.
        archives: history archives to take buckets from; those of the trusted organisations where none is named.
        trust: a file with the organisations to trust; None for those that are known for the network.
        console: is told what happens.
        full: look every entry up in all buckets, also where the run's ledger is no checkpoint.

    Raises:
        RefutedError: something is not so; the first thing is named.
        SourceError: the tree, or the archives, cannot be read, or a checkpoint after the run cannot be proven yet.
        ConfigError: nobody is known to trust, or the URI is none.
    """
    with console.step("check", "checking the tree") as facts:
        try:
            looked = check_tree(uri)
        except CheckError as error:
            raise RefutedError(str(error)) from None
        facts.update(files=sum(looked.files.values()))
    with tempfile.TemporaryDirectory() as folder:
        with console.step("repeat", "making the run again from its evidence") as facts:
            got = asyncio.run(_fetch(uri, Path(folder)))
            status = got.status
            if status.run_id != looked.run_id:
                raise SourceError(f"run {status.run_id} was published after {looked.run_id} was checked; verify again")
            made_again = _make_again(got, Path(folder))
            facts.update(files=made_again)
        trusted = trust_of(status.network, trust)
        with console.step("prove", "holding the evidence against the network's checkpoint") as facts:
            opened = Archives.open(archives or trusted.archives, Path(folder) / "buckets")
            proof = got.proof
            if proof is None:
                proof = make_proof(opened, status.observed_ledger, trusted)[1]
            outcome = hold_against(proof, got.evidence, trusted, opened, LEVELS if full else NEWEST_LEVELS)
            facts.update(checkpoint=outcome.proven.ledger, confirmed=outcome.confirmed)
    return Verified(
        status.run_id, status.observed_ledger, len(got.files), made_again, outcome,
        signed_by(outcome.proven, trusted), trusted,
    )  # fmt: skip


async def _fetch(uri: str, folder: Path) -> _Got:
    """What is needed of the tree; the history before the run goes into ``folder``/tree, as an output to go on with."""
    async with open_tree(uri) as source:
        status = decode_json(await _get(source, POINTER_KEY), SystemStatus)
        manifest = decode_json(await _get(source, status.manifest_key, status.manifest_sha256), ManifestOfAnyAge)
        data = await _get(source, manifest.files_key) if manifest.files is None else None
        files = listing_of(manifest, data)
        evidence_sha256 = None if status.evidence_key is None else files.sha256_of(status.evidence_key)
        if status.evidence_key is None or evidence_sha256 is None:
            raise RefutedError(f"run {status.run_id} left no evidence, so nothing of it can be verified")
        evidence = await _get(source, status.evidence_key, evidence_sha256)
        store = open_store(str(folder / "tree"))
        history = await read_manifest(source)
        earlier = [file for file in history.files if file.first_ledger < status.observed_ledger]
        for file in earlier:
            if file.last_ledger >= status.observed_ledger:
                raise SourceError(f"{file.key} joins the run's file with earlier ones; verify a newer run")
            store.put_new(file.key, await _get(source, file.key, file.sha256))
        if earlier:
            newest = max(file.last_ledger for file in earlier)
            before = structs.replace(history, observed_ledger=newest, files=earlier)
            store.put(HISTORY_MANIFEST_KEY, render_document(before).data)
        listed = await source.get(PROOFS.template, MAX_DOCUMENT_BYTES)
        try:
            proofs = [] if listed is None else decode_json(listed, ProofList).proofs
        except msgspec.DecodeError as error:
            raise RefutedError(f"{PROOFS.template} cannot be understood: {error}") from None
        proof = next((item for item in proofs if item.run_id == status.run_id), None)
        content = None if proof is None else await _get(source, proof.proof_key, proof.proof_sha256)
    return _Got(status, files, evidence, content)


async def _get(source: TreeSource, key: str, sha256: str | None = None) -> bytes:
    data = await source.get(key, MAX_DOCUMENT_BYTES)
    if data is None:
        raise RefutedError(f"{key} is missing")
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise RefutedError(f"{key} does not have the digest that stands for it")
    return data


def _make_again(got: _Got, folder: Path) -> int:
    """Make the run of its evidence once more; gives how many of its files came out byte for byte."""
    status, path = got.status, folder / "evidence.jsonl.gz"
    path.write_bytes(got.evidence)
    known = status.network_name in NETWORKS and NETWORKS[status.network_name].passphrase == status.network
    network = {"network.name": status.network_name} if known else {"network.passphrase": status.network}
    settings = load(
        None,
        {
            **network,
            "output.uri": str(folder / "tree"),
            "output.page_sizes": list(status.page_sizes),
            "output.default_page_size": status.default_page_size,
            "output.market_pools_cap": status.market_pools_cap,
        },
        environment={},
    ).settings
    store = open_store(settings.output.uri, precompressed=settings.output.precompressed)
    try:
        execute(settings, store, Silence(), RunReport(None), snapshot=path)
    except ExporterError as error:
        raise RefutedError(f"no run can be made of the evidence: {error}") from None
    published = read_published(store)
    assert published is not None  # by this very run
    made = read_current_listing(store, published.pointer).whole().select("key", again="sha256")
    files = made.join(got.files.whole().select("key", "sha256"), on="key", how="full", coalesce=True)
    differ = files.filter(pl.col("again").ne_missing(pl.col("sha256"))).sort("key")
    for key, listed in differ.select("key", "sha256").iter_rows():
        if not BEYOND_A_RUN.fullmatch(key):
            what = "is not among the run's files" if listed is None else "does not follow from the run's evidence"
            raise RefutedError(f"{key} {what}")
    return files.height - differ.height
