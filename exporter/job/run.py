"""The job: read every market at one ledger, compute, record, render, publish.

The steps stand in `STEPS` in the order in which they run; each takes the run as the steps before it left it. What
a step learns goes to the console and the run report. An error ends the run with its own exit code and leaves what
was published before as it was, except where publishing itself says otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from exporter.check.checker import TreeChecker
from exporter.config import Settings
from exporter.console import Console
from exporter.deployments.networks import NETWORKS, network_id, network_of
from exporter.discovery import Discovered, candidates, learn, look_around
from exporter.discovery.memory import Memory, load_memory, save_memory
from exporter.errors import EXIT_DONE, EXIT_UNREAD, CheckError, LostRaceError, PublishedCheckError, StoreError
from exporter.history.buckets import observations_of
from exporter.history.damage import find_damage
from exporter.history.manifest import HistoryPart, extend_history, history_below, read_history_manifest
from exporter.history.parquet import render_history
from exporter.history.series import Series, catch_up, load_series, save_series
from exporter.job.reading import OpenSource, open_source, read_protocols, reading_deadline, router_for, view_limits
from exporter.job.report import RunReport
from exporter.ledger.view import Certificate, read_at_one_ledger
from exporter.numbers.compute import Tables, compute
from exporter.numbers.wording import counted
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import ProtocolModule, ProtocolReading
from exporter.publishing.compaction import compact_history
from exporter.publishing.publish import PublishResult, RunSummary, publish, verify
from exporter.publishing.retention import clock_problem, sweep
from exporter.publishing.standing import (
    LedgerNotNewerError,
    check_network,
    check_newer,
    read_current_listing,
    read_intent,
    read_published,
    refuse_not_newer,
)
from exporter.render.openapi import openapi_document
from exporter.render.run_documents import protocol_list, render_details, render_errors, render_overview, render_tree
from exporter.render.site.pages import SiteFacts, render_site
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Clock, Store, open_store, utc_now
from exporter.tree import documents
from exporter.tree.files import RenderedFile
from exporter.tree.read_back import render_document

SHOWN_DISCOVERIES = 5
"""Markets named on the console; the report has all."""

SHOWN_DAMAGE = 20
"""Files named on the console; the report has all."""


@dataclass(slots=True)
class Run:
    """A run under way. Fields below the first block are filled by the steps, in order."""

    settings: Settings
    store: Store
    console: Console
    report: RunReport
    snapshot: Path | None = None
    dry_run: bool = False
    replaced_ledger: int | None = None
    now: Clock = utc_now
    modules: Mapping[str, ProtocolModule] = field(default_factory=lambda: PROTOCOLS)

    memory: Memory | None = None
    readings: list[ProtocolReading] = field(default_factory=list)
    discovered: list[Discovered] = field(default_factory=list)
    certificate: Certificate | None = None
    close_time: int = 0
    network: str = ""
    tables: Tables | None = None
    history: HistoryPart | None = None
    series: Series | None = None
    damage: list[str] = field(default_factory=list)
    result: PublishResult | None = None
    nothing_to_do: bool = False

    def done(self) -> Tables:
        """The tables, once they are computed."""
        assert self.tables is not None, "the step that computes the tables has not run"
        return self.tables

    @property
    def exit_code(self) -> int:
        """0 when all of it worked; 7 when something could not be read that `allow_unread` does not list."""
        return EXIT_UNREAD if self.surprises() else EXIT_DONE

    def surprises(self) -> list[str]:
        """What could not be read and is not known to be dead, as ``MARKET`` or ``MARKET/POOL``."""
        names = (item.market if item.pool is None else f"{item.market}/{item.pool}" for item in self.done().unread)
        return [name for name in names if not self.settings.may_be_unread(name)]


def try_output(run: Run, facts: dict[str, Any]) -> None:  # noqa: ARG001 - the signature of a step
    """Find out before minutes of reading whether the run could be published at all."""
    if not run.dry_run:
        run.store.try_writing()
    read_published(run.store)
    read_intent(run.store)
    read_history_manifest(run.store)


@contextmanager
def _nothing_to_do_if_published(run: Run) -> Iterator[None]:
    """Take it for the end of the run, and no failure, that its very ledger stands published."""
    try:
        yield
    except LedgerNotNewerError as error:
        if not error.already_published:
            raise
        run.nothing_to_do = True


def read(run: Run, facts: dict[str, Any]) -> None:
    """Read every market at one ledger, with the proof of it, and when that ledger closed."""
    if run.replaced_ledger is not None:
        published, intent = read_published(run.store), read_intent(run.store)
        refuse_not_newer(published, intent, 0, replaced_ledger=run.replaced_ledger)  # before anything is read
    asyncio.run(_read(run, facts))


async def _read(run: Run, facts: dict[str, Any]) -> None:
    with run.console.progress("requests") as progress:
        async with open_source(run.settings, run.snapshot, on_request=progress.advance) as opened:
            await _read_from(opened, run)
    certificate = run.certificate
    assert certificate is not None
    run.report.add(certificate=_certificate_facts(certificate), ledger_close_time=run.close_time)
    facts.update(ledger=certificate.ledger, keys=certificate.keys, calls=certificate.calls, rounds=certificate.rounds)
    _keep_discoveries(run)
    if not run.dry_run:
        with _nothing_to_do_if_published(run):  # before work that would be refused at the end
            check_newer(run.store, certificate.ledger, run.close_time, replaced_ledger=run.replaced_ledger)


async def _read_from(opened: OpenSource, run: Run) -> None:
    run.network = opened.network.passphrase
    check_network(run.store, run.network)
    around = known = None
    router = router_for(run.settings, opened)
    if run.settings.discovery.enabled:
        run.memory = load_memory(run.store, network_id(run.network))
        known = run.memory.confirmed()
    try:
        async with reading_deadline(run.settings):
            if run.memory is not None:
                around = await look_around(opened.source, opened.network, run.modules, run.memory)
            program = partial(read_protocols, settings=run.settings, opened=opened, modules=run.modules, around=around)
            reading = await read_at_one_ledger(opened.source, program, view_limits(run.settings), router)
            run.readings, run.certificate = reading.result, reading.certificate
            run.close_time = await opened.source.close_time(reading.certificate.ledger)
    finally:
        run.report.add(reading=opened.report(), router=None if router is None else router.report())
    if router is not None and run.readings:
        run.readings[0].notices += router.notices
    if run.memory is None or around is None or known is None:
        return
    named = candidates(run.settings, opened.network, run.modules, opened.instances, around.found)
    tried = [candidate for group in named.values() for candidate in group]
    run.memory.notices.clear()  # those so far are among the other ones
    run.discovered = learn(run.memory, run.readings, tried, known, reading.certificate.ledger)
    if run.readings:
        run.readings[0].notices += [*around.notices, *run.memory.notices]


def _keep_discoveries(run: Run) -> None:
    """Name what is new, and keep it, before anything can go wrong with the rest of the run."""
    run.report.add(discovered=[item.as_dict() for item in run.discovered])
    if run.discovered:
        names = [f"{item.protocol} {item.market}{f'/{item.pool}' if item.pool else ''}" for item in run.discovered]
        shown = ", ".join(names[:SHOWN_DISCOVERIES]) + (", ..." if len(names) > SHOWN_DISCOVERIES else "")
        found = counted(len(names), "market or pool", "markets and pools")
        run.console.event("discovered", f"found {found} that no list has: {shown}", count=len(names))
    if run.memory is None or run.dry_run:
        return
    if run.replaced_ledger is not None and run.certificate is not None:
        run.memory.rewind(run.certificate.ledger)
    try:
        save_memory(run.store, run.memory)
    except (StoreError, LostRaceError) as error:
        run.console.warning(f"the next run has to find again what this one found: {error}")


def _certificate_facts(certificate: Certificate) -> dict[str, Any]:
    return {
        "ledger": certificate.ledger,
        "first": certificate.interval.first,
        "last": certificate.interval.last,
        "rounds": certificate.rounds,
        "keys": certificate.keys,
        "calls": certificate.calls,
        "footprint_keys": certificate.footprint_keys,
        "uncertified_calls": certificate.uncertified_calls,
        "newest_change": certificate.newest_change.hex() if certificate.newest_change else None,
        "oldest_read": certificate.oldest_read.hex() if certificate.oldest_read else None,
    }


def tabulate(run: Run, facts: dict[str, Any]) -> None:
    """Compute the two frames, and name everything that is not in them."""
    assert run.certificate is not None
    tables = run.tables = compute(run.readings, run.modules, run.certificate.ledger, run.close_time)
    facts.update(markets=tables.markets.height, pools=tables.pools.height)
    facts.update(unpriced=len(tables.unpriced), unread=len(tables.unread))
    run.report.add(
        unread=[_plain(item) for item in tables.unread],
        unpriced=[_plain(item) for item in tables.unpriced],
        bounded=[_plain(item) for item in tables.bounded],
        absent=[_plain(item) for item in tables.absent],
        notices=tables.notices,
    )
    for notice in tables.notices:
        run.console.warning(notice)
    for item in tables.bounded:
        run.console.warning(f"{item.market}/{item.pool}: {item.field} is published as {item.bound}; it is that or more")
    for name in run.surprises():
        reason = next(item for item in tables.unread if name in (item.market, f"{item.market}/{item.pool}"))
        run.console.warning(f"{name} could not be read: {reason.detail}", reason=reason.reason)
    if not tables.markets.height:
        raise CheckError(
            "no market was read, and what was published before stays; check network.name, the endpoints, "
            "and [[markets]] if discovery is off"
        )


def _plain(item: object) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__slots__}  # type: ignore[attr-defined]


def record(run: Run, facts: dict[str, Any]) -> None:
    """Make the Parquet file of the run, and bring the histories up to the run before."""
    tables = run.done()
    run.history = render_history(
        tables.pools, observed_ledger=tables.ledger, ledger_close_time=tables.close_time, network=run.network
    )
    facts.update(rows=run.history.entry.rows, bytes=run.history.entry.bytes)
    manifest = read_history_manifest(run.store)
    run.damage = find_damage(run.store, manifest, tables.ledger)
    run.report.add(damaged_history=run.damage)
    for text in run.damage[:SHOWN_DAMAGE]:
        run.console.warning(f"damage in the history: {text}")
    series = run.series = load_series(run.store, manifest, tables.ledger)
    known = series.row_count
    # Pages of earlier runs: they stand already, unless their run left no state. They are no files of this run.
    pages = ((file.key, file.data) for file in catch_up(run.store, manifest, tables.ledger, series))
    restored = sum(1 for _ in pages) if run.dry_run else run.store.put_new_many(pages).written
    facts.update(read_again=series.row_count - known, restored=restored)


def render_and_publish(run: Run, facts: dict[str, Any]) -> None:
    """Render the tree file by file, each checked as it is made, and publish it in the order that is safe.

    The tree as a whole is checked before anything that readers can find is replaced (`exporter.check.checker`).
    """
    store = MemoryStore() if run.dry_run else run.store
    checker = TreeChecker(run.done().ledger, own_files_only=True)
    with run.console.progress("files", _files_of_the_last_run(run)) as progress:

        def checked(files: Iterator[RenderedFile]) -> Iterator[RenderedFile]:
            for file in files:
                progress.advance()
                checker.add(file.key, file.data)
                yield file

        def accept(rest: Sequence[RenderedFile]) -> None:
            for file in rest:
                checker.add(file.key, file.data)
            run.report.add(checked=checker.finish().as_dict())

        with _nothing_to_do_if_published(run):  # by another run, meanwhile
            run.result = publish(
                store,
                checked(_rendered(run)),
                partial(_status, run),
                observed_ledger=run.done().ledger,
                history=run.history,
                replaced_ledger=None if run.dry_run else run.replaced_ledger,
                now=run.now,
                accept=accept,
            )
    if run.nothing_to_do:
        return
    assert run.result is not None  # it was published
    total = run.result.total
    facts.update(written=total.written, unchanged=total.unchanged, bytes=total.bytes)
    run.report.add(
        run_id=run.result.summary.run_id,
        manifest_sha256=run.result.summary.manifest_sha256,
        published=not run.dry_run,
    )


def _files_of_the_last_run(run: Run) -> int | None:
    """About how many files there will be; None where there was no run, or nobody looks."""
    if not run.console.shows_progress:
        return None
    try:
        published = read_published(run.store)
        return None if published is None else len(read_current_listing(run.store, published.pointer).files)
    except StoreError:
        return None  # publishing itself says what is wrong with the store


def _rendered(run: Run) -> Iterator[RenderedFile]:
    """Everything but the pointer and the records of the run, in a stream of which no part is kept."""
    tables, output = run.done(), run.settings.output
    sizes = output.page_sizes, output.default_page_size, output.market_pools_cap
    yield from render_tree(tables.pools, tables.markets, *sizes)
    yield from render_details(tables, run.modules)
    series = yield from _histories(run)
    yield from render_overview(tables, series.first_seen)
    known = network_of(run.network)
    covered = protocol_list(tables, run.modules, known.deployments, known.name)
    yield render_document(covered)
    yield render_document(openapi_document())
    yield from render_errors()
    assert run.history is not None, "the step that makes the run's Parquet file has not run"
    before = read_history_manifest(run.store)
    if run.replaced_ledger is not None:
        before = history_below(before, run.history.entry)
    history = extend_history(before, run.history.entry)
    yield from render_site(SiteFacts(tables, run.network, covered, series, history))


def _histories(run: Run) -> Generator[RenderedFile, None, Series]:
    """The history of every pool in buckets, carried on by this run: pages that are complete by now, then the newest.

    Should another run have come between, it is taken in now, while the publisher holds the store.
    """
    tables, series = run.done(), run.series
    assert series is not None, "the step that brings the histories up to date has not run"
    yield from catch_up(run.store, read_history_manifest(run.store), tables.ledger, series)
    yield from series.extend(observations_of(tables.pools), tables.ledger, tables.close_time)
    yield from series.heads()
    return series


def _status(run: Run, summary: RunSummary) -> documents.SystemStatus:
    """The pointer, from what is known at the end."""
    tables, settings = run.done(), run.settings
    interval = settings.schedule.interval_minutes
    published = int(summary.published_at.timestamp())
    return documents.SystemStatus(
        run_id=summary.run_id,
        schema_version=documents.SCHEMA_VERSION,
        network=run.network,
        network_name=network_of(run.network).name,
        observed_ledger=tables.ledger,
        ledger_close_time=documents.timestamp(tables.close_time),
        generated_at=documents.timestamp(published),
        next_expected_at=None if interval is None else documents.timestamp(published + 60 * interval),
        market_count=tables.markets.height,
        pool_count=int(tables.markets["pool_count"].sum()),
        token_count=tables.pools["token_address"].n_unique(),
        unread_count=len(tables.unread),
        unpriced_count=len(tables.unpriced),
        unread=[documents.Unread(**_plain(item)) for item in tables.unread],
        unpriced=[documents.Unpriced(**_plain(item)) for item in tables.unpriced],
        bounded=[documents.Bounded(**_plain(item)) for item in tables.bounded],
        absent=[documents.Absent(**_plain(item)) for item in tables.absent],
        notices=tables.notices,
        page_sizes=sorted(settings.output.page_sizes),
        default_page_size=settings.output.default_page_size,
        retention_hours=settings.output.retention_hours,
        manifest_key=summary.manifest_key,
        manifest_sha256=summary.manifest_sha256,
        previous_run_id=summary.previous_run_id,
    )


def read_back(run: Run, facts: dict[str, Any]) -> None:
    """Read what was published back and compare it with what was written."""
    if run.result is not None and not run.dry_run:
        facts.update(files=verify(run.store, run.result.summary))


def remember(run: Run, facts: dict[str, Any]) -> None:
    """Keep what the next run needs of the history, so that it need not read all of it again."""
    if run.dry_run or run.series is None:
        return
    try:
        facts.update(observations=run.series.row_count, bytes=save_series(run.store, run.series))
    except StoreError as error:
        run.console.warning(f"the next run has to read the history again: {error}")


def tell_damage(run: Run, facts: dict[str, Any]) -> None:
    """Fail for damage in the history, now that the run is published; nothing is compacted or removed over it."""
    facts.update(damaged=len(run.damage))
    if run.damage and not run.dry_run:
        raise PublishedCheckError(
            f"damage in the history, {len(run.damage)} in all; the first: {run.damage[0]}. This run is published, and "
            "nothing was compacted or swept. `exporter check` names every file; restore them from a copy"
        )


def remove_expired(run: Run, facts: dict[str, Any]) -> None:
    """Remove pages of runs that nobody can be reading any more. A refusal is no failure of the run."""
    if run.dry_run:
        return
    swept = sweep(run.store, timedelta(hours=run.settings.output.retention_hours), now=run.now, closed=run.close_time)
    if swept.refused is not None:
        run.console.warning(f"nothing was swept: {swept.refused}")
    if swept.ageless is not None and _has_present_time(run):
        run.console.warning(f"nothing was removed for its age: {swept.ageless}")
    facts.update(pages=swept.pages, documents=swept.documents, runs=swept.runs)


def _has_present_time(run: Run) -> bool:
    """Whether the ledger should be of now: one in a file is not, nor that of a made network."""
    return run.snapshot is None and run.network != NETWORKS["local"].passphrase


MAX_COMPACTED = 40
"""So many files a run compacts at the most; what is left over is for the next."""


def compact(run: Run, facts: dict[str, Any]) -> None:
    """Make one file of each day that closed, and of each month long past. A refusal is no failure of the run."""
    if run.dry_run or not run.settings.history.compact:
        return
    if (problem := clock_problem(run.now(), run.close_time)) is not None and _has_present_time(run):
        run.console.warning(f"the history was not compacted: {problem}")
        return
    try:
        done = compact_history(run.store, months=run.settings.history.months, most=MAX_COMPACTED, now=run.now)
    except (StoreError, CheckError, LostRaceError) as error:
        run.console.warning(f"the history was not compacted: {error}")
        return
    facts.update(files_before=done.files_before, files_after=len(done.files))


STEPS: tuple[tuple[str, str, Callable[[Run, dict[str, Any]], None]], ...] = (
    ("output", "trying the output", try_output),
    ("read", "reading the ledger", read),
    ("compute", "computing", tabulate),
    ("record", "writing the history file", record),
    ("publish", "rendering and publishing", render_and_publish),
    ("verify", "reading back", read_back),
    ("remember", "keeping what the next run needs of the history", remember),
    ("history", "judging the history's earlier files", tell_damage),
    ("compact", "compacting the history", compact),
    ("sweep", "removing what has expired", remove_expired),
)


def execute(run: Run) -> int:
    """Run all steps and give the exit code. Raises `ExporterError` where the run fails."""
    run.report.add(network=run.settings.network.name, output=run.store.uri, dry_run=run.dry_run)
    for name, doing, step in STEPS:
        with run.report.step(name) as reported, run.console.step(name, doing) as facts:
            step(run, facts)
            reported.update(facts)
        if run.nothing_to_do:
            assert run.certificate is not None  # its ledger is what stands published
            run.report.add(nothing_to_do=True)
            run.console.event("nothing_to_do", f"nothing to do: ledger {run.certificate.ledger} is published already")
            return EXIT_DONE
    return run.exit_code


def prepare(settings: Settings, console: Console, report: RunReport, **options: Any) -> Run:
    """A run over the configured output."""
    return Run(settings, open_store(settings.output.uri), console, report, **options)
