"""One HTTP POST to an endpoint, bounded in time and size; every way it can fail becomes an `AttemptError`.

Redirects are not followed: a redirect could lead anywhere, with the key of the URL in a Referer or a path.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Final, cast

import httpx

from exporter.ledger.rpc.endpoints import Endpoint, RpcLimits
from exporter.ledger.rpc.failures import HTTPX_ERRORS, AttemptError, Failure, FailureKind, failure_of

_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "gzip",  # the one compression that is undone here in bounded steps
    "User-Agent": "lending-markets-exporter",
}
_GZIP: Final = 16 + zlib.MAX_WBITS
_BROKEN_GZIP: Final = Failure(FailureKind.UNUSABLE, "the answer's compression is broken")
_LONGEST_RETRY_AFTER: Final = 20  # characters of a number; anything longer is not a time

_ADVICE: Final[dict[int, str]] = {
    401: "it wants a key, or another one: check rpc_urls",
    403: "it refuses this client or key: check rpc_urls",
    404: "there is nothing at this path: check rpc_urls",
    405: "it does not take POST: rpc_urls must lead to a Stellar RPC",
    413: "the request is too large for it",
    415: "it does not take JSON: rpc_urls must lead to a Stellar RPC",
    429: "too many requests: lower requests_per_second or max_in_flight",
    503: "it is overloaded",
    504: "it took too long",
}


class HttpPoster:
    """Sends request bodies to endpoints. ``received`` gets the size of each answer, decompressed."""

    def __init__(
        self,
        limits: RpcLimits,
        transport: httpx.AsyncBaseTransport | None,
        received: Callable[[int], None],
    ) -> None:
        self._limits = limits
        self._transport = transport
        self._received = received
        self._clients: dict[Endpoint, httpx.AsyncClient] = {}
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    async def aclose(self) -> None:
        """Close every connection; nothing can be sent afterwards."""
        self._closed = True
        clients, self._clients = list(self._clients.values()), {}
        async with AsyncExitStack() as stack:  # closes all of them even where one fails to
            for client in clients:
                stack.push_async_callback(client.aclose)

    async def post(self, endpoint: Endpoint, body: bytes, timeout_s: float) -> bytes:
        """The body of the answer to ``body``. Raises `AttemptError` for anything but HTTP 200 within the bounds."""
        # The AttemptError is raised outside of the except blocks: an exception of httpx holds the request with its
        # URL, and must not go along as the context of ours.
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(endpoint, body, timeout_s)
        except TimeoutError:
            failure = Failure(FailureKind.TIMEOUT, f"no complete answer within {timeout_s:.3g} s")
        except (*HTTPX_ERRORS, OSError) as error:
            failure = failure_of(error)
        raise AttemptError(failure)

    async def _exchange(self, endpoint: Endpoint, body: bytes, timeout_s: float) -> bytes:
        timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, self._limits.connect_timeout_s))
        stream = self._client(endpoint).stream("POST", endpoint.url, content=body, headers=_HEADERS, timeout=timeout)
        async with stream as response:
            if response.status_code != 200:
                raise AttemptError(self._status_failure(response))
            return await self._read(response)

    def _client(self, endpoint: Endpoint) -> httpx.AsyncClient:
        if self._closed:
            raise RuntimeError("the RPC client is closed")
        client = self._clients.get(endpoint)
        if client is None:
            is_secure = endpoint.url.scheme == "https"
            if is_secure and self._tls is None and self._transport is None:
                self._tls = httpx.create_ssl_context()  # takes a while, so one serves all clients
            client = self._clients[endpoint] = httpx.AsyncClient(
                transport=self._transport,
                verify=self._tls or is_secure,
                trust_env=not endpoint.loopback,  # a proxy of the environment does not lead to this machine
                follow_redirects=False,
                limits=httpx.Limits(max_connections=self._limits.max_in_flight),
            )
        return client

    async def _read(self, response: httpx.Response) -> bytes:
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "", "gzip"):
            raise AttemptError(Failure(FailureKind.UNUSABLE, "the answer has a compression that was not asked for"))
        size = 0
        parts = []
        async with aclosing(cast("AsyncGenerator[bytes]", response.aiter_raw())) as raw:
            chunks = self._gunzip(raw) if encoding == "gzip" else raw
            try:
                async with aclosing(chunks):
                    async for chunk in chunks:
                        size += len(chunk)
                        if size > self._limits.max_response_bytes:
                            raise AttemptError(self._too_large())
                        parts.append(chunk)
            finally:
                self._received(size)
        return b"".join(parts)

    async def _gunzip(self, raw: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """Undo gzip in steps of at most one byte more than an answer may have: a bomb costs no memory."""
        step = self._limits.max_response_bytes + 1
        unpacker = zlib.decompressobj(_GZIP)
        async for chunk in raw:
            while chunk:
                unpacked = None
                if not unpacker.eof:  # else something follows the end
                    with suppress(zlib.error):
                        unpacked = unpacker.decompress(chunk, step)
                if unpacked is None:
                    raise AttemptError(_BROKEN_GZIP)
                if unpacked:
                    yield unpacked
                chunk = unpacker.unconsumed_tail or unpacker.unused_data
        if not unpacker.eof:
            raise AttemptError(_BROKEN_GZIP)

    def _too_large(self) -> Failure:
        limit = f"{self._limits.max_response_bytes:,} bytes (max_response_bytes)"
        return Failure(FailureKind.TOO_LARGE, f"the answer is larger than {limit}")

    def _status_failure(self, response: httpx.Response) -> Failure:
        status = response.status_code
        if 300 <= status < 400:
            text = f"HTTP {status}, a redirect, which is not followed: put the final address into rpc_urls"
            return Failure(FailureKind.REDIRECT, text, code=status)
        advice = _ADVICE.get(status)
        text = f"HTTP {status}" if advice is None else f"HTTP {status}: {advice}"
        wait = parse_retry_after(response.headers.get("retry-after"))
        return Failure(FailureKind.HTTP, text, code=status, retry_after_s=wait)


def parse_retry_after(value: str | None) -> float | None:
    """The seconds that a Retry-After header demands; None for anything else, as for a date: gateways send seconds."""
    value = (value or "").strip()
    known = value.isascii() and value.isdigit() and len(value) <= _LONGEST_RETRY_AFTER
    return float(value) if known else None
