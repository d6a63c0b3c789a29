"""How the embedded RPC server behaves on demand: nodes that lag, failures, latency, ledgers that close while one reads.

A `Behaviour` belongs to one server. It may be changed while the server runs, also from another thread.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from exporter.localnet.network import LocalNetwork

_MAX_CALLS_LOGGED = 100_000
_MAX_CATCH_UP_SECONDS = 0.5

SNAPSHOT_NOT_FOUND = "could not query captive core: http request failed with non-200 status code (404)"
"""The one text for duplicate keys and for a snapshot that is gone or not there yet."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One way to fail: a JSON-RPC error of one call, or an HTTP response that replaces a whole request's.

    Made by the class methods. ``code`` and ``message`` are those of the JSON-RPC error, ``status``, ``body`` and
    ``retry_after`` those of the HTTP response.
    """

    name: str
    code: int | None = None
    message: str = ""
    status: int = 200
    body: bytes = b""
    retry_after: str | None = None

    @classmethod
    def rpc(cls, code: int = -32603, message: str = SNAPSHOT_NOT_FOUND) -> Failure:
        """A JSON-RPC error, with HTTP status 200."""
        return cls(f"error {code}", code=code, message=message)

    @classmethod
    def http(cls, status: int = 503, retry_after: str | None = None, body: bytes = b"") -> Failure:
        """An HTTP status; ``retry_after`` is sent as the header of that name."""
        return cls(f"HTTP {status}", status=status, retry_after=retry_after, body=body)

    @classmethod
    def garbage(cls, body: bytes = b"<html><body>upstream error</body></html>") -> Failure:
        """Status 200 with a body that is not the answer."""
        return cls("garbage", body=body)


@dataclass(frozen=True, slots=True)
class Call:
    """One JSON-RPC call as the server saw it.

    ``outcome`` is ``ok``, ``error CODE``, ``trap`` or the name of a `Failure`.
    """

    node: int
    method: str
    outcome: str


@dataclass(slots=True)
class _Planned:
    failure: Failure
    times: int
    method: str | None
    node: int | None


class Behaviour:
    """The behaviour of a server; by default one node answers at once, and the chain does not move.

    * ``lags``: one node for each number, that many ledgers behind the chain. ``/node/N`` is node N; every other path
      is a balanced endpoint that goes round the nodes, so its latest ledger goes backwards when the lags differ.
    * ``latency``: seconds before a request is looked at.
    * ``fail_rate``: the share of requests that fail, half with HTTP 503, half with error -32603; from ``seed``.
    * ``advance_every_requests``: the chain closes a ledger each time this many calls were made.
    * ``advance_every_seconds``: and one each time this many seconds have passed.

    ``calls`` is the log, newest last, of a bounded length; ``counts`` counts all calls by method.
    """

    def __init__(
        self,
        *,
        lags: tuple[int, ...] = (0,),
        latency: float = 0.0,
        fail_rate: float = 0.0,
        advance_every_requests: int | None = None,
        advance_every_seconds: float | None = None,
        seed: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not lags or min(lags) < 0:
            raise ValueError("there must be a node, and no node can be ahead of the chain")
        self.lags = lags
        self.latency = latency
        self.fail_rate = fail_rate
        self.advance_every_requests = advance_every_requests
        self.advance_every_seconds = advance_every_seconds
        self.calls: deque[Call] = deque(maxlen=_MAX_CALLS_LOGGED)
        self.counts: Counter[str] = Counter()
        self._clock = clock
        self._random = Random(seed)
        self._planned: list[_Planned] = []
        self._next_node = 0
        self._answered = 0
        self._closed_at: float | None = None

    def fail_next(
        self, failure: Failure, times: int = 1, *, method: str | None = None, node: int | None = None
    ) -> None:
        """Let the next ``times`` calls (of one method, of one node) fail; several plans are used up in order."""
        self._planned.append(_Planned(failure, times, method, node))

    def balance(self) -> int:
        """The node that the next request to the balanced endpoint goes to."""
        node = self._next_node % len(self.lags)
        self._next_node += 1
        return node

    def ledger_of(self, node: int, network: LocalNetwork) -> int:
        """The latest ledger of a node, now."""
        return max(network.chain.latest - self.lags[node], network.chain.oldest)

    def failure_of(self, method: str, node: int) -> Failure | None:
        """How the call that comes now is to fail, if it is."""
        for plan in self._planned:
            if plan.times > 0 and plan.method in (None, method) and plan.node in (None, node):
                plan.times -= 1
                if plan.times == 0:
                    self._planned.remove(plan)
                return plan.failure
        if self.fail_rate and self._random.random() < self.fail_rate:
            return Failure.http(503) if self._random.randrange(2) else Failure.rpc()
        return None

    def record(self, call: Call) -> None:
        """Log a call that was answered."""
        self.calls.append(call)
        self.counts[call.method] += 1

    def before_request(self, network: LocalNetwork) -> None:
        """Close the ledgers that the wall clock says have closed since the request before.

        A network that is to close them faster than this machine can, or that nobody asked for long, closes as many as
        it can in half a second, and the others never: a request waits no longer, nor does the signal to stop.
        """
        seconds = self.advance_every_seconds
        if seconds is None:
            return
        now = self._clock()
        if self._closed_at is None:
            self._closed_at = now
        due = int((now - self._closed_at) / seconds)
        self._closed_at += due * seconds
        for _ in range(due):
            network.advance()
            if self._clock() - now > _MAX_CATCH_UP_SECONDS:
                self._closed_at = self._clock()
                break

    def after_call(self, network: LocalNetwork) -> None:
        """Close a ledger where the number of calls says so."""
        self._answered += 1
        if self.advance_every_requests and self._answered % self.advance_every_requests == 0:
            network.advance()
