"""RPC endpoints: the bounds that a client of them keeps to, their URLs, and what is known of each."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import httpx

from exporter.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcLimits:
    """Bounds on everything an `exporter.ledger.rpc.client.RpcSource` does.

    A *call* is one logical question: one of the source's methods, or one batch of keys of ``read_entries``. It may
    take several HTTP requests, at most ``attempts`` to each endpoint.

    Raises `ConfigError` for a rate at which calls could not begin within their deadline.
    """

    max_in_flight: int = 4  # calls worked on at once; each has at most one HTTP request under way
    requests_per_second: float = 8.0  # to each endpoint; requests are spaced evenly
    request_timeout_s: float = 30.0  # seconds for one HTTP request, from connecting to the last byte
    attempts: int = 4  # tries at each endpoint in one call
    total_deadline_s: float = 120.0  # seconds for one call from its turn on, waits included
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


MAX_ENDPOINTS: Final = 16
MAX_URL_LENGTH: Final = 2_048
_HOST_NAME: Final = re.compile(r"[a-z0-9._-]{1,253}", re.ASCII)


@dataclass(eq=False, repr=False)
class Endpoint:
    """One RPC endpoint and what is known of it. Its ``repr`` is its label; the URL shows up nowhere."""

    position: int
    url: httpx.URL
    label: str
    failing: bool = False
    held_until: float = 0.0  # not asked at all until then (on the client's clock): it demanded so
    next_slot: float = 0.0  # when the next request may start, by the rate
    is_checked: bool = False  # it serves the configured network
    checking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __repr__(self) -> str:
        return f"Endpoint({self.label})"

    def reserve(self, now: float, requests_per_second: float) -> float:
        """Take the next free slot of the rate; returns the seconds to wait for it."""
        slot = max(now, self.next_slot, self.held_until)
        self.next_slot = slot + 1 / requests_per_second
        return slot - now


def parse_endpoints(rpc_urls: Sequence[str]) -> list[Endpoint]:
    """Check RPC URLs and name them: by host and port, with ``#1``, ``#2`` ... where several share these.

    Raises `ConfigError` that says which of ``rpc_urls`` is wrong by its position, without quoting it.
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
    return endpoints


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine itself."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
