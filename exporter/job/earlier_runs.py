"""Earlier runs of a tree that left their evidence: each is repeated, and the history's rows of it are compared.

A row of the history is covered when the run that wrote it was repeated. What no such run covers is counted.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from exporter.config import Settings
from exporter.errors import CheckError, RefutedError, SourceError
from exporter.history.export import rows_of
from exporter.history.parquet import render_history
from exporter.job.evidence import Evidence
from exporter.job.reading import MarketsRead, read_markets
from exporter.job.sources import open_evidence
from exporter.protocols.compute import Tables
from exporter.render.changes import change_list
from exporter.stores.tree_sources import TreeSource
from exporter.tree.decoding import decode_json
from exporter.tree.documents import EXPORTER_VERSION, ChangeList, HistoryFile, ProofList, RunManifest, SystemStatus
from exporter.tree.families import EVIDENCE, RUN
from exporter.tree.run_listing import RunListing

MAX_MANIFEST_BYTES = 1 << 20
MAX_RUN_BYTES = 512 * 2**20
"""Of a run's listing, and of its evidence."""

_PLACE = ("market", "pool")


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run whose evidence is in the tree, packed as it is there."""

    run_id: str
    ledger: int
    evidence_key: str
    evidence: bytes


@dataclass(frozen=True, slots=True)
class Found:
    """The newest earlier runs that have their evidence, newest first; and why others were left out, by run id."""

    runs: list[EarlierRun]
    left_out: dict[str, str]


async def find_earlier(source: TreeSource, status: SystemStatus, proofs: ProofList | None, most: int) -> Found:
    """Find the newest runs before the published one that left evidence.

    Over HTTP nothing can be listed: then these are the run before, and those that the list of proofs names.

    Args:
        source: the tree.
        status: of the published run.
        proofs: the tree's list of proofs.
        most: at most this many are fetched.

    Raises:
        SourceError: the tree cannot be read.
    """
    keys = source.keys(RUN.prefix)
    if keys is None:
        named = {status.previous_run_id, *(proof.run_id for proof in ([] if proofs is None else proofs.proofs))}
        ids = {run_id for run_id in named if run_id is not None}
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
            runs.append(await _with_evidence(source, run_id))
        except (CheckError, msgspec.DecodeError) as error:
            left_out[run_id] = str(error)
    return Found(runs, left_out)


def ledger_of(run_id: str) -> int:
    """The ledger that a run's id begins with."""
    return int(run_id.partition("-")[0])


async def _with_evidence(source: TreeSource, run_id: str) -> EarlierRun:
    """Raises `CheckError` or `msgspec.DecodeError` for a run that has no evidence in the tree any more."""
    manifest = decode_json(await _get(source, RUN.key(run_id=run_id), MAX_MANIFEST_BYTES), RunManifest)
    listing = RunListing.from_parquet(await _get(source, manifest.files_key, MAX_RUN_BYTES))
    keys = listing.frame.filter(pl.col("key").str.starts_with(EVIDENCE.prefix))["key"]
    if listing.run_id(ledger_of(run_id)) != run_id or len(keys) != 1:
        raise CheckError("its manifest does not name its evidence")
    evidence = await _get(source, keys[0], MAX_RUN_BYTES)
    if EVIDENCE.key(sha256=hashlib.sha256(evidence).hexdigest()) != keys[0]:
        raise CheckError(f"{keys[0]} does not have the digest of its name")
    return EarlierRun(run_id, ledger_of(run_id), keys[0], evidence)


async def _get(source: TreeSource, key: str, most: int) -> bytes:
    data = await source.get(key, most)
    if data is None or len(data) > most:
        raise CheckError(f"{key} is {'missing' if data is None else 'too large'}")
    return data


def repeat(evidence: Evidence, settings: Settings) -> MarketsRead:
    """Read the markets of a run from its evidence again. Raises `ExporterError` where that is not possible."""
    return asyncio.run(read_markets(settings, open_evidence(settings, evidence), None, None))[0]


def repeat_rows(run: EarlierRun, settings: Settings) -> tuple[Tables, pl.DataFrame]:
    """The tables of an earlier run, and its rows as the history has them.

    Raises:
        ExporterError: its evidence is not that of a run of this version at that ledger.
    """
    evidence = Evidence.decode(run.evidence, run.evidence_key)
    if evidence.ledger != run.ledger:
        raise SourceError(f"its evidence is of ledger {evidence.ledger}")
    tables = repeat(evidence, settings).tables()
    part = render_history(
        tables.pools,
        observed_ledger=tables.ledger,
        ledger_close_time=tables.close_time,
        network=settings.passphrase,
    )
    return tables, rows_of(part.file.data, part.entry).sort(_PLACE)


def compare_rows(run: EarlierRun, made: pl.DataFrame, files: Sequence[HistoryFile], folder: Path) -> str | None:
    """Compare the rows of a repeated run with the history's; gives why they cover nothing, None when they are equal.

    Args:
        run: the run.
        made: its rows, as `repeat_rows` gives them.
        files: of the history.
        folder: where these files are.

    Raises:
        RefutedError: the history has other rows of this ledger.
    """
    file = next((file for file in files if file.first_ledger <= run.ledger <= file.last_ledger), None)
    if file is None:
        return "the history has no rows of its ledger"
    data = (folder / file.key).read_bytes()
    version = (pq.ParquetFile(pa.BufferReader(data)).metadata.metadata or {}).get(b"exporter_version", b"").decode()
    if version != EXPORTER_VERSION:
        return f"its rows were written by version {version[:20]!r} of the exporter, and this is {EXPORTER_VERSION}"
    rows = rows_of(data, file).filter(pl.col("observed_ledger") == run.ledger).sort(_PLACE)
    if rows.is_empty() and not made.is_empty():
        return "the history has no rows of its ledger"
    if not rows.equals(made):
        raise RefutedError(
            f"{file.key}: the rows of ledger {run.ledger} do not follow from the evidence of {run.run_id}"
        )
    return None


def uncovered(files: Sequence[HistoryFile], covered: Collection[int], folder: Path) -> Iterator[tuple[str, int]]:
    """The files of the history with rows of ledgers that are not covered, and how many such rows each has."""
    for file in files:
        if file.first_ledger == file.last_ledger:
            rows = 0 if file.first_ledger in covered else file.rows
        else:
            ledgers = pl.scan_parquet(folder / file.key).select("observed_ledger")
            rows = ledgers.filter(~pl.col("observed_ledger").is_in(sorted(covered))).select(pl.len()).collect().item()
        if rows:
            yield file.key, rows


def compared_with(status: SystemStatus, changes: ChangeList) -> int | None:
    """The ledger of the run that the published changes were found against; None where that cannot be derived.

    That is the run before, or one after it that died while it replaced documents: its changes are in the list.
    """
    if status.previous_run_id is None:
        return None
    before = ledger_of(status.previous_run_id)
    if before >= status.observed_ledger:
        return None
    own = {item.previous_ledger for item in changes.data if item.observed_ledger == status.observed_ledger}
    older = {item.observed_ledger for item in changes.data if before < item.observed_ledger < status.observed_ledger}
    return min(own) if own else max((before, *older))


def changes_before(tables: Tables, changes: ChangeList, network: str) -> ChangeList:
    """The list of changes that a run of these tables left, as far as the published one still has its items."""
    older = [item for item in changes.data if item.observed_ledger <= tables.ledger]
    return msgspec.structs.replace(change_list(tables, None, network), data=older)
