"""``scripts/test-host --judge``: our numbers against the contracts whose code is in a ledger snapshot file.

As ``exporter check --on-chain`` does it, but the views are run here, by the official contract host, and no network is
asked anything. The file's contracts are those that are read. In place of a file, the folder of a history archive gives
its newest checkpoint.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from exporter.cli import main
from exporter.config import Settings
from exporter.job import sources
from exporter.job.sources import OnRequest, OpenSource, StoredLedger, ignore_requests
from exporter.ledger.snapshot_file import LedgerSnapshot, SnapshotSource
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from tests.host.host_network import HostSource
from tests.host.machine import Machine
from tests.past.archive.archive_snapshot import archive_snapshot
from tests.snapshot_files import write_snapshot


class HostedLedger(StoredLedger):
    """A ledger snapshot file whose contracts the host runs."""

    @asynccontextmanager
    async def open(self, settings: Settings, on_request: OnRequest = ignore_requests) -> AsyncIterator[OpenSource]:
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


def newest_protocol(archive: HistoryArchive) -> int:
    """The protocol of an archive's newest checkpoint."""
    return archive.headers(archive.newest())[-1].protocol_version


def judge(snapshot: Path, arguments: list[str]) -> None:
    """Check the file; ends the program as the command does."""
    vars(sources)["StoredLedger"] = HostedLedger  # the command takes it from there
    sys.argv = ["exporter", "check", "--on-chain", "--snapshot", str(snapshot), *arguments]
    main()


if __name__ == "__main__":
    only_protocol = sys.argv[1] == "--protocol"
    named, more = Path(sys.argv[2 if only_protocol else 1]), sys.argv[2:]
    archive = HistoryArchive(FolderFiles(named)) if named.is_dir() else None
    if only_protocol:
        print(LedgerSnapshot.load(named).protocol_version if archive is None else newest_protocol(archive))
        sys.exit()
    if archive is None:
        judge(named, more)
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"checkpoint-{archive.newest()}.json"
        write_snapshot(archive_snapshot(archive, archive.newest()), path)
        judge(path, more)
