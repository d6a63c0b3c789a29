"""The stand-in code of the embedded network, run on entries that were replayed: what rules are for real contracts."""

from __future__ import annotations

from collections.abc import Callable

from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer
from exporter.localnet.chain import LedgerState
from exporter.localnet.network import CODE


class StandInAnswers(LedgerState):
    """Answers calls at one ledger as the embedded server does (`exporter.ledger.stored_source.Answers`)."""

    def __init__(self, read: Callable[[bytes], RawEntry | None], ledger: int, close_time: int) -> None:
        """Args: what gives the entry under a key; of which ledger; and when that closed."""
        self._read, self._ledger, self._close_time = read, ledger, close_time

    def entry(self, key: bytes, ledger: int) -> RawEntry | None:  # noqa: ARG002 - there is only one
        """The entry as a reader at the ledger sees it."""
        return self._read(key)

    def close_time(self, ledger: int) -> int:  # noqa: ARG002 - as above
        """When the ledger closed."""
        return self._close_time

    def answer(self, call: ContractCall) -> SimulationAnswer:
        """What the contract's stand-in gives."""
        done = CODE.simulate(self, self._ledger, call)
        return SimulationAnswer(self._ledger, done.result, done.error, tuple(done.footprint), "stand-ins")
