"""The bounds an RPC client keeps to, and the clock and chance it keeps them with.

Nothing here imports the HTTP client, so that configuration code can name the limits at no cost.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from exporter.errors import ConfigError
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
    """Bounds on everything an `exporter.ledger.rpc.RpcSource` does.

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
    max_request_bytes: int = 512 * 1024  # bytes of one request body; the RPC's own limit (facts/stellar-rpc.md 1.5)
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
