"""The failures of docs/failures.md, "The drill": how each is produced, and what a run says then."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import Struct

from exporter.console import Console
from exporter.errors import ExporterError
from exporter.job.run_log import RunLog
from exporter.localnet.player import DEFAULT_START_LEDGER, RecordedNetwork
from exporter.localnet.server import create_app, running
from exporter.stores import open_store
from exporter.stores.folder import write_file
from tests.job_runs import NOW, leaving_out_pages, run, settings_for
from tests.made_once import once
from tests.s3.wire_bucket import Answer, WireBucket

PAGE = (Path(__file__).parents[1] / "docs" / "failures.md").read_text(encoding="utf-8")
STATUS = "v1/system/status.json"
NOBODY = "http://127.0.0.1:9"
"""An RPC at which nothing listens."""

INTERVAL_MINUTES = 30


class Documented(NamedTuple):
    """What the page says about a failure: the exit code, a part of the message, and the alerts with their hours."""

    code: int
    message: str
    alerts: dict[str, float]


def documented() -> dict[str, Documented]:
    """The rows of the page's drill, by the failure."""
    rows = re.findall(
        r"^([^|\n]+) \| (\d+) \| `([^`]+)` \| ([^|\n]+)$", PAGE.partition("## The drill")[2], re.MULTILINE
    )
    return {
        name: Documented(
            int(code),
            message,
            {alert: float(hours) for alert, hours in re.findall(r"(Lending\w+) ([\d.]+) h", alerts)},
        )
        for name, code, message, alerts in rows
    }


class Drill(Struct, frozen=True):
    """A published tree, a network that has a later ledger, and the file of the run report."""

    out: Path
    url: str
    report: Path

    @property
    def metrics(self) -> Path:
        """The metrics that a run leaves for monitors next to its report."""
        return self.report.with_name(f"{self.report.name}.prom")

    def attempt(
        self, out: Path | str | None = None, url: str | None = None, *, now: datetime = NOW, **flags: Any
    ) -> tuple[int, str]:
        """The exit code of a run, and its message or what it said."""
        said = io.StringIO()
        log = RunLog(self.report, Console("text", said))
        flags = {"schedule__interval": f"{INTERVAL_MINUTES}m"} | flags
        settings = settings_for(None, url or self.url, output__uri=str(out or self.out), **flags)
        try:
            code, message = run(settings, now=now, report=log)[0], said.getvalue()
        except ExporterError as error:
            code, message = error.exit_code, str(error)
        log.finish(code, message)
        return code, message


@contextmanager
def published(folder: Path) -> Iterator[Drill]:
    """A tree in a folder that one run published, with its report."""
    network = RecordedNetwork()
    with running(create_app(network)) as url:
        drill = Drill(folder / "out", url, folder / "run-report.json")
        assert (0, "") == (drill.attempt()[0], "")
        network.advance()
        yield drill


def copied(drill: Drill, folder: Path) -> Drill:
    """A copy of the tree in another folder, for one failure."""
    shutil.copytree(drill.out, folder / "out")
    metrics = f"{drill.report.name}.prom"
    shutil.copy2(drill.report.with_name(metrics), folder / metrics)
    return Drill(folder / "out", drill.url, folder / drill.report.name)


def _edit(path: Path, **changes: object) -> None:
    path.write_bytes(msgspec.json.encode(msgspec.json.decode(path.read_bytes()) | changes))


def _locked(drill: Drill) -> tuple[int, str]:
    with open_store(str(drill.out)).exclusive():
        return drill.attempt()


def _below(drill: Drill) -> tuple[int, str]:
    with running(create_app(RecordedNetwork(start_ledger=DEFAULT_START_LEDGER + 20))) as later:
        drill.attempt(url=later)
    return drill.attempt()


def _older_history(drill: Drill) -> tuple[int, str]:
    """Put back the history's manifest from before the first run."""
    _edit(drill.out / "v1/history.json", observed_ledger=0, files=[])
    return drill.attempt()


def _unfinished(drill: Drill) -> tuple[int, str]:
    _edit(drill.out / "v1/system/intent.json", observed_ledger=4_000_000_000)
    return drill.attempt()


def _stale(drill: Drill) -> tuple[int, str]:
    """A day after its prices were written, the network closes a ledger without new ones."""
    network = RecordedNetwork(start_ledger=DEFAULT_START_LEDGER + 20, close_seconds=86_400)
    network.close()
    with running(create_app(network)) as later:
        return drill.attempt(url=later)


def _full(drill: Drill) -> tuple[int, str]:
    """The disk has room for some files of the run."""
    left = iter(range(20))

    def write(path: Path, data: bytes) -> None:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_file(path, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("exporter.stores.folder.write_file", write)
        return drill.attempt()


def _damaged(name: str) -> Callable[[Drill], tuple[int, str]]:
    def act(drill: Drill) -> tuple[int, str]:
        (drill.out / name).write_text("{")
        return drill.attempt()

    return act


def _without(pattern: str) -> Callable[[Drill], tuple[int, str]]:
    def act(drill: Drill) -> tuple[int, str]:
        for path in list(drill.out.glob(pattern)):
            path.unlink()
        return drill.attempt()

    return act


def _bucket(status: int, code: str) -> Callable[[Drill], tuple[int, str]]:
    def act(drill: Drill) -> tuple[int, str]:
        with WireBucket() as bucket, pytest.MonkeyPatch.context() as patch:
            for key, value in bucket.environment("drill").items():
                patch.setenv(key, value)
            bucket.disturb("drill", 0, Answer(status, code, writes=code == "QuotaExceeded"), more=200)
            return drill.attempt("s3://bucket/live")

    return act


FAILURES: dict[str, Callable[[Drill], tuple[int, str]]] = {
    "no RPC answers": lambda drill: drill.attempt(url=NOBODY),
    "the RPC is of another network": lambda drill: drill.attempt(drill.out / "new", network__passphrase="Other"),
    "the output is of another network": lambda drill: drill.attempt(url=NOBODY, network__passphrase="Other"),
    "the RPC is frozen, or the clock is wrong": lambda drill: drill.attempt(
        now=NOW + timedelta(days=1), network__max_ledger_age="15m"
    ),
    "the RPC is behind": _below,
    "another publisher is at work": _locked,
    "the status document is damaged": _damaged(STATUS),
    "a run at a later ledger did not finish": _unfinished,
    "the history's manifest is damaged": _damaged("v1/history.json"),
    "the history's manifest is missing": _without("v1/history.json"),
    "the history's manifest is older than the tree": _older_history,
    "a Parquet file of the history is missing": _without("history/pools/**/*.parquet"),
    "all oracles are stale": _stale,
    "the disk is full": _full,
    "the bucket denies writing": _bucket(403, "AccessDenied"),
    "the bucket is gone": _bucket(404, "NoSuchBucket"),
    "the bucket is full": _bucket(403, "QuotaExceeded"),
}


class Outcome(Struct, frozen=True):
    """How a run of the drill ended, and what it left.

    Attributes:
        code: the exit code.
        message: the message, or what the run said.
        status: the status document.
        metrics: the metrics that the run left next to its report.
        published_metrics: the metrics in the tree.
    """

    code: int
    message: str
    status: bytes
    metrics: str
    published_metrics: str


def outcome_of(drill: Drill, code: int, message: str) -> Outcome:
    """What a run left behind in the folders of a drill."""
    published_metrics = (drill.out / "metrics.txt").read_text()
    return Outcome(code, message, (drill.out / STATUS).read_bytes(), drill.metrics.read_text(), published_metrics)


def outcomes() -> tuple[Outcome, dict[str, Outcome]]:
    """The good run before each failure, and every failure by its name. Nobody may change them."""
    made: tuple[Outcome, dict[str, Outcome]] = once("failures of the drill", _outcomes)
    return made


def _outcomes() -> tuple[Outcome, dict[str, Outcome]]:
    with leaving_out_pages(), TemporaryDirectory() as folder, published(Path(folder)) as drill:
        good, failed = outcome_of(drill, 0, ""), {}
        for number, (name, fail) in enumerate(FAILURES.items()):
            (own_folder := Path(folder, str(number))).mkdir()
            own = copied(drill, own_folder)
            try:
                failed[name] = outcome_of(own, *fail(own))
            except BaseException as error:
                error.add_note(f"in the drill: {name}")
                raise
            shutil.rmtree(own_folder)
        return good, failed
