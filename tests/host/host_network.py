"""The real host behind what answers calls elsewhere: a ledger snapshot file."""

from __future__ import annotations

from exporter.ledger.codec.entries import ARCHIVED
from exporter.ledger.snapshot_file import LedgerSnapshot, SnapshotSource
from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer
from exporter.localnet.network import Simulation
from exporter.protocols import storage_answers
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
