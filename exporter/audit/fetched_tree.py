"""Fetches the parts of a published tree that are needed to repeat its run, and to judge the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from msgspec import Struct

from exporter.audit.evidence_proof import claims_of
from exporter.audit.input_history import InputHistory, fetch_history
from exporter.audit.manifest_faults import input_faults
from exporter.audit.private_files import PRIVATE_KEYS
from exporter.audit.tree_reading import decoded, document, required
from exporter.bounds import FILE_BYTES
from exporter.errors import CheckError, DecodeError
from exporter.history.changes_table import NO_ROWS, rows_before
from exporter.history.export import read_manifest
from exporter.job.inputs import inputs_named
from exporter.job.watched import watched_from, watched_in
from exporter.publishing.sweep_state import SWEEP_STATE_KEY, SweepState, decode_sweep_state, is_undone_run
from exporter.render.watched_values import WatchedFile
from exporter.stores.tree_sources import TreeSource, open_tree
from exporter.tree.documents import (
    ChangeList,
    HistoryManifest,
    InputName,
    Proof,
    ProofList,
    RunInput,
    RunManifest,
    RunSettings,
    SystemStatus,
    encode,
)
from exporter.tree.families import CENSUS, CHANGES, CHANGES_TABLE, EVIDENCE, PROOFS, RUN, STATUS_KEY, TRUST, VERIFIER
from exporter.tree.run_listing import RunListing, ledger_of, listing_of


class EarlierRun(Struct, frozen=True):
    """An earlier run whose evidence is still in the tree.

    Attributes:
        settings: the settings that it was rendered with.
        evidence: the content of its evidence file, which is compressed.
        watched_key: the key of the watched values with which it was compared; None if it was compared with none.
        watched: these values; None if they are gone.
    """

    run_id: str
    ledger: int
    settings: RunSettings
    evidence_key: str
    evidence: bytes
    watched_key: str | None
    watched: WatchedFile | None


class FetchedTree(Struct, frozen=True):
    """The parts of a tree that are needed to repeat its run and to judge the rest.

    Attributes:
        uri: the tree.
        folder: a folder with the files of ``history``, by their keys.
        status: the status document.
        manifest: the run's manifest.
        files: the listing of the run's files.
        evidence: the content of the run's evidence file, which is compressed.
        watched: the watched values with which the run was compared; None if it was not compared, or they are gone.
        history: the history before the run.
        gone: why an input is gone, by the name of the input and the key of the file.
        changes: the published list of changes, which includes changes that earlier runs found.
        earlier_rows: the rows of earlier runs in the table of all changes.
        earlier: earlier runs, newest first.
        left_out: why other earlier runs are not among them, by run id.
        history_manifest: the history's manifest as it is now.
        liquidations: the table of liquidations; empty if there is none.
        risk: the risk document that the run showed; None if it showed none.
        listed_proofs: the list of proofs; None if there is none.
        proof_files: the proofs of these runs, by run id.
        companions: the census, the verifier and the list of organisations, by key, as far as the tree has them.
        private_files: the files that the publisher keeps for itself, by key.
        keys: the keys of all files of the tree; None if they cannot be listed.
        strangers: names of what else is there, each with what it is.
    """

    uri: str
    folder: Path
    status: SystemStatus
    manifest: RunManifest
    files: RunListing
    evidence: bytes
    watched: WatchedFile | None
    history: InputHistory
    gone: dict[InputName, dict[str, str]]
    changes: ChangeList
    earlier_rows: pa.Table
    earlier: list[EarlierRun]
    left_out: dict[str, str]
    history_manifest: HistoryManifest
    liquidations: bytes
    risk: bytes | None
    listed_proofs: ProofList | None
    proof_files: dict[str, bytes]
    companions: dict[str, bytes]
    private_files: dict[str, bytes]
    keys: set[str] | None
    strangers: list[str]

    @property
    def proofs(self) -> list[Proof]:
        """The proofs that the tree lists."""
        return [] if self.listed_proofs is None else self.listed_proofs.proofs


async def fetch(uri: str, folder: Path, most_earlier: int) -> FetchedTree:
    """Fetch the parts of a tree that are needed to repeat its run. The history goes into an empty folder.

    At most ``most_earlier`` earlier runs are fetched. Raises `CheckError` if a part is missing or damaged, and
    `SourceError` if the tree cannot be read.
    """
    async with open_tree(uri) as source:
        status = await document(source, STATUS_KEY, SystemStatus)
        manifest = await document(source, status.manifest_key, RunManifest, status.manifest_sha256)
        files = listing_of(manifest.files_key, manifest.files_sha256, await required(source, manifest.files_key))
        for text in input_faults(status, manifest, files):
            raise CheckError(f"{status.manifest_key}: {text}")
        optional = (PROOFS.only_key, CENSUS.only_key, VERIFIER.only_key, TRUST.only_key, *PRIVATE_KEYS)
        contents = [(key, await source.get(key, FILE_BYTES)) for key in optional]
        extras = {key: content for key, content in contents if content is not None}
        proof_list = extras.pop(PROOFS.only_key, None)
        listed_proofs = None if proof_list is None else decoded(PROOFS.only_key, proof_list, ProofList)
        proofs = [] if listed_proofs is None else listed_proofs.proofs
        sweep_state = decode_sweep_state(extras.get(SWEEP_STATE_KEY))
        earlier, left_out = await _find_earlier(source, status, proofs, sweep_state, most_earlier)
        repeated = {status.run_id, *(run.run_id for run in earlier)}
        now = await read_manifest(source)
        named = inputs_named(manifest.inputs, "history")
        history = await fetch_history(source, named, now, status.observed_ledger, status.network, folder / "tree")
        gone: dict[InputName, dict[str, str]] = {"history": history.gone}
        watched = None
        for item in inputs_named(manifest.inputs, "watched"):
            watched = await _watched(source, item, status)
            if watched is None:
                gone["watched"] = {item.key: "it is gone, and the evidence of the run before does not give it"}
        return FetchedTree(
            uri=uri,
            folder=folder / "tree",
            status=status,
            manifest=manifest,
            files=files,
            evidence=await required(source, status.evidence_key, files.sha256_of(status.evidence_key)),
            watched=watched,
            history=history,
            gone={name: keys for name, keys in gone.items() if keys},
            changes=await document(source, CHANGES.only_key, ChangeList, files.sha256_of(CHANGES.only_key)),
            earlier_rows=await _earlier_rows(source, files, status.observed_ledger),
            earlier=earlier,
            left_out=left_out,
            history_manifest=now,
            liquidations=b""
            if now.liquidations is None
            else await required(source, now.liquidations.key, now.liquidations.sha256),
            risk=None if status.risk_key is None else await required(source, status.risk_key, status.risk_sha256),
            listed_proofs=listed_proofs,
            proof_files={
                proof.run_id: await required(source, proof.proof_key, proof.proof_sha256)
                for proof in proofs
                if proof.run_id in repeated
            },
            companions={key: data for key, data in extras.items() if key not in PRIVATE_KEYS},
            private_files={key: data for key, data in extras.items() if key in PRIVATE_KEYS},
            keys=source.keys(""),
            strangers=source.strangers(),
        )


async def _earlier_rows(source: TreeSource, files: RunListing, ledger: int) -> pa.Table:
    """The rows of runs below a ledger in the table of all changes.

    There are none if the file is no such table. Then the table that is rendered again differs from the file, so that
    the file is named. Raises `CheckError` if the file is missing or has another digest.
    """
    key = CHANGES_TABLE.only_key
    try:
        return rows_before(await required(source, key, files.sha256_of(key)), ledger)
    except DecodeError:
        return NO_ROWS


async def _watched(source: TreeSource, item: RunInput, status: SystemStatus) -> WatchedFile | None:
    """The watched values with which a run was compared; None if they are gone.

    They are read from their file. If it is gone, they are made again from the evidence of the previous run, and from
    the values with which that run was compared.
    """
    watched = await _watched_file(source, item.key)
    if watched is None and status.previous_run_id is not None:
        with suppress(CheckError):
            run = await _earlier(source, status.previous_run_id)
            claims_of(run.evidence)  # raises an error for evidence beyond the bounds
            before = None if run.watched is None else run.watched.values
            watched = await asyncio.to_thread(watched_from, run.evidence, run.evidence_key, lambda: before)
    return watched if watched is not None and watched.file.key == item.key else None


async def _watched_file(source: TreeSource, key: str) -> WatchedFile | None:
    """The watched values in a file; None if it is missing or damaged."""
    data = await source.get(key, FILE_BYTES)
    return None if data is None else watched_in(key, data)


async def _find_earlier(
    source: TreeSource, status: SystemStatus, proofs: Iterable[Proof], sweep_state: SweepState, most: int
) -> tuple[list[EarlierRun], dict[str, str]]:
    """The newest earlier runs with evidence, at most ``most``, and why other runs are not among them.

    If the source cannot list, as over HTTP, only the runs that the tree names are looked for.
    """
    keys = source.keys(RUN.prefix)
    if keys is None:
        ids = {proof.run_id for proof in proofs} | ({status.previous_run_id} if status.previous_run_id else set())
    else:
        matches = [RUN.pattern.fullmatch(key) for key in keys]
        ids = {match["run_id"] for match in matches if match is not None}
    runs, left_out = list[EarlierRun](), dict[str, str]()
    for run_id in sorted(ids, key=lambda run_id: (-ledger_of(run_id), run_id)):
        if ledger_of(run_id) >= status.observed_ledger:
            continue
        if len(runs) >= most:
            left_out[run_id] = f"only the newest {most} earlier runs are repeated"
            continue
        try:
            runs.append(await _earlier(source, run_id, sweep_state))
        except CheckError as error:
            left_out[run_id] = str(error)
    return runs, left_out


async def _earlier(source: TreeSource, run_id: str, sweep_state: SweepState | None = None) -> EarlierRun:
    """Read the evidence of an earlier run.

    Raises `CheckError` if it or what leads to it is missing or damaged, or if the run is undone, as ``sweep_state``
    says.
    """
    manifest = await document(source, RUN.key(run_id=run_id), RunManifest)
    listing = listing_of(manifest.files_key, manifest.files_sha256, await required(source, manifest.files_key))
    named = [*listing.under(EVIDENCE.prefix)]
    if listing.run_id(ledger_of(run_id)) != run_id or len(named) != 1:
        raise CheckError("its manifest does not name its evidence")
    if sweep_state is not None and is_undone_run(listing, sweep_state):
        raise CheckError("a run with --replace-ledger undid it")
    key = named[0].key
    evidence = await required(source, key, named[0].sha256)
    watched_key = next((item.key for item in inputs_named(manifest.inputs, "watched")), None)
    watched = None if watched_key is None else await _watched_file(source, watched_key)
    return EarlierRun(run_id, ledger_of(run_id), manifest.settings, key, evidence, watched_key, watched)


async def files_of_run(tree: FetchedTree, keys: Iterable[str]) -> dict[str, bytes]:
    """Read files that the run lists, and add its status document and its evidence; all by key.

    Raises `CheckError` for a file that is missing or damaged.
    """
    async with open_tree(tree.uri) as source:
        files = {key: await required(source, key, tree.files.sha256_of(key)) for key in keys}
    return files | {STATUS_KEY: encode(tree.status), tree.status.evidence_key: tree.evidence}
