"""Checking a published tree: which of its files are read, in which order, and what is done when a run comes between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping
from itertools import islice
from random import Random
from typing import TypeVar

import msgspec

from exporter.check.checker import TreeChecker
from exporter.check.public_urls import check_public_urls
from exporter.check.table_log import table_faults
from exporter.check.whole import Fault, Looked, TreeFaultsError
from exporter.errors import CheckError, SourceError
from exporter.publishing.standing import INTENT_KEY, Intent
from exporter.stores.tree_sources import HttpSource, TreeSource, open_tree
from exporter.tree.decoding import decode_json
from exporter.tree.documents import HistoryManifest, SystemStatus
from exporter.tree.families import (
    HISTORY_MANIFEST_KEY,
    HISTORY_PREFIX,
    LOG_PREFIX,
    OPENAPI_KEY,
    POINTER_KEY,
    kind_of,
    page_key,
)
from exporter.tree.files import FileKind
from exporter.tree.read_back import parse_back
from exporter.tree.run_listing import ManifestOfAnyAge, listing_of

MAX_DOCUMENT_BYTES = 512 * 2**20
"""Of a document that no manifest gives the size of."""

MAX_INTENT_BYTES = 64 * 1024

TOGETHER = 64
"""So many files are asked for together."""

MAX_WANTED = 10_000_000
"""Older pages of histories that are followed."""

ROUNDS = 3
"""So often a check begins anew because another run was published under it."""

PUBLIC_URLS = 50
"""So many files are also asked for by their public URLs."""

ALWAYS_READ = ("v1/markets.json", "v1/protocol/", OPENAPI_KEY, "index.html")
"""How the keys begin that are in every sample."""


_Decoded = TypeVar("_Decoded")


def check_tree(uri: str, sample: int | None = None, progress: Callable[[int], None] = lambda _: None) -> Looked:
    """Check the published tree at a URI; gives how much was looked at.

    Args:
        uri: a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root.
        sample: look at so many files of each kind besides one walk over all pools; None looks at every file.
        progress: is told how many more files were read.

    Raises:
        TreeFaultsError: the tree fails its checks.
        CheckError: there is nothing that could be checked.
        SourceError: the tree cannot be read, or a new run was published each time while it was read.
        ConfigError: the URI is of no kind that can be checked.
    """

    async def check() -> Looked:
        async with open_tree(uri) as source:
            return await check_source(source, sample, progress)

    return asyncio.run(check())


async def check_source(
    source: TreeSource, sample: int | None = None, progress: Callable[[int], None] = lambda _: None
) -> Looked:
    """Check the published tree of an open source; see `check_tree`."""
    for _ in range(ROUNDS):
        before = await _required(source, POINTER_KEY)
        try:
            outcome: Looked | CheckError = await _check(source, before, sample, progress)
        except CheckError as error:
            outcome = error
        if await source.get(POINTER_KEY, MAX_DOCUMENT_BYTES) == before:
            if isinstance(outcome, CheckError):
                raise outcome
            return outcome
    raise SourceError(f"{source.uri}: {ROUNDS} times a new run was published during the check; check it again")


async def _required(source: TreeSource, key: str) -> bytes:
    data = await source.get(key, MAX_DOCUMENT_BYTES)
    if data is None:
        raise CheckError(f"{source.uri}: {key} is missing, so no run is published there")
    return data


async def _check(source: TreeSource, pointer: bytes, sample: int | None, progress: Callable[[int], None]) -> Looked:
    status = _decoded(POINTER_KEY, pointer, SystemStatus)
    manifest_bytes = await _required(source, status.manifest_key)
    try:
        manifest = decode_json(manifest_bytes, ManifestOfAnyAge)
    except msgspec.DecodeError as error:
        raise CheckError(f"{status.manifest_key}: does not decode as RunManifest: {error}") from error
    files = None if manifest.files is not None else await _required(source, manifest.files_key)
    listing = listing_of(manifest, files)
    sizes = dict(zip(listing.frame["key"], listing.frame["bytes"], strict=True))
    drawn = Random(status.run_id)
    checker = TreeChecker(status.observed_ledger, partial=sample is not None, listed=sizes.keys())
    if OPENAPI_KEY in sizes and (openapi := await source.get(OPENAPI_KEY, sizes[OPENAPI_KEY])) is not None:
        checker.use_schemas(openapi)
    checker.add(POINTER_KEY, pointer)
    checker.add(status.manifest_key, manifest_bytes)
    if files is not None:
        checker.add(manifest.files_key, files)

    keys = list(sizes) if sample is None else _sample(list(sizes), status, sample, drawn)
    async for key, data in _read(source, keys, sizes, progress):
        if data is not None:
            checker.add(key, data)
    if sample is not None:
        await _walk_all(source, checker, status, sizes, set(keys))
    await _read_history(source, checker, sizes, sample, drawn, progress)
    await _read_table(source, checker)
    if sample is None:
        await _read_wanted(source, checker, progress)
    if isinstance(source, HttpSource):
        await check_public_urls(source, checker.whole, status, listing, sample or PUBLIC_URLS, drawn)
    try:
        return checker.finish()
    except TreeFaultsError as error:
        unfinished = await _unfinished(source, status)
        if unfinished is None:
            raise
        raise TreeFaultsError((*error.faults, unfinished), error.total + 1) from None


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


def _sample(listed: list[str], status: SystemStatus, count: int, drawn: Random) -> list[str]:
    """So many keys of each part of the tree, and those of which there is only one."""
    parts: dict[str, list[str]] = {}
    for key in listed:
        part = "always" if key.startswith(ALWAYS_READ) else "/".join(key.split("/")[:2])
        parts.setdefault(part, []).append(key)
    chosen = {_longest(listed, status)}
    for part, keys in parts.items():
        chosen.update(keys if part == "always" or len(keys) <= count else drawn.sample(keys, count))
    return sorted(chosen)


def _longest(listed: Container[str], status: SystemStatus) -> str:
    """The first page of all pools in the largest size."""
    key = f"v1/assets/limit/{max(status.page_sizes)}.json"
    return key if key in listed else "v1/assets/index.json"


async def _walk_all(
    source: TreeSource, checker: TreeChecker, status: SystemStatus, sizes: Mapping[str, int], read: set[str]
) -> None:
    """The one walk of a sample: over all pools, in the largest pages. Its pages are added where they are not yet."""
    token = checker.next_of(_longest(sizes, status))
    for _ in range(len(sizes)):
        if token is None:
            return
        key = page_key(token)
        if key not in read:
            data = await source.get(key, sizes.get(key, 0))
            if data is None:
                return
            checker.add(key, data)
        token = checker.next_of(key)


async def _read_history(
    source: TreeSource,
    checker: TreeChecker,
    sizes: Mapping[str, int],
    sample: int | None,
    drawn: Random,
    progress: Callable[[int], None],
) -> None:
    """The history's manifest, and the Parquet files of earlier runs that it names."""
    data = await source.get(HISTORY_MANIFEST_KEY, MAX_DOCUMENT_BYTES)
    if data is None:
        if any(kind_of(key) is FileKind.HISTORY for key in sizes):
            checker.add_missing(HISTORY_MANIFEST_KEY)
        return
    checker.add(HISTORY_MANIFEST_KEY, data, of_run=False)
    try:
        history = _decoded(HISTORY_MANIFEST_KEY, data, HistoryManifest)
    except CheckError:
        return  # which the checker has noted
    earlier = {file.key: file.bytes for file in history.files if file.key not in sizes}
    keys = list(earlier)  # in the order of their ledgers, in which the histories are made again
    if sample is not None and len(keys) > sample:
        keys = drawn.sample(keys, sample)
    async for key, content in _read(source, keys, earlier, progress):
        if content is not None:
            checker.add(key, content, of_run=False)
        elif sample is not None:
            checker.add_missing(key)


async def _read_table(source: TreeSource, checker: TreeChecker) -> None:
    """The history as a Delta table, where its log can be listed. A publisher at work may be between the two."""
    faults: list[str] = []
    for _ in range(ROUNDS):
        there = source.keys(HISTORY_PREFIX)
        data = await source.get(HISTORY_MANIFEST_KEY, MAX_DOCUMENT_BYTES)
        if there is None or data is None or not any(key.startswith(LOG_PREFIX) for key in there):
            return  # of an earlier version
        log = {key: await source.get(key, MAX_DOCUMENT_BYTES) for key in sorted(there) if key.startswith(LOG_PREFIX)}
        try:
            manifest = _decoded(HISTORY_MANIFEST_KEY, data, HistoryManifest)
        except CheckError:
            return  # which the checker has noted
        faults = list(table_faults(log, manifest, there))
        if not faults:
            return
    checker.whole.faults.add_all(LOG_PREFIX, faults)


async def _read_wanted(source: TreeSource, checker: TreeChecker, progress: Callable[[int], None]) -> None:
    """Older pages of the pools' histories, which no manifest lists, as far back as they go."""
    read = 0
    while (wanted := checker.wanted()) and read < MAX_WANTED:
        read += len(wanted)
        async for key, data in _read(source, wanted, {}, progress):
            if data is None:
                checker.add_missing(key)
            else:
                checker.add(key, data, of_run=False)


async def _read(
    source: TreeSource, keys: Iterable[str], sizes: Mapping[str, int], progress: Callable[[int], None]
) -> AsyncIterator[tuple[str, bytes | None]]:
    """Files in the order of their keys, of which only a few are in memory. Longer ones than listed are cut off."""
    rest = iter(keys)
    while batch := list(islice(rest, TOGETHER)):
        files = await asyncio.gather(*(source.get(key, sizes.get(key, MAX_DOCUMENT_BYTES)) for key in batch))
        progress(len(batch))
        for key, data in zip(batch, files, strict=True):
            yield key, data


def _decoded(key: str, data: bytes, model: type[_Decoded]) -> _Decoded:
    try:
        document = parse_back(key, data)
    except ValueError as error:
        raise CheckError(f"{key}: cannot be read: {error}") from error
    if not isinstance(document, model):
        raise CheckError(f"{key}: is a {type(document).__name__}, not a {model.__name__}")
    return document
