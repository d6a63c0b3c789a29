"""The real host behind what answers calls elsewhere: a ledger snapshot file, and the embedded network."""

from __future__ import annotations

import threading
from dataclasses import replace

from exporter.ledger.codec.entries import ARCHIVED
from exporter.ledger.snapshot_file import LedgerSnapshot, SnapshotSource
from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer
from exporter.localnet.chain import Chain, Change
from exporter.localnet.network import LocalNetwork, Simulation
from exporter.protocols import storage_answers
from tests.host.blend_world import Player, World
from tests.host.machine import LedgerInfo, Machine


def simulated(machine: Machine, call: ContractCall) -> Simulation:
    """Simulate a call as an RPC server does: with recorded authorisation, and what is archived restored on the way.

    The log of an error is left empty, as the servers' may be.
    """
    outcome = machine.call(call.contract, call.function, *call.arguments, authorised=True, restore=True)
    error = None if outcome.error is None else f"HostError: {outcome.error}\n\nEvent log (newest first):\n"
    archived = RawEntry(b"", 0, ARCHIVED)
    footprint = {key: archived if key in outcome.restored else None for key in outcome.footprint}
    return Simulation(outcome.raw_result, error, footprint, outcome.read_write)


def load_snapshot(machine: Machine, snapshot: LedgerSnapshot) -> None:
    """Give a host what a snapshot file holds, and put it at the file's ledger.

    The ledger's protocol is taken for the host's, whatever it is. Contracts run alike in all, except for what they
    cost; those that were built for a later one are refused when they are called.
    """
    machine.put(dict(snapshot.entries))
    machine.at(LedgerInfo(snapshot.ledger, snapshot.close_time, snapshot.network_id, machine.protocol))


class HostSource(SnapshotSource):
    """A ledger snapshot file whose contracts can be called, as far as their code is in it."""

    def __init__(self, snapshot: LedgerSnapshot, machine: Machine) -> None:
        super().__init__(snapshot, storage_answers)
        self._machine = machine
        load_snapshot(machine, snapshot)

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        found = simulated(self._machine, call)
        footprint = () if found.error else tuple(found.footprint)
        return SimulationAnswer(self.snapshot.ledger, found.result, found.error, footprint, self.label)


class MovingNetwork(LocalNetwork):
    """The embedded network over the market of `World`: each ledger that closes holds one real transaction.

    The host runs the code; it remembers the entries of each ledger, and its own count, not the chain's.
    """

    def __init__(self, world: World, passphrase: str, seed: int) -> None:
        world.restart()
        self._world, self._player = world, Player(world, seed)
        self._infos: dict[int, LedgerInfo] = {}
        self._lock = threading.RLock()
        self._remember()
        self.done = 0
        chain = Chain(world.entries, start_ledger=world.info.ledger, start_time=world.info.close_time)
        super().__init__(chain, passphrase, world.info.protocol_version, self)

    def _remember(self) -> None:
        self._world.machine.mark(str(self._world.info.ledger))
        self._infos[self._world.info.ledger] = self._world.info

    def simulate(self, chain: Chain, ledger: int, call: ContractCall) -> Simulation:
        """What the host gives for a call at a ledger that it remembers."""
        with self._lock:
            self._world.machine.back(str(ledger))
            self._world.machine.at(self._infos[ledger])
            return simulated(self._world.machine, call)

    def advance(self) -> int:
        """Close the next ledger, with the next transaction of the player in it."""
        world = self._world
        with self._lock:
            world.machine.back(str(self.chain.latest))
            before = dict(world.entries)
            outcome = world.transact(replace(self._player.step(), ledgers=1))
            self.done += outcome.error is None
            self._remember()
            written = [
                Change(key, entry.data, entry.live_until)
                for key, entry in world.entries.items()
                if before.get(key) is not entry
            ]
            gone = [Change(key, None) for key in before.keys() - world.entries.keys()]
            return self.chain.close(written + gone, close_time=world.info.close_time)
