"""Runs the command ``exporter backfill``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from exporter.config import Settings
from exporter.console import Console
from exporter.errors import ConfigError, ExitCode, NetworkMismatchError, pluralize
from exporter.history.export import Moment, parse_moment, refuse_reversed
from exporter.past.backfill.executors import workers_of
from exporter.past.backfill.lake_job import RANGE_LEDGERS, LakeJob, LakePlan, LakeResult
from exporter.past.backfill.merge import try_output
from exporter.past.backfill.start_state import StartState, archive_start, empty_start, ledger_at, snapshot_start
from exporter.past.lake.objects import Lake, LakeConfig, decode_config
from exporter.stores import open_store

MAX_NAMED = 20
"""Largest number of gaps, ledgers or pools that are named one by one."""

REPORT_SECONDS = 10.0
"""Time between two reports of progress."""


def run_lake_backfill(
    settings: Settings,
    uri: str,
    workers: int | None,
    scheduler: str | None,
    console: Console,
    *,
    every: timedelta,
    changes: str,
    on_gap: str,
    start: str | None = None,
    end: str | None = None,
    archive: str | None = None,
    trust: Path | None = None,
    start_snapshot: Path | None = None,
    lake_config: str | None = None,
    range_ledgers: int | None = None,
) -> int:
    """Backfill from a lake, report the result, and return the exit code. Arguments are the command's options."""
    starting, at_once = workers_of(workers, scheduler, lambda text: console.event("waiting", text))
    if archive is not None and start_snapshot is not None:
        raise ConfigError("--archive and --start-snapshot both say where to begin; give one of them")
    if trust is not None and archive is None:
        raise ConfigError("--trust is for --archive, which is not given")
    range_start, range_end = parse_moment(start, "--from"), parse_moment(end, "--to")
    refuse_reversed(range_start, range_end)
    config = None if lake_config is None else decode_config(lake_config.encode(errors="replace"), "--lake-config")
    store = open_store(settings.output.uri)
    try_output(store)
    changes_store = open_store(changes)
    changes_store.try_writing()

    lake = _open_lake(uri, config, settings.passphrase)
    span = find_range(lake, range_start, range_end)
    state = _start_state(lake, span.first, settings, archive, trust, start_snapshot)
    if state.ledger > span.first:
        if range_start != Moment():
            raise ConfigError(
                f"--from means ledger {span.first}, and {state.label} is of ledger {state.ledger}: it has no earlier "
                "state; begin later, or give an older start"
            )
        span = span._replace(first=state.ledger, begins=state.close_time)
    plan = LakePlan(
        settings,
        uri,
        config,
        state,
        *span,
        every=int(every.total_seconds()),
        on_gap=on_gap,
        range_ledgers=range_ledgers or RANGE_LEDGERS,
    )
    description = f"replaying ledgers {state.ledger + 1} to {span.last} of {lake.label}, from {state.label}"
    with console.step("backfill", description) as facts, starting as executor:
        progress = _Progress(console)
        result = LakeJob(plan, store, changes_store, executor, at_once=at_once, on_progress=progress.report).run()
        facts.update(_counts(result))
    return _exit_code(result, settings, console)


def _open_lake(uri: str, config: LakeConfig | None, passphrase: str) -> Lake:
    """Open the lake at an address. Raises `NetworkMismatchError` if it is of another network."""
    lake = Lake.open(uri, config)
    if lake.config.network_passphrase != passphrase:
        raise NetworkMismatchError(
            f"{lake.label} is of the network {lake.config.network_passphrase!r}, but the backfill is configured for "
            f"{passphrase!r}; set --network"
        )
    return lake


def _start_state(
    lake: Lake, first: int, settings: Settings, archive: str | None, trust: Path | None, start_snapshot: Path | None
) -> StartState:
    """The state with which the replay begins: that of a file, of a checkpoint in an archive, or of an empty network."""
    if start_snapshot is not None:
        return snapshot_start(start_snapshot, settings.passphrase)
    if archive is not None:
        return archive_start(archive, first, settings.passphrase, settings.network.read_deadline.total_seconds(), trust)
    return empty_start(lake)


def _counts(result: LakeResult) -> dict[str, int]:
    """What a backfill did, in numbers, by their names in the log."""
    return {
        "ledgers": result.ledgers,
        "touched": result.touched,
        "rounds": result.rounds,
        "boundaries": result.boundaries,
        "added": result.added,
        "known": result.present,
        "empty": result.empty,
        "refused": len(result.refused),
        "failed": len(result.failed),
        "rows": result.rows,
        "confirmed": sum(result.tally.confirmed.values()),
        "differing": sum(result.tally.differing.values()),
        "untried": sum(result.tally.untried.values()),
    }


class _Progress:
    """Prints from time to time how much of a backfill is done, how fast it is, and how long the rest may take."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun_at: dict[str, tuple[float, int]] = {}
        self._reported = monotonic()

    def report(self, what: str, done: int, of: int) -> None:
        """Take a count. It is printed `REPORT_SECONDS` after the last one, and when all is done."""
        now = monotonic()
        began, before = self._begun_at.setdefault(what, (now, done))
        if done < of and now - self._reported < REPORT_SECONDS:
            return
        self._reported, text = now, f"{done:,} of {of:,} {what}"
        if done > before and now > began:
            rate = (done - before) / (now - began)
            text += f", {rate:,.0f}/s, {timedelta(seconds=round((of - done) / rate))} left"
        self._console.event("progress", text, what=what, done=done, of=of)


def _exit_code(result: LakeResult, settings: Settings, console: Console) -> int:
    for gap in result.gaps[:MAX_NAMED]:
        console.warning(
            f"ledgers {gap.first} to {gap.last} are not known: {gap.reason}", first=gap.first, last=gap.last
        )
    for ledger, reason in sorted((result.refused | result.failed).items())[:MAX_NAMED]:
        console.warning(f"ledger {ledger} was not added: {reason}", ledger=ledger)
    if len(result.refused) + len(result.failed) > MAX_NAMED:
        console.warning(f"{pluralize(len(result.refused) + len(result.failed), 'ledger')} in all were not added")
    for item in result.tally.mismatches[:MAX_NAMED]:
        console.warning(
            f"ledger {item.ledger}: {item.protocol} wrote {item.found} as {item.field}, the exporter computes "
            f"{item.computed} (key {item.key[:200]}, code {item.code})",
            ledger=item.ledger,
        )
    unexpectedly_unread = {place for place in result.unread if not settings.may_be_unread(place)}
    for place in sorted(unexpectedly_unread)[:MAX_NAMED]:
        console.warning(f"{place} could not be read at some ledgers")
    if result.refused or result.failed:
        return ExitCode.SOURCE
    return ExitCode.UNREAD if unexpectedly_unread else ExitCode.DONE


class LakeRange(NamedTuple):
    """The first and the last ledger of a range, and its first and last time in unix seconds."""

    first: int
    last: int
    begins: int
    ends: int


def find_range(lake: Lake, start: Moment, end: Moment) -> LakeRange:
    """The ledgers of a lake between two moments.

    The first ledger is the last one at or before ``start``. If ``end`` has no limit, or is later than the lake, the
    last ledger is the lake's newest. Raises `ConfigError` if the lake has no ledger in the range, and `LakeError` if it
    cannot be read.
    """

    def time(ledger: int) -> int:
        return lake.close_of(ledger)[0]

    def edge(moment: Moment) -> tuple[int | None, int]:
        if moment.ledger is not None:
            ledger = min(max(moment.ledger, oldest), newest)
            return (None if moment.ledger < oldest else ledger), time(ledger)
        if moment.time is None:
            return oldest, time(oldest)
        seconds = int(moment.time.timestamp())
        return ledger_at(seconds, oldest, newest, time), seconds

    if start.ledger is not None and end.ledger is not None:
        oldest, newest = start.ledger, end.ledger
    else:
        oldest, newest = lake.span()
    first, begins = edge(start)
    last, ends = edge(end) if end != Moment() else (newest, time(newest))
    first, begins = (oldest, time(oldest)) if first is None else (first, begins)
    if last is None or last < first:
        raise ConfigError(
            f"{lake.label} has no ledger between --from and --to: it goes from ledger {oldest} "
            f"({_shown(time(oldest))}) to {newest} ({_shown(time(newest))})"
        )
    return LakeRange(first, last, begins, min(ends, time(last)) if last == newest else ends)


def _shown(time: int) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%SZ}"
