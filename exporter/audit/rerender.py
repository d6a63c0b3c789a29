"""Rendering a published run again, from its evidence and the history before it: every byte must come out the same."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import polars as pl
from msgspec import structs

from exporter.audit.published_tree import check_files, decoded, document, required
from exporter.audit.publisher_records import RECORDS
from exporter.audit.unproven import SHOWN
from exporter.bounds import FILE_BYTES
from exporter.config import Settings, load
from exporter.deployments.networks import NETWORKS
from exporter.errors import CheckError, ConfigError, DecodeError, ExporterError, SourceError, pluralize, printable
from exporter.history.export import read_manifest, rows_of
from exporter.history.manifest import file_ledgers, history_entry
from exporter.history.parquet import ORDER
from exporter.job.report import RunLog
from exporter.job.run import execute
from exporter.job.sources import StoredLedger
from exporter.parquet_bounds import open_parquet
from exporter.publishing.checker import CheckSummary, Fault, TreeFaultsError
from exporter.publishing.published_state import read_current_listing, read_published
from exporter.render.openapi import VERSION_FIELD, openapi_document
from exporter.stores import open_store
from exporter.stores.store import Store
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
    encode,
)
from exporter.tree.families import (
    CENSUS,
    CHANGES,
    DATA_PACKAGE,
    EVIDENCE,
    HISTORY_MANIFEST_KEY,
    HISTORY_PAGE,
    PROOFS,
    RUN,
    STATUS_KEY,
    TRUST,
    VERIFIER,
)
from exporter.tree.read_back import render_document
from exporter.tree.run_listing import RunListing, ledger_of, listing_of
from exporter.tree.same_values import same_values

OF_PUBLISHING = frozenset({"generated_at", "manifest_sha256", "next_expected_at", "previous_run_id", "retention_hours"})
"""The fields of status.json that say when and how was published. The digest is that of a file with such a time."""

OF_THE_FILES = frozenset({"run_id", "manifest_key"})

OF_THE_HISTORY = frozenset({HISTORY_PAGE, DATA_PACKAGE.template})
"""The keys of files that show which files the history has."""


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
    """A tree as far as repeating its run needs it.

    ``folder`` has the history before the run, the files ``before``; ``as_published`` says whether the run found just
    these. ``joined`` are files that took the place of some of them since, and where they are. ``liquidations`` is that
    table, empty where there is none. ``earlier`` runs are newest first; ``left_out`` says by run id why others are not
    among them. ``records`` are census, verifier and list of organisations, by key, where there are, and
    ``publisher_records`` the publisher's own. ``keys`` are all of the tree; None where the source cannot list them.
    ``strangers`` are whatever else is there, with what it is. ``risk`` is the risk document that the run showed.
    """

    uri: str
    folder: Path
    status: SystemStatus
    manifest: RunManifest
    files: RunListing
    evidence: bytes
    changes: ChangeList
    earlier: list[EarlierRun]
    left_out: dict[str, str]
    history: HistoryManifest
    before: list[HistoryFile]
    joined: dict[HistoryFile, Path]
    liquidations: bytes
    as_published: bool
    risk: bytes | None
    listed_proofs: ProofList | None
    proof_files: dict[str, bytes]
    records: dict[str, bytes]
    publisher_records: dict[str, bytes]
    keys: set[str] | None
    strangers: list[str]

    @property
    def proofs(self) -> list[Proof]:
        return [] if self.listed_proofs is None else self.listed_proofs.proofs


@dataclass(frozen=True, slots=True)
class Rerendered:
    """``unknown`` files list those of a history that is another one now.

    ``recoded`` files have the values that the evidence gives, in bytes that other libraries wrote.
    """

    same: int
    different: dict[str, str]
    unknown: list[str]
    recoded: list[str]


def check_tree(uri: str, sample: int | None = None, progress: Callable[[int], None] = lambda _: None) -> CheckSummary:
    """Check the published tree at a URI; returns what was checked.

        >>> summary = check_tree("./public")
        >>> summary.ledger, summary.complete
        (65000000, True)

    Every file by itself and its links; then, without a sample, the run is rendered again and compared.

    Args:
        uri: a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root.
        sample: look at this many files of each kind; None looks at every file.
        progress: receives how many more files were read.

    Raises:
        TreeFaultsError: the tree fails its checks.
        CheckError: there is nothing that could be checked.
        SourceError: the tree cannot be read, or a new run was published each time while it was read.
        ConfigError: a tree at such a URI cannot be checked.
    """
    summary = check_files(uri, sample, progress)
    if sample is None:
        summary.not_rerendered = _check_again(uri, summary)
    return summary


def other_version(summary: CheckSummary) -> str | None:
    """Why a tree that was checked cannot be rendered again here: another version wrote it. None if this one did."""
    version, own = summary.version, openapi_document().info[VERSION_FIELD]
    return None if version == own else f"version {printable(str(version)[:20])} wrote it, and this is {own}"


def _check_again(uri: str, summary: CheckSummary) -> str | None:
    if (why := other_version(summary)) is not None:
        return why
    with tempfile.TemporaryDirectory() as folder:
        try:
            tree = asyncio.run(fetch(uri, Path(folder), 0))
            if tree.status.run_id != summary.run_id:
                raise SourceError(f"run {tree.status.run_id} was published during the check; check again")
            made = rerender(tree, settings_of(tree), tree.changes)
        except JoinedFilesError as error:
            return str(error)
        except CheckError as error:
            raise TreeFaultsError([Fault(STATUS_KEY, str(error).removeprefix(f"{STATUS_KEY}: "))]) from None
    if made.different:
        raise TreeFaultsError([Fault(*item) for item in made.different.items()])
    summary.rerendered = made.same
    left = [f"{key}, because it shows files of the history that are gone" for key in made.unknown]
    if made.recoded:
        left.append(
            f"{pluralize(len(made.recoded), 'file')} with the same values in other bytes, which other libraries wrote: "
            + ", ".join(made.recoded[:SHOWN])
        )
    return "; ".join(left) or None


async def fetch(uri: str, folder: Path, most_earlier: int) -> FetchedTree:
    """Fetch what is needed of the tree at a URI into an empty folder. Raises `CheckError`, `SourceError`."""
    async with open_tree(uri) as source:
        status = await document(source, STATUS_KEY, SystemStatus)
        manifest = await document(source, status.manifest_key, RunManifest, status.manifest_sha256)
        files = listing_of(manifest, await required(source, manifest.files_key))
        evidence_sha256 = files.sha256_of(status.evidence_key)
        if evidence_sha256 is None:
            raise CheckError(f"run {status.run_id} left no evidence, so nothing of it can be verified")
        optional = (PROOFS.template, CENSUS.template, VERIFIER.template, TRUST.template, *RECORDS)
        found = [(key, await source.get(key, FILE_BYTES)) for key in optional]
        records = {key: content for key, content in found if content is not None}
        listed = records.pop(PROOFS.template, None)
        listed_proofs = None if listed is None else decoded(PROOFS.template, listed, ProofList)
        proofs = [] if listed_proofs is None else listed_proofs.proofs
        earlier, left_out = await _find_earlier(source, status, proofs, most_earlier)
        wanted = {status.run_id, *(run.run_id for run in earlier)}
        history = await read_manifest(source)
        package = await document(source, DATA_PACKAGE.template, DataPackage, files.sha256_of(DATA_PACKAGE.template))
        paths = {path for resource in package.resources if resource.name == "history" for path in resource.path}
        before, joined, as_published = await _fetch_history(source, status, history, paths, folder / "tree")
        return FetchedTree(
            uri=uri,
            folder=folder / "tree",
            status=status,
            manifest=manifest,
            files=files,
            evidence=await required(source, status.evidence_key, evidence_sha256),
            changes=await document(source, CHANGES.template, ChangeList, files.sha256_of(CHANGES.template)),
            earlier=earlier,
            left_out=left_out,
            history=history,
            before=before,
            joined=joined,
            liquidations=b""
            if history.liquidations is None
            else await required(source, history.liquidations.key, history.liquidations.sha256),
            as_published=as_published,
            risk=None if status.risk_key is None else await required(source, status.risk_key, status.risk_sha256),
            listed_proofs=listed_proofs,
            proof_files={
                proof.run_id: await required(source, proof.proof_key, proof.proof_sha256)
                for proof in proofs
                if proof.run_id in wanted
            },
            records={key: data for key, data in records.items() if key not in RECORDS},
            publisher_records={key: data for key, data in records.items() if key in RECORDS},
            keys=source.keys(""),
            strangers=source.strangers(),
        )


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
        except CheckError as error:
            left_out[run_id] = str(error)
    return runs, left_out


async def _earlier(source: TreeSource, run_id: str) -> EarlierRun:
    manifest = await document(source, RUN.key(run_id=run_id), RunManifest)
    listing = listing_of(manifest, await required(source, manifest.files_key))
    named = [*listing.under(EVIDENCE.prefix)]
    if listing.run_id(ledger_of(run_id)) != run_id or len(named) != 1:
        raise CheckError("its manifest does not name its evidence")
    key = named[0].key
    return EarlierRun(run_id, ledger_of(run_id), key, await required(source, key, named[0].sha256))


async def _fetch_history(
    source: TreeSource, status: SystemStatus, history: HistoryManifest, paths: set[str], folder: Path
) -> tuple[list[HistoryFile], dict[HistoryFile, Path], bool]:
    """Put the history before the run into a folder; gives its files, those that join them since, and whether the run
    found just these.

    ``paths`` are the files that the run found, and its own. Those that were joined since take the place of the joined
    file, which must have their rows; where one is gone, the joined file stays.
    """
    store, files = open_store(str(folder)), dict[str, HistoryFile]()
    for file in history.files:
        if file.first_ledger < status.observed_ledger:
            if file.last_ledger >= status.observed_ledger:
                raise JoinedFilesError(f"{file.key} joins the run's file with earlier ones; verify a newer run")
            store.put_new(file.key, _readable(file.key, await required(source, file.key, file.sha256)))
            files[file.key] = file
    gone = sorted(paths - {file.key for file in history.files})
    parts = [_part(key, await source.get(key, FILE_BYTES)) for key in gone]
    found = [part for part in parts if part is not None]
    as_published = len(found) == len(parts)
    joined = [file for key, file in files.items() if key not in paths]
    for file in joined:
        own = [rows for part, _, rows in found if file.first_ledger <= part.first_ledger <= file.last_ledger]
        as_published &= bool(own)
        if as_published:
            rows = rows_of((folder / file.key).read_bytes(), file)
            if not rows.sort(ORDER).equals(pl.concat(own).sort(ORDER)):
                raise CheckError(f"{file.key} does not have the rows of the files that it joins")
    aside = dict[HistoryFile, Path]()
    as_published &= all(
        any(file.first_ledger <= part.first_ledger <= file.last_ledger for file in joined) for part, *_ in found
    )
    if as_published:
        for file in joined:
            aside[file] = folder.with_name(f"joined-{file.first_ledger}.parquet")
            aside[file].write_bytes((folder / file.key).read_bytes())
        store.delete([file.key for file in joined])
        for part, data, _ in found:
            store.put_new(part.key, data)
        files = {key: file for key, file in files.items() if key in paths} | {part.key: part for part, *_ in found}
    before = sorted(files.values(), key=lambda file: file.first_ledger)
    if before:
        manifest = structs.replace(
            history, observed_ledger=before[-1].last_ledger, files=before, rollups=[], liquidations=None
        )
        store.put(HISTORY_MANIFEST_KEY, render_document(manifest).data)
    return before, aside, as_published


def _readable(key: str, data: bytes) -> bytes:
    """A file of the history that can be read within bounds. Raises `CheckError`."""
    try:
        open_parquet(data)
    except DecodeError as error:
        raise CheckError(f"{key}: {error}") from error
    return data


def _part(key: str, data: bytes | None) -> tuple[HistoryFile, bytes, pl.DataFrame] | None:
    """A file that no manifest names any more: its entry as it was, its bytes and rows; None where it is gone."""
    if data is None or file_ledgers(key) is None:
        return None
    try:
        count: int = open_parquet(data).metadata.num_rows
    except DecodeError:
        return None
    entry = history_entry(key, data, count)
    return entry, data, rows_of(data, entry)


def settings_of(tree: FetchedTree) -> Settings:
    """Settings by which a run into the tree's folder writes its pages. Raises `CheckError` for impossible ones."""
    status = tree.status
    known = next((name for name, network in NETWORKS.items() if network.passphrase == status.network), None)
    network = {"network.passphrase": status.network} if known is None else {"network.name": known}
    pages = {
        "output.uri": str(tree.folder),
        "output.page_sizes": list(status.page_sizes),
        "output.default_page_size": status.default_page_size,
        "output.market_pools_cap": status.market_pools_cap,
    }
    try:
        return load(None, network | pages, environment={}).settings
    except ConfigError as error:
        raise CheckError(f"{STATUS_KEY}: no run has such settings: {error}") from None


def rerender(tree: FetchedTree, settings: Settings, changes: ChangeList | None) -> Rerendered:
    """Repeat a run from its evidence, with the ``changes`` to go on from, and compare files. Raises `CheckError`."""
    store = open_store(settings.output.uri)
    if changes is not None:
        store.put(CHANGES.template, encode(changes))
    if tree.risk is not None and tree.status.risk_key is not None:
        store.put(tree.status.risk_key, tree.risk)
    path = tree.folder.with_name("evidence.jsonl.gz")
    path.write_bytes(tree.evidence)
    try:
        execute(settings, store, RunLog(None), StoredLedger(path))
    except ExporterError as error:
        raise CheckError(f"the run cannot be repeated from its evidence: {error}") from None
    published, status = read_published(store), store.get(STATUS_KEY)
    assert published is not None  # by this very run
    assert status is not None
    made = read_current_listing(store, published.status).frame.select("key", again="sha256")
    repeated = decode_json(status.data, SystemStatus)
    packed = store.get(repeated.evidence_key)
    repacked = repeated.evidence_key != tree.status.evidence_key and packed is not None
    if repacked and packed is not None and same_values(repeated.evidence_key, tree.evidence, packed.data):
        # Another zlib packed the same lines, so the file has another name.
        own = pl.col("key") == repeated.evidence_key
        made = made.with_columns(
            pl.when(own).then(pl.lit(tree.status.evidence_key)).otherwise(pl.col("key")).alias("key")
        )
        repeated = structs.replace(repeated, evidence_key=tree.status.evidence_key)
    else:
        repacked = False
    files = made.join(tree.files.frame.select("key", "sha256"), on="key", how="full", coalesce=True)
    differ = files.filter(pl.col("again").ne_missing(pl.col("sha256"))).sort("key")
    different, unknown, recoded = dict[str, str](), list[str](), list[str]()
    both = differ.drop_nulls().select("key", pl.col("sha256").bin.encode("hex"))
    alike = asyncio.run(_same_values(tree.uri, both.rows(), store)) | ({repeated.evidence_key} if repacked else set())
    for key, listed in differ.select("key", "sha256").iter_rows():
        if not tree.as_published and key in OF_THE_HISTORY and listed is not None:
            unknown.append(key)
        elif key in alike:
            recoded.append(key)
        else:
            missing = listed is None
            different[key] = "is not among the run's files" if missing else "does not follow from the run's evidence"
    if not different:
        _compare_status(tree.status, repeated, same_files=differ.is_empty())
    return Rerendered(files.height - differ.height, different, unknown, recoded)


async def _same_values(uri: str, files: Iterable[tuple[str, str]], made: Store) -> set[str]:
    """Of the files of a tree, by key and digest, those that have the values of what was made, if not the bytes."""
    alike = set[str]()
    async with open_tree(uri) as source:
        for key, sha256 in files:
            stored = made.get(key)
            if stored is not None and same_values(key, await required(source, key, sha256), stored.data):
                alike.add(key)
    return alike


def _compare_status(published: SystemStatus, repeated: SystemStatus, *, same_files: bool) -> None:
    ours, theirs = msgspec.to_builtins(repeated), msgspec.to_builtins(published)
    apart = OF_PUBLISHING if same_files else OF_PUBLISHING | OF_THE_FILES
    for name, expected in ours.items():
        if name not in apart and theirs[name] != expected:
            raise CheckError(
                f"{STATUS_KEY}: expected $.{name} {str(expected)[:200]!r} by the run's evidence but found "
                f"{str(theirs[name])[:200]!r}"
            )
