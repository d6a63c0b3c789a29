"""What all steps of a run share."""

from __future__ import annotations

from msgspec import Struct

from exporter.config import Settings
from exporter.deployments.networks import network_of
from exporter.job.run_log import RunLog
from exporter.job.sources import Source
from exporter.stores.store import Clock, Store


class Job(Struct, frozen=True):
    """The settings, places and clock of one run, which its steps share.

    Attributes:
        settings: what to read, and what to publish.
        store: the output. Each document is read once.
        log: gets the facts for the report, and prints messages.
        source: what the run reads from.
        replaced_ledger: the ledger of a published run that is wrong, and that this run undoes; None for other runs.
        now: tells the time.
    """

    settings: Settings
    store: Store
    log: RunLog
    source: Source
    replaced_ledger: int | None
    now: Clock

    @property
    def judges_clocks(self) -> bool:
        """Whether ledgers close about now by this machine's clock, as those of files and local networks do not."""
        return self.source.live and not network_of(self.settings.passphrase).simulated
