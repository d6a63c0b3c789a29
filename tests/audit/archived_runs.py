"""Runs of a moving market from history archives alone: one for each checkpoint, ten minutes apart."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey

from exporter.config import load
from exporter.localnet.player import RecordedNetwork
from exporter.past.archive_source import FromArchive
from tests.job.recorded_archive import records_of
from tests.job_runs import run
from tests.localnet.recorded import BLEND_V2, pools_of
from tests.past.archive.simulated_archive import ORGANISATIONS, PASSPHRASE, SimulatedArchive, trust_document

FIRST = 127
APART_SECONDS = 600
BEGAN = 1_700_000_000
"""The close time of the first checkpoint."""


class ArchivedRuns:
    """Makes the archive of each checkpoint when it is first asked for. Its market has four pools."""

    def __init__(self, folder: Path, stranger: SigningKey | None = None) -> None:
        """``stranger`` is a validator that all others trust, and the list of trust lacks."""
        self._stranger = stranger
        self._folder, self.trust = folder, folder / "trust.json"
        self.trust.write_bytes(trust_document(ORGANISATIONS))
        self._network = RecordedNetwork(start_ledger=64, start_time=BEGAN, close_seconds=1)
        self._network.pools = pools_of(self._network, BLEND_V2)

    @property
    def archives(self) -> list[str]:
        return sorted(str(path) for path in self._folder.glob("archive-*"))

    def archive(self, number: int) -> Path:
        """The archive of a checkpoint (0, 1, ...); to be asked for in ascending order."""
        ledger, archive = FIRST + 64 * number, self._folder / f"archive-{number:03}"
        if not archive.exists():
            while self._network.chain.latest < ledger:
                self._network.advance()
            records = records_of(self._network.chain.state(ledger))
            time = BEGAN + APART_SECONDS * number - ledger
            made = SimulatedArchive(archive, [records], hot=[[]], version=25, kind=3, checkpoint=ledger, time=time)
            if self._stranger is not None:
                made.sign_trusting(self._stranger)
        return archive

    def publish(self, out: Path, number: int, **flags: Any) -> None:
        """Publish the run of a checkpoint into a folder, a minute after it closed; in ascending order."""
        ledger, closed, archive = FIRST + 64 * number, BEGAN + APART_SECONDS * number, self.archive(number)
        values = {
            "network.passphrase": PASSPHRASE,
            "output.uri": str(out),
            "output.page_sizes": [1, 50],
            "markets": [{"protocol": "blend", "address": BLEND_V2}],
            **{name.replace("__", "."): value for name, value in flags.items()},
        }
        run(
            load(None, values, environment={}).settings,
            now=datetime.fromtimestamp(closed + 60, UTC),
            archive=FromArchive((str(archive),), ledger, self.trust, self._folder / "kept"),
        )
