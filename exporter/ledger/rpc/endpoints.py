"""The bounds an RPC client keeps to, and the clock and chance it keeps them with.

Nothing here imports the HTTP client, so that configuration code can name the limits at no cost.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import random
import re
import ssl
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final, cast

import httpx

from exporter.errors import ConfigError
from exporter.ledger.rpc.failures import HTTPX_ERRORS, AttemptError, Failure, FailureKind, failure_of
from exporter.ledger.source import MAX_KEYS_PER_REQUEST

# What each limit may be. Counts are integers, times (``_s``) and rates may have a fraction.
_RANGES: Final[dict[str, tuple[float, float]]] = {
    "max_in_flight": (1, 256),
    "requests_per_second": (0.01, 100_000),
    "connect_timeout_s": (0.001, 600),
    "request_timeout_s": (0.001, 600),
    "attempts": (1, 20),
    "requests_per_call": (1, 10_000),
    "total_deadline_s": (0.001, 3_600),
    "backoff_base_s": (0, 60),
    "backoff_max_s": (0, 600),
    "max_retry_after_s": (0, 3_600),
    "aside_base_s": (0, 600),
    "aside_max_s": (0, 3_600),
    "keys_per_request": (1, MAX_KEYS_PER_REQUEST),
    "max_request_bytes": (1_024, 512 * 1024),
    "max_response_bytes": (1_024, 1024**3),
}
_FRACTIONAL: Final = frozenset(name for name in _RANGES if name.endswith(("_s", "_second")))


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcLimits:
    """Bounds on everything an `exporter.ledger.rpc.client.RpcSource` does.

    A *call* is one logical question: one of the source's methods, or one batch of keys of ``read_entries``. It may
    take several HTTP requests: retries, other endpoints, parts of a batch that had to be split.

    Raises `ConfigError` naming the limit, and what it may be, when a value is out of its range.
    """

    max_in_flight: int = 4  # calls worked on at once; each has at most one HTTP request under way
    requests_per_second: float = 5.0  # to each endpoint; requests are spaced evenly
    connect_timeout_s: float = 10.0  # seconds to reach an endpoint
    request_timeout_s: float = 30.0  # seconds for one HTTP request, from connecting to the last byte
    attempts: int = 4  # tries at each endpoint in one call (for each part of a batch that was split)
    requests_per_call: int = 100  # HTTP requests in one call, retries and parts included
    total_deadline_s: float = 120.0  # seconds for one call from its turn on, waits included
    backoff_base_s: float = 0.25  # seconds; the first wait before asking again is at most this, then twice that ...
    backoff_max_s: float = 8.0  # ... up to this
    max_retry_after_s: float = 60.0  # seconds; an endpoint that demands a longer wait is not waited for
    aside_base_s: float = 2.0  # seconds for which a failing endpoint is asked last; doubles with each failure ...
    aside_max_s: float = 120.0  # ... up to this
    keys_per_request: int = MAX_KEYS_PER_REQUEST  # ledger keys in one getLedgerEntries request
    max_request_bytes: int = 512 * 1024  # bytes of one request body; the RPC's own limit (docs/rpc.md, "Failures")
    max_response_bytes: int = 32 * 1024**2  # bytes of one answer after decompression; 200 entries of 64 KiB fit

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            kinds = (int, float) if name in _FRACTIONAL else (int,)
            number = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
            if not number or not low <= value <= high:
                kind = "a number" if name in _FRACTIONAL else "a whole number"
                raise ConfigError(f"{name} must be {kind} from {low:,} to {high:,}, not {value!r}")
        if self.max_in_flight / self.requests_per_second > self.total_deadline_s:
            raise ConfigError(
                f"requests_per_second = {self.requests_per_second} is too slow for max_in_flight = "
                f"{self.max_in_flight} within total_deadline_s = {self.total_deadline_s}: raise the rate or the "
                "deadline, or lower max_in_flight"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The clock and chance of a client; tests put in their own to be fast and repeatable."""

    clock: Callable[[], float] = time.monotonic  # seconds, never goes back
    wall_clock: Callable[[], float] = time.time  # unix seconds, for a Retry-After that is a date
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    random: Callable[[], float] = random.random  # evenly in [0, 1)


# What an RPC client did: counters for the run report, and one event for each request.
#
# Nothing here holds a URL: endpoints go by their label, messages have been cleaned.


@dataclass(frozen=True, slots=True)
class RpcEvent:
    """One HTTP request, or the network check's, after it has ended.

    ``outcome`` is ``ok`` or the name of a failure (``timeout``, ``http 503``, ``rpc -32603`` ...); ``detail`` says a
    failure in words and is empty otherwise. ``keys`` is how many ledger keys it asked for,
    ``seconds`` how long it took.
    """

    method: str
    endpoint: str
    keys: int
    outcome: str
    detail: str
    seconds: float


@dataclass(slots=True)
class RpcCounters:
    """Counts since the client was made. All are of HTTP requests unless said otherwise.

    ``retries`` are requests that repeat one that failed, at the same or another endpoint, ``splits`` how often a
    batch of keys was cut after a failure, ``keys_asked`` the keys of all getLedgerEntries requests (a key that is
    asked for again counts again).
    """

    requests: Counter[str] = field(default_factory=Counter)  # by method
    answers: Counter[str] = field(default_factory=Counter)  # usable ones, by endpoint
    errors: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # endpoint -> name
    keys_asked: int = 0
    retries: int = 0
    splits: int = 0
    bytes_sent: int = 0  # request bodies
    bytes_received: int = 0  # answers, decompressed

    def received(self, size: int) -> None:
        """Count the bytes of an answer."""
        self.bytes_received += size

    def as_dict(self) -> dict[str, Any]:
        """The counters as plain values in a fixed order, for a report."""
        return {
            "requests": dict(sorted(self.requests.items())),
            "answers": dict(sorted(self.answers.items())),
            "errors": {label: dict(sorted(names.items())) for label, names in sorted(self.errors.items())},
            "keys_asked": self.keys_asked,
            "retries": self.retries,
            "splits": self.splits,
            "bytes_sent": self.bytes_sent,
            "bytes_received": self.bytes_received,
        }


# RPC endpoints: checking and naming their URLs, and choosing the one to ask next.
#
# An endpoint is named by its host (and port, where one is given), never by anything else of its URL. The pool
# remembers which endpoint was good last, which ones fail (asked last for a growing, bounded time), which ones asked
# to be left alone (not asked until then), and which ones say themselves that they lag.

MAX_ENDPOINTS: Final = 16
MAX_URL_LENGTH: Final = 2_048
_MAX_HOLD_S: Final = 24 * 3_600.0
_MAX_DOUBLINGS: Final = 20
_HOST_NAME: Final = re.compile(r"[a-z0-9._-]{1,253}", re.ASCII)


class Endpoint:
    """One RPC endpoint and what is known of it. Its ``repr`` is its label; the URL shows up nowhere."""

    def __init__(self, position: int, url: httpx.URL, label: str) -> None:
        self.position = position
        self.url = url
        self.label = label
        self.loopback = is_loopback(url.host)
        self.stale = False  # said of itself that it lags
        self.failures = 0  # in a row
        self.aside_until = 0.0  # asked after the others until then (on the client's clock)
        self.held_until = 0.0  # not asked at all until then: it demanded so
        self.next_slot = 0.0  # when the next request may start, by the rate
        self.max_keys = MAX_KEYS_PER_REQUEST  # less, once it has stated a smaller maximum
        self.network_checked = False
        self.network_lock = asyncio.Lock()
        self.network_checks = 0  # finished ones, failed ones included
        self.network_failure: Failure | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self.label})"

    def reserve(self, now: float, requests_per_second: float) -> float:
        """Take the next free slot of the rate; returns the seconds to wait for it."""
        slot = max(now, self.next_slot)
        self.next_slot = slot + 1 / requests_per_second
        return slot - now

    def hold(self, now: float, seconds: float) -> None:
        """Do not ask this endpoint for some seconds; bounded by a day, whatever it demands."""
        self.held_until = max(self.held_until, now + min(max(seconds, 0.0), _MAX_HOLD_S))


class EndpointPool:
    """The configured endpoints, best first."""

    def __init__(self, endpoints: Sequence[Endpoint], limits: RpcLimits) -> None:
        self.endpoints = tuple(endpoints)
        self._limits = limits
        self._current = self.endpoints[0]

    def ordered(self, now: float) -> list[Endpoint]:
        """All endpoints: not lagging before lagging, good before failing, the one in use before the others."""
        return sorted(
            self.endpoints,
            key=lambda each: (each.stale, each.aside_until > now, each is not self._current, each.position),
        )

    def succeeded(self, endpoint: Endpoint, now: float) -> None:
        """A usable answer came: the endpoint is good again, and stays in use if the one in use is not good."""
        endpoint.failures = 0
        endpoint.aside_until = 0.0
        if self._current.stale or max(self._current.aside_until, self._current.held_until) > now:
            self._current = endpoint

    def failed(self, endpoint: Endpoint, now: float) -> float:
        """Put the endpoint aside; returns for how many seconds.

        The time grows with each failure after it has passed: requests that were under way together fail together,
        and that is one failure.
        """
        if endpoint.aside_until <= now:
            doublings = min(endpoint.failures, _MAX_DOUBLINGS)
            seconds: float = min(self._limits.aside_max_s, self._limits.aside_base_s * 2.0**doublings)
            endpoint.failures += 1
            endpoint.aside_until = now + seconds
        return endpoint.aside_until - now


def parse_endpoints(rpc_urls: Sequence[str], *, allow_http: bool = False) -> list[Endpoint]:
    """Check RPC URLs and name them: by host and port, with ``#1``, ``#2`` ... where several share these.

    Raises `ConfigError` that says which of ``rpc_urls`` is wrong by its position, without quoting it.
    """
    if isinstance(rpc_urls, str) or not 1 <= len(rpc_urls) <= MAX_ENDPOINTS:
        raise ConfigError(f"rpc_urls must be a list of 1 to {MAX_ENDPOINTS} URLs")
    urls = [_parse(text, f"rpc_urls[{position}]", allow_http) for position, text in enumerate(rpc_urls)]
    hosts = [_host_and_port(url) for url in urls]
    shared, seen = Counter(hosts), Counter[str]()
    endpoints = []
    for position, (url, host) in enumerate(zip(urls, hosts, strict=True)):
        seen[host] += 1
        label = f"{host}#{seen[host]}" if shared[host] > 1 else host
        endpoints.append(Endpoint(position, url, label))
    return endpoints


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine itself."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _parse(text: str, name: str, allow_http: bool) -> httpx.URL:
    if not text or any(character.isspace() for character in text):
        raise ConfigError(f"{name} must be a URL such as https://rpc.example.org, and without white space")
    if len(text) > MAX_URL_LENGTH:
        raise ConfigError(f"{name} is longer than {MAX_URL_LENGTH} characters")
    url = url_or_none(text)
    if url is None:
        raise ConfigError(f"{name} is not a URL with a host; write it as https://rpc.example.org/path")
    if url.scheme not in ("http", "https"):
        raise ConfigError(f"{name} must begin with https:// (http:// only for this machine)")
    if url.fragment:
        raise ConfigError(f"{name} has a fragment (#...), which is never sent to a server; remove it")
    if url.scheme == "http" and not allow_http and not is_loopback(url.host):
        raise ConfigError(
            f"{name} ({_host_and_port(url)}) uses http://, which anybody on the way can read and alter; use https:// "
            "(http:// is accepted for localhost only)"
        )
    return url


def url_or_none(text: str) -> httpx.URL | None:
    """A URL with a host that can be one, and a port below 65536 if any; None for any other text."""
    # Returning None, not raising on: the original exception quotes the URL, and would hang on to the new one.
    try:
        url = httpx.URL(text)
        host = url.raw_host.decode("ascii")
        if not _HOST_NAME.fullmatch(host):  # httpx takes nearly anything for a host
            ipaddress.IPv6Address(host)
        if not url.host or (url.port is not None and not 0 < url.port < 65536):  # decoding a host fails for some
            return None
    except (httpx.InvalidURL, ValueError):
        return None
    return url


def _host_and_port(url: httpx.URL) -> str:
    host = url.raw_host.decode("ascii")
    if ":" in host:
        host = f"[{host}]"
    return host if url.port is None else f"{host}:{url.port}"


# One HTTP POST to an endpoint, bounded in time and size; every way it can fail becomes an `AttemptError`.
#
# Redirects are not followed: a redirect could lead anywhere, with the key of the URL in a Referer or a path.

_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "gzip",  # the one compression that is undone here in bounded steps
    "User-Agent": "lending-markets-exporter",
}
_GZIP: Final = 16 + zlib.MAX_WBITS
_LONGEST_RETRY_AFTER: Final = 20  # characters of a number; anything longer is no time

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
    """Sends request bodies to endpoints. ``received`` is told the size of each answer, decompressed."""

    def __init__(
        self,
        limits: RpcLimits,
        transport: httpx.AsyncBaseTransport | None,
        wall_clock: Callable[[], float],
        received: Callable[[int], None],
    ) -> None:
        self._limits = limits
        self._transport = transport
        self._wall_clock = wall_clock
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
            if response.is_stream_consumed:  # a transport in memory gave the whole answer at once
                self._received(len(response.content))
                if len(response.content) > self._limits.max_response_bytes:
                    raise AttemptError(self._too_large())
                return response.content
            return await self._read(response)

    def _client(self, endpoint: Endpoint) -> httpx.AsyncClient:
        if self._closed:
            raise RuntimeError("the RPC client is closed")
        client = self._clients.get(endpoint)
        if client is None:
            if self._tls is None and self._transport is None:
                self._tls = httpx.create_ssl_context()  # takes a while, so one serves all clients
            client = self._clients[endpoint] = httpx.AsyncClient(
                transport=self._transport,
                verify=self._tls or True,
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
                if unpacker.eof:
                    raise AttemptError(_broken_gzip())
                try:
                    unpacked = unpacker.decompress(chunk, step)
                except zlib.error:
                    unpacked = None
                if unpacked is None:
                    raise AttemptError(_broken_gzip())
                if unpacked:
                    yield unpacked
                chunk = unpacker.unconsumed_tail or unpacker.unused_data
        if not unpacker.eof:
            raise AttemptError(_broken_gzip())

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
        wait = parse_retry_after(response.headers.get("retry-after"), self._wall_clock())
        return Failure(FailureKind.HTTP, text, code=status, retry_after_s=wait)


def _broken_gzip() -> Failure:
    return Failure(FailureKind.UNUSABLE, "the answer's compression is broken")


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Seconds to wait by a Retry-After header: a number of seconds or an HTTP date; None when it is neither.

    ``now`` is in unix seconds. A date in the past is a wait of 0.
    """
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value) if len(value) <= _LONGEST_RETRY_AFTER else None
    try:
        date = parsedate_to_datetime(value)
        if date.tzinfo is None:  # "-0000", by which a server says that it does not know its own time zone
            date = date.replace(tzinfo=UTC)
        return max(0.0, date.timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None
