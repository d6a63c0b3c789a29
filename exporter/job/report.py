"""The run report: one JSON file that says what a run did; ``"complete": false`` until it ends, or where it was killed.

Next to the report of a run that ended, ``.prom`` after its name, is what monitoring systems want of it. A report that
goes into a pipe, a device or standard output is written once, at the end, and has nothing next to it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from time import monotonic, process_time, time
from typing import TYPE_CHECKING, Any

from msgspec import structs

from exporter.config import Settings
from exporter.console import Console, Silence
from exporter.discovery import Discovered
from exporter.errors import CheckError, ConfigError, LostRaceError, StoreError, pluralize, without_keys
from exporter.protocols.compute import Tables
from exporter.render.run_documents import unpriced_bps, unpriced_markets
from exporter.render.site.templates import environment
from exporter.tree.documents import EXPORTER_VERSION
from exporter.tree.values import SkipReason
from exporter.user_files import is_written_into, write_text

if TYPE_CHECKING:
    from exporter.job.reading import MarketsRead

REPORT_VERSION = 1

MAX_NAMED_POOLS = 5
"""How many discoveries, or markets without prices, are named on the console; the report has all."""


class RunLog:
    """The log of a run: on the console, and in the report, which is on disk before the next step begins.

    ``path`` None: in memory. A report that cannot be begun is a `ConfigError`; later ``problem`` says what is wrong.
    """

    def __init__(self, path: Path | None, console: Console | None = None, **facts: Any) -> None:
        self._path, self.console = path, console or Silence()
        self.problem: str | None = None
        self._began = monotonic()
        self.facts: dict[str, Any] = {
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
    def step(self, name: str, doing: str) -> Iterator[dict[str, Any]]:
        """Time a step; what it puts into the given dict is on the console, and in the report under its name."""
        step: dict[str, Any] = {"step": name, "complete": False}
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

    def add(self, **facts: Any) -> None:
        self.facts.update(facts)

    def event(self, name: str, message: str, **facts: Any) -> None:
        self.console.event(name, message, **facts)

    def warning(self, message: str, **facts: Any) -> None:
        self.console.warning(message, **facts)

    @contextmanager
    def optional(self, lost: str) -> Iterator[None]:
        """A part that a run can do without; where it fails, ``lost`` says what that costs."""
        try:
            yield
        except (StoreError, CheckError, LostRaceError) as error:
            self.warning(f"{lost}: {error}")

    @property
    def seconds(self) -> float:
        return round(monotonic() - self._began, 3)

    def finish(self, exit_code: int, message: str | None = None) -> None:
        self.facts.update(
            complete=True,
            exit_code=exit_code,
            message=None if message is None else without_keys(message),
            finished_at=int(time()),
            seconds=self.seconds,
        )
        self._write()
        if self._path is not None and not is_written_into(self._path):
            metrics = self._path.with_name(f"{self._path.name}.prom")
            known = {} if "published_at" in self.facts else _published_times(metrics)
            self._replace(metrics, metrics_of(known | self.facts))

    def _write(self) -> None:
        # What is no file is written into, so it gets the report once, at the end.
        if self._path is not None and (self.facts["complete"] or not is_written_into(self._path)):
            self._replace(self._path, json.dumps(self.facts, indent=2) + "\n")

    def _replace(self, path: Path, text: str) -> None:
        try:
            write_text(path, text, "output.report")
        except (ConfigError, BrokenPipeError) as error:
            self.problem = str(error)


def report_dead_endpoints(answers: Mapping[str, int], errors: Mapping[str, Mapping[str, int]], log: RunLog) -> None:
    """Name each RPC that answered nothing in a reading that others carried."""
    for label, names in errors.items():
        if answers and not answers.get(label):
            counted = ", ".join(f"{name} ({count} times)" for name, count in names.items())
            log.warning(
                f"the RPC {label} gave no usable answer, but another one did, so nothing is lost: {counted}",
                endpoint=label,
            )


def report_notices(notices: Sequence[str], log: RunLog, said: Sequence[str] = ()) -> None:
    """Report the notices, and print those that were not said before."""
    log.add(notices=(every := sorted(notices)))
    for notice in every:
        if notice not in said:
            log.warning(notice)


def report_discovered(discovered: Sequence[Discovered], log: RunLog) -> None:
    """Name what discovery found."""
    log.add(discovered=[asdict(item) for item in discovered])
    if discovered:
        names = [f"{item.protocol} {item.market}{f'/{item.pool}' if item.pool else ''}" for item in discovered]
        found = pluralize(len(names), "market or pool", "markets and pools")
        text = f"found {found} that are not in the package's lists: {_first(names)}"
        log.event("discovered", text, count=len(names))


def report_missing(settings: Settings, tables: Tables, read: MarketsRead, log: RunLog) -> list[str]:
    """Name what is not in the tables. Raises `CheckError`.

    Gives what should have been read, as ``MARKET[/POOL]``: of listed markets what is not known to be dead.
    """
    log.add(
        **{
            name: list(map(structs.asdict, getattr(tables, name)))
            for name in ("unread", "unpriced", "bounded", "absent", "skipped")
        }
    )
    report_notices(tables.notices, log, read.notices)
    for item in tables.of_listed().bounded:
        log.warning(f"{item.market}/{item.pool}: {item.field} is capped at {item.bound}")
    places = {item.market if item.pool is None else f"{item.market}/{item.pool}": item for item in tables.unread}
    surprises = {
        place: unread
        for place, unread in places.items()
        if read.listings.is_listed(unread.protocol, unread.market)
        and unread.reason != SkipReason.EXCLUDED
        and not settings.may_be_unread(place)
    }
    unlisted = sum(not read.listings.is_listed(item.protocol, item.market) for item in places.values())
    for place, unread in surprises.items():
        log.warning(f"{place} could not be read: {unread.detail}", reason=unread.reason)
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
    return list(surprises)


def report_unpriced(tables: Tables, log: RunLog) -> None:
    """Say how many pools of listed markets have no price, by market."""
    listed = tables.of_listed()
    unpriced, markets = len(listed.unpriced), unpriced_markets(listed)
    if unpriced:
        shown = _first([f"{item.market} {item.unpriced_count} of {item.pool_count}" for item in markets])
        pools = pluralize(listed.pools.height, "pool")
        log.event("unpriced", f"{unpriced:,} of {pools} have no price: {shown}", count=unpriced)
    log.add(unpriced_bps=unpriced_bps(tables), unpriced_markets=[structs.asdict(item) for item in markets])


def report_outcome(log: RunLog, tables: Tables, run_id: str, *, published: bool) -> None:
    """The last line of a run: what was published at which ledger, how much of it, and how long it took."""
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


def _published_times(metrics: Path) -> dict[str, int]:
    """The times of the published run as the metrics of an earlier run have them; nothing if these cannot be read.

    For a run that fails before it knows what is published: without these times no monitor sees that readers wait.
    """
    try:
        text = metrics.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return {}
    names = {"published_at": "published", "next_expected_at": "next_expected"}
    found = {
        fact: re.search(rf"^lending_run_{name}_timestamp_seconds (\d+)$", text, re.M) for fact, name in names.items()
    }
    return {fact: int(match[1]) for fact, match in found.items() if match is not None}


def metrics_of(facts: Mapping[str, Any]) -> str:
    """The report of a run that ended, in Prometheus' text format; what it does not have has no line."""
    template = environment().get_template("run_metrics.txt.j2")
    return template.render(facts=facts, proven=facts.get("proven", {}))
