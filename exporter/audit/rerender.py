"""Renders a published run again from the inputs that its manifest names. Every byte must come out the same."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import Path

import msgspec
import pyarrow as pa

from exporter import FORMAT
from exporter.audit.evidence_proof import claims_of
from exporter.audit.input_history import InputHistory, fetch_history
from exporter.audit.published_tree import check_files, decoded, document, input_faults, required
from exporter.audit.publisher_records import RECORDS
from exporter.audit.unproven import MAX_NAMES
from exporter.bounds import FILE_BYTES
from exporter.config import load
from exporter.errors import CheckError, ConfigError, DecodeError, ExporterError, SourceError, pluralize, printable
from exporter.history.changes_table import NO_ROWS, rows_before
from exporter.history.export import read_manifest
from exporter.history.series import Series, catch_up, encoded_state
from exporter.job.evidence import Evidence
from exporter.job.inputs import RunInputs, inputs_named, run_settings
from exporter.job.reading import read_again
from exporter.job.rendering import Part, RenderedRun, render_run
from exporter.job.watched import watched_from, watched_in
from exporter.protocols.compute import Tables
from exporter.publishing.checker import CheckSummary, Fault, TreeFaultsError
from exporter.publishing.publish import RunSummary
from exporter.publishing.published_risk import shown_risk
from exporter.render.openapi import VERSION_FIELD, openapi_document
from exporter.render.watched_values import WatchedFile
from exporter.stores import open_store
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
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
from exporter.tree.families import (
    BUCKET_PAGE,
    CENSUS,
    CHANGES,
    CHANGES_TABLE,
    EVIDENCE,
    PROOFS,
    RUN,
    STATUS_KEY,
    TOTALS_PAGE,
    TRUST,
    VERIFIER,
)
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.run_listing import RunListing, ledger_of, listing_of
from exporter.tree.same_values import same_values


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """An earlier run whose evidence is still in the tree.

    Attributes:
        settings: the settings that it was rendered with.
        evidence: the content of its evidence file, which is compressed.
    """

    run_id: str
    ledger: int
    settings: RunSettings
    evidence_key: str
    evidence: bytes


@dataclass(frozen=True, slots=True)
class FetchedTree:
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
        records: the census, the verifier and the list of organisations, by key, as far as the tree has them.
        publisher_records: the publisher's own records, by key.
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
    records: dict[str, bytes]
    publisher_records: dict[str, bytes]
    keys: set[str] | None
    strangers: list[str]

    @property
    def proofs(self) -> list[Proof]:
        """The proofs that the tree lists."""
        return [] if self.listed_proofs is None else self.listed_proofs.proofs


@dataclass(slots=True)
class Rerendered:
    """How the files of a run compare with what its inputs give.

    Attributes:
        same: the number of files with the same bytes.
        different: what is wrong with each file that does not follow from the inputs, by key.
        dependent: the files that came out otherwise because an input is gone: the name of the input, and why, by key.
        recoded: the keys of files that have the same values in other bytes, because other libraries wrote them.
        bucket_pages: the keys of all pages of the histories, including those before the run.
        state: the state of the histories that the publisher would store after this run.
    """

    same: int = 0
    different: dict[str, str] = field(default_factory=dict)
    dependent: dict[str, tuple[InputName, str]] = field(default_factory=dict)
    recoded: list[str] = field(default_factory=list)
    bucket_pages: set[str] = field(default_factory=set)
    state: bytes = b""


def check_tree(uri: str, sample: int | None = None, progress: Callable[[int], None] = lambda _: None) -> CheckSummary:
    """Check the published tree at a URI, and return what was checked.

        >>> summary = check_tree("./public")
        >>> summary.ledger, summary.complete
        (65000000, True)

    Every file is checked by itself and with its links. Then the run is rendered again and compared, unless this is a
    sample.

    Args:
        uri: a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root.
        sample: the number of files of each kind to check; None for every file.
        progress: called with the number of files that were read since the last call.

    Raises:
        TreeFaultsError: the tree fails its checks.
        CheckError: there is nothing to check.
        SourceError: the tree cannot be read, or another run was published each time while it was read.
        ConfigError: the URI is not accepted.
    """
    summary = check_files(uri, sample, progress)
    if sample is None:
        summary.not_rerendered = _check_again(uri, summary)
    return summary


def other_version(summary: CheckSummary) -> str | None:
    """Why a tree cannot be rendered again: another version wrote it. None if this version did."""
    version, own = summary.version, openapi_document().info[VERSION_FIELD]
    return None if version == own else f"version {printable(str(version)[:20])} wrote it, and this is {own}"


def _check_again(uri: str, summary: CheckSummary) -> str | None:
    """Render the run of a checked tree again. Returns what could not be compared, and why; None if all was.

    Raises `TreeFaultsError` if files do not follow from the run's inputs.
    """
    if (why := other_version(summary)) is not None:
        return why
    with tempfile.TemporaryDirectory() as folder:
        try:
            tree = asyncio.run(fetch(uri, Path(folder), 0))
            if tree.status.run_id != summary.run_id:
                raise SourceError(f"run {tree.status.run_id} was published during the check; check again")
            made = rerender(tree)
        except CheckError as error:
            raise TreeFaultsError([Fault(STATUS_KEY, str(error).removeprefix(f"{STATUS_KEY}: "))]) from None
    if made.different:
        raise TreeFaultsError([Fault(*item) for item in made.different.items()])
    summary.rerendered = made.same
    not_compared = [f"{key}, because {why}" for key, (_, why) in made.dependent.items()]
    if made.recoded:
        not_compared.append(
            f"{pluralize(len(made.recoded), 'file')} with the same values in other bytes, which other libraries wrote: "
            + ", ".join(made.recoded[:MAX_NAMES])
        )
    return "; ".join(not_compared) or None


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
        optional = (PROOFS.template, CENSUS.template, VERIFIER.template, TRUST.template, *RECORDS)
        contents = [(key, await source.get(key, FILE_BYTES)) for key in optional]
        records = {key: content for key, content in contents if content is not None}
        listed = records.pop(PROOFS.template, None)
        listed_proofs = None if listed is None else decoded(PROOFS.template, listed, ProofList)
        proofs = [] if listed_proofs is None else listed_proofs.proofs
        earlier, left_out = await _find_earlier(source, status, proofs, most_earlier)
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
            changes=await document(source, CHANGES.template, ChangeList, files.sha256_of(CHANGES.template)),
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
            records={key: data for key, data in records.items() if key not in RECORDS},
            publisher_records={key: data for key, data in records.items() if key in RECORDS},
            keys=source.keys(""),
            strangers=source.strangers(),
        )


async def _earlier_rows(source: TreeSource, files: RunListing, ledger: int) -> pa.Table:
    """The rows of runs below a ledger in the table of all changes.

    There are none if the file is no such table. Then the table that is rendered again differs from the file, so that
    the file is named. Raises `CheckError` if the file is missing or has another digest.
    """
    key = CHANGES_TABLE.template
    try:
        return rows_before(await required(source, key, files.sha256_of(key)), ledger)
    except DecodeError:
        return NO_ROWS


async def _watched(source: TreeSource, item: RunInput, status: SystemStatus) -> WatchedFile | None:
    """The watched values with which a run was compared; None if they are gone.

    They are read from their file. If it is gone, they are made again from the evidence of the previous run.
    """
    data = await source.get(item.key, FILE_BYTES)
    watched = None if data is None else watched_in(item.key, data)
    if watched is None and status.previous_run_id is not None:
        with suppress(CheckError):
            run = await _earlier(source, status.previous_run_id)
            claims_of(run.evidence)  # raises an error for evidence beyond the bounds
            watched = await asyncio.to_thread(watched_from, run.evidence, run.evidence_key)
    return watched if watched is not None and watched.file.key == item.key else None


async def _find_earlier(
    source: TreeSource, status: SystemStatus, proofs: Iterable[Proof], most: int
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
            runs.append(await _earlier(source, run_id))
        except CheckError as error:
            left_out[run_id] = str(error)
    return runs, left_out


async def _earlier(source: TreeSource, run_id: str) -> EarlierRun:
    """Read the evidence of an earlier run. Raises `CheckError` if it or what leads to it is missing or damaged."""
    manifest = await document(source, RUN.key(run_id=run_id), RunManifest)
    listing = listing_of(manifest.files_key, manifest.files_sha256, await required(source, manifest.files_key))
    named = [*listing.under(EVIDENCE.prefix)]
    if listing.run_id(ledger_of(run_id)) != run_id or len(named) != 1:
        raise CheckError("its manifest does not name its evidence")
    key = named[0].key
    evidence = await required(source, key, named[0].sha256)
    return EarlierRun(run_id, ledger_of(run_id), manifest.settings, key, evidence)


def rerender(tree: FetchedTree) -> Rerendered:
    """Render a run again from its inputs, and compare its files.

    Raises `CheckError` if no run has such settings, the run cannot be repeated, or the status document is another one.
    """
    refuse_impossible(tree)
    made, different = Rerendered(), open_store(str(tree.folder.with_name("different")))
    try:
        read, used = read_again(Evidence.decode(tree.evidence, tree.status.evidence_key))
        rendered = render_run(_inputs_of(tree, read.tables(), made))
        depends_on = _compare(tree, rendered, made, different)
        made.state = encoded_state(rendered.inputs.series)
    except ExporterError as error:
        raise CheckError(f"the run cannot be repeated from its evidence: {error}") from None
    alike = asyncio.run(_same_values(tree, different, depends_on))
    for key, inputs in depends_on.items():
        gone_inputs = sorted(inputs & tree.gone.keys())
        if key in alike:
            made.recoded.append(key)
        elif key not in tree.files:
            made.different[key] = "is not among the run's files"
        elif gone_inputs:
            name = gone_inputs[0]
            gone_key, why = next(iter(tree.gone[name].items()))
            made.dependent[key] = name, f"it depends on {gone_key}: {why}"
        else:
            made.different[key] = "does not follow from the run's evidence"
    _compare_evidence(tree, used, made)
    if not made.different:
        _compare_status(tree, rendered)
    made.different = dict(sorted(made.different.items()))
    return made


def refuse_impossible(tree: FetchedTree) -> None:
    """Raise `CheckError` for settings that no run has, or that are of another network than the status document."""
    settings, key = tree.manifest.settings, tree.status.manifest_key
    values = {
        "network.passphrase": settings.network,
        "output.page_sizes": settings.page_sizes,
        "output.default_page_size": settings.default_page_size,
        "output.market_pools_cap": settings.market_pools_cap,
        **({} if settings.public_url is None else {"output.public_url": settings.public_url}),
    }
    try:
        possible = run_settings(load(None, values, environment={}).settings)
    except ConfigError as error:
        raise CheckError(f"{key}: no run has such settings: {error}") from None
    if possible != settings:
        raise CheckError(f"{key}: no run has such settings: its page sizes do not ascend")
    if settings.network != tree.status.network:
        raise CheckError(f"{key}: it is of the network {printable(settings.network)}, and the status is of another")


def _inputs_of(tree: FetchedTree, tables: Tables, made: Rerendered) -> RunInputs:
    """The inputs of the run of a fetched tree. ``made`` gets the keys of the pages of the histories before the run."""
    status, series, risk = tree.status, Series(), MemoryStore()
    if tree.risk is not None and status.risk_key is not None:
        risk.put(status.risk_key, tree.risk)
    before = HistoryManifest(FORMAT, status.observed_ledger, tree.history.files)
    pages = catch_up(open_store(str(tree.folder)), before, status.observed_ledger, series)
    made.bucket_pages.update(page.key for page in pages)
    return RunInputs(
        settings=tree.manifest.settings,
        evidence=RenderedFile(status.evidence_key, tree.evidence, FileKind.PAGE),
        tables=replace(tables, risk=shown_risk(risk, tables, status.network)),
        history=tree.history.files,
        series=series,
        watched=tree.watched,
        earlier_changes=[item for item in tree.changes.data if item.observed_ledger < status.observed_ledger],
        earlier_rows=tree.earlier_rows,
    )


def _compare(
    tree: FetchedTree, rendered: RenderedRun, made: Rerendered, different: Store
) -> dict[str, frozenset[InputName]]:
    """Compare the rendered files with the listing.

    Returns the keys of files that are not as listed, each with the inputs that the file depends on. ``different`` gets
    these files as they were rendered.
    """
    listed = dict(tree.files.frame.select("key", "sha256").iter_rows())
    names = frozenset[InputName]({"evidence"})
    parts = [Part(names, iter([rendered.part.file]))]
    unlike = dict[str, frozenset[InputName]]()
    for part in chain(parts, rendered.parts()):
        for file in part.files:
            if file.key.startswith((BUCKET_PAGE.prefix, TOTALS_PAGE.prefix)):
                made.bucket_pages.add(file.key)
            if listed.pop(file.key, None) == bytes.fromhex(file.sha256):
                made.same += 1
            else:
                unlike[file.key] = part.depends_on
                different.put(file.key, file.data)
    return unlike | dict.fromkeys(listed, frozenset())


def _compare_evidence(tree: FetchedTree, used: Evidence, made: Rerendered) -> None:
    """Check that the evidence has exactly the lines that the run used. Another zlib may have compressed them."""
    key, again = tree.status.evidence_key, used.file()
    if again.key == key:
        return
    made.same -= 1
    if same_values(key, tree.evidence, again.data):
        made.recoded.append(key)
    else:
        made.different[key] = "does not follow from the run's evidence: a run that reads it uses other lines"


async def _same_values(tree: FetchedTree, made: Store, keys: Iterable[str]) -> set[str]:
    """The keys of files that have the same values in the tree as in ``made``, although their bytes differ."""
    alike = set[str]()
    async with open_tree(tree.uri) as source:
        for key in keys:
            stored, sha256 = made.get(key), tree.files.sha256_of(key)
            if stored is not None and sha256 is not None:
                data = await required(source, key, sha256)
                if same_values(key, data, stored.data):
                    alike.add(key)
    return alike


async def files_of_run(tree: FetchedTree, keys: Iterable[str]) -> dict[str, bytes]:
    """Read files that the run lists, and add its status document and its evidence; all by key.

    Raises `CheckError` for a file that is missing or damaged.
    """
    async with open_tree(tree.uri) as source:
        files = {key: await required(source, key, tree.files.sha256_of(key)) for key in keys}
    return files | {STATUS_KEY: encode(tree.status), tree.status.evidence_key: tree.evidence}


def _compare_status(tree: FetchedTree, rendered: RenderedRun) -> None:
    """Raise `CheckError` unless the status document follows from the run's inputs and its manifest.

    Only the publisher can say when the next run is expected and how long files are kept. These values are taken over.
    """
    status, manifest = tree.status, tree.manifest
    summary = RunSummary(
        run_id=manifest.run_id,
        observed_ledger=manifest.observed_ledger,
        published_at=datetime.fromisoformat(manifest.published_at),
        manifest_key=status.manifest_key,
        manifest_sha256=status.manifest_sha256,
        previous_run_id=status.previous_run_id,
    )
    repeated = rendered.status(
        summary, retention_hours=status.retention_hours, next_expected_at=status.next_expected_at
    )
    published = msgspec.to_builtins(status)
    for name, expected in msgspec.to_builtins(repeated).items():
        if published[name] != expected:
            raise CheckError(
                f"{STATUS_KEY}: expected $.{name} {str(expected)[:200]!r} by the run's evidence but found "
                f"{str(published[name])[:200]!r}"
            )
