"""Publishers in processes of their own, which a test can really kill.

They are forked from a server that has everything imported, so that one costs little more than its publishing does.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from multiprocessing.context import ForkServerContext, ForkServerProcess
from threading import Event

from exporter.errors import ExporterError
from exporter.publishing.retention import CACHE_MARGIN, sweep
from exporter.stores import open_store
from exporter.stores.s3_client import S3Options
from exporter.stores.s3_store import S3Store
from exporter.stores.store import Store, utc_now
from tests.publishing.published_tree import publish, status_of
from tests.s3.reader import run_at

EXIT_SWEEP_REFUSED = 60
EXIT_BUG = 70
"""Something was raised that is not an ExporterError."""

KILLED = (-9, 255)
"""What the exit code of a killed process may be: sometimes the fork server does not know the signal."""

LONGEST = 60.0
"""Seconds that a publisher may take; after them it is ended, and its test fails."""


@dataclass(frozen=True)
class Job:
    """What a publisher is to do: publish a made-up run, or sweep (ledger 0) with a retention time in seconds."""

    uri: str
    environment: Mapping[str, str]
    ledger: int
    retention: float = 0.0
    options: S3Options | None = None
    """Bounds that differ from the usual ones."""
    ahead: float = 0.0
    """Seconds by which its clock is ahead of the real time, as that of a simulated bucket may be."""

    def run(self) -> int:
        """Do it in this process; gives the exit code."""
        store: Store = open_store(self.uri)
        if self.options is not None:
            bucket, _, prefix = self.uri.removeprefix("s3://").partition("/")
            store = S3Store(bucket, prefix, options=self.options)
        if self.ledger == 0:
            return self._sweep(store)
        run = run_at(self.ledger)
        publish(store, run.files, status_of, observed_ledger=run.ledger, history=run.history, now=self._now)
        return 0

    def _now(self) -> datetime:
        return utc_now() + timedelta(seconds=self.ahead)

    def _sweep(self, store: Store) -> int:
        refused = sweep(store, timedelta(seconds=self.retention) - CACHE_MARGIN, now=self._now).refused
        return 0 if refused is None else EXIT_SWEEP_REFUSED


def _main(job: Job) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(job.environment)
    try:
        code = job.run()
    except ExporterError as error:
        code = error.exit_code
    except Exception:
        traceback.print_exc()
        code = EXIT_BUG
    sys.stdout.flush()
    os._exit(code)  # as a process that is done; its threads and connections are not waited for


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.s3.publishers", "boto3", "exporter.stores.s3_client"])
    return context


class Publisher:
    """One publisher's process."""

    def __init__(self, job: Job) -> None:
        self._process: ForkServerProcess = _context().Process(target=_main, args=(job,), daemon=True)
        self._started = Event()

    def start(self) -> Publisher:
        """Begin."""
        self._process.start()
        self._started.set()
        return self

    def kill(self) -> None:
        """End it with SIGKILL, as soon as it has started."""
        self._started.wait(LONGEST)
        self._process.kill()

    def join(self, seconds: float = LONGEST) -> int:
        """Wait for the end; gives the exit code, negative for a signal.

        Raises TimeoutError when there is no end; the process is killed then.
        """
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            self._process.join(10)
        self._process.close()
        if code is None:
            raise TimeoutError(f"a publisher did not end within {seconds:.0f} s")
        return code


def run_job(job: Job, prepare: Callable[[Publisher], None] = lambda _: None) -> int:
    """Run a job in a process of its own; gives its exit code."""
    publisher = Publisher(job)
    prepare(publisher)
    return publisher.start().join()
