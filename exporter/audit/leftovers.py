"""Judges the files of a tree that its published run does not list: some wait for the sweep, all others are named.

A file of an earlier run misleads nobody if its name follows from its bytes, and an earlier run of the tree lists it.
Such a file waits for the sweep. But if that earlier run was repeated and its evidence does not give the file, the file
is named, like everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from hashlib import sha256

import polars as pl
from msgspec import Struct, field

from exporter.audit.history_files import check_as_written, rows_by_ledger
from exporter.audit.tree_reading import decoded
from exporter.audit.unproven import UnprovenReason
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

MAX_READ_TOGETHER = 64
"""Largest number of files that are in memory at the same time."""


class Leftovers(Struct):
    """The result of judging files that the run does not list.

    Attributes:
        waiting: the number of files that wait for the sweep.
        named: all other files, each with the reason why it is named.
    """

    waiting: int = 0
    named: list[tuple[UnprovenReason, str]] = field(default_factory=list)


class Past(Struct, frozen=True):
    """What is known of the runs before the published one.

    Attributes:
        uri: the tree.
        network: its network's passphrase.
        derived: the keys of the pages that the evidence of each repeated run gives, keyed by the run's id.
        history: the files that the history's manifest names.
        trust: the organisations whose signatures make a proof.
    """

    uri: str
    network: str
    derived: Mapping[str, Collection[str]]
    history: Iterable[HistoryFile]
    trust: Trust


def judge_leftovers(past: Past, keys: Collection[str]) -> Leftovers:
    """Judge the files of these keys, which the published run does not name. Raises `SourceError` if reading fails."""

    async def judge() -> Leftovers:
        async with open_tree(past.uri) as source:
            return await _Judge(past, source).all(keys)

    return asyncio.run(judge()) if keys else Leftovers()


class _Judge:
    """Judges files, with what the listings of earlier runs say of them."""

    def __init__(self, past: Past, source: TreeSource) -> None:
        self._past, self._source = past, source
        self._listed: dict[str, bytes] = {}  # the digests that listings of earlier runs give, by key
        self._listed_by: dict[str, set[str]] = {}  # the repeated runs that list a page, by its key

    async def all(self, keys: Collection[str]) -> Leftovers:
        """Judge all these files. The listings of earlier runs among them are read first."""
        leftovers, unjudged = Leftovers(), set(keys)
        runs = {names["run_id"] for key in keys if (names := RUN.pattern.fullmatch(key)) is not None}
        for run_id in sorted(runs):
            if await self._is_run(run_id):
                leftovers.waiting += 2
                unjudged -= {RUN.key(run_id=run_id), RUN_FILES.key(run_id=run_id)}
        async for key, data in self._read(sorted(unjudged)):
            if data is None:
                continue  # a sweep removed it meanwhile
            reason = await self._reason(key, data)
            if reason is None:
                leftovers.waiting += 1
            else:
                leftovers.named.append((reason, key))
        return leftovers

    async def _is_run(self, run_id: str) -> bool:
        """Read the listing of an earlier run. Returns False if it is not what the run's manifest says."""
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
        self.remember(run_id, files)
        stated = manifest.run_id, manifest.file_count, manifest.bytes
        return stated == (files.run_id(manifest.observed_ledger), *files.size) and is_listing(listing, files)

    def remember(self, run_id: str, files: RunListing) -> None:
        """Remember what a run lists."""
        for key, digest in files.frame.select("key", "sha256").iter_rows():
            self._listed[key] = digest
            if run_id in self._past.derived:
                self._listed_by.setdefault(key, set()).add(run_id)

    async def _read(self, keys: Iterable[str]) -> AsyncIterator[tuple[str, bytes | None]]:
        """The files of these keys; None for one that is not there."""
        all_keys = list(keys)
        for start in range(0, len(all_keys), MAX_READ_TOGETHER):
            batch = all_keys[start : start + MAX_READ_TOGETHER]
            read = await asyncio.gather(*(self._source.get(key, DOCUMENT_BYTES) for key in batch))
            for item in zip(batch, read, strict=True):
                yield item

    async def _reason(self, key: str, data: bytes) -> UnprovenReason | None:
        """Why a file is named; None for a file that waits for the sweep."""
        family, names = parse_key(key) or (None, {})
        if family in (RUN, RUN_FILES):
            return UnprovenReason.EARLIER
        if family is None or family.kind not in (FileKind.PAGE, FileKind.HISTORY):
            return UnprovenReason.UNLISTED
        if family.kind is FileKind.HISTORY:
            return None if await self._is_replaced(key, data) else UnprovenReason.EARLIER
        if not _is_named_by_its_bytes(family, names, key, data):
            return UnprovenReason.UNLISTED
        if family is PROOF:
            return None if _proves(data, self._past.trust) else UnprovenReason.UNLISTED
        if self._listed.get(key) != sha256(data).digest():
            return UnprovenReason.UNLISTED if family in (BUCKET_PAGE, TOTALS_PAGE) else UnprovenReason.EARLIER
        repeated_runs = self._listed_by.get(key, set())
        if family not in (PAGE, WATCHED) or not repeated_runs:
            return None  # nothing that was repeated says what this file must be
        follows = any(key in self._past.derived[run_id] for run_id in repeated_runs)
        return None if follows else UnprovenReason.EARLIER

    async def _is_replaced(self, key: str, data: bytes) -> bool:
        """Whether the history has a file with the same rows of the same ledgers, which took this file's place."""
        ledgers = file_ledgers(key)
        holder = next((file for file in self._past.history if ledgers is not None and _within(ledgers, file)), None)
        if holder is None:
            return False
        successor = await self._source.get(holder.key, holder.bytes) or b""
        try:
            counts = rows_by_ledger(data)
            entry = history_entry(key, data, sum(counts.values()))
            check_as_written(data, entry, self._past.network)
            rows = rows_of(data, entry)
            successor_rows = rows_of(successor, holder).filter(pl.col("observed_ledger").is_in(list(counts)))
            has_same_rows = rows.sort(ORDER).equals(successor_rows.sort(ORDER))
            return has_same_rows and counts.keys() <= rows_by_ledger(successor).keys()
        except (CheckError, SourceError, OSError, ValueError):
            return False


def _is_named_by_its_bytes(family: Family, names: Mapping[str, str], key: str, data: bytes) -> bool:
    """Whether the key of a page is the one that its bytes give."""
    if family in (EVIDENCE, PROOF):
        return names["sha256"] == sha256(data).hexdigest()
    try:
        parse_back(key, data)
    except (CheckError, ValueError):
        return False
    return True


def _proves(data: bytes, trust: Trust) -> bool:
    """Whether a file is a proof that trusted organisations signed. Nobody else can make such a file."""
    try:
        check_proof(data, trust)
    except RefusedError:
        return False
    return True


def _within(ledgers: tuple[int, int], file: HistoryFile) -> bool:
    """Whether the first and the last of these ledgers are in a history file."""
    return file.first_ledger <= ledgers[0] and ledgers[1] <= file.last_ledger


def is_listing(data: bytes, files: RunListing) -> bool:
    """Whether a listing is exactly what writing its rows gives, so that no reader sees other rows in it."""
    return same_values(RUN_FILES.template, RunListing.of(files).parquet, data)
