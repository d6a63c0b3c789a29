"""``scripts/test-host --judge``: our numbers against the contracts whose code is in a ledger snapshot file.

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
from exporter.ledger.snapshot_file import LedgerSnapshot, SnapshotSource
from tests.host.host_network import HostSource
from tests.host.machine import Machine


class HostedLedger(StoredLedger):
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
