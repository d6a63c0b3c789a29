"""Sources of a published tree that is to be checked: a store or a web server. Every wait and size is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol
from urllib.parse import urlsplit

import httpx
from msgspec import Struct

from exporter.bounds import Body, TooLargeError
from exporter.errors import CheckError, ConfigError, DecodeError, SourceError, StoreError
from exporter.http_environment import http_options
from exporter.ledger.rpc.endpoints import url_or_none
from exporter.stores import open_store
from exporter.stores.folder import FolderStore
from exporter.stores.store import Store
from exporter.user_files import no_folder

MAX_IN_FLIGHT = 8
CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
REQUEST_SECONDS = 300.0
TRIES = 4
RETRY_SECONDS = 0.5
"""Pause before the first retry. Each further pause is twice as long."""

_ABSENT_STATUSES = (403, 404, 410)
"""HTTP statuses that say that a file is missing. An S3 bucket that may not be listed answers 403 for a missing key."""

_PASSING_STATUSES = (408, 425, 429, 500, 502, 503, 504)


class TreeSource(Protocol):
    """Something that gives the files of a tree by key."""

    uri: str

    async def get(self, key: str, most: int) -> bytes | None:
        """The content of a file, cut after ``most`` + 1 bytes; None if there is no such file.

        Raises `SourceError` if it cannot be read, and `CheckError` if it exceeds a limit of `exporter.bounds`.
        """
        ...

    def keys(self, prefix: str) -> set[str] | None:
        """The keys that start with a prefix; None if this source cannot list. Raises `SourceError`."""
        ...

    def strangers(self) -> list[str]:
        """Names of what the source has besides keys, each with what it is: a server may serve that, too.

        Raises `SourceError`.
        """
        ...


class StoreSource:
    """A tree in a store: a folder or an S3 bucket."""

    def __init__(self, store: Store) -> None:
        self.uri = store.uri
        self._store = store

    async def get(self, key: str, most: int) -> bytes | None:
        try:
            if self._store.reads_at_once == 1:  # a thread would take longer than the read
                stored = self._store.get(key)
            else:
                stored = await asyncio.to_thread(self._store.get, key)
        except StoreError as error:
            if isinstance(error.__cause__, TooLargeError):
                raise CheckError(str(error)) from error
            raise SourceError(str(error)) from error
        return None if stored is None else stored.data[: most + 1]

    def keys(self, prefix: str) -> set[str] | None:
        try:
            return {info.key for info in self._store.list(prefix)}
        except StoreError as error:
            raise SourceError(str(error)) from error

    def strangers(self) -> list[str]:
        try:
            return sorted(self._store.strangers())
        except StoreError as error:
            raise SourceError(str(error)) from error


class Answer(Struct, frozen=True):
    """An HTTP answer. Its body is cut if it is longer than was asked for."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpSource:
    """A tree on a web server, below a base URL."""

    def __init__(self, base: str, client: httpx.AsyncClient) -> None:
        self.uri = base
        self._client = client
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def get(self, key: str, most: int) -> bytes | None:
        answer = await self.ask(key, most)
        if answer.status in _ABSENT_STATUSES:
            return None
        if answer.status != 200:
            raise SourceError(f"{self.uri}{key} is answered with HTTP status {answer.status}, not 200 or 404")
        return answer.body

    def keys(self, prefix: str) -> set[str] | None:  # noqa: ARG002
        return None

    def strangers(self) -> list[str]:
        return []

    async def ask(self, path: str, most: int, headers: Mapping[str, str] | None = None) -> Answer:
        """The answer to a GET of a path below the base URL. Requests whose failure may pass are tried again.

        Raises `SourceError` for a redirect, and if no try succeeds.
        """
        wait = RETRY_SECONDS
        for attempt in range(1, TRIES + 1):
            try:
                async with self._slots, asyncio.timeout(REQUEST_SECONDS):
                    answer = await self._send(path, most, headers)
                problem = f"HTTP status {answer.status}"
                if answer.status not in _PASSING_STATUSES:
                    if 300 <= answer.status < 400:
                        raise SourceError(
                            f"{self.uri}{path} is answered with a redirect ({answer.status}); check the URL it leads to"
                        )
                    return answer
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, DecodeError) as error:
                problem = str(error) or type(error).__name__
            if attempt < TRIES:
                await asyncio.sleep(wait)
                wait *= 2
        raise SourceError(f"{self.uri}{path} cannot be read: {problem} ({TRIES} tries)")

    async def _send(self, path: str, most: int, headers: Mapping[str, str] | None) -> Answer:
        async with self._client.stream("GET", self.uri + path, headers=dict(headers or {})) as response:
            body = Body(response.headers.get("content-encoding", ""), most)
            try:
                async for chunk in response.aiter_raw():
                    body.feed(chunk)
            except TooLargeError as error:
                if body.size <= most:  # it was compressed more than once
                    raise CheckError(f"{self.uri}{path}: {error}") from None
                return Answer(response.status_code, response.headers, body.content[: most + 1])
            return Answer(response.status_code, response.headers, body.finish())


@asynccontextmanager
async def open_tree(uri: str) -> AsyncIterator[TreeSource]:
    """Open the tree at an http(s) URL, or in a store that `open_store` opens.

    Raises `ConfigError` for a URL that is not accepted, and `SourceError` for a folder that does not exist.
    """
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise ConfigError(f"this is not the URI of a tree: {error}") from None
    if parts.scheme not in ("http", "https"):
        store = open_store(uri)
        if isinstance(store, FolderStore) and (reason := no_folder(store.root)):
            raise SourceError(f"{store.uri} {reason}; name the folder or the URL of a published tree")
        yield StoreSource(store)
        return
    url = url_or_none(uri)
    if url is None:
        raise ConfigError("this is not the URL of a tree: its host or port is invalid; write https://host/path")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ConfigError(f"{parts.scheme}://{parts.hostname}: give the URL of a tree's root, without user, ? and #")
    limits = httpx.Limits(max_connections=MAX_IN_FLIGHT, max_keepalive_connections=MAX_IN_FLIGHT)
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    # The tree is checked as the server has it, not as a cache still has it from an earlier run.
    headers = {"accept-encoding": "gzip", "cache-control": "no-cache"}
    options = http_options([url], limits)
    async with httpx.AsyncClient(timeout=timeout, headers=headers, follow_redirects=False, **options) as client:
        yield HttpSource(uri.rstrip("/") + "/", client)
