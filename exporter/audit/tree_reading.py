"""Reads the files of a published tree. A file that is missing or damaged is a `CheckError` that names it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, TypeVar

from exporter.bounds import DOCUMENT_BYTES, FILE_BYTES, TOGETHER_BYTES, TooLargeError
from exporter.errors import CheckError, NothingPublishedError
from exporter.stores.tree_sources import TreeSource
from exporter.tree.families import STATUS_KEY
from exporter.tree.read_back import parse_back

MAX_READ_TOGETHER = 64
"""Largest number of files that are in memory at the same time."""

Decoded = TypeVar("Decoded")


async def required(source: TreeSource, key: str, sha256: str | None = None) -> bytes:
    """Read a file. Raises `CheckError` if it is missing or too large, or does not have the SHA-256 that is given.

    Raises `NothingPublishedError` if it is the status document that is missing: there is no tree to find faults in.
    """
    most = DOCUMENT_BYTES if key == STATUS_KEY else FILE_BYTES
    data = await source.get(key, most)
    if data is None and key == STATUS_KEY:
        raise NothingPublishedError(f"{source.uri}: {key} is missing, so no run is published there")
    if data is None:
        raise CheckError(f"{source.uri}: {key} is missing")
    if len(data) > most:
        raise CheckError(f"{key}: {TooLargeError(most)}")
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise CheckError(f"{key} does not have the digest that is stated for it")
    return data


async def document(source: TreeSource, key: str, model: type[Decoded], sha256: str | None = None) -> Decoded:
    """Read a document of a model. Raises `CheckError` as `required` does, and if it is no such document."""
    return decoded(key, await required(source, key, sha256), model)


def decoded(key: str, data: bytes, model: type[Decoded]) -> Decoded:
    """Decode a document of a model. Raises `CheckError` if it is no such document."""
    try:
        document = parse_back(key, data)
    except ValueError as error:
        raise CheckError(f"{key}: cannot be read: {error}") from error
    if not isinstance(document, model):
        raise CheckError(f"{key}: is a {type(document).__name__}, not a {model.__name__}")
    return document


async def read_each(
    source: TreeSource, files: Iterable[tuple[Any, ...]], progress: Callable[[int], None]
) -> AsyncIterator[tuple[tuple[Any, ...], bytes | None]]:
    """The content of files, each a key, its size and more. A file that is longer than its size is cut."""
    for batch in _batches(files):
        read = await asyncio.gather(*(source.get(key, size) for key, size, *_ in batch))
        progress(len(batch))
        for item in zip(batch, read, strict=True):
            yield item


def _batches(files: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """The files in batches that fit in memory. A file is a key, its size and more; the size may be a false claim."""
    batch, total = list[tuple[Any, ...]](), 0
    for file in files:
        size = min(file[1], FILE_BYTES)
        if batch and (len(batch) == MAX_READ_TOGETHER or total + size > TOGETHER_BYTES):
            yield batch
            batch, total = [], 0
        batch.append((file[0], size, *file[2:]))
        total += size
    if batch:
        yield batch
