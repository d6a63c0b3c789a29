"""The files of a tree that verifying needs, fetched into a folder where its run can be repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from exporter.check.published_tree import MAX_DOCUMENT_BYTES
from exporter.errors import CheckError, RefutedError, SourceError
from exporter.history.export import read_manifest, rows_of
from exporter.history.manifest import file_ledgers, file_reference
from exporter.history.schema import ORDER
from exporter.job.earlier_runs import Found, find_earlier
from exporter.stores import open_store
from exporter.stores.tree_sources import TreeSource, open_tree
from exporter.tree.decoding import decode_json
from exporter.tree.documents import (
    ChangeList,
    DataPackage,
    HistoryFile,
    HistoryManifest,
    ProofList,
    RunManifest,
    SystemStatus,
)
from exporter.tree.families import (
    CENSUS,
    CHANGES,
    DATA_PACKAGE,
    HISTORY_MANIFEST_KEY,
    POINTER_KEY,
    PROOFS,
    TRUST,
    VERIFIER,
)
from exporter.tree.read_back import render_document
from exporter.tree.run_listing import RunListing, listing_of

_Model = TypeVar("_Model")


class JoinedFilesError(SourceError):
    """The run's rows are in one file with those of earlier runs, so the history before it is not known."""


@dataclass(frozen=True, slots=True)
class FetchedTree:
    """A tree as far as verifying needs it.

    ``tree`` is a folder with the history as it was before the run, an output for the run to be repeated into; of that
    history it has the files ``before``, which are not ``as_published`` where one was replaced since, and is gone.
    ``files`` are listed by the run, whose web pages are of ``site_published_at``, None where they are its own.
    ``proof_files`` of the run and of ``earlier`` runs are by run id, ``checker`` are the tree's verifier and list of
    organisations by key. ``keys`` are all of the tree; None where the source cannot list them.
    """

    tree: Path
    status: SystemStatus
    files: RunListing
    site_published_at: str | None
    evidence: bytes
    changes: ChangeList
    earlier: Found
    history: HistoryManifest
    before: list[HistoryFile]
    as_published: bool
    proofs: ProofList | None
    proof_files: dict[str, bytes]
    checker: dict[str, bytes]
    census: bytes | None
    keys: set[str] | None


async def fetch(uri: str, folder: Path, most_earlier: int) -> FetchedTree:
    """Fetch what is needed of the tree at a URI.

    Args:
        uri: a folder, s3:// or http(s).
        folder: an empty one, which gets ``tree``.
        most_earlier: at most this many earlier runs are fetched.

    Raises:
        RefutedError: a file is missing, or is not the one that the tree says it is.
        SourceError: the tree cannot be read, or its run cannot be distinguished from earlier ones any more.
    """
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
        proofs = None if listed is None else _decoded(PROOFS.template, listed, ProofList)
        earlier = await find_earlier(source, status, proofs, most_earlier)
        wanted = {status.run_id, *(run.run_id for run in earlier.runs)}
        proof_files = {
            proof.run_id: await _get(source, proof.proof_key, proof.proof_sha256)
            for proof in ([] if proofs is None else proofs.proofs)
            if proof.run_id in wanted
        }
        checker = {
            key: content
            for key in (VERIFIER.template, TRUST.template)
            if (content := await source.get(key, MAX_DOCUMENT_BYTES)) is not None
        }
        history = await read_manifest(source)
        package = await _get(source, DATA_PACKAGE.template, files.sha256_of(DATA_PACKAGE.template))
        before, as_published = await _fetch_history(source, status, history, package, folder / "tree")
        return FetchedTree(
            folder / "tree",
            status,
            files,
            manifest.site_published_at,
            evidence,
            _decoded(CHANGES.template, changes, ChangeList),
            earlier,
            history,
            before,
            as_published,
            proofs,
            proof_files,
            checker,
            await source.get(CENSUS.template, MAX_DOCUMENT_BYTES),
            source.keys(""),
        )


async def _get(source: TreeSource, key: str, sha256: str | None = None) -> bytes:
    data = await source.get(key, MAX_DOCUMENT_BYTES)
    if data is None:
        raise RefutedError(f"{key} is missing")
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise RefutedError(f"{key} does not have the digest that is stated for it")
    return data


def _decoded(key: str, data: bytes, model: type[_Model]) -> _Model:
    try:
        return decode_json(data, model)
    except msgspec.DecodeError as error:
        raise RefutedError(f"{key} cannot be understood: {error}") from None


async def _fetch_history(
    source: TreeSource, status: SystemStatus, history: HistoryManifest, package: bytes, folder: Path
) -> tuple[list[HistoryFile], bool]:
    """Put the history before the run into a folder; gives its files, and whether they are those that the run found."""
    store = open_store(str(folder))
    earlier = [file for file in history.files if file.first_ledger < status.observed_ledger]
    for file in earlier:
        if file.last_ledger >= status.observed_ledger:
            raise JoinedFilesError(f"{file.key} joins the run's file with earlier ones; verify a newer run")
        store.put_new(file.key, await _get(source, file.key, file.sha256))
    resources = _decoded(DATA_PACKAGE.template, package, DataPackage).resources
    paths = [path for resource in resources if resource.name == "history" for path in resource.path]
    found = await _replaced(source, history, paths, folder)
    if found is not None:
        by_key = {file.key: file for file in earlier} | {file.key: file for file, _ in found}
        gone = {file.key for file in earlier} - set(paths)
        store.delete(sorted(gone))
        for file, data in found:
            store.put_new(file.key, data)
        earlier = sorted((file for key, file in by_key.items() if key not in gone), key=lambda file: file.first_ledger)
    if earlier:
        newest = max(file.last_ledger for file in earlier)
        before = structs.replace(history, observed_ledger=newest, files=earlier, rollups=[])
        store.put(HISTORY_MANIFEST_KEY, render_document(before).data)
    return earlier, found is not None


async def _replaced(
    source: TreeSource, history: HistoryManifest, paths: Sequence[str], folder: Path
) -> list[tuple[HistoryFile, bytes]] | None:
    """The files that the run found and that one with the same rows has replaced since; None where some are gone.

    ``paths`` are the files that the run found, and its own, by what it says; ``folder`` has those of the manifest.
    """
    known = {file.key for file in history.files}
    found = list[tuple[HistoryFile, bytes]]()
    for path in paths:
        if path not in known:
            data = await source.get(path, MAX_DOCUMENT_BYTES)
            file = None if data is None else _entry_of(path, data)
            if data is None or file is None:
                return None
            found.append((file, data))
    left = {file.key for file, _ in found}
    for replacing in history.files:
        if replacing.key in paths:
            continue
        parts = [
            (file, data)
            for file, data in found
            if replacing.first_ledger <= file.first_ledger and file.last_ledger <= replacing.last_ledger
        ]
        if not parts:
            return None
        rows = pl.concat(rows_of(data, file) for file, data in parts).sort(ORDER)
        if not rows_of((folder / replacing.key).read_bytes(), replacing).sort(ORDER).equals(rows):
            raise RefutedError(f"{replacing.key} does not have the rows of the files that it replaced")
        left -= {file.key for file, _ in parts}
    return None if left else found


def _entry_of(key: str, data: bytes) -> HistoryFile | None:
    """The manifest's entry of a file, from its key and content; None for what is not a file of the history."""
    ledgers = file_ledgers(key)
    try:
        metadata: Any = pq.ParquetFile(pa.BufferReader(data)).metadata
    except (pa.ArrowException, OSError):
        return None
    if ledgers is None:
        return None
    digest = hashlib.sha256(data).hexdigest()
    return HistoryFile(key, file_reference(key), metadata.num_rows, len(data), digest, *ledgers)
