"""The files of a tree that verifying needs, fetched into a folder where its run can be repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from exporter.check.published_tree import MAX_DOCUMENT_BYTES
from exporter.errors import CheckError, RefutedError, SourceError
from exporter.history.export import read_manifest, rows_of
from exporter.history.manifest import file_ledgers, file_reference
from exporter.history.parquet import ORDER
from exporter.stores import open_store
from exporter.stores.tree_sources import TreeSource, open_tree
from exporter.tree.decoding import decode_json
from exporter.tree.documents import (
    ChangeList,
    DataPackage,
    HistoryFile,
    HistoryManifest,
    Proof,
    ProofList,
    RunManifest,
    SystemStatus,
)
from exporter.tree.families import (
    CENSUS,
    CHANGES,
    DATA_PACKAGE,
    EVIDENCE,
    HISTORY_MANIFEST_KEY,
    POINTER_KEY,
    PROOFS,
    RUN,
    TRUST,
    VERIFIER,
)
from exporter.tree.read_back import render_document
from exporter.tree.run_listing import RunListing, listing_of

_Model = TypeVar("_Model")


class JoinedFilesError(SourceError):
    """The run's rows are in one file with those of earlier runs, so the history before it is not known."""


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run whose evidence is in the tree, packed as it is there."""

    run_id: str
    ledger: int
    evidence_key: str
    evidence: bytes


@dataclass(frozen=True, slots=True)
class FetchedTree:
    """A tree as far as verifying needs it.

    ``folder`` has the history as it was before the run, for the run to be repeated into: the files ``before``, which
    are not ``as_published`` where one was replaced since, and is gone. The run's web pages are of
    ``site_published_at``, None where they are its own. ``earlier`` runs are newest first; ``left_out`` says why others
    are not among them, by run id, as ``proof_files`` are. ``checker`` are the tree's verifier and list of organisations
    by key. ``keys`` are all of the tree; None where the source cannot list them.
    """

    folder: Path
    status: SystemStatus
    files: RunListing
    site_published_at: str | None
    evidence: bytes
    changes: ChangeList
    earlier: list[EarlierRun]
    left_out: dict[str, str]
    history: HistoryManifest
    before: list[HistoryFile]
    as_published: bool
    proofs: list[Proof]
    proof_files: dict[str, bytes]
    checker: dict[str, bytes]
    census: bytes | None
    keys: set[str] | None


async def fetch(uri: str, folder: Path, most_earlier: int) -> FetchedTree:
    """Fetch what is needed of the tree at a URI into an empty folder. Raises `RefutedError`, `SourceError`."""
    async with open_tree(uri) as source:
        status = _decoded(POINTER_KEY, await _get(source, POINTER_KEY), SystemStatus)
        manifest_bytes = await _get(source, status.manifest_key, status.manifest_sha256)
        manifest = _decoded(status.manifest_key, manifest_bytes, RunManifest)
        try:
            files = listing_of(manifest, await _get(source, manifest.files_key))
        except CheckError as error:
            raise RefutedError(str(error)) from None
        evidence_sha256 = files.sha256_of(status.evidence_key)
        if evidence_sha256 is None:
            raise RefutedError(f"run {status.run_id} left no evidence, so nothing of it can be verified")
        evidence = await _get(source, status.evidence_key, evidence_sha256)
        changes = await _get(source, CHANGES.template, files.sha256_of(CHANGES.template))
        listed = await source.get(PROOFS.template, MAX_DOCUMENT_BYTES)
        proofs = [] if listed is None else _decoded(PROOFS.template, listed, ProofList).proofs
        earlier, left_out = await _find_earlier(source, status, proofs, most_earlier)
        wanted = {status.run_id, *(run.run_id for run in earlier)}
        proof_files = {
            proof.run_id: await _get(source, proof.proof_key, proof.proof_sha256)
            for proof in proofs
            if proof.run_id in wanted
        }
        checker = {
            key: content
            for key in (VERIFIER.template, TRUST.template)
            if (content := await source.get(key, MAX_DOCUMENT_BYTES)) is not None
        }
        history = await read_manifest(source)
        package = await _get(source, DATA_PACKAGE.template, files.sha256_of(DATA_PACKAGE.template))
        resources = _decoded(DATA_PACKAGE.template, package, DataPackage).resources
        paths = {path for resource in resources if resource.name == "history" for path in resource.path}
        before, as_published = await _fetch_history(source, status, history, paths, folder / "tree")
        return FetchedTree(
            folder=folder / "tree",
            status=status,
            files=files,
            site_published_at=manifest.site_published_at,
            evidence=evidence,
            changes=_decoded(CHANGES.template, changes, ChangeList),
            earlier=earlier,
            left_out=left_out,
            history=history,
            before=before,
            as_published=as_published,
            proofs=proofs,
            proof_files=proof_files,
            checker=checker,
            census=await source.get(CENSUS.template, MAX_DOCUMENT_BYTES),
            keys=source.keys(""),
        )


async def _get(source: TreeSource, key: str, sha256: str | None = None) -> bytes:
    data = await source.get(key, MAX_DOCUMENT_BYTES)
    if data is None or len(data) > MAX_DOCUMENT_BYTES:
        raise RefutedError(f"{key} is {'missing' if data is None else 'too large'}")
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise RefutedError(f"{key} does not have the digest that is stated for it")
    return data


def _decoded(key: str, data: bytes, model: type[_Model]) -> _Model:
    try:
        return decode_json(data, model)
    except msgspec.DecodeError as error:
        raise RefutedError(f"{key} cannot be understood: {error}") from None


def ledger_of(run_id: str) -> int:
    """The ledger that a run's id starts with."""
    return int(run_id.partition("-")[0])


async def _find_earlier(
    source: TreeSource, status: SystemStatus, proofs: Iterable[Proof], most: int
) -> tuple[list[EarlierRun], dict[str, str]]:
    """The newest earlier runs with evidence, and why others are not there; over HTTP those that the tree names."""
    keys = source.keys(RUN.prefix)
    if keys is None:
        ids = {proof.run_id for proof in proofs} | ({status.previous_run_id} if status.previous_run_id else set())
    else:
        ids = {found["run_id"] for key in keys if (found := RUN.pattern.fullmatch(key)) is not None}
    runs, left_out = list[EarlierRun](), dict[str, str]()
    for run_id in sorted(ids, key=lambda run_id: (-ledger_of(run_id), run_id)):
        if ledger_of(run_id) >= status.observed_ledger:
            continue
        if len(runs) >= most:
            left_out[run_id] = f"only the newest {most} earlier runs are repeated"
            continue
        try:
            runs.append(await _earlier(source, run_id))
        except (CheckError, RefutedError) as error:
            left_out[run_id] = str(error)
    return runs, left_out


async def _earlier(source: TreeSource, run_id: str) -> EarlierRun:
    key = RUN.key(run_id=run_id)
    manifest = _decoded(key, await _get(source, key), RunManifest)
    listing = RunListing.from_parquet(await _get(source, manifest.files_key))
    keys = listing.frame.filter(pl.col("key").str.starts_with(EVIDENCE.prefix))["key"]
    if listing.run_id(ledger_of(run_id)) != run_id or len(keys) != 1:
        raise CheckError("its manifest does not name its evidence")
    evidence = await _get(source, keys[0])
    if EVIDENCE.key(sha256=hashlib.sha256(evidence).hexdigest()) != keys[0]:
        raise CheckError(f"{keys[0]} does not have the digest of its name")
    return EarlierRun(run_id, ledger_of(run_id), keys[0], evidence)


async def _fetch_history(
    source: TreeSource, status: SystemStatus, history: HistoryManifest, paths: set[str], folder: Path
) -> tuple[list[HistoryFile], bool]:
    """Put the history before the run into a folder; gives its files, and whether the run found just these.

    ``paths`` are the files that the run found, and its own. Files that were joined since take the place of missing
    ones.
    """
    store, files = open_store(str(folder)), dict[str, HistoryFile]()
    for file in history.files:
        if file.first_ledger < status.observed_ledger:
            if file.last_ledger >= status.observed_ledger:
                raise JoinedFilesError(f"{file.key} joins the run's file with earlier ones; verify a newer run")
            store.put_new(file.key, await _get(source, file.key, file.sha256))
            files[file.key] = file
    joined = files.keys() - paths
    parts = [(key, await source.get(key, MAX_DOCUMENT_BYTES)) for key in paths - {file.key for file in history.files}]
    found = [(part, data) for key, data in parts if data is not None and (part := _entry_of(key, data)) is not None]
    as_published = len(found) == len(parts)
    for file in (files[key] for key in sorted(joined)):
        own = [rows_of(data, part) for part, data in found if _joins(file, part)]
        as_published &= bool(own)
        if as_published:
            rows = rows_of((folder / file.key).read_bytes(), file)
            if not rows.sort(ORDER).equals(pl.concat(own).sort(ORDER)):
                raise RefutedError(f"{file.key} does not have the rows of the files that it joins")
    as_published &= all(any(_joins(files[key], part) for key in joined) for part, _ in found)
    if as_published:
        store.delete(sorted(joined))
        for part, data in found:
            store.put_new(part.key, data)
        files = {key: file for key, file in files.items() if key in paths} | {part.key: part for part, _ in found}
    before = sorted(files.values(), key=lambda file: file.first_ledger)
    if before:
        manifest = structs.replace(history, observed_ledger=before[-1].last_ledger, files=before, rollups=[])
        store.put(HISTORY_MANIFEST_KEY, render_document(manifest).data)
    return before, as_published


def _joins(file: HistoryFile, part: HistoryFile) -> bool:
    return file.first_ledger <= part.first_ledger and part.last_ledger <= file.last_ledger


def _entry_of(key: str, data: bytes) -> HistoryFile | None:
    """The manifest's entry of a file, from its key and content; None for what is not a file of the history."""
    ledgers = file_ledgers(key)
    try:
        rows: int = pq.ParquetFile(pa.BufferReader(data)).metadata.num_rows
    except (pa.ArrowException, OSError):
        return None
    if ledgers is None:
        return None
    return HistoryFile(key, file_reference(key), rows, len(data), hashlib.sha256(data).hexdigest(), *ledgers)
