"""A ledger source over an embedded network, in the process and without a server between."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.ledger.source import ContractCall, EntriesAnswer, SimulationAnswer
from exporter.localnet.network import LocalNetwork


class DirectSource:
    """The chain of a network at its latest ledger; with ``moving`` the network closes a ledger after each answer."""

    def __init__(self, network: LocalNetwork, moving: bool = False) -> None:
        self.network = network
        self.moving = moving

    def _answered(self) -> None:
        if self.moving:
            self.network.advance()

    async def tip(self) -> int:
        return self.network.chain.latest

    async def close_time(self, ledger: int) -> int:
        return self.network.chain.close_time(ledger)

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        chain = self.network.chain
        found = {key: entry for key in keys if (entry := chain.entry(key, chain.latest)) is not None}
        answer = EntriesAnswer(chain.latest, tuple(keys), found, "direct")
        self._answered()
        return [answer]

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        chain = self.network.chain
        simulation = self.network.contracts.simulate(chain, chain.latest, call)
        footprint = tuple(simulation.footprint)
        answer = SimulationAnswer(chain.latest, simulation.result, simulation.error, footprint, "direct")
        self._answered()
        return answer
