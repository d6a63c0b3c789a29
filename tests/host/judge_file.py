"""``scripts/suite host --judge``: our numbers against the contracts whose code is in a ledger snapshot file.

As ``exporter check --on-chain`` does it, but the official contract host runs the views, and no network is asked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from exporter.cli import main
from exporter.config import Settings
from exporter.job import sources
from exporter.job.sources import OnRequest, OpenSource, StoredLedger
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
    return Simulation(outcome.raw_result, error, footprint)


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


class HostedLedger(StoredLedger, frozen=True):
    """A ledger snapshot file whose contracts the host runs."""

    @asynccontextmanager
    async def open(self, settings: Settings, on_request: OnRequest = lambda: None) -> AsyncIterator[OpenSource]:
        """See `exporter.job.sources.Source`."""
        async with StoredLedger(self.path).open(settings, on_request) as opened:
            assert isinstance(opened.source, SnapshotSource)
            protocol = opened.source.snapshot.protocol_version
            with Machine(Path(os.environ["CONTRACT_HOST"])) as machine:
                if protocol != machine.protocol:
                    print(
                        f"the snapshot is of protocol {protocol}; its contracts are run as in protocol "
                        f"{machine.protocol}",
                        file=sys.stderr,
                    )
                opened.source = HostSource(opened.source.snapshot, machine)
                yield opened


if __name__ == "__main__":
    if sys.argv[1] == "--protocol":
        print(LedgerSnapshot.load(Path(sys.argv[2])).protocol_version)
        sys.exit()
    vars(sources)["StoredLedger"] = HostedLedger  # the command takes it from there
    sys.argv = ["exporter", "check", "--on-chain", "--snapshot", *sys.argv[1:]]
    main()
