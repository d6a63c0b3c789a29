"""A job over a made-up store, for tests of a single step."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

from exporter.console import Console
from exporter.job.run_log import RunLog
from exporter.job.sources import RpcEndpoints
from exporter.job.steps.job import Job
from exporter.stores.store import Clock, Store
from tests.job_runs import NOW, settings_for


class MadeJob(NamedTuple):
    """A job, and what it prints."""

    job: Job
    said: io.StringIO

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the report."""
        return dict(self.job.log.facts)


def made_job(store: Store, *, replaced_ledger: int | None = None, now: Clock = lambda: NOW, **flags: Any) -> MadeJob:
    """The job of a run with these settings, whose output is the store."""
    said = io.StringIO()
    log = RunLog(None, Console("text", said))
    return MadeJob(Job(settings_for(**flags), store, log, RpcEndpoints(), replaced_ledger, now), said)
