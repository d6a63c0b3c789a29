"""The job: reads every market at one ledger, computes, gathers the other inputs, renders and publishes the tree.

After that it reads a sample back, saves what the next run needs, compacts the history and removes what has expired.

`execute` lists the steps in their order, and `Job` has a method for each. An error ends the run with an exit code of
its own. The last published run then stays as it was, unless the error of publishing says otherwise.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import asdict, replace

from exporter.config import Settings
from exporter.console import Console
from exporter.deployments.networks import network_id, network_of
from exporter.errors import (
    CheckError,
    ExitCode,
    ExporterError,
    PublishedCheckError,
    SourceError,
    pluralize,
)
from exporter.event_loops import refuse_running_loop
from exporter.history.liquidations_table import restore_table
from exporter.history.manifest import find_damage, find_lost_rollups, read_history_manifest
from exporter.history.series import Series, catch_up, files_before, load_series, save_series
from exporter.job.earlier_changes import read_earlier_changes, rows_of_copy
from exporter.job.evidence import Evidence
from exporter.job.inputs import RunInputs, run_settings
from exporter.job.known_markets_file import load_memory, save_memory
from exporter.job.lost_prices import LostPrices, find_lost_prices, load_missed, save_missed
from exporter.job.reading import MarketsRead, read_markets
from exporter.job.rendering import render_run, times_of
from exporter.job.report import (
    RunLog,
    report_dead_endpoints,
    report_discovered,
    report_missing,
    report_notices,
    report_outcome,
    report_unpriced,
)
from exporter.job.run_report import RunReport
from exporter.job.sources import RpcEndpoints, Source, StoredLedger, check_ledger_clock, check_rpc_urls
from exporter.job.watched import run_before, watched_by
from exporter.protocols.compute import Tables
from exporter.publishing.checker import TreeChecker
from exporter.publishing.compaction import compact_history
from exporter.publishing.proofs import published_proofs
from exporter.publishing.publish import Publication, RunIdentity, read_back_sample
from exporter.publishing.published_risk import shown_risk
from exporter.publishing.published_state import (
    AcceptedRun,
    LedgerNotNewerError,
    accept_run,
    check_network,
    check_replaced,
    closed_earlier,
    lost_inputs,
    read_intent,
    read_published,
    read_whole_history,
    refuse_files_of_others,
)
from exporter.publishing.retention import clock_problem, sweep
from exporter.render.watched_values import WatchedFile
from exporter.stores import open_store
from exporter.stores.held_store import HeldStore, hold
from exporter.stores.memory import MemoryStore
from exporter.stores.read_once import ReadOnce
from exporter.stores.store import Clock, Store, utc_now
from exporter.tables import PoolKey
from exporter.tree import families
from exporter.tree.documents import HistoryManifest, Proof, RunChange, timestamp
from exporter.tree.files import RenderedFile
from exporter.tree.read_back import file_of, read_back
from exporter.tree.run_listing import ledger_of
from exporter.user_files import user_path

MAX_NAMED_DAMAGE = 20
"""The console names at most this many damaged files; the report names all."""

MAX_COMPACTED = 40
"""A run compacts at most this many files; the next run continues."""


class RunResult(Struct, frozen=True):
    """The result of a run that did not fail.

        >>> result.run_id == result.report["run_id"]
        True
        >>> result.report["unread"]
        []

    ``exit_code`` is 0, or 7 if something could not be read that ``allow_unread`` does not list, or if too many prices
    are missing. ``run_id`` is None if there was nothing to do because the ledger was published already.
    """

    exit_code: int
    ledger: int
    run_id: str | None
    published: bool
    report: RunReport


def run(
    settings: Settings,
    *,
    snapshot: Path | str | None = None,
    archive: Source | None = None,
    dry_run: bool = False,
    replaced_ledger: int | None = None,
    console: Console | None = None,
) -> RunResult:
    """Read every market at one ledger and publish the tree into ``output.uri``.

        >>> settings = load_settings(None, {"network.rpc_urls": [rpc_url], "output.uri": "./public"})
        >>> result = run(settings)
        >>> result.exit_code, result.ledger, result.published
        (0, 65000000, True)

    The run report (``output.report``) is begun before the first step, and finished whatever happens.

    Args:
        settings: what to read, and where the tree goes.
        snapshot: a ledger snapshot file, or the evidence of an earlier run, to read instead of the RPCs.
        archive: history archives to read instead, at a checkpoint that is proven first.
        dry_run: do everything but write; what a run refuses is refused, too.
        replaced_ledger: the ledger of a published run that is wrong. This run undoes it and every later run.
        console: receives progress; by default nothing is shown.

    Raises:
        ExporterError: the run failed. The error's ``exit_code`` says how.
    """
    refuse_running_loop("run")
    log = RunLog(user_path(settings.output.report), console, command="run")
    source: Source = archive or (RpcEndpoints() if snapshot is None else StoredLedger(user_path(snapshot)))
    try:
        if isinstance(source, RpcEndpoints):
            check_rpc_urls(settings)  # before the store is opened; opening the source comes later and checks for others
        store = open_store(settings.output.uri)
        result = execute(settings, store, log, source, dry_run=dry_run, replaced_ledger=replaced_ledger)
        log.finish(result.exit_code)
    except ExporterError as error:
        if isinstance(error, SourceError):
            error.args = (f"{str(error).rstrip('.')}; the last published run stays", *error.args[1:])
        log.finish(error.exit_code, str(error))
        raise
    except BaseException as error:
        log.finish(ExitCode.UNEXPECTED, f"{type(error).__name__}: {error}")
        raise
    finally:
        if log.problem is not None:
            log.warning(log.problem)
    return result


def execute(
    settings: Settings,
    store: Store,
    log: RunLog,
    source: Source,
    *,
    dry_run: bool = False,
    replaced_ledger: int | None = None,
    now: Clock = utc_now,
) -> RunResult:
    """Do all steps of a run, with a store as the output. Raises `ExporterError` if the run fails."""
    log.add(network=settings.network.name, output=store.uri, dry_run=dry_run)
    before = ReadOnce(store)
    with log.step("output", "trying the output"):
        if (published := read_published(before, older=True)) is not None:
            log.add(**published.status.times)  # if this run fails from here on, readers still have that one
        if try_output(before, settings.passphrase, replaced_ledger, write=not dry_run):
            log.event("earlier_format", "the tree was made by an earlier version; this run publishes over it")
    if dry_run:
        store = MemoryStore(store)  # it reads what is in the output, and forgets what is written
        before = ReadOnce(store)
    job = Job(settings, before, log, source, replaced_ledger, now)
    read, evidence = job.read()
    job.keep_discoveries(read)
    with hold(store) as held:
        try:
            accepted = accept_run(held, read.certificate.ledger, read.close_time, replaced_ledger=replaced_ledger)
        except LedgerNotNewerError as error:
            if error.already_published:
                return job.nothing_to_do(held, read.certificate.ledger)
            raise
        tables, surprises = job.compute(read, evidence)
        tables = replace(tables, risk=shown_risk(held, tables, settings.passphrase))
        gathered = job.gather_inputs(held, tables, evidence)
        identity = job.publish(held, accepted, gathered.inputs)
        log.add(run_id=identity.run_id, manifest_sha256=identity.manifest_sha256, published=not dry_run)
        job.report_proven(held)
        if not dry_run:
            log.add(**times_of(identity, settings.schedule.interval))
        code = ExitCode.UNREAD if surprises or gathered.lost.too_many else ExitCode.DONE
        if not dry_run:
            job.read_back(store, identity)
            job.add_proof(held, identity, evidence.key, read)
            job.remember(held, gathered)
            job.judge_history(held, gathered.damage)
            job.compact(held, tables)
            job.sweep(held, tables)
            if code == ExitCode.UNREAD:
                text = "published, but not everything could be read or priced; the status document names what"
                log.warning(text, exit_code=code)
    report_outcome(log, tables, identity.run_id, published=not dry_run)
    return RunResult(int(code), tables.ledger, identity.run_id, not dry_run, log.facts)


class Gathered(NamedTuple):
    """The inputs of a run, the damage in the history's files, and the prices that the run lost."""

    inputs: RunInputs
    damage: list[str]
    lost: LostPrices


class PreviousRun(NamedTuple):
    """What the published run has for the next one.

    Attributes:
        watched: the values that it watched; None if they are not known.
        changes: the changes that it and earlier runs found, as the list of changes has them.
        changes_table: the same changes as rows, and all earlier ones.
    """

    watched: WatchedFile | None
    changes: list[RunChange]
    changes_table: pa.Table


class Job(Struct, frozen=True):
    """The state that the steps of a run share; `execute` has them in their order."""

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

    def read(self) -> tuple[MarketsRead, RenderedFile]:
        """Read every market at one ledger. Returns them and the file of the evidence."""
        with self.log.step("read", "reading the ledger") as facts:
            read, evidence = asyncio.run(self._read())
            certificate = read.certificate
            facts.update(ledger=certificate.ledger, keys=certificate.keys)
            facts.update(calls=certificate.calls, rounds=certificate.rounds)
        report_notices(read.notices, self.log)
        if self.source.live:
            slow = check_ledger_clock(self.settings, certificate.ledger, read.close_time, self.now())
            if slow is not None:
                self.log.warning(slow)
        # The evidence is the largest object in memory, and later steps need no more of it than its file.
        return read, evidence.file()

    async def _read(self) -> tuple[MarketsRead, Evidence]:
        """Read within the source. The report then has what the source was asked, also if reading fails."""
        settings, log = self.settings, self.log
        with log.console.progress("requests") as progress:
            async with self.source.open(settings, progress.advance) as opened:
                memory = (
                    load_memory(self.store, network_id(settings.passphrase)) if opened.discovers(settings) else None
                )
                if memory is not None and self.replaced_ledger is not None:
                    memory.rewind(self.replaced_ledger)
                try:
                    read, evidence = await read_markets(settings, opened, memory)
                finally:
                    asked = opened.report()
                    log.add(reading=asked)
        report_dead_endpoints(asked.get("answers", {}), asked.get("errors", {}), log)
        certificate = asdict(read.certificate)
        certificate |= asdict(certificate.pop("interval"))
        log.add(certificate=certificate, ledger_close_time=read.close_time)
        return read, evidence

    def keep_discoveries(self, read: MarketsRead) -> None:
        """Save what was discovered, before anything can go wrong with the rest of the run."""
        report_discovered(read.discovered, self.log)
        if read.memory is None:
            return
        ledger = read.certificate.ledger
        if self.replaced_ledger is not None and ledger < self.replaced_ledger:
            # The network has not come to the replaced ledger yet. What events of later ledgers named is forgotten.
            read.memory.rewind(ledger + 1)
        with self.log.optional("what this run discovered was not saved; the next run discovers it again"):
            save_memory(self.store, read.memory)

    def compute(self, read: MarketsRead, evidence: RenderedFile) -> tuple[Tables, list[str]]:
        """Compute the numbers. Returns them, and what should have been read and was not (`report_missing`)."""
        with self.log.step("compute", "computing") as facts:
            tables = read.tables()
            facts.update(evidence=len(evidence.data), markets=tables.markets.height, pools=tables.pools.height)
            facts.update(unpriced=len(tables.unpriced), unread=len(tables.unread))
            return tables, report_missing(self.settings, tables, read, self.log)

    def gather_inputs(self, held: HeldStore, tables: Tables, evidence: RenderedFile) -> Gathered:
        """Read what the output has of earlier runs: the history, and what the previous run watched and changed.

        Pages of the history that the previous run did not save are published again here.
        """
        ledger = tables.ledger
        with self.log.step("inputs", "reading the history and the previous run") as facts:
            manifest = read_history_manifest(held, older=True)
            damage = self._report_damage(held, manifest)
            before = ledger if self.replaced_ledger is None else min(ledger, self.replaced_ledger)
            series = load_series(held, manifest, before)
            facts.update(self._catch_up(held, manifest, before, series))
            if tables.close_time < series.through_time:
                raise closed_earlier(ledger, tables.close_time, series.through_ledger, series.through_time)
            lost = find_lost_prices(self.settings, tables, series, self._missed_before(held))
            report_unpriced(tables, self.log)
            self.log.add(lost_prices=lost.as_dict())
            if lost.too_many:
                self.log.warning(str(lost))
            previous = self._previous_run(held, before)
            inputs = RunInputs(
                settings=run_settings(self.settings),
                evidence=evidence,
                tables=tables,
                history=files_before(manifest, before),
                series=series,
                watched=previous.watched,
                earlier_changes=previous.changes,
                earlier_rows=previous.changes_table,
            )
        return Gathered(inputs, damage, lost)

    def _report_damage(self, held: HeldStore, manifest: HistoryManifest | None) -> list[str]:
        """Name what is damaged in the history's files, and rollups that are lost. Returns the damage."""
        damage = find_damage(held, manifest)
        if any(text.startswith(families.LIQUIDATIONS.only_key) for text in damage) and restore_table(held, manifest):
            text = "had rows of a backfill that did not end; the earlier table was put back: backfill again"
            self.log.warning(f"{families.LIQUIDATIONS.only_key} {text}")
            damage = find_damage(held, manifest)
        self.log.add(damaged_history=damage)
        for text in damage[:MAX_NAMED_DAMAGE]:
            self.log.warning(f"damage in the history: {text}")
        for text in find_lost_rollups(held, manifest):
            self.log.warning(f"{text}; it is made again from the history's files")
        published = read_published(held, older=True)
        if published is not None and manifest is not None and self.replaced_ledger is None:
            for item in lost_inputs(held, published, manifest)[:MAX_NAMED_DAMAGE]:
                self.log.warning(f"the history lacks {item.key}, which the previous run went on from, and it is gone")
        return damage

    def _catch_up(
        self, held: HeldStore, manifest: HistoryManifest | None, before: int, series: Series
    ) -> dict[str, int]:
        """Add the rows to the series that its saved state lacks, and publish their pages again.

        There are none unless the previous run saved no state. Returns the number of rows that were read again, and the
        number of pages that were restored, by their names in the run report.
        """
        rows_loaded = series.row_count
        pages = map(read_back, catch_up(held, manifest, before, series))
        restored = held.put_many(((page.key, page.data) for page in pages), immutable=True)
        return {"read_again": series.row_count - rows_loaded, "restored": restored.written}

    def _previous_run(self, held: HeldStore, before: int) -> PreviousRun:
        """Read what the published run has for this one.

        Documents of a run that died before it was published do not count. A run that replaces others is compared with
        none. Raises `StoreError` if the table of changes cannot be continued, because its rows are in no other file.
        """
        run_id = run_before(held, before)
        if run_id is None:
            return PreviousRun(None, [], rows_of_copy(held, before))
        watched = None
        if self.replaced_ledger is None:
            before = ledger_of(run_id) + 1
            with self.log.optional("what changed since the previous run is not known, so no change is reported"):
                watched = watched_by(held, run_id)
        earlier = read_earlier_changes(held, run_id, before)
        for text in earlier.warnings:
            self.log.warning(text)
        return PreviousRun(watched, earlier.changes, earlier.rows)

    def publish(self, held: HeldStore, accepted: AcceptedRun, inputs: RunInputs) -> RunIdentity:
        """Render and publish the tree. The run's files are checked before anything that readers can find is replaced.

        Rollups are made later, while publishing, from checked files of the history. So the manifest of the history that
        is checked here has the previous rollups; the one with the new rollups is rendered, and read back as it is,
        when they are written (docs/decisions.md, "Rollups are made after the check of a run").
        """
        settings, replaced = self.settings, self.replaced_ledger
        tables, series = inputs.tables, inputs.series
        checker = TreeChecker(tables.ledger, inputs.settings.page_sizes)
        with (
            self.log.step("publish", "rendering and publishing") as facts,
            without_collecting(),
            self.log.console.progress("files") as progress,
        ):
            rendered = render_run(inputs)
            publication = Publication(held, accepted, rendered.part, self.now)
            lengths, reused = publication.reuse_unchanged_histories(
                lambda ledger: series.still_open(ledger, tables.close_time) if replaced is None else (),
                series.keys_of_totals,  # of the runs before this one
            )
            checker.seen.update(reused)  # the previous run checked them
            checker.add_rendered(rendered.part.file)
            if tables.risk is not None:
                checker.seen.add(tables.risk.key)  # the census checked it

            def checked() -> Iterator[RenderedFile]:
                for file in rendered.files(lengths):
                    progress.advance()
                    checker.add_rendered(file)
                    yield file

            publication.write(checked())
            sealed = publication.seal(inputs.settings, inputs.named())
            times = times_of(sealed.identity, settings.schedule.interval)
            expected = times.get("next_expected_at")
            status = rendered.status(
                sealed.identity,
                retention_hours=settings.output.retention // timedelta(hours=1),
                next_expected_at=None if expected is None else timestamp(expected),
            )
            for file in (*sealed.records, file_of(status)):
                checker.add_rendered(file)
            self.log.add(checked=checker.finish().as_dict())
            total = publication.complete(sealed, status)
            facts.update(written=total.written, unchanged=total.unchanged, bytes=total.bytes)
        return sealed.identity

    def nothing_to_do(self, held: HeldStore, ledger: int) -> RunResult:
        """End a run whose ledger is published already. Its exit code is 7 if that run misses too many prices."""
        self.log.add(nothing_to_do=True)
        self.log.event("nothing_to_do", f"nothing to do: ledger {ledger} is published already")
        missed = self._missed_before(held)
        if missed:
            prices = pluralize(len(missed), "pool")
            self.log.warning(
                f"the published run lacks the price of {prices} that had one in the last 7 days",
                exit_code=ExitCode.UNREAD,
            )
        return RunResult(int(ExitCode.UNREAD if missed else ExitCode.DONE), ledger, None, False, self.log.facts)

    def _missed_before(self, held: HeldStore) -> frozenset[PoolKey]:
        """The pools whose prices the previous run missed; empty, with a warning, if that cannot be read."""
        missed = frozenset[PoolKey]()
        with self.log.optional("earlier runs' list of missing prices cannot be read; this run may report them again"):
            missed |= load_missed(held)
        return missed

    def read_back(self, store: Store, identity: RunIdentity) -> None:
        """Read some of the published files back, as a reader would. Raises `PublishedCheckError` if one is wrong."""
        with self.log.step("read_back", "reading back") as facts:
            facts.update(files=read_back_sample(store, identity))

    def add_proof(self, held: HeldStore, identity: RunIdentity, evidence_key: str, read: MarketsRead) -> None:
        """Publish the proof of the ledger, if the source has one. The report then has this proof as the newest."""
        if read.proof is None:
            return
        with self.log.step("prove", "adding the proof of the checkpoint") as facts:
            network, entries = self.settings.passphrase, read.entry_count
            self.source.publish_proof(held, network, identity.run_id, evidence_key, entries, read.proof, self.now)
            facts.update(entries=entries)
        self.report_proven(held)

    def report_proven(self, held: HeldStore) -> None:
        """Put the newest proof in the tree into the report, if there is one."""
        proofs = list[Proof]()
        with self.log.optional("the list of proofs cannot be read, so the report names none"):
            proofs += published_proofs(held)
        if proofs:
            newest = max(proofs, key=lambda proof: proof.observed_ledger)
            self.log.add(
                proven={"ledger": newest.observed_ledger, "entries": newest.entries, "confirmed": newest.confirmed}
            )

    def remember(self, held: HeldStore, gathered: Gathered) -> None:
        """Save what the next run needs of the history. If that fails, the next run reads the history again."""
        with self.log.step("remember", "saving the history's state for the next run") as facts:
            with self.log.optional("the history's state was not saved; the next run reads the history again"):
                series = gathered.inputs.series
                facts.update(observations=series.row_count, bytes=save_series(held, series))
            with self.log.optional("the list of missing prices was not saved; the next run compares with an older one"):
                save_missed(held, gathered.lost)

    def judge_history(self, held: HeldStore, damage: list[str]) -> None:
        """Raise `PublishedCheckError` if earlier files of the history are damaged, or rollups still lack rows.

        The run is published then, but nothing is compacted or removed.
        """
        with self.log.step("history", "checking the history's earlier files") as facts:
            damage = damage + find_lost_rollups(held, read_history_manifest(held))
            facts.update(damaged=len(damage))
            if damage:
                raise PublishedCheckError(
                    f"damage in the history, {len(damage)} in all; the first: {damage[0]}. This run is published, and "
                    "nothing was compacted or swept. `exporter check` names every file; restore them from a copy"
                )

    def compact(self, held: HeldStore, tables: Tables) -> None:
        """Join files of closed days and months of the history, if the settings ask for it."""
        with (
            self.log.step("compact", "compacting the history") as facts,
            self.log.optional("the history was not compacted; a later run tries again"),
        ):
            if not self.settings.history.compact:
                return
            if self.judges_clocks and (problem := clock_problem(self.now(), tables.close_time)) is not None:
                raise CheckError(problem)
            done = compact_history(held, months=self.settings.history.months, most=MAX_COMPACTED, now=self.now)
            facts.update(files_before=len(done.joined), files_after=len(done.files))

    def sweep(self, held: HeldStore, tables: Tables) -> None:
        """Remove files that no published run within the retention needs, and warn of what could not be removed."""
        with self.log.step("sweep", "removing what has expired") as facts:
            retention = self.settings.output.retention
            swept = sweep(held, retention, now=self.now, closed=tables.close_time)
            if swept.refused is not None:
                self.log.warning(f"no {'more ' if swept.documents else ''}expired files were removed: {swept.refused}")
            if swept.ageless is not None and self.judges_clocks:
                self.log.warning(f"old files were kept: {swept.ageless}")
            if swept.unnamed:
                self.log.add(unnamed_history=list(swept.unnamed))
                self.log.warning(
                    f"{pluralize(len(swept.unnamed), 'Parquet file')} of the history, the first {swept.unnamed[0]}, "
                    "belong to no manifest and were kept; put back the newest v1/history.json, or run exporter history "
                    f"rebuild {held.uri}"
                )
            facts.update(pages=swept.pages, documents=swept.documents, runs=swept.runs)


@contextmanager
def without_collecting() -> Iterator[None]:
    """Turn Python's search for reference cycles off. It takes a tenth of rendering's time, and hardly any are there."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def try_output(store: Store, network: str, replaced_ledger: int | None, *, write: bool) -> bool:
    """Fail here, before minutes of reading, if a run could not be published into this output.

    Returns whether the published tree has an earlier format. Raises `ExporterError`.
    """
    published = read_published(store, older=True)
    read_whole_history(store, older=True, replaced_ledger=replaced_ledger)
    if write:
        store.try_writing()
    else:
        next(store.list(""), None)  # raises if the output cannot be used
    check_network(store, published, network)
    read_intent(store)
    if published is None:
        refuse_files_of_others(store)
    if replaced_ledger is not None:
        check_replaced(store, replaced_ledger)
    return published is not None and published.has_earlier_format
