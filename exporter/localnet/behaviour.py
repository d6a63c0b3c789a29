"""How the embedded RPC server behaves on demand; it may be changed while the server runs, also by another thread."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from random import Random

from exporter.localnet.network import LocalNetwork
from exporter.localnet.rpc import INTERNAL_ERROR, SNAPSHOT_NOT_FOUND, RpcError

_MAX_CATCH_UP_SECONDS = 0.5


class UnavailableError(Exception):
    """A request ends with HTTP 503 and without a body."""


@dataclass
class Behaviour:
    """The behaviour of a server; by default one node answers at once, and the chain does not move.

    * ``lags``: one node for each number, that many ledgers behind the chain. ``/node/N`` is node N; ``/`` goes round
      the nodes, so its latest ledger goes backwards when the lags differ.
    * ``latency``: seconds before a request is looked at.
    * ``fail_rate``: the share of requests that fail, half with HTTP 503, half with error -32603; from ``seed``.
    * ``advance_every_requests``: the chain closes a ledger each time this many calls were made.
    * ``advance_every_seconds``: and one each time this many seconds have passed.
    * ``broken``: the error that every call of a method gets at a node.

    ``counts`` counts all calls by method.
    """

    lags: tuple[int, ...] = (0,)
    latency: float = 0.0
    fail_rate: float = 0.0
    advance_every_requests: int | None = None
    advance_every_seconds: float | None = None
    seed: InitVar[int] = 1
    clock: Callable[[], float] = time.monotonic
    broken: dict[tuple[str, int], RpcError] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    _next_node: int = 0
    _closed_at: float | None = None

    def __post_init__(self, seed: int) -> None:
        if not self.lags or min(self.lags) < 0:
            raise ValueError("there must be a node, and no node can be ahead of the chain")
        self._random = Random(seed)

    def balance(self) -> int:
        node = self._next_node % len(self.lags)
        self._next_node += 1
        return node

    def ledger_of(self, node: int, network: LocalNetwork) -> int:
        return max(network.chain.latest - self.lags[node], network.chain.oldest)

    def fail(self, method: str, node: int) -> None:
        if error := self.broken.get((method, node)):
            raise error
        if self.fail_rate and self._random.random() < self.fail_rate:
            raise UnavailableError if self._random.randrange(2) else RpcError(INTERNAL_ERROR, SNAPSHOT_NOT_FOUND)

    def before_request(self, network: LocalNetwork) -> None:
        """Close the ledgers that the wall clock says have closed since the last request, for half a second at most."""
        seconds = self.advance_every_seconds
        if seconds is None:
            return
        now = self.clock()
        if self._closed_at is None:
            self._closed_at = now
        due = int((now - self._closed_at) / seconds)
        self._closed_at += due * seconds
        for _ in range(due):
            network.advance()
            if self.clock() - now > _MAX_CATCH_UP_SECONDS:
                self._closed_at = self.clock()
                break

    def after_call(self, method: str, network: LocalNetwork) -> None:
        self.counts[method] += 1
        if self.advance_every_requests and self.counts.total() % self.advance_every_requests == 0:
            network.advance()
