"""Everything that a run renders, in one stream, and its status document."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import timedelta

from exporter import FORMAT
from exporter.config import Settings
from exporter.deployments.identified_tokens import identities
from exporter.deployments.networks import network_of
from exporter.history.buckets import observations_of
from exporter.history.manifest import folder_of, span_of
from exporter.history.parquet import render_latest
from exporter.history.periods import periods_of
from exporter.history.series import Series
from exporter.ledger.checkpoints import checkpoint_of
from exporter.protocols import PROTOCOLS
from exporter.protocols.compute import Tables
from exporter.publishing.publish import RunSummary
from exporter.render.changes import render_feeds
from exporter.render.data_package import render_tables
from exporter.render.lists import render_assets, render_pool_lists, render_token_list, with_list_columns
from exporter.render.openapi import openapi_document, render_llms
from exporter.render.run_documents import (
    protocol_list,
    protocol_summary,
    render_details,
    render_markets,
    render_metrics,
    render_skipped,
    skipped_counts,
    token_documents,
    unpriced_bps,
    unpriced_markets,
)
from exporter.render.site.pages import render_site
from exporter.render.site.text import native
from exporter.render.yields import render_yields
from exporter.tree import documents
from exporter.tree.documents import ChangeList, HistoryManifest
from exporter.tree.files import RenderedFile
from exporter.tree.problems import GENERIC_PROBLEMS
from exporter.tree.read_back import file_of

SHOWN_SKIPPED = 20
"""How many skipped markets the status document names."""


def render(
    settings: Settings,
    tables: Tables,
    series: Series,
    history: HistoryManifest,
    changes: ChangeList,
    kept: Collection[str] = (),
) -> Iterator[RenderedFile]:
    """Everything but the status document and the records of the run, in a stream of which no part is kept.

    ``series`` are the histories up to the run before; this run carries them on. ``history`` and ``changes`` have this
    run's. ``kept`` are the lengths of bucket whose newest documents are already published.
    """
    network, output = network_of(settings.passphrase), settings.output
    yield from render_assets(tables.pools, tables.markets, output.page_sizes, output.default_page_size)
    yield from render_markets(tables, output.market_pools_cap)
    yield from series.extend(observations_of(tables.pools), tables.ledger, tables.close_time)
    yield from series.heads(kept)
    periods = list(periods_of(series.pools, tables.close_time, tables.pools))
    tables = replace(tables, pools=with_list_columns(tables.pools, periods, network.name, tables.tokens))
    known = identities(network.name)
    yield from render_details(tables, PROTOCOLS, periods, series.pools_first_seen)
    yield file_of(protocol_summary(tables))
    yield from map(file_of, token_documents(tables, series.first_seen, known))
    yield from render_pool_lists(tables.pools, PROTOCOLS)
    yield render_token_list(tables, series.first_seen, known)
    yield from render_yields(tables.pools, native(network.passphrase), PROTOCOLS)
    latest = render_latest(
        tables.pools,
        observed_ledger=tables.ledger,
        ledger_close_time=tables.close_time,
        network=settings.passphrase,
    )
    yield from render_tables(latest, history, tables.close_time)
    yield file_of(changes)
    first = min(history.files, key=lambda file: file.first_ledger)
    began = int(span_of(folder_of(first.key))[0].timestamp())
    yield from render_feeds(changes, network.passphrase, documents.timestamp(began))
    yield from render_skipped(tables)
    yield render_metrics(tables)
    yield render_llms()
    covered = protocol_list(tables, PROTOCOLS, network.deployments, network.name)
    yield file_of(covered)
    yield file_of(openapi_document())
    yield from map(file_of, GENERIC_PROBLEMS)
    yield from render_site(tables, network.passphrase, covered, series, history)


def times_of(summary: RunSummary, interval: timedelta | None) -> dict[str, int]:
    """When a run was published and, where an interval is promised, when the next is expected, in unix seconds."""
    at = int(summary.published_at.timestamp())
    return {"published_at": at} | ({} if interval is None else {"next_expected_at": at + int(interval.total_seconds())})


def status_document(
    settings: Settings, tables: Tables, summary: RunSummary, evidence_key: str
) -> documents.SystemStatus:
    """The status document, from what is known at the end."""
    output = settings.output
    times = {name: documents.timestamp(at) for name, at in times_of(summary, settings.schedule.interval).items()}
    return documents.SystemStatus(
        run_id=summary.run_id,
        format=FORMAT,
        network=settings.passphrase,
        network_name=network_of(settings.passphrase).name,
        observed_ledger=tables.ledger,
        ledger_close_time=documents.timestamp(tables.close_time),
        generated_at=times["published_at"],
        next_expected_at=times.get("next_expected_at"),
        market_count=tables.markets.height,
        listed_market_count=int(tables.markets["listed"].sum()),
        pool_count=int(tables.markets["pool_count"].sum()),
        token_count=tables.pools["token_address"].n_unique(),
        unread_count=len(tables.unread),
        unpriced_count=len(tables.unpriced),
        unread=tables.unread,
        unpriced=tables.unpriced,
        unpriced_bps=unpriced_bps(tables),
        unpriced_markets=unpriced_markets(tables),
        skipped_counts=skipped_counts(tables.skipped),
        skipped=tables.skipped[:SHOWN_SKIPPED],
        bounded=tables.bounded,
        absent=tables.absent,
        notices=tables.notices,
        page_sizes=sorted(output.page_sizes),
        default_page_size=output.default_page_size,
        retention_hours=output.retention // timedelta(hours=1),
        manifest_key=summary.manifest_key,
        manifest_sha256=summary.manifest_sha256,
        previous_run_id=summary.previous_run_id,
        evidence_key=evidence_key,
        market_pools_cap=output.market_pools_cap,
        proof_checkpoint=checkpoint_of(tables.ledger),
        risk_key=None if tables.risk is None else tables.risk.key,
        risk_sha256=None if tables.risk is None else tables.risk.sha256,
    )
