"""The files of a tree that its published run does not list: which of them wait for the sweep, and what the rest is.

A file of an earlier run misleads nobody if it is data under a name that its own bytes give, and an earlier run of the
tree lists it. What the evidence of a repeated run does not give of such pages, and everything else, is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

import polars as pl

from exporter.audit.history_files import rows_by_ledger, written_alike
from exporter.audit.published_tree import decoded
from exporter.audit.unproven import Reason
from exporter.bounds import DOCUMENT_BYTES
from exporter.errors import CheckError, SourceError
from exporter.history.export import rows_of
from exporter.history.manifest import file_ledgers, history_entry
from exporter.history.parquet import ORDER
from exporter.past.archive.stellar_proof import RefusedError, Trust, check_proof
from exporter.stores.tree_sources import TreeSource, open_tree
from exporter.tree.documents import HistoryFile, RunManifest
from exporter.tree.families import (
    BUCKET_PAGE,
    EVIDENCE,
    PAGE,
    PROOF,
    RUN,
    RUN_FILES,
    TOTALS_PAGE,
    WATCHED,
    Family,
    parse_key,
)
from exporter.tree.files import FileKind
from exporter.tree.read_back import parse_back
from exporter.tree.run_listing import RunListing, listing_of
from exporter.tree.same_values import same_values

TOGETHER = 64


@dataclass(slots=True)
class Leftovers:
    """What was found of the files that no run lists. Each has its reason; those that wait for the sweep are counted."""

    waiting: int = 0
    named: list[tuple[Reason, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of the time before the run.

    ``derived`` are the pages that the evidence of each repeated run gives, by its id. ``history`` are the files that
    the manifest names. ``trust`` says whose signatures make a proof.
    """

    uri: str
    network: str
    derived: Mapping[str, Collection[str]]
    history: Iterable[HistoryFile]
    trust: Trust


def judge_leftovers(past: Past, keys: Collection[str]) -> Leftovers:
    """Judge files by their keys, which no run and no document in use names. Raises `SourceError`."""

    async def judge() -> Leftovers:
        async with open_tree(past.uri) as source:
            return await _Judge(past, source).all(keys)

    return asyncio.run(judge()) if keys else Leftovers()


class _Judge:
    def __init__(self, past: Past, source: TreeSource) -> None:
        self._past, self._source = past, source
        self._listed: dict[str, bytes] = {}  # by earlier runs, with the digest
        self._own: dict[str, set[str]] = {}  # of listed pages: the repeated runs that list them

    async def all(self, keys: Collection[str]) -> Leftovers:
        found, kept = Leftovers(), set(keys)
        runs = {names["run_id"] for key in keys if (names := RUN.pattern.fullmatch(key)) is not None}
        for run_id in sorted(runs):
            if await self._is_run(run_id):
                found.waiting += 2
                kept -= {RUN.key(run_id=run_id), RUN_FILES.key(run_id=run_id)}
        async for key, data in self._read(sorted(kept)):
            if data is None:
                continue  # swept meanwhile
            reason = await self._reason(key, data)
            if reason is None:
                found.waiting += 1
            else:
                found.named.append((reason, key))
        return found

    async def _is_run(self, run_id: str) -> bool:
        """Take in the listing of an earlier run; False where it is not what its manifest says."""
        key = RUN.key(run_id=run_id)
        data = await self._source.get(key, DOCUMENT_BYTES)
        listing = await self._source.get(RUN_FILES.key(run_id=run_id), DOCUMENT_BYTES)
        if data is None or listing is None:
            return False
        try:
            manifest = decoded(key, data, RunManifest)
            files = listing_of(manifest.files_key, manifest.files_sha256, listing)
        except CheckError:
            return False
        self.note(run_id, files)
        stated = manifest.run_id, manifest.file_count, manifest.bytes
        return stated == (files.run_id(manifest.observed_ledger), *files.size) and is_listing(listing, files)

    def note(self, run_id: str, files: RunListing) -> None:
        for key, digest in files.frame.select("key", "sha256").iter_rows():
            self._listed[key] = digest
            if run_id in self._past.derived:
                self._own.setdefault(key, set()).add(run_id)

    async def _read(self, keys: Iterable[str]) -> AsyncIterator[tuple[str, bytes | None]]:
        rest = list(keys)
        for at in range(0, len(rest), TOGETHER):
            batch = rest[at : at + TOGETHER]
            read = await asyncio.gather(*(self._source.get(key, DOCUMENT_BYTES) for key in batch))
            for item in zip(batch, read, strict=True):
                yield item

    async def _reason(self, key: str, data: bytes) -> Reason | None:
        """Why a file is to be named; None for one that waits for the sweep."""
        family, names = parse_key(key) or (None, {})
        if family in (RUN, RUN_FILES):
            return Reason.EARLIER
        if family is None or family.kind not in (FileKind.PAGE, FileKind.HISTORY):
            return Reason.UNLISTED
        if family.kind is FileKind.HISTORY:
            return None if await self._is_replaced(key, data) else Reason.EARLIER
        if not _is_named_by_its_bytes(family, names, key, data):
            return Reason.UNLISTED
        if family is PROOF:
            return None if _proves(data, self._past.trust) else Reason.UNLISTED
        if self._listed.get(key) != sha256(data).digest():
            return Reason.UNLISTED if family in (BUCKET_PAGE, TOTALS_PAGE) else Reason.EARLIER
        own = self._own.get(key, set())
        derived = family not in (PAGE, WATCHED) or not own or any(key in self._past.derived[run_id] for run_id in own)
        return None if derived else Reason.EARLIER

    async def _is_replaced(self, key: str, data: bytes) -> bool:
        """Whether a Parquet file has rows of a file that took its place, all of its ledgers, and says nothing else."""
        ledgers = file_ledgers(key)
        holder = next((file for file in self._past.history if ledgers is not None and _within(ledgers, file)), None)
        if holder is None:
            return False
        theirs = await self._source.get(holder.key, holder.bytes)
        try:
            counts = rows_by_ledger(data)
            entry = history_entry(key, data, sum(counts.values()))
            written_alike(data, entry, self._past.network)
            rows = rows_of(data, entry)
            kept = rows_of(theirs or b"", holder).filter(pl.col("observed_ledger").is_in(list(counts)))
            return rows.sort(ORDER).equals(kept.sort(ORDER)) and counts.keys() <= rows_by_ledger(theirs or b"").keys()
        except (CheckError, SourceError, OSError, ValueError):
            return False


def _is_named_by_its_bytes(family: Family, names: Mapping[str, str], key: str, data: bytes) -> bool:
    if family in (EVIDENCE, PROOF):
        return names["sha256"] == sha256(data).hexdigest()
    try:
        parse_back(key, data)
    except (CheckError, ValueError):
        return False
    return True


def _proves(data: bytes, trust: Trust) -> bool:
    """Whether a file is a proof that trusted organisations signed, which nobody else can make."""
    try:
        check_proof(data, trust)
    except RefusedError:
        return False
    return True


def _within(ledgers: tuple[int, int], file: HistoryFile) -> bool:
    return file.first_ledger <= ledgers[0] and ledgers[1] <= file.last_ledger


def is_listing(data: bytes, files: RunListing) -> bool:
    """Whether a listing is the file that its own rows give, so that no reader sees others in it."""
    return same_values(RUN_FILES.template, RunListing.of(files).parquet, data)
