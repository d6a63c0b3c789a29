"""Checking a published tree: which of its files are read, in which order, and what is done when a run comes between."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from itertools import islice
from random import Random
from typing import TypeVar

import msgspec
import polars as pl

from exporter.check.checker import TreeChecker
from exporter.check.public_urls import check_public_urls
from exporter.check.records import check_proofs, named_files, record_faults, rollup_faults
from exporter.check.summary import CheckSummary, Fault, TreeFaultsError
from exporter.errors import CheckError, SourceError
from exporter.stores.tree_sources import HttpSource, TreeSource, open_tree
from exporter.tree.decoding import decode_json, refuse_other_format
from exporter.tree.documents import (
    Census,
    HistoryManifest,
    Intent,
    ProofList,
    RunManifest,
    SystemStatus,
)
from exporter.tree.families import (
    CENSUS,
    HISTORY_MANIFEST_KEY,
    INTENT_KEY,
    MONTH_ROLLUP,
    OPENAPI_KEY,
    POINTER_KEY,
    PROOF,
    PROOFS,
    family_of,
)
from exporter.tree.read_back import parse_back
from exporter.tree.run_listing import RunListing, listing_of

MAX_DOCUMENT_BYTES = 512 * 2**20
"""Of a document that no manifest gives the size of."""

MAX_INTENT_BYTES = 64 * 1024

TOGETHER = 64

ROUNDS = 3
"""How often a check begins again because another run was published under it."""

PUBLIC_URLS = 50
"""How many files are also asked for by their public URLs."""

ALWAYS_READ = ("v1/markets.json", "v1/protocol/", OPENAPI_KEY, "index.html")
"""How the keys begin that are in every sample."""


_Decoded = TypeVar("_Decoded")


def check_files(uri: str, sample: int | None = None, progress: Callable[[int], None] = lambda _: None) -> CheckSummary:
    """Check the files of the published tree at a URI, as `exporter.job.rerender.check_tree` does first."""

    async def check() -> CheckSummary:
        async with open_tree(uri) as source:
            return await check_source(source, sample, progress)

    return asyncio.run(check())


async def check_source(
    source: TreeSource, sample: int | None = None, progress: Callable[[int], None] = lambda _: None
) -> CheckSummary:
    """Check the published tree of an open source; see `check_files`."""
    for _ in range(ROUNDS):
        before = await required(source, POINTER_KEY)
        try:
            outcome: CheckSummary | CheckError = await _check(source, before, sample, progress)
        except CheckError as error:
            outcome = error
        if await source.get(POINTER_KEY, MAX_DOCUMENT_BYTES) == before:
            if isinstance(outcome, CheckError):
                raise outcome
            return outcome
    raise SourceError(f"{source.uri}: {ROUNDS} times a new run was published during the check; check it again")


async def required(source: TreeSource, key: str, sha256: str | None = None) -> bytes:
    """A file that must be there, with this digest. Raises `CheckError`."""
    data = await source.get(key, MAX_DOCUMENT_BYTES)
    if data is None:
        unpublished = ", so no run is published there" if key == POINTER_KEY else ""
        raise CheckError(f"{source.uri}: {key} is missing{unpublished}")
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise CheckError(f"{key} does not have the digest that is stated for it")
    return data


async def document(source: TreeSource, key: str, model: type[_Decoded], sha256: str | None = None) -> _Decoded:
    """A document that must be there, with this digest. Raises `CheckError`."""
    return decoded(key, await required(source, key, sha256), model)


async def _check(
    source: TreeSource, pointer: bytes, sample: int | None, progress: Callable[[int], None]
) -> CheckSummary:
    with suppress(msgspec.DecodeError):  # which is said next
        refuse_other_format(f"{source.uri}: {POINTER_KEY}", pointer)
    status = decoded(POINTER_KEY, pointer, SystemStatus)
    manifest_bytes = await required(source, status.manifest_key)
    manifest = decoded(status.manifest_key, manifest_bytes, RunManifest)
    records = {status.manifest_key: manifest_bytes, manifest.files_key: await required(source, manifest.files_key)}
    listed = listing_of(manifest, records[manifest.files_key])
    drawn = Random(status.run_id)
    chosen = listed.frame if sample is None else _sample(listed.frame, sample, drawn)
    checker = TreeChecker(status.observed_ledger, status.page_sizes, partial=sample is not None, listed=listed)
    if OPENAPI_KEY in listed and (openapi := await source.get(OPENAPI_KEY, MAX_DOCUMENT_BYTES)) is not None:
        checker.use_schemas(openapi)
    checker.add(POINTER_KEY, pointer)
    for record, content in records.items():
        checker.add(record, content)
    for key, fault in record_faults(status, manifest, manifest_bytes, listed):
        checker.fault(key, fault)

    last = pl.col("key").str.ends_with(".html")  # what leads to all others
    for files in (chosen.filter(~last), chosen.filter(last)):
        stated = files.select("bytes", "sha256").iter_rows()
        async for batch in _read(source, files.select("key", "bytes").iter_rows(), progress):
            for (key, data), (size, sha256) in zip(batch, islice(stated, len(batch)), strict=True):
                if data is None:
                    checker.fault(key, "is missing, though the run's manifest lists it")
                    continue
                found = hashlib.sha256(data)
                checker.add(key, data, sha256=found.hexdigest())
                if (len(data), found.digest()) != (size, sha256):
                    checker.fault(key, "does not have the bytes that the run's manifest gives for it")
            await _read_wanted(source, checker, progress)
    await _read_history(source, checker, listed, sample, drawn, progress)
    await _read_rollups(source, checker, whole=sample is None)
    await _read_proofs(source, checker, status)
    await _single(source, checker, CENSUS.template, Census)
    if isinstance(source, HttpSource):
        await check_public_urls(source, checker, status, listed, sample or PUBLIC_URLS, drawn)
    try:
        return checker.finish()
    except TreeFaultsError as error:
        unfinished = await _unfinished(source, status)
        if unfinished is None:
            raise
        raise TreeFaultsError((*error.faults, unfinished)) from None


async def _unfinished(source: TreeSource, status: SystemStatus) -> Fault | None:
    """Why documents may be of a later run than the published one: that run died while it replaced them."""
    data = await source.get(INTENT_KEY, MAX_INTENT_BYTES)
    try:
        intent = decode_json(data or b"", Intent)
    except msgspec.DecodeError:
        return None
    if intent.observed_ledger <= status.observed_ledger:
        return None
    return Fault(
        INTENT_KEY,
        f"a run at ledger {intent.observed_ledger} began to replace documents and has not finished; run again",
    )


def _sample(listed: pl.DataFrame, count: int, drawn: Random) -> pl.DataFrame:
    parts: dict[str, list[str]] = {}
    for key in listed["key"]:
        part = "always" if key.startswith(ALWAYS_READ) else "/".join(key.split("/")[:2])
        parts.setdefault(part, []).append(key)
    chosen = set[str]()
    for part, keys in parts.items():
        chosen.update(keys if part == "always" or len(keys) <= count else drawn.sample(keys, count))
    return listed.filter(pl.col("key").is_in(chosen))


async def _single(source: TreeSource, checker: TreeChecker, key: str, model: type[_Decoded]) -> _Decoded | None:
    data = await source.get(key, MAX_DOCUMENT_BYTES)
    if data is None:
        return None
    checker.add(key, data)
    return checker.one(model)


async def _read_history(
    source: TreeSource,
    checker: TreeChecker,
    listed: RunListing,
    sample: int | None,
    drawn: Random,
    progress: Callable[[int], None],
) -> None:
    history = await _single(source, checker, HISTORY_MANIFEST_KEY, HistoryManifest)
    if history is None:
        if HISTORY_MANIFEST_KEY not in checker.seen:
            checker.fault(HISTORY_MANIFEST_KEY, "is missing")
        return
    earlier = {file.key: file.bytes for file in history.files if file.key not in listed}
    keys = list(earlier) if sample is None or len(earlier) <= sample else drawn.sample(list(earlier), sample)
    async for files in _read(source, [(key, earlier[key]) for key in keys], progress):
        for key, content in files:
            if content is not None:
                checker.add(key, content)
            elif sample is not None:
                checker.fault(key, "is missing")


async def _read_rollups(source: TreeSource, checker: TreeChecker, *, whole: bool) -> None:
    """A publisher at work may be between the rollups and the manifest."""
    faults: list[tuple[str, str]] = []
    loop = asyncio.get_running_loop()

    def read(key: str) -> bytes | None:
        return asyncio.run_coroutine_threadsafe(source.get(key, MAX_DOCUMENT_BYTES), loop).result()

    for _ in range(ROUNDS):
        data = await source.get(HISTORY_MANIFEST_KEY, MAX_DOCUMENT_BYTES)
        try:
            manifest = None if data is None else decoded(HISTORY_MANIFEST_KEY, data, HistoryManifest)
        except CheckError:
            return  # which the checker has noted
        if manifest is None:
            return
        there = source.keys(MONTH_ROLLUP.prefix)
        faults = await asyncio.to_thread(lambda: list(rollup_faults(manifest, read, there, whole=whole)))  # noqa: B023
        if not faults:
            return
    for key, fault in faults:
        checker.fault(key, fault)


async def _read_proofs(source: TreeSource, checker: TreeChecker, status: SystemStatus) -> None:
    listed = await _single(source, checker, PROOFS.template, ProofList)
    if listed is None:
        return
    files = dict[str, bytes]()
    for key in named_files(listed):
        if (content := await source.get(key, MAX_DOCUMENT_BYTES)) is not None:
            files[key] = content
            if family_of(key) is PROOF:
                checker.add(key, content)
    check_proofs(checker, status, listed, files)


async def _read_wanted(source: TreeSource, checker: TreeChecker, progress: Callable[[int], None]) -> None:
    """Older pages of histories, which no manifest lists, as far back as they go."""
    while checker.wanted:
        wanted = sorted({key for key in checker.wanted if key not in checker.seen and key not in checker.listed})
        checker.wanted.clear()
        async for files in _read(source, [(key, MAX_DOCUMENT_BYTES) for key in wanted], progress):
            for key, data in files:
                if data is None:
                    checker.fault(key, "is missing")
                else:
                    checker.add(key, data)


async def _read(
    source: TreeSource, files: Iterable[tuple[str, int]], progress: Callable[[int], None]
) -> AsyncIterator[list[tuple[str, bytes | None]]]:
    """Files by their keys and sizes, as many together as fit in memory. Longer ones than listed are cut off."""
    rest = iter(files)
    while batch := list(islice(rest, TOGETHER)):
        read = await asyncio.gather(*(source.get(key, size) for key, size in batch))
        progress(len(batch))
        yield [(key, data) for (key, _), data in zip(batch, read, strict=True)]


def decoded(key: str, data: bytes, model: type[_Decoded]) -> _Decoded:
    """The model of a document. Raises `CheckError`."""
    try:
        document = parse_back(key, data)
    except ValueError as error:
        raise CheckError(f"{key}: cannot be read: {error}") from error
    if not isinstance(document, model):
        raise CheckError(f"{key}: is a {type(document).__name__}, not a {model.__name__}")
    return document
