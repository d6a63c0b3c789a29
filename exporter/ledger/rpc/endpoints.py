"""RPC endpoints: their URLs, the bounds on asking them, and one HTTP POST to one of them.

Every way in which a POST can fail becomes an `AttemptError`. There is one general answer to a failure: ask the next
endpoint, and after a growing wait the same ones again. Only those that repetition cannot help (`Failure.lasting`) end
an endpoint's part in a call. Redirects are not followed: one could lead anywhere, with the key of the URL in a Referer
or a path.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import httpx

from exporter.bounds import Body, TooLargeError
from exporter.errors import ConfigError, DecodeError
from exporter.http_environment import http_options, is_loopback
from exporter.ledger.source import MAX_KEYS_PER_REQUEST

CALL_SECONDS: Final = 120.0
"""How long a call may take, unless a caller says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcLimits:
    """Bounds on an `exporter.ledger.rpc.client.RpcSource`; a *call* is one of its methods, or one batch of keys.

    Raises `ConfigError` for a rate at which calls could not begin within their deadline.
    """

    max_in_flight: int = 4  # calls worked on at once; each has at most one HTTP request under way
    requests_per_second: float = 8.0  # to each endpoint; requests are spaced evenly
    request_timeout_s: float = 30.0  # seconds for one HTTP request, from connecting to the last byte
    attempts: int = 4  # failed tries at each endpoint in one call; those it answers by demanding a pause do not count
    total_deadline_s: float = CALL_SECONDS  # seconds for one call from its turn on, waits included
    backoff_base_s: float = 1.0  # seconds; the first wait before asking again is at most this, then twice that ...
    backoff_max_s: float = 8.0  # ... up to this
    max_retry_after_s: float = 60.0  # seconds; an endpoint that demands a longer wait is not waited for
    max_response_bytes: int = 32 * 1024**2  # bytes of one answer after decompression; 200 entries of 64 KiB fit

    def __post_init__(self) -> None:
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
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    random: Callable[[], float] = random.random  # evenly in [0, 1)


UNSTATED_WAIT_S: Final = 5.0
"""How long an endpoint is left alone that wants fewer requests and does not say until when."""

_SLOWER: Final = 0.7
"""What an endpoint's rate is multiplied by when it wants fewer requests; never below one in `UNSTATED_WAIT_S`."""

RpcHeaders: TypeAlias = Mapping[str, str | Mapping[str, str]]
"""Values of HTTP headers by name, for all endpoints, or by name within a host."""

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[!-~](?:[ -~]{0,4094}[!-~])?", re.ASCII)
_OWN_HEADERS: Final = frozenset(
    (
        *("accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect"),
        *("host", "te", "trailer", "transfer-encoding", "upgrade"),
    )
)
"""What the client says itself."""

MAX_ENDPOINTS: Final = 16
MAX_URL_LENGTH: Final = 2_048
_HOST_NAME: Final = re.compile(r"[a-z0-9._-]{1,253}", re.ASCII)


@dataclass(eq=False, repr=False)
class Endpoint:
    """One RPC endpoint and what is known of it. It has no ``repr``, which would show the URL."""

    position: int
    url: httpx.URL
    label: str
    headers: Mapping[str, str] = field(default_factory=dict)  # as secret as the URL
    failing: bool = False
    held_since: float = -math.inf  # it demanded a pause then (on the client's clock) ...
    held_until: float = 0.0  # ... and is not asked at all until then
    next_slot: float = 0.0  # when the next request may start, by the rate
    most_per_second: float = math.inf  # what is left of the rate after its demands for fewer requests
    most_keys: int = MAX_KEYS_PER_REQUEST  # in one getLedgerEntries
    network_check: asyncio.Task[Failure | None] | None = None  # under way, or passed

    def reserve(self, now: float, requests_per_second: float) -> float:
        """Take the next free slot of the rate; returns the seconds to wait for it."""
        slot = max(now, self.next_slot, self.held_until)
        self.next_slot = slot + 1 / min(requests_per_second, self.most_per_second)
        return slot - now

    def hold(self, asked_at: float, now: float, seconds: float, requests_per_second: float) -> None:
        """Leave the endpoint alone for some seconds, and ask it less often from then on.

        ``asked_at`` is when the request was sent that it refused. Requests that were under way when the pause before
        began say nothing new, so they slow nothing down.
        """
        if asked_at >= self.held_since:
            slower = _SLOWER * min(requests_per_second, self.most_per_second)
            self.most_per_second = max(slower, 1 / UNSTATED_WAIT_S)
        self.held_since, self.held_until = now, max(self.held_until, now + seconds)


def parse_endpoints(rpc_urls: Sequence[str], headers: RpcHeaders | None = None) -> list[Endpoint]:
    """Check RPC URLs and name them: by host and port, with ``#1``, ``#2`` ... where several share these.

    ``headers`` go with each request to an endpoint: all of them, where all endpoints have one host, or those of its
    host. Raises `ConfigError` that says which of ``rpc_urls`` is wrong by its position, without quoting it.
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
    given = _parse_headers(headers or {}, endpoints)
    for endpoint in endpoints:
        endpoint.headers = given.get(endpoint.url.host, {}) | given.get(endpoint.url.netloc.decode("ascii"), {})
    return endpoints


def _parse_headers(headers: RpcHeaders, endpoints: Sequence[Endpoint]) -> dict[str, dict[str, str]]:
    """The headers by host, or host and port. Raises `ConfigError`, which quotes neither a name nor a value."""
    hosts = {each.url.host for each in endpoints}
    places = hosts | {each.url.netloc.decode("ascii") for each in endpoints}
    by_place: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        if isinstance(value, str):
            if len(hosts) > 1:
                raise ConfigError(
                    "network.rpc_headers: the rpc_urls have several hosts, and a key of one is no business of another: "
                    'say for which host each header is, as {"rpc.example.org": {"NAME": "VALUE"}}'
                )
            by_place.setdefault(next(iter(hosts)), {})[name] = value
        elif name.lower() in places:
            by_place.setdefault(name.lower(), {}).update(value)
        else:
            raise ConfigError("network.rpc_headers has headers for a host that is not in rpc_urls; correct one of them")
    for each in by_place.values():
        for name, value in each.items():
            if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
                raise ConfigError(
                    "network.rpc_headers: a name is not that of a header that can be given; accepted are letters, "
                    f"digits and '-', and none of {', '.join(sorted(_OWN_HEADERS))}"
                )
            if not _HEADER_VALUE.fullmatch(value):
                raise ConfigError(
                    "network.rpc_headers: a value cannot be sent; accepted are 1 to 4096 visible ASCII characters, "
                    "with spaces between them"
                )
    return by_place


def _parse(text: str, name: str) -> httpx.URL:
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


UNUSABLE: Final = "unusable answer"
"""The name of a failure: not JSON, not as documented, or contradicting itself."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed request.

    ``name`` is what the report counts by, such as ``timeout``, ``http 503`` or ``rpc -32603``. ``text`` says it in
    words: our own, or an RPC's message, which must be cleaned before it is shown. ``code`` is an HTTP status or a
    JSON-RPC code. ``lasting`` failures will not go away within one call; those of the request rather than its endpoint
    are not to ``blame`` on it for later calls. It is not to be asked again for ``retry_after_s``. It takes at most
    ``most_keys`` in a request, where that was what was wrong.
    """

    name: str
    text: str
    code: int | None = None
    lasting: bool = False
    blame: bool = True
    retry_after_s: float | None = None
    most_keys: int | None = None


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


def http_client(
    endpoints: Sequence[Endpoint], limits: RpcLimits, transport: httpx.AsyncBaseTransport | None
) -> httpx.AsyncClient:
    """A client for `post`. Raises `ConfigError` for settings of the environment that it cannot be made with."""
    pool = httpx.Limits(max_connections=limits.max_in_flight)
    if transport is not None:
        return httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, limits=pool)
    return httpx.AsyncClient(follow_redirects=False, **http_options((each.url for each in endpoints), pool))


async def post(
    client: httpx.AsyncClient, endpoint: Endpoint, body: bytes, timeout_s: float, limits: RpcLimits
) -> bytes:
    """The body of the answer to ``body``. Raises `AttemptError` for anything but HTTP 200 within the bounds."""
    headers = {**_HEADERS, **endpoint.headers}
    timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S))
    content = b""
    # The AttemptError is raised outside of the except blocks: an exception of httpx holds the request with its
    # URL, and must not go along as the context of ours.
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
