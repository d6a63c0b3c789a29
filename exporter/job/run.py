"""The job: reads every market at one ledger, computes, gathers the other inputs, renders and publishes the tree.

After that it reads a sample back, saves what the next run needs, compacts the history and removes what has expired.

`execute` has the steps in their order; `exporter.job.steps` has a module for each group of them. An error ends the run
with an exit code of its own. The last published run then stays as it was, unless the error of publishing says
otherwise.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from exporter.config import Settings
from exporter.console import Console
from exporter.errors import ExitCode, ExporterError, PublishedCheckError, SourceError, pluralize
from exporter.event_loops import refuse_running_loop
from exporter.history.manifest import read_history_manifest
from exporter.job.reading import MarketsReading
from exporter.job.rendering import times_of
from exporter.job.run_log import RunLog
from exporter.job.run_report import RunReport
from exporter.job.sources import RpcEndpoints, Source, StoredLedger, check_rpc_urls
from exporter.job.step_reports import name_of, report_outcome, should_have_been_read
from exporter.job.steps.after_publishing import (
    add_proof,
    compact_closed,
    damage_text,
    judge_history,
    read_sample_back,
    report_proven,
    save_history_state,
    sweep_expired,
)
from exporter.job.steps.gather import compute_tables, gather_inputs, read_missed_prices, report_damage
from exporter.job.steps.job import Job
from exporter.job.steps.publish import publish_tree
from exporter.job.steps.read import keep_discoveries, read_ledger
from exporter.publishing.acceptance import (
    LedgerNotNewerError,
    accept_run,
    check_network,
    check_replaced,
    refuse_files_of_others,
)
from exporter.publishing.published_history import read_checked_history_manifest
from exporter.publishing.published_risk import shown_risk
from exporter.publishing.published_state import published_unread, read_intent, read_published
from exporter.stores import open_store
from exporter.stores.held_store import HeldStore, hold
from exporter.stores.memory import MemoryStore
from exporter.stores.read_once import ReadOnce
from exporter.stores.store import Clock, Store, utc_now
from exporter.tree.documents import Unread
from exporter.user_files import user_path


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
        if isinstance(error, SourceError) and "published_at" in log.facts:
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
    output = ReadOnce(store)
    with log.step("output", "trying the output"):
        if (published := read_published(output, older=True)) is not None:
            log.add(**published.status.times)  # if this run fails from here on, readers still have that one
        if try_output(output, settings.passphrase, replaced_ledger, write=not dry_run):
            log.event("earlier_format", "the tree was made by an earlier version; this run publishes over it")
    if dry_run:
        store = MemoryStore(store)  # it reads what is in the output, and forgets what is written
        output = ReadOnce(store)

    job = Job(settings, output, log, source, replaced_ledger, now)
    reading, evidence = read_ledger(job)
    keep_discoveries(job, reading)

    with hold(store) as held:
        try:
            accepted = accept_run(held, reading.certificate.ledger, reading.close_time, replaced_ledger=replaced_ledger)
        except LedgerNotNewerError as error:
            if error.already_published:
                return _nothing_to_do(job, held, reading)
            raise
        tables, unexpectedly_unread = compute_tables(job, reading, evidence)
        tables = replace(tables, risk=shown_risk(held, tables, settings.passphrase))
        gathered = gather_inputs(job, held, tables, evidence)
        identity = publish_tree(job, held, accepted, gathered.inputs)
        log.add(run_id=identity.run_id, manifest_sha256=identity.manifest_sha256, published=not dry_run)
        report_proven(job, held)
        if not dry_run:
            log.add(**times_of(identity, settings.schedule.interval))
        code = ExitCode.UNREAD if unexpectedly_unread or gathered.lost.too_many else ExitCode.DONE
        if not dry_run:
            read_sample_back(job, store, identity)
            add_proof(job, held, identity, evidence.key, reading)
            save_history_state(job, held, gathered)
            judge_history(job, held, gathered.damage)
            compact_closed(job, held, tables)
            sweep_expired(job, held, tables)
            if code == ExitCode.UNREAD:
                text = "published, but not everything could be read or priced; the status document names what"
                log.warning(text, exit_code=code)
    report_outcome(log, tables, identity.run_id, published=not dry_run)
    return RunResult(int(code), tables.ledger, identity.run_id, not dry_run, log.facts)


def _nothing_to_do(job: Job, held: HeldStore, reading: MarketsReading) -> RunResult:
    """End a run whose ledger is published already, with the exit code that the published run ended with.

    That is 7 if the published run could not read or price everything. Raises `PublishedCheckError` if files of the
    history are damaged.
    """
    log, ledger = job.log, reading.certificate.ledger
    log.add(nothing_to_do=True)
    log.event("nothing_to_do", f"nothing to do: ledger {ledger} is published already")
    if damage := report_damage(job, held, read_history_manifest(held, older=True)):
        raise PublishedCheckError(damage_text(damage))
    unread = list[Unread]()
    with log.optional("what the published run could not read is not known"):
        unread += should_have_been_read(job.settings, reading.listings, published_unread(held))
    for item in unread:
        name, reason = name_of(item), item.reason
        log.warning(f"the published run could not read {name}: {item.detail}", reason=reason, exit_code=ExitCode.UNREAD)
    missed = read_missed_prices(job, held)
    if missed:
        prices = pluralize(len(missed), "pool")
        log.warning(
            f"the published run lacks the price of {prices} that had one in the last 7 days",
            exit_code=ExitCode.UNREAD,
        )
    code = ExitCode.UNREAD if unread or missed else ExitCode.DONE
    return RunResult(int(code), ledger, None, False, log.facts)


def try_output(store: Store, network: str, replaced_ledger: int | None, *, write: bool) -> bool:
    """Fail here, before minutes of reading, if a run could not be published into this output.

    Returns whether the published tree has an earlier format. Raises `ExporterError`.
    """
    published = read_published(store, older=True)
    read_checked_history_manifest(store, older=True, replaced_ledger=replaced_ledger)
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
