"""The job: read every market at one ledger, compute, record, render, publish, verify, remember, compact, sweep.

`run` is what the command line, the demo and a library user call; `execute` has the steps in their order. What a step
learns goes to the console and the run report. An error ends the run with its own exit code and leaves what was
published before as it was, except where publishing itself says otherwise.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from exporter.check.checker import TreeChecker
from exporter.check.walks import Listing, Run
from exporter.check.whole import Looked
from exporter.config import Settings
from exporter.console import Console, Silence
from exporter.deployments.networks import NETWORKS, network_id, network_of
from exporter.errors import (
    EXIT_DONE,
    EXIT_UNEXPECTED,
    EXIT_UNREAD,
    CheckError,
    ExporterError,
    LostRaceError,
    PublishedCheckError,
    StoreError,
    counted,
)
from exporter.history.buckets import observations_of
from exporter.history.damage import find_damage
from exporter.history.manifest import HistoryPart, read_history_manifest
from exporter.history.parquet import render_history
from exporter.history.periods import periods_of
from exporter.history.series import Series, catch_up, load_series, save_series
from exporter.job.from_archive import FromArchive
from exporter.job.known_markets_file import load_memory, save_memory
from exporter.job.prove import add_proof
from exporter.job.reading import MarketsRead, check_rpc_urls, open_source, read_markets, router_for
from exporter.job.report import RunReport
from exporter.ledger.view import Certificate
from exporter.past.archive.archive_files import CHECKPOINT_LEDGERS, checkpoint_of
from exporter.protocols import PROTOCOLS
from exporter.protocols.compute import Tables
from exporter.publishing.compaction import Compacted, compact_history
from exporter.publishing.publish import PublishResult, RunSummary, begin_publication, verify
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
from exporter.render.assets_pages import snapshots
from exporter.render.changes import change_list, read_changes
from exporter.render.data_package import render_tables
from exporter.render.feeds import render_feeds
from exporter.render.llms import render_llms
from exporter.render.metrics import render_metrics
from exporter.render.openapi import openapi_document
from exporter.render.pool_lists import Means, flat_rows, render_pool_lists, render_token_list
from exporter.render.run_documents import protocol_list, render_details, render_errors, render_overview, render_tree
from exporter.render.site.pages import SiteFacts, render_site
from exporter.render.yields import render_yields
from exporter.stores import open_store
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Clock, Store, utc_now
from exporter.tree import documents
from exporter.tree.documents import HistoryManifest
from exporter.tree.families import CHANGES, EVIDENCE
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.read_back import file_of, read_back

SHOWN_DISCOVERIES = 5
SHOWN_DAMAGE = 20
"""So many are named on the console; the report has all."""

LEDGER_SECONDS = 6
"""From one ledger to the next, about."""

ROWS_TOGETHER = 1_000
"""So many rows of the pools frame are objects at a time."""

MAX_COMPACTED = 40
"""So many files a run compacts at the most; what is left over is for the next."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What became of a run that did not fail.

    ``exit_code`` is 0, or 7 where something could not be read that ``allow_unread`` does not list. ``run_id`` is None
    where there was nothing to do, because the ledger was published already. ``published`` says whether this run
    published anything. ``report`` holds what the run report holds.
    """

    exit_code: int
    ledger: int
    run_id: str | None
    published: bool
    report: dict[str, Any]


def run(
    settings: Settings,
    *,
    snapshot: Path | str | None = None,
    archive: FromArchive | None = None,
    dry_run: bool = False,
    replaced_ledger: int | None = None,
    console: Console | None = None,
) -> RunResult:
    """Read every market at one ledger and publish the tree into ``output.uri``.

    Args:
        settings: what to read, and where the tree goes.
        snapshot: a ledger snapshot file, or the evidence of an earlier run, to read instead of the RPCs.
        archive: history archives to read instead, at a checkpoint that is proven first.
        dry_run: do everything but write, and refuse all that a run refuses.
        replaced_ledger: publish although this ledger stands published: one that the network never had.
        console: is told what happens; nobody is unless it is given.

    The run report (``output.report``) is begun before and finished after, whatever happens.

    Raises:
        ExporterError: the run failed; ``exit_code`` of the error says in which way.
    """
    console = console or Silence()
    report = RunReport(Path(settings.output.report), command="run")
    try:
        result = execute(
            settings, open_store(settings.output.uri, precompressed=settings.output.precompressed), console, report,
            snapshot=None if snapshot is None else Path(snapshot), archive=archive, dry_run=dry_run,
            replaced_ledger=replaced_ledger,
        )  # fmt: skip
        report.finish(result.exit_code)
    except ExporterError as error:
        report.finish(error.exit_code, str(error))
        raise
    except BaseException as error:
        report.finish(EXIT_UNEXPECTED, f"{type(error).__name__}: {error}")
        raise
    finally:
        if report.problem is not None:
            console.warning(report.problem)
    return result


def execute(
    settings: Settings,
    store: Store,
    console: Console,
    report: RunReport,
    *,
    snapshot: Path | None = None,
    archive: FromArchive | None = None,
    dry_run: bool = False,
    replaced_ledger: int | None = None,
    now: Clock = utc_now,
) -> RunResult:
    """Do all steps of a run into a store. Raises `ExporterError` where the run fails."""
    report.add(network=settings.network.name, output=store.uri, dry_run=dry_run)
    given = archive if snapshot is None else snapshot
    present = given is None and settings.passphrase != NETWORKS["local"].passphrase

    @contextmanager
    def step(name: str, doing: str) -> Iterator[dict[str, Any]]:
        with report.step(name) as reported, console.step(name, doing) as facts:
            yield facts
            reported.update(facts)

    with step("output", "trying the output"):
        if given is None:
            check_rpc_urls(settings)
        try_output(store, settings.passphrase, replaced_ledger, write=not dry_run)
    if dry_run:
        store = MemoryStore(store)  # what it reads is really there, what it writes is forgotten
    with step("read", "reading the ledger") as facts:
        read = asyncio.run(_read(settings, given, store, console, report))
        certificate = read.certificate
        facts.update(ledger=certificate.ledger, keys=certificate.keys)
        facts.update(calls=certificate.calls, rounds=certificate.rounds)
    keep_discoveries(read, store, console, report, rewind=replaced_ledger is not None)
    try:
        check_newer(store, certificate.ledger, read.close_time, replaced_ledger=replaced_ledger)
        with step("compute", "computing") as facts:
            content, entries = read.evidence.encode(), len(read.evidence.entries)
            evidence = RenderedFile(EVIDENCE.key(sha256=hashlib.sha256(content).hexdigest()), content, FileKind.PAGE)
            # The ledger as it was read is the largest thing in memory, and nothing below needs it.
            read = replace(read, evidence=replace(read.evidence, entries={}, calls={}))
            tables, proof = read.tables(), read.proof
            del read
            facts.update(evidence=len(content), markets=tables.markets.height, pools=tables.pools.height)
            facts.update(unpriced=len(tables.unpriced), unread=len(tables.unread))
            surprises = tell_missing(settings, tables, console, report)
        with step("record", "writing the history file") as facts:
            part = render_history(
                tables.pools, observed_ledger=tables.ledger, ledger_close_time=tables.close_time,
                network=settings.passphrase,
            )  # fmt: skip
            facts.update(rows=part.entry.rows, bytes=part.entry.bytes)
            damage = tell_damage(store, tables.ledger, console, report)
            series = bring_up_to_date(store, tables.ledger, facts)
        with step("publish", "rendering and publishing") as facts, without_collecting():
            result, looked = publish(
                settings, store, tables, part, series, evidence, replaced_ledger=replaced_ledger, now=now,
                console=console,
            )  # fmt: skip
            report.add(checked=looked.as_dict())
            total, summary = result.total, result.summary
            facts.update(written=total.written, unchanged=total.unchanged, bytes=total.bytes)
    except LedgerNotNewerError as error:
        if not error.already_published:
            raise
        report.add(nothing_to_do=True)
        console.event("nothing_to_do", f"nothing to do: ledger {certificate.ledger} is published already")
        return RunResult(EXIT_DONE, certificate.ledger, None, False, report.facts)
    report.add(run_id=summary.run_id, manifest_sha256=summary.manifest_sha256, published=not dry_run)
    code = EXIT_UNREAD if surprises else EXIT_DONE
    if dry_run:
        return RunResult(code, tables.ledger, summary.run_id, False, report.facts)

    with step("verify", "reading back") as facts:
        facts.update(files=verify(store, summary))
    if archive is not None and proof is not None:
        with step("prove", "adding the proof of the checkpoint") as facts:
            add_proof(store, settings.passphrase, archive.trust, summary.run_id, evidence.key, entries, proof, now)
            facts.update(entries=entries)
    with step("remember", "keeping what the next run needs of the history") as facts:
        try:
            facts.update(observations=series.row_count, bytes=save_series(store, series))
        except StoreError as error:
            console.warning(f"the next run has to read the history again: {error}")
    with step("history", "judging the history's earlier files") as facts:
        facts.update(damaged=len(damage))
        if damage:
            raise PublishedCheckError(
                f"damage in the history, {len(damage)} in all; the first: {damage[0]}. This run is published, and "
                "nothing was compacted or swept. `exporter check` names every file; restore them from a copy"
            )
    with step("compact", "compacting the history") as facts:
        if settings.history.compact:
            try:
                done = compact(store, settings.history.months, now, tables.close_time if present else None)
                facts.update(files_before=done.files_before, files_after=len(done.files))
            except (StoreError, CheckError, LostRaceError) as error:  # it is no failure of the run
                console.warning(f"the history was not compacted: {error}")
    with step("sweep", "removing what has expired") as facts:
        swept = sweep(store, timedelta(hours=settings.output.retention_hours), now=now, closed=tables.close_time)
        if swept.refused is not None:
            console.warning(f"nothing {'more ' if swept.documents else ''}was swept: {swept.refused}")
        if swept.ageless is not None and present:
            console.warning(f"nothing was removed for its age: {swept.ageless}")
        facts.update(pages=swept.pages, documents=swept.documents, runs=swept.runs)
    if surprises:
        text = "published, but not everything could be read; the status document names what"
        console.warning(text, exit_code=code)
    return RunResult(code, tables.ledger, summary.run_id, True, report.facts)


def try_output(store: Store, network: str, replaced_ledger: int | None, *, write: bool) -> None:
    """Find out before minutes of reading whether a run of this network (a passphrase) could be published at all."""
    if write:
        store.try_writing()
    else:
        next(store.list(""), None)  # a place that is none says so when it is listed
    check_network(store, network)
    published, intent = read_published(store), read_intent(store)
    read_history_manifest(store)
    if replaced_ledger is not None:
        refuse_not_newer(published, intent, 0, replaced_ledger=replaced_ledger)


async def _read(
    settings: Settings, given: Path | FromArchive | None, store: Store, console: Console, report: RunReport
) -> MarketsRead:
    """Read every market at one ledger; the report gets what the source was asked, also when it fails."""
    with console.progress("requests") as progress:
        async with open_source(settings, given, on_request=progress.advance) as opened:
            memory = load_memory(store, network_id(settings.passphrase)) if opened.discovers(settings) else None
            router = router_for(settings, opened)
            try:
                read = await read_markets(settings, opened, memory, router)
            finally:
                report.add(reading=opened.report(), router=None if router is None else router.report())
    report.add(certificate=_certificate_facts(read.certificate), ledger_close_time=read.close_time)
    return read


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


def keep_discoveries(read: MarketsRead, store: Store, console: Console, report: RunReport, *, rewind: bool) -> None:
    """Name what is new, and keep it, before anything can go wrong with the rest of the run."""
    report.add(discovered=[asdict(item) for item in read.discovered])
    if read.discovered:
        names = [f"{item.protocol} {item.market}{f'/{item.pool}' if item.pool else ''}" for item in read.discovered]
        shown = ", ".join(names[:SHOWN_DISCOVERIES]) + (", ..." if len(names) > SHOWN_DISCOVERIES else "")
        found = counted(len(names), "market or pool", "markets and pools")
        console.event("discovered", f"found {found} that no list has: {shown}", count=len(names))
    if read.memory is None:
        return
    if rewind:
        read.memory.rewind(read.certificate.ledger)
    try:
        save_memory(store, read.memory)
    except (StoreError, LostRaceError) as error:
        console.warning(f"the next run has to find again what this one found: {error}")


def tell_missing(settings: Settings, tables: Tables, console: Console, report: RunReport) -> list[str]:
    """Name everything that is not in the tables; gives what is not known to be dead, as ``MARKET[/POOL]``.

    Raises:
        CheckError: no market was read at all.
    """
    named = {name: [asdict(item) for item in getattr(tables, name)] for name in _NAMED}
    report.add(**named, notices=tables.notices)
    for notice in tables.notices:
        console.warning(notice)
    for item in tables.bounded:
        console.warning(f"{item.market}/{item.pool}: {item.field} is published as {item.bound}; it is that or more")
    surprises = {}
    for unread in tables.unread:
        place = unread.market if unread.pool is None else f"{unread.market}/{unread.pool}"
        if not settings.may_be_unread(place):
            surprises[place] = unread
    for place, unread in surprises.items():
        console.warning(f"{place} could not be read: {unread.detail}", reason=unread.reason)
    if not tables.markets.height:
        raise CheckError(
            "no market was read, and what was published before stays; check network.name, the endpoints, "
            "and [[markets]] if discovery is off"
        )
    return list(surprises)


_NAMED = ("unread", "unpriced", "bounded", "absent")


def tell_damage(store: Store, ledger: int, console: Console, report: RunReport) -> list[str]:
    """Say which earlier files of the history are damaged, as far as this run looks at them."""
    damage = find_damage(store, read_history_manifest(store), ledger)
    report.add(damaged_history=damage)
    for text in damage[:SHOWN_DAMAGE]:
        console.warning(f"damage in the history: {text}")
    return damage


def bring_up_to_date(store: Store, ledger: int, facts: dict[str, Any]) -> Series:
    """The histories of all pools up to the run before.

    Their pages stand already, unless that run left no state; none is a file of this run.
    """
    manifest = read_history_manifest(store)
    series = load_series(store, manifest, ledger)
    known = series.row_count
    restored = store.put_new_many(
        (file.key, file.data) for file in map(read_back, catch_up(store, manifest, ledger, series))
    )
    facts.update(read_again=series.row_count - known, restored=restored.written)
    return series


def publish(
    settings: Settings,
    store: Store,
    tables: Tables,
    part: HistoryPart,
    series: Series,
    evidence: RenderedFile,
    *,
    replaced_ledger: int | None,
    now: Clock,
    console: Console,
) -> tuple[PublishResult, Looked]:
    """Render the tree file by file, each checked as it is made, and publish it in the order that is safe.

    The tree as a whole is checked before anything that readers can find is replaced (`exporter.check.checker`).
    """
    rows = chain.from_iterable(map(snapshots, tables.pools.iter_slices(ROWS_TOGETHER)))
    output = settings.output
    checker = TreeChecker(
        Run(
            tables.ledger, documents.timestamp(tables.close_time), output.page_sizes, output.default_page_size,
            Listing(rows),
        ),
        own_files_only=True,
    )  # fmt: skip
    with (
        console.progress("files", _expected_files(store) if console.shows_progress else None) as progress,
        begin_publication(store, tables.ledger, part, replaced_ledger=replaced_ledger, now=now) as publication,
    ):
        history = publication.history_manifest
        assert history is not None  # the run has a Parquet file
        kept = publication.keep(
            lambda ledger: series.still_open(ledger, tables.close_time) if replaced_ledger is None else ()
        )
        checker.take_over(kept)
        standing = kept.lengths
        del kept  # it holds the listing of the run before
        checker.add_rendered(part.file)  # what documents are held against

        def checked() -> Iterator[RenderedFile]:
            for file in chain([evidence], render(settings, store, tables, part, series, history, standing)):
                progress.advance()
                checker.add_rendered(file)
                yield file

        publication.write(checked())
        sealed = publication.seal()
        status = status_document(settings, tables, sealed.summary, evidence.key)
        for file in (*sealed.records, file_of(status)):
            checker.add_rendered(file)
        looked = checker.finish()
        return publication.complete(sealed, status), looked


@contextmanager
def without_collecting() -> Iterator[None]:
    """Leave cycles of objects alone: rendering makes none worth looking for among all that is held."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _expected_files(store: Store) -> int | None:
    """How many files the last run had; None where there was none."""
    try:
        published = read_published(store)
        return None if published is None else len(read_current_listing(store, published.pointer))
    except StoreError:
        return None  # publishing itself says what is wrong with the store


def render(
    settings: Settings,
    store: Store,
    tables: Tables,
    part: HistoryPart,
    series: Series,
    history: HistoryManifest,
    kept: Collection[str] = (),
) -> Iterator[RenderedFile]:
    """Everything but the pointer and the records of the run, in a stream of which no part is kept.

    ``part`` is the run's own Parquet file. ``series`` is carried on by this run, and by one that came between since
    it was brought up to date; pages that are complete by now come first. ``history`` is the manifest with this run's
    file. ``kept`` are the lengths of bucket whose newest documents stand already.
    """
    network, output = network_of(settings.passphrase), settings.output
    sizes = output.page_sizes, output.default_page_size, output.market_pools_cap
    yield from render_tree(tables.pools, tables.markets, *sizes, tables.backstops)
    yield from catch_up(store, read_history_manifest(store), tables.ledger, series)
    yield from series.extend(observations_of(tables.pools), tables.ledger, tables.close_time)
    yield from series.heads(kept)
    means = Means()
    periods = means.noted(periods_of(series.pools, tables.close_time, tables.pools))
    yield from render_details(tables, PROTOCOLS, periods)
    yield from render_overview(tables, series.first_seen)
    rows = flat_rows(tables, means)
    yield from render_pool_lists(rows, PROTOCOLS)
    yield render_token_list(tables, rows, series.first_seen)
    yield from render_yields(rows)
    del rows, means  # as large as the pools frame
    yield from render_tables(part, history, tables.close_time)
    stood = store.get(CHANGES.template)
    changes = change_list(tables, read_changes(None if stood is None else stood.data), network.passphrase)
    yield file_of(changes)
    yield from render_feeds(changes, network.passphrase, documents.timestamp(tables.close_time))
    del changes  # it has an object for each pool
    yield render_metrics(tables)
    yield render_llms()
    covered = protocol_list(tables, PROTOCOLS, network.deployments, network.name)
    yield file_of(covered)
    yield file_of(openapi_document())
    yield from render_errors()
    yield from render_site(SiteFacts(tables, network.passphrase, covered, series, history))


def status_document(
    settings: Settings, tables: Tables, summary: RunSummary, evidence_key: str
) -> documents.SystemStatus:
    """The pointer, from what is known at the end."""
    output, interval = settings.output, settings.schedule.interval_minutes
    checkpoint = checkpoint_of(tables.ledger)
    expected = (checkpoint + CHECKPOINT_LEDGERS - tables.ledger) * LEDGER_SECONDS
    published = int(summary.published_at.timestamp())
    return documents.SystemStatus(
        run_id=summary.run_id,
        schema_version=documents.SCHEMA_VERSION,
        network=settings.passphrase,
        network_name=network_of(settings.passphrase).name,
        observed_ledger=tables.ledger,
        ledger_close_time=documents.timestamp(tables.close_time),
        generated_at=documents.timestamp(published),
        next_expected_at=None if interval is None else documents.timestamp(published + 60 * interval),
        market_count=tables.markets.height,
        pool_count=int(tables.markets["pool_count"].sum()),
        token_count=tables.pools["token_address"].n_unique(),
        unread_count=len(tables.unread),
        unpriced_count=len(tables.unpriced),
        unread=[documents.Unread(**asdict(item)) for item in tables.unread],
        unpriced=[documents.Unpriced(**asdict(item)) for item in tables.unpriced],
        bounded=[documents.Bounded(**asdict(item)) for item in tables.bounded],
        absent=[documents.Absent(**asdict(item)) for item in tables.absent],
        notices=tables.notices,
        page_sizes=sorted(output.page_sizes),
        default_page_size=output.default_page_size,
        retention_hours=output.retention_hours,
        manifest_key=summary.manifest_key,
        manifest_sha256=summary.manifest_sha256,
        previous_run_id=summary.previous_run_id,
        evidence_key=evidence_key,
        market_pools_cap=output.market_pools_cap,
        proof_checkpoint=checkpoint,
        proof_expected_at=documents.timestamp(tables.close_time + expected),
    )


def compact(store: Store, months: int, now: Clock, closed: int | None) -> Compacted:
    """Make one file of each day that closed, and of each month long past.

    ``closed`` is when the ledger closed, where that should be now: a clock that says otherwise is refused.
    """
    if closed is not None and (problem := clock_problem(now(), closed)) is not None:
        raise CheckError(problem)
    return compact_history(store, months=months, most=MAX_COMPACTED, now=now)
