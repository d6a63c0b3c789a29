"""What an RPC client did: counters for the run report, and one event for each request.

Nothing here holds a URL: endpoints go by their label, messages have been cleaned.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any


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
