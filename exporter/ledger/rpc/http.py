"""One HTTP POST to an endpoint, bounded in time and size; every way it can fail becomes an `AttemptError`.

There is one general answer to a failure: ask the next endpoint, and after a growing wait the same ones again. Only
those that repetition cannot help (`Failure.lasting`) end an endpoint's part in a call. Redirects are not followed: one
could lead anywhere, with the key of the URL in a Referer or a path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import httpx

from exporter.ledger.rpc.endpoints import Endpoint, RpcLimits, is_loopback

UNUSABLE: Final = "unusable answer"
"""The name of a failure: not JSON, not as documented, or contradicting itself."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed request.

    ``name`` is what the report counts by, such as ``timeout``, ``http 503`` or ``rpc -32603``. ``text`` says it in
    words: our own, or an RPC's message, which must be cleaned before it is shown. ``code`` is an HTTP status or a
    JSON-RPC code. ``lasting`` failures will not go away within one call; those of the request rather than its endpoint
    are not to ``blame`` on it for later calls. It is not to be asked again for ``retry_after_s``.
    """

    name: str
    text: str
    code: int | None = None
    lasting: bool = False
    blame: bool = True
    retry_after_s: float | None = None


class AttemptError(Exception):
    """One request failed; the client turns this into its next step and never lets it out."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


HTTPX_ERRORS: Final = (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, httpx.StreamError)
_UNSENT: Final = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL)

_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "gzip",
    "User-Agent": "lending-markets-exporter",
}
_CONNECT_TIMEOUT_S: Final = 10.0
TOO_MANY_REQUESTS: Final = 429
"""Of HTTP, and as gateways put it into JSON-RPC."""

UNSTATED_WAIT_S: Final = 5.0
"""How long an endpoint is left alone that wants fewer requests and does not say until when."""

_PASSING: Final = frozenset({408, 425, TOO_MANY_REQUESTS})
"""Of the HTTP statuses from 300 to 499. Any other says that the URL, the key or the method is not accepted there."""

_ADVICE: Final[dict[int, str]] = {
    401: "it wants a key, or another one: check rpc_urls",
    403: "it refuses this client or key: check rpc_urls",
    404: "there is nothing at this path: check rpc_urls",
    405: "it does not take POST: rpc_urls must lead to a Stellar RPC",
    429: "too many requests: lower requests_per_second or max_in_flight",
    503: "it is overloaded",
}


class HttpPoster:
    """Sends request bodies to endpoints."""

    def __init__(
        self, endpoints: Sequence[Endpoint], limits: RpcLimits, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        self._limits = limits
        secure = any(each.url.scheme == "https" for each in endpoints)  # loading certificates takes its time
        local = [f"all://{each.url.netloc.decode('ascii')}" for each in endpoints if is_loopback(each.url.host)]
        self._client = httpx.AsyncClient(
            transport=transport,
            mounts=dict.fromkeys(local),  # a proxy of the environment does not lead to this machine
            verify=secure,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=limits.max_in_flight),
        )

    async def aclose(self) -> None:
        await self._client.aclose()

    async def post(self, endpoint: Endpoint, body: bytes, timeout_s: float) -> bytes:
        """The body of the answer to ``body``. Raises `AttemptError` for anything but HTTP 200 within the bounds."""
        # The AttemptError is raised outside of the except blocks: an exception of httpx holds the request with its
        # URL, and must not go along as the context of ours.
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(endpoint, body, timeout_s)
        except TimeoutError:
            failure = Failure("timeout", f"no complete answer within {timeout_s:.3g} s")
        except (*HTTPX_ERRORS, OSError) as error:
            failure = failure_of(error)
        raise AttemptError(failure)

    async def _exchange(self, endpoint: Endpoint, body: bytes, timeout_s: float) -> bytes:
        timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S))
        stream = self._client.stream("POST", endpoint.url, content=body, headers=_HEADERS, timeout=timeout)
        async with stream as response:
            if response.status_code != 200:
                raise AttemptError(self._status_failure(response))
            if response.headers.get("content-encoding", "identity").strip().lower() not in ("identity", "", "gzip"):
                raise AttemptError(Failure(UNUSABLE, "the answer has a compression that was not asked for"))
            content = bytearray()
            # Each piece comes from 64 KiB or less of the connection, so that a gzip bomb costs 66 MB at most.
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > self._limits.max_response_bytes:
                    most = f"{self._limits.max_response_bytes:,} bytes (max_response_bytes)"
                    raise AttemptError(Failure("answer too large", f"the answer is larger than {most}"))
        return bytes(content)

    def _status_failure(self, response: httpx.Response) -> Failure:
        status, text = response.status_code, f"HTTP {response.status_code}"
        lasting = 300 <= status < 500 and status not in _PASSING
        if 300 <= status < 400:
            text += ", a redirect, which is not followed: put the final address into rpc_urls"
        elif status in _ADVICE:
            text += f": {_ADVICE[status]}"
        wait = parse_retry_after(response.headers.get("retry-after"))
        if wait is None and status == TOO_MANY_REQUESTS:
            wait = UNSTATED_WAIT_S
        if wait is not None and wait > (most := self._limits.max_retry_after_s):
            text += f"; it demands a wait of {wait:.0f} s (Retry-After), more than the {most:g} s that are waited"
            lasting = True
        return Failure(f"http {status}", text, status, lasting, retry_after_s=wait)


def parse_retry_after(value: str | None) -> float | None:
    """The seconds that a Retry-After header demands; None for anything else, as for a date: gateways send seconds."""
    value = (value or "").strip()
    known = value.isascii() and value.isdigit() and len(value) <= 20
    return float(value) if known else None


def failure_of(error: Exception) -> Failure:
    """The failure that an exception of the HTTP client represents, never with its text, which may quote the URL."""
    if isinstance(error, (TimeoutError, httpx.TimeoutException)):
        name, text = "timeout", "timed out"
    elif isinstance(error, (httpx.ConnectError, httpx.ProxyError)):
        name, text = "connect", "cannot connect (name, address, port, TLS certificate or proxy)"
    elif isinstance(error, _UNSENT):
        name, text = "request not sendable", "the request cannot be sent"
    elif isinstance(error, httpx.DecodingError):
        name, text = UNUSABLE, "the answer's compression is broken"
    else:
        name, text = "connection cut", "the connection broke, or the server does not speak HTTP"
    return Failure(name, f"{text} ({type(error).__name__})", lasting=isinstance(error, _UNSENT))
