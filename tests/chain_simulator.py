"""A simulated chain, and a `LedgerSource` over it whose nodes lag, jump back, and advance the chain as they answer.

The simulator keeps every version of every entry, so a test can ask what the chain's true state was at any
ledger and compare. It logs its requests. Nothing here shares code with the view under test.

    chain = Chain(first_ledger=100)
    chain.put(b"a", b"1")                      # in the next ledger to close
    chain.close_ledger()
    source = ChainSource(chain, requests_per_ledger=3)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from exporter.ledger.codec.scval_encode import encode_scval, i128
from exporter.ledger.source import ContractCall, EntriesAnswer, RawEntry, SimulationAnswer

Version = tuple[int, bytes | None, int | None, bool]  # ledger, data or None when deleted, live until, temporary


@dataclass
class Chain:
    """Entries by key, with all their versions."""

    first_ledger: int = 100
    versions: dict[bytes, list[Version]] = field(default_factory=dict)
    functions: dict[str, Callable[[Reader], bytes | None]] = field(default_factory=dict)
    on_close: Callable[[Chain], None] | None = None

    def __post_init__(self) -> None:
        self.ledger = self.first_ledger

    def put(self, key: bytes, data: bytes | None, live_until: int | None = None, temporary: bool = False) -> None:
        """Write (or with None delete) an entry in the ledger that is open: it shows once that has closed."""
        self.versions.setdefault(key, []).append((self.ledger + 1, data, live_until, temporary))

    def close_ledger(self) -> None:
        if self.on_close is not None:
            self.on_close(self)
        self.ledger += 1

    def at(self, key: bytes, ledger: int) -> RawEntry | None:
        """The entry after ``ledger`` closed, by the network's rules of liveness."""
        found = next((version for version in reversed(self.versions.get(key, ())) if version[0] <= ledger), None)
        if found is None:
            return None
        changed, data, live_until, temporary = found
        if data is None:
            return None
        if live_until is not None and live_until < ledger:
            return None if temporary else RawEntry(data, changed, 0)
        return RawEntry(data, changed, live_until)


@dataclass
class Reader:
    """Reads entries for a contract function of the simulated chain, and records the footprint."""

    chain: Chain
    ledger: int
    footprint: dict[bytes, None] = field(default_factory=dict)

    def get(self, key: bytes) -> bytes | None:
        self.footprint[key] = None
        entry = self.chain.at(key, self.ledger)
        return None if entry is None else entry.data


@dataclass
class ChainSource:
    """A source with several nodes over one chain, a seeded schedule, and few keys a request."""

    chain: Chain
    requests_per_ledger: int | None = None
    keys_per_request: int = 200
    lags: Sequence[int] = (0,)
    seed: int = 0
    close_probability: float = 0.0
    log: list[tuple[str, int, int]] = field(default_factory=list)  # kind, keys, ledger

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def _answering_ledger(self) -> int:
        if self.requests_per_ledger and len(self.log) % self.requests_per_ledger == self.requests_per_ledger - 1:
            self.chain.close_ledger()
        if self._random.random() < self.close_probability:
            self.chain.close_ledger()
        return max(self.chain.first_ledger, self.chain.ledger - self._random.choice(self.lags))

    async def tip(self) -> int:
        return self.chain.ledger

    async def close_time(self, ledger: int) -> int:
        return ledger * 5

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        """One answer for each ``keys_per_request`` keys, each at the ledger of the node that is asked."""
        answers = []
        wanted = list(dict.fromkeys(keys))
        for start in range(0, len(wanted), self.keys_per_request):
            asked = tuple(wanted[start : start + self.keys_per_request])
            ledger = self._answering_ledger()
            found = {key: entry for key in asked if (entry := self.chain.at(key, ledger)) is not None}
            self.log.append(("entries", len(asked), ledger))
            answers.append(EntriesAnswer(ledger, asked, found, "simulated"))
        return answers

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        """Run a function of the chain at the ledger of the node that is asked."""
        ledger = self._answering_ledger()
        self.log.append(("call", 0, ledger))
        reader = Reader(self.chain, ledger)
        result = self.chain.functions[call.function](reader)
        if result is None:
            return SimulationAnswer(ledger, None, "HostError: trapped", (), "simulated")
        return SimulationAnswer(ledger, result, None, tuple(reader.footprint), "simulated")


def number_result(value: int) -> bytes:
    return encode_scval(i128(value))
