"""The run report: one JSON file that says what a run did. It has ``"complete": false`` until the run ends.

When a run ends, a file with ``.prom`` after the report's name has the metrics for monitoring systems. A report that
goes into a pipe, a device or standard output is written once, at the end, without such a file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, process_time, time
from typing import TYPE_CHECKING, Any, Unpack

from msgspec import structs
from msgspec.structs import asdict

from exporter.config import Settings
from exporter.console import Console, Silence
from exporter.discovery import Discovered
from exporter.errors import CheckError, ConfigError, LostRaceError, StoreError, pluralize, without_keys
from exporter.job.run_report import JsonObject, RunReport
from exporter.protocols.compute import Tables
from exporter.publishing.published_state import PublishedTimes
from exporter.render.run_documents import unpriced_bps, unpriced_markets
from exporter.render.site.templates import environment
from exporter.tree.documents import EXPORTER_VERSION
from exporter.tree.values import SkipReason
from exporter.user_files import is_written_into, write_text

if TYPE_CHECKING:
    from exporter.job.reading import MarketsReading

REPORT_VERSION = 1

MAX_NAMED_POOLS = 5
"""The console names at most this many discoveries, or markets without prices; the report names all."""


class RunLog:
    """The log of a run: lines on the console, and the report, which is on disk before the next step begins.

    Without a ``path`` the report stays in memory. If the report cannot be written at the beginning, `ConfigError` is
    raised. If it fails later, the run goes on and ``problem`` says what is wrong.
    """

    def __init__(self, path: Path | None, console: Console | None = None, **facts: Unpack[RunReport]) -> None:
        self._path, self.console = path, console or Silence()
        self.problem: str | None = None
        self._began = monotonic()
        self.facts: RunReport = {
            "report_version": REPORT_VERSION,
            "complete": False,
            "exporter_version": EXPORTER_VERSION,
            "started_at": int(time()),
            "steps": [],
            **facts,
        }
        self._write()
        if self.problem is not None:
            raise ConfigError(self.problem)

    @contextmanager
    def step(self, name: str, doing: str) -> Iterator[JsonObject]:
        """Time a step. What the step puts into the dict goes to the console and into the report."""
        step: JsonObject = {"step": name, "complete": False}
        self.facts["steps"].append(step)
        self._write()
        began, processor = monotonic(), process_time()
        try:
            with self.console.step(name, doing) as facts:
                yield facts
            step.update(facts, complete=True)
        finally:
            step["seconds"] = round(monotonic() - began, 3)
            step["processor_seconds"] = round(process_time() - processor, 3)

    def add(self, **facts: Unpack[RunReport]) -> None:
        """Put facts into the report."""
        self.facts.update(facts)

    def event(self, name: str, message: str, **facts: Any) -> None:
        """Print a message. In JSON logs it has the event's name and the facts."""
        self.console.event(name, message, **facts)

    def warning(self, message: str, **facts: Any) -> None:
        """Print a warning. In JSON logs it has the facts."""
        self.console.warning(message, **facts)

    @contextmanager
    def optional(self, lost: str) -> Iterator[None]:
        """Run a part that the run can do without. If the output fails it, a warning says what is ``lost``."""
        try:
            yield
        except (StoreError, CheckError, LostRaceError) as error:
            self.warning(f"{lost}: {error}")

    @property
    def seconds(self) -> float:
        """The time since the run began."""
        return round(monotonic() - self._began, 3)

    def finish(self, exit_code: int, message: str | None = None) -> None:
        """Complete the report, and write the metrics next to it."""
        self.add(
            complete=True,
            exit_code=exit_code,
            message=None if message is None else without_keys(message),
            finished_at=int(time()),
            seconds=self.seconds,
        )
        self._write()
        if self._path is not None and not is_written_into(self._path):
            metrics = self._path.with_name(f"{self._path.name}.prom")
            earlier = PublishedTimes() if "published_at" in self.facts else _published_times(metrics)
            self._replace(metrics, metrics_of({**earlier, **self.facts}))

    def _write(self) -> None:
        # A pipe or a device cannot be replaced, so it gets the report once, at the end.
        if self._path is not None and (self.facts["complete"] or not is_written_into(self._path)):
            self._replace(self._path, json.dumps(self.facts, indent=2) + "\n")

    def _replace(self, path: Path, text: str) -> None:
        try:
            write_text(path, text, "output.report")
        except (ConfigError, BrokenPipeError) as error:
            self.problem = str(error)


def report_dead_endpoints(answers: Mapping[str, int], errors: Mapping[str, Mapping[str, int]], log: RunLog) -> None:
    """Warn of each RPC that answered nothing, although the reading succeeded with the answers of others."""
    for label, names in sorted(errors.items()):
        if answers and not answers.get(label):
            counted = ", ".join(f"{name} ({count} times)" for name, count in sorted(names.items()))
            log.warning(
                f"the RPC {label} gave no usable answer, but another one did, so nothing is lost: {counted}",
                endpoint=label,
            )


def report_notices(notices: Sequence[str], log: RunLog, already_printed: Sequence[str] = ()) -> None:
    """Put the notices into the report, and print those that were not printed before."""
    notices = sorted(notices)
    log.add(notices=notices)
    for notice in notices:
        if notice not in already_printed:
            log.warning(notice)


def report_discovered(discovered: Sequence[Discovered], log: RunLog) -> None:
    """Report the markets and pools that discovery found."""
    log.add(discovered=[asdict(item) for item in discovered])
    if discovered:
        names = [f"{item.protocol} {item.market}{f'/{item.pool}' if item.pool else ''}" for item in discovered]
        count = pluralize(len(names), "market or pool", "markets and pools")
        text = f"found {count} that are not in the package's lists: {_first(names)}"
        log.event("discovered", text, count=len(names))


def report_missing(settings: Settings, tables: Tables, reading: MarketsReading, log: RunLog) -> list[str]:
    """Report what the tables lack: what was unread, unpriced, bounded, absent or skipped.

    Returns what should have been read and was not, as ``MARKET[/POOL]``. That is all that is unread of listed markets,
    except what the operator excludes or allows to be unread. Raises `CheckError` if no market was read at all.
    """
    log.add(
        unread=[structs.asdict(item) for item in tables.unread],
        unpriced=[structs.asdict(item) for item in tables.unpriced],
        bounded=[structs.asdict(item) for item in tables.bounded],
        absent=[structs.asdict(item) for item in tables.absent],
        skipped=[structs.asdict(item) for item in tables.skipped],
    )
    report_notices(tables.notices, log, reading.notices)
    for item in tables.of_listed().bounded:
        log.warning(f"{item.market}/{item.pool}: {item.field} is capped at {item.bound}")
    unexpectedly_unread: dict[str, None] = {}
    unlisted = 0
    for unread in tables.unread:
        name = unread.market if unread.pool is None else f"{unread.market}/{unread.pool}"
        if not reading.listings.is_listed(unread.protocol, unread.market):
            unlisted += 1
        elif unread.reason != SkipReason.EXCLUDED and not settings.may_be_unread(name):
            unexpectedly_unread[name] = None
            log.warning(f"{name} could not be read: {unread.detail}", reason=unread.reason)
    if unlisted:
        others = pluralize(unlisted, "market or pool", "markets and pools")
        log.event("unread_unlisted", f"{others} that are not listed could not be read", count=unlisted)
    if tables.skipped:
        counts = Counter(item.reason for item in tables.skipped)
        shown = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
        skipped = pluralize(len(tables.skipped), "market")
        log.event("skipped", f"{skipped} skipped or not read to the end: {shown}", count=len(tables.skipped))
    if not tables.markets.height:
        raise CheckError(
            "no market was read, and what was published before stays; check network.name, the endpoints, "
            "and [[markets]] if discovery is off"
        )
    return list(unexpectedly_unread)


def report_unpriced(tables: Tables, log: RunLog) -> None:
    """Report how many pools of listed markets have no price, for each market."""
    listed = tables.of_listed()
    unpriced, markets = len(listed.unpriced), unpriced_markets(listed)
    if unpriced:
        shown = _first([f"{item.market} {item.unpriced_count} of {item.pool_count}" for item in markets])
        pools = pluralize(listed.pools.height, "pool")
        log.event("unpriced", f"{unpriced:,} of {pools} have no price: {shown}", count=unpriced)
    log.add(unpriced_bps=unpriced_bps(tables), unpriced_markets=[structs.asdict(item) for item in markets])


def report_outcome(log: RunLog, tables: Tables, run_id: str, *, published: bool) -> None:
    """Print the last line of a run: what was published, at which ledger, how many pools, and how long it took."""
    pools, unpriced, seconds = tables.pools.height, len(tables.unpriced), log.seconds
    log.event(
        "published" if published else "rendered",
        f"{'published' if published else 'rendered, not published,'} {run_id} at {tables.ledger}, "
        f"{pluralize(pools, 'pool')}, {unpriced:,} unpriced, {seconds:.1f} s",
        run_id=run_id,
        ledger=tables.ledger,
        pools=pools,
        unpriced=unpriced,
        seconds=seconds,
    )


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_NAMED_POOLS]) + (", ..." if len(names) > MAX_NAMED_POOLS else "")


def _published_times(metrics: Path) -> PublishedTimes:
    """The times of the published run, from the metrics file of an earlier run. Empty if that cannot be read.

    A run that fails before it knows what is published repeats them. Without them no monitor would see that readers
    wait for a newer run.
    """
    try:
        text = metrics.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return {}
    times = PublishedTimes()
    if (published := re.search(r"^lending_run_published_timestamp_seconds (\d+)$", text, re.M)) is not None:
        times["published_at"] = int(published[1])
    if (expected := re.search(r"^lending_run_next_expected_timestamp_seconds (\d+)$", text, re.M)) is not None:
        times["next_expected_at"] = int(expected[1])
    return times


def metrics_of(facts: RunReport) -> str:
    """The report of a run that ended, in Prometheus' text format. A fact that it does not have gets no line."""
    template = environment().get_template("run_metrics.txt.j2")
    return template.render(facts=facts, proven=facts.get("proven", {}))
