"""RPC endpoints: their URLs, the bounds on asking them, and one HTTP POST to one of them.

Every way in which a POST can fail becomes an `AttemptError`. The answer to a failure is nearly always the same: the
client asks the next endpoint, and after a growing wait it asks the same ones again. Only a failure that repetition
cannot help (`Failure.lasting`) ends an endpoint's part in a call. Redirects are not followed, because a redirect could
lead anywhere and take the key in the URL along, in a Referer header or in a path.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import random
import re
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

import httpx
from msgspec import Struct, field

from exporter.bounds import Body, TooLargeError
from exporter.errors import ConfigError, DecodeError
from exporter.http_environment import http_options, is_loopback
from exporter.ledger.source import MAX_KEYS_PER_REQUEST

CALL_SECONDS: Final = 120.0
"""How long a call may take, unless a caller says otherwise."""


class RpcLimits(Struct, frozen=True, kw_only=True):
    """The bounds on an `exporter.ledger.rpc.client.RpcSource`. A *call* is one of its methods, or one batch of keys.

    Raises `ConfigError` if the rate is no finite number above 0, or so low that calls could not begin within their
    deadline.
    """

    max_in_flight: int = 4  # calls worked on at once; each has at most one HTTP request under way
    requests_per_second: float = 8.0  # to each endpoint
    request_timeout_s: float = 30.0  # seconds for one HTTP request, from connecting to the last byte
    attempts: int = 4  # failed tries at each endpoint in one call; those it answers by demanding a pause do not count
    total_deadline_s: float = CALL_SECONDS  # seconds for one call from its turn on, waits included
    backoff_base_s: float = 1.0  # seconds; the first wait before asking again is at most this, then twice that ...
    backoff_max_s: float = 8.0  # ... up to this
    max_retry_after_s: float = 60.0  # seconds; an endpoint that demands a longer wait is not waited for
    max_response_bytes: int = 32 * 1024**2  # bytes of one answer after decompression; 200 entries of 64 KiB fit

    def __post_init__(self) -> None:
        if not 0 < self.requests_per_second < math.inf:
            raise ConfigError(f"requests_per_second = {self.requests_per_second} is no rate: give a number above 0")
        if self.max_in_flight / self.requests_per_second > self.total_deadline_s:
            raise ConfigError(
                f"requests_per_second = {self.requests_per_second} is too slow for max_in_flight = "
                f"{self.max_in_flight} within total_deadline_s = {self.total_deadline_s}: raise the rate or the "
                "deadline, or lower max_in_flight"
            )


class Timing(Struct, frozen=True, kw_only=True):
    """The clock, the sleep and the random numbers of a client. Tests replace them, to be fast and repeatable."""

    clock: Callable[[], float] = time.monotonic  # seconds, never goes back
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    random: Callable[[], float] = random.random  # evenly in [0, 1)


UNSTATED_WAIT_S: Final = 5.0
"""How long an endpoint is left alone if it demands fewer requests without saying for how long."""

_SLOWER: Final = 0.7
"""The factor on an endpoint's rate when it demands fewer requests. The rate stays above one in `UNSTATED_WAIT_S`."""

RpcHeaders: TypeAlias = Mapping[str, str | Mapping[str, str]]
"""The values of HTTP headers: by name, for all endpoints, or by host and then by name."""

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[!-~](?:[ -~]{0,4094}[!-~])?", re.ASCII)
_OWN_HEADERS: Final = frozenset(
    (
        *("accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect"),
        *("host", "te", "trailer", "transfer-encoding", "upgrade"),
    )
)
"""The headers that the client sets itself, so that no configuration may give them."""

MAX_ENDPOINTS: Final = 16
MAX_URL_LENGTH: Final = 2_048
_HOST_NAME: Final = re.compile(r"[a-z0-9._-]{1,253}", re.ASCII)


class Endpoint(Struct, eq=False):
    """One RPC endpoint and how it has behaved so far. It has no ``repr``, because that would show the URL."""

    position: int
    url: httpx.URL
    label: str
    headers: Mapping[str, str] = field(default_factory=dict)  # as secret as the URL
    failing: bool = False
    held_since: float = -math.inf  # it demanded a pause then (on the client's clock) ...
    held_until: float = 0.0  # ... and is not asked at all until then
    turns: deque[float] = field(default_factory=deque)  # when the last calls had their turns, as many as may be at once
    most_per_second: float = math.inf  # the rate, lowered by each of its demands for fewer requests
    most_keys: int = MAX_KEYS_PER_REQUEST  # in one getLedgerEntries
    takes_batches: bool = True  # until the first JSON-RPC batch fails, because gateways may refuse them
    network_check: asyncio.Task[Failure | None] | None = None  # under way, or passed

    __repr__ = object.__repr__

    def rate(self, requests_per_second: float) -> float:
        """How often the endpoint is asked in a second: the configured rate, or less if it demanded that."""
        return min(requests_per_second, self.most_per_second)

    def reserve(self, now: float, requests_per_second: float, calls: int = 1) -> float:
        """Take the next free turn, and return how many seconds to wait for it.

        No second has more calls than the rate. They need not be spaced: the first ones go out as soon as they are asked
        for. An endpoint that demanded fewer requests may count shorter times than seconds, so its calls are spaced
        evenly. An HTTP request with several calls takes a turn for each, because providers count calls.
        """
        rate = self.rate(requests_per_second)
        is_spaced = self.most_per_second < math.inf
        at_once = 1 if is_spaced else max(1, int(rate))
        seconds = 1 / rate if is_spaced else max(1.0, 1 / rate)
        others = at_once - min(calls, at_once)  # so many earlier calls may be in the same time
        free = self.turns[-1 - others] + seconds if len(self.turns) > others else -math.inf
        turn = max(now, self.held_until, free)
        self.turns.extend(turn + seconds * (number // at_once) for number in range(calls))
        while len(self.turns) > at_once:
            self.turns.popleft()
        return turn - now

    def hold(self, asked_at: float, now: float, seconds: float, requests_per_second: float) -> None:
        """Leave the endpoint alone for some seconds, and ask it less often from then on.

        ``asked_at`` is when the refused request was sent. The rate falls only if that was after the previous pause
        began: requests that were already under way then say nothing new.
        """
        if asked_at >= self.held_since:
            slower = _SLOWER * self.rate(requests_per_second)
            self.most_per_second = max(slower, 1 / UNSTATED_WAIT_S)
        self.held_since, self.held_until = now, max(self.held_until, now + seconds)


def parse_endpoints(rpc_urls: Sequence[str], headers: RpcHeaders | None = None) -> list[Endpoint]:
    """The endpoints of some RPC URLs, which are checked.

    The label of an endpoint is its host and port, with ``#1``, ``#2`` ... if several endpoints share these. Each
    request to an endpoint has its ``headers``: those of its host, or all of them if all endpoints have one host.

    Raises `ConfigError`, which names a wrong URL by its position in ``rpc_urls`` and does not quote it.
    """
    if isinstance(rpc_urls, str) or not 1 <= len(rpc_urls) <= MAX_ENDPOINTS:
        raise ConfigError(f"rpc_urls must be a list of 1 to {MAX_ENDPOINTS} URLs")
    urls = [_parse(text, f"rpc_urls[{position}]") for position, text in enumerate(rpc_urls)]
    hosts = [url.netloc.decode("ascii") for url in urls]
    shared, seen = Counter(hosts), Counter[str]()
    endpoints = []
    for position, (url, host) in enumerate(zip(urls, hosts, strict=True)):
        seen[host] += 1
        label = f"{host}#{seen[host]}" if shared[host] > 1 else host
        endpoints.append(Endpoint(position, url, label))
    by_host = _parse_headers(headers or {}, endpoints)
    for endpoint in endpoints:
        host_and_port = endpoint.url.netloc.decode("ascii")
        endpoint.headers = by_host.get(endpoint.url.host, {}) | by_host.get(host_and_port, {})
    return endpoints


def _parse_headers(headers: RpcHeaders, endpoints: Sequence[Endpoint]) -> dict[str, dict[str, str]]:
    """The headers by host, or by host and port. Raises `ConfigError`, which quotes neither a name nor a value."""
    hosts = {each.url.host for each in endpoints}
    hosts_and_ports = {each.url.netloc.decode("ascii") for each in endpoints}
    by_host: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        if isinstance(value, str):
            if len(hosts) > 1:
                raise ConfigError(
                    "network.rpc_headers: the rpc_urls have several hosts, and a key of one is no business of another: "
                    'say for which host each header is, as {"rpc.example.org": {"NAME": "VALUE"}}'
                )
            by_host.setdefault(next(iter(hosts)), {})[name] = value
        elif name.lower() in hosts | hosts_and_ports:
            by_host.setdefault(name.lower(), {}).update(value)
        else:
            raise ConfigError("network.rpc_headers has headers for a host that is not in rpc_urls; correct one of them")
    for each in by_host.values():
        for name, value in each.items():
            if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
                raise ConfigError(
                    "network.rpc_headers: a header has a name that cannot be used; accepted are letters, "
                    f"digits and '-', and none of {', '.join(sorted(_OWN_HEADERS))}"
                )
            if not _HEADER_VALUE.fullmatch(value):
                raise ConfigError(
                    "network.rpc_headers: a value cannot be sent; accepted are 1 to 4096 visible ASCII characters, "
                    "with spaces between them"
                )
    return by_host


def _parse(text: str, name: str) -> httpx.URL:
    """The URL of an endpoint. Raises `ConfigError`, which calls the URL by ``name``."""
    url = url_or_none(text) if len(text) <= MAX_URL_LENGTH and not any(map(str.isspace, text)) else None
    if url is None or url.scheme not in ("http", "https"):
        raise ConfigError(f"{name} must be a URL with a host, such as https://rpc.example.org/path")
    if url.fragment:
        raise ConfigError(f"{name} has a fragment (#...), which is never sent to a server; remove it")
    if url.scheme == "http" and not is_loopback(url.host):
        raise ConfigError(
            f"{name} ({url.netloc.decode('ascii')}) uses http://, which anybody on the way can read and alter; "
            "use https:// (http:// is accepted for localhost only)"
        )
    return url


def url_or_none(text: str) -> httpx.URL | None:
    """The URL in a text, with a possible host and no port above 65535. None for any other text."""
    # None is returned, because httpx's exception quotes the URL and would be the context of one that is raised here.
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


UNUSABLE: Final = "unusable answer"
"""The name of a failure: the answer is not JSON, not as documented, or contradicts itself."""


class Failure(Struct, frozen=True):
    """One failed request."""

    name: str
    """The name that the report counts by, such as ``timeout``, ``http 503`` or ``rpc -32603``."""
    text: str
    """The failure in words: our own, or an RPC's message, which must be cleaned before it is shown."""
    code: int | None = None
    """The HTTP status or the JSON-RPC code."""
    lasting: bool = False
    """Whether the failure will not go away within one call."""
    blame: bool = True
    """Whether later calls ask the endpoint after the others. They do not if the request itself was at fault."""
    retry_after_s: float | None = None
    """The seconds for which the endpoint demands not to be asked again."""
    most_keys: int | None = None
    """The most keys that the endpoint takes in a request, if too many were what was wrong."""


class AttemptError(Exception):
    """The error of one failed request. The client handles it: it never reaches a caller of the client."""

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
"""The HTTP status of too many requests, which gateways also use as a JSON-RPC code."""

_PASSING: Final = frozenset({408, 425, TOO_MANY_REQUESTS})
"""The HTTP statuses from 300 to 499 that may pass. Any other says that the URL, the key or the method is refused."""

_ADVICE: Final[dict[int, str]] = {
    401: "it wants a key, or another one: check rpc_urls",
    403: "it refuses this client or key: check rpc_urls",
    404: "there is nothing at this path: check rpc_urls",
    405: "it does not take POST: rpc_urls must lead to a Stellar RPC",
    429: "too many requests: lower requests_per_second or max_in_flight",
    503: "it is overloaded",
}


def http_client(
    endpoints: Sequence[Endpoint], limits: RpcLimits, transport: httpx.AsyncBaseTransport | None
) -> httpx.AsyncClient:
    """A client for `post`. Raises `ConfigError` if the environment's settings of proxies or certificates are wrong."""
    pool = httpx.Limits(max_connections=limits.max_in_flight)
    if transport is not None:
        return httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, limits=pool)
    return httpx.AsyncClient(follow_redirects=False, **http_options((each.url for each in endpoints), pool))


async def post(
    client: httpx.AsyncClient, endpoint: Endpoint, body: bytes, timeout_s: float, limits: RpcLimits
) -> bytes:
    """The body of the answer to the request ``body``. Raises `AttemptError` unless it is HTTP 200 within the bounds."""
    headers = {**_HEADERS, **endpoint.headers}
    timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S))
    content = b""
    # The AttemptError is raised outside of the except blocks: an exception of httpx holds the request with its URL, and
    # must not become the context of ours.
    try:
        async with (
            asyncio.timeout(timeout_s),
            client.stream("POST", endpoint.url, content=body, headers=headers, timeout=timeout) as response,
        ):
            failure = _refusal(response, limits)
            if failure is None:
                body_read = Body(response.headers.get("content-encoding", ""), limits.max_response_bytes)
                async for piece in response.aiter_raw():
                    body_read.feed(piece)
                content = body_read.finish()
    except TooLargeError:
        most = f"{limits.max_response_bytes:,} bytes (max_response_bytes)"
        failure = Failure("answer too large", f"the answer is larger than {most}")
    except DecodeError:
        failure = Failure(UNUSABLE, "the answer's compression is broken (DecodingError)")
    except TimeoutError:
        failure = Failure("timeout", f"no complete answer within {timeout_s:.3g} s")
    except (*HTTPX_ERRORS, OSError) as error:
        failure = failure_of(error)
    if failure is not None:
        raise AttemptError(failure)
    return content


def _refusal(response: httpx.Response, limits: RpcLimits) -> Failure | None:
    """What is wrong with a response, as far as its head shows."""
    status, text = response.status_code, f"HTTP {response.status_code}"
    if status == 200:
        if response.headers.get("content-encoding", "identity").strip().lower() in ("identity", "", "gzip"):
            return None
        return Failure(UNUSABLE, "the answer has a compression that was not asked for")
    lasting = 300 <= status < 500 and status not in _PASSING
    if 300 <= status < 400:
        text += ", a redirect, which is not followed: put the final address into rpc_urls"
    elif status in _ADVICE:
        text += f": {_ADVICE[status]}"
    wait = parse_retry_after(response.headers.get("retry-after"))
    if wait is None and status == TOO_MANY_REQUESTS:
        wait = UNSTATED_WAIT_S
    if wait is not None and wait > (most := limits.max_retry_after_s):
        text += f"; it demands a wait of {wait:.0f} s (Retry-After), more than the {most:g} s that are waited"
        lasting, wait = True, None
    return Failure(f"http {status}", text, status, lasting, retry_after_s=wait)


def parse_retry_after(value: str | None) -> float | None:
    """The seconds that a Retry-After header demands; None for anything else, as for a date: gateways send seconds."""
    value = (value or "").strip()
    is_seconds = value.isascii() and value.isdigit() and len(value) <= 20
    return float(value) if is_seconds else None


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
