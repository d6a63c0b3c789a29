"""Renders all files of a run from its inputs. A run, `check` and `verify` use the same function, `render_run`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from exporter import FORMAT
from exporter.deployments.identified_tokens import identities
from exporter.deployments.networks import native_contract, network_of
from exporter.history.buckets import NETWORK, TotalKey, observations_of
from exporter.history.changes_table import render_changes_table
from exporter.history.days_csv import days_metadata
from exporter.history.manifest import HistoryPart, folder_of, span_of
from exporter.history.parquet import render_history, render_latest
from exporter.history.periods import periods_of
from exporter.job.inputs import RunInputs
from exporter.ledger.checkpoints import checkpoint_of
from exporter.protocols import PROTOCOLS
from exporter.publishing.publication import RunIdentity
from exporter.publishing.published_state import PublishedTimes
from exporter.render.api_examples import examples_of
from exporter.render.change_list import change_list
from exporter.render.changes import own_changes
from exporter.render.data_package import render_tables
from exporter.render.feeds import render_feeds
from exporter.render.lists import render_assets, render_pool_lists, render_tokens, with_list_columns
from exporter.render.openapi import api_index, openapi_document, render_llms
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
from exporter.render.watched_values import WatchedFile, watched_values
from exporter.render.yields import render_yields
from exporter.tree import documents
from exporter.tree.documents import ChangeList, HistoryManifest, InputName, ProtocolList, RunChange, SystemStatus
from exporter.tree.files import RenderedFile
from exporter.tree.problems import GENERIC_PROBLEMS
from exporter.tree.read_back import file_of

MAX_NAMED_SKIPPED = 20
"""The status document names at most this many skipped markets."""


class FileGroup(Struct, frozen=True):
    """Some files of a run, and the names of the inputs that they depend on. All files depend on the settings, too."""

    depends_on: frozenset[InputName]
    files: Iterator[RenderedFile]


class RenderedRun(Struct, frozen=True):
    """A run as it follows from its inputs (`render_run`).

    Attributes:
        inputs: the run's inputs.
        history_part: the run's Parquet file.
        history: the manifest of the history, which ends with this file.
        watched: the values that the next run compares its own with, and those that this run hands on to it.
    """

    inputs: RunInputs
    history_part: HistoryPart
    history: HistoryManifest
    watched: WatchedFile

    def groups(self, unchanged: Collection[str] = ()) -> Iterator[FileGroup]:
        """Every file of the run but its Parquet file, as streams to be read once, in this order. None stays in memory.

        ``unchanged`` are the time bucket lengths whose newest documents are published already.
        """
        yield FileGroup(frozenset({"evidence", "risk"}), self._of_evidence())
        yield FileGroup(frozenset({"evidence", "watched"}), iter([self.watched.file]))
        yield FileGroup(frozenset({"evidence", "watched", "history"}), self._of_changes())
        yield FileGroup(frozenset({"evidence", "risk", "watched", "history"}), self._of_history(unchanged))

    def files(self, unchanged: Collection[str] = ()) -> Iterator[RenderedFile]:
        """The files of all `groups`, one after the other. They can be read once."""
        for group in self.groups(unchanged):
            yield from group.files

    def _of_evidence(self) -> Iterator[RenderedFile]:
        """The files that depend on neither an earlier run nor the history."""
        tables, settings = self.inputs.tables, self.inputs.settings
        yield self.inputs.evidence
        sizes, default_size = settings.page_sizes, settings.default_page_size
        yield from render_assets(tables.pools, tables.markets, sizes, default_size, tables.ledger)
        yield from render_markets(tables, settings.market_pools_cap)
        yield file_of(protocol_summary(tables))
        yield from render_skipped(tables)
        yield render_metrics(tables)
        yield render_llms()
        yield file_of(self._coverage())
        yield file_of(days_metadata())
        native = native_contract(settings.network)
        yield file_of(openapi_document(examples_of(tables, native)))
        yield file_of(api_index())
        yield from map(file_of, GENERIC_PROBLEMS)

    def _of_changes(self) -> Iterator[RenderedFile]:
        """The files of what changed since the previous run. An empty feed is dated with the day the history began."""
        changes, network = self._changes(), self.inputs.settings.network
        yield file_of(changes)
        yield render_changes_table(self.inputs.earlier_rows, self._own_changes())
        first = min(self.history.files, key=lambda file: file.first_ledger)
        began = int(span_of(folder_of(first.key))[0].timestamp())
        yield from render_feeds(changes, self.watched.values, network, documents.timestamp(began))

    def _own_changes(self) -> list[RunChange]:
        inputs = self.inputs
        before = None if inputs.watched is None else inputs.watched.values
        return own_changes(before, self.watched.values, inputs.settings.network, inputs.tables.close_time)

    def _changes(self) -> ChangeList:
        return change_list(self._own_changes(), self.inputs.earlier_changes, self.inputs.tables.ledger)

    def _of_history(self, unchanged: Collection[str]) -> Iterator[RenderedFile]:
        """The files that continue those of earlier runs, and the web pages, which show some of these."""
        tables, series = self.inputs.tables, self.inputs.series
        network = network_of(self.inputs.settings.network)
        native = native_contract(network.passphrase)
        yield from series.extend(observations_of(tables.pools), tables.ledger, tables.close_time)
        yield from series.newest_documents(unchanged)
        markets = (TotalKey("market", market) for market in tables.markets["market"])
        yield from series.documents_without_pools([TotalKey(NETWORK, NETWORK), *markets])
        periods = list(periods_of(series.pools, tables.close_time, tables.pools))
        tables = replace(tables, pools=with_list_columns(tables.pools, periods, network.name, tables.tokens))
        identified = identities(network.name)
        yield from render_details(tables, PROTOCOLS, periods, series.pools_first_seen)
        yield from map(file_of, token_documents(tables, series.tokens_first_seen, identified))
        yield from render_pool_lists(tables.pools, PROTOCOLS, tables.ledger)
        yield from render_tokens(tables, series.tokens_first_seen, identified, native)
        yield from render_yields(tables.pools, native, PROTOCOLS)
        latest = render_latest(
            tables.pools,
            observed_ledger=tables.ledger,
            ledger_close_time=tables.close_time,
            network=network.passphrase,
        )
        yield from render_tables(latest, self.history, tables.close_time, shows_risk=tables.risk is not None)
        changes = self._changes().data
        public_url = self.inputs.settings.public_url
        yield from render_site(tables, network.passphrase, self._coverage(), series, self.history, changes, public_url)

    def _coverage(self) -> ProtocolList:
        network = network_of(self.inputs.settings.network)
        return protocol_list(self.inputs.tables, PROTOCOLS, network.deployments, network.name)

    def status(self, identity: RunIdentity, *, retention_hours: int, next_expected_at: str | None) -> SystemStatus:
        """The status document.

        Its times and the retention are the publisher's word. Everything else follows from the inputs and the manifest.
        """
        tables, settings = self.inputs.tables, self.inputs.settings
        return SystemStatus(
            run_id=identity.run_id,
            format=FORMAT,
            network=settings.network,
            network_name=network_of(settings.network).name,
            observed_ledger=tables.ledger,
            ledger_close_time=documents.timestamp(tables.close_time),
            generated_at=documents.timestamp(int(identity.published_at.timestamp())),
            next_expected_at=next_expected_at,
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
            skipped=tables.skipped[:MAX_NAMED_SKIPPED],
            bounded=tables.bounded,
            absent=tables.absent,
            notices=tables.notices,
            page_sizes=settings.page_sizes,
            default_page_size=settings.default_page_size,
            retention_hours=retention_hours,
            manifest_key=identity.manifest_key,
            manifest_sha256=identity.manifest_sha256,
            previous_run_id=identity.previous_run_id,
            evidence_key=self.inputs.evidence.key,
            market_pools_cap=settings.market_pools_cap,
            proof_checkpoint=checkpoint_of(tables.ledger),
            risk_key=None if tables.risk is None else tables.risk.key,
            risk_sha256=None if tables.risk is None else tables.risk.sha256,
        )


def render_run(inputs: RunInputs) -> RenderedRun:
    """The run that follows from the inputs. `run`, `check` and `verify` all get its files from here."""
    tables = inputs.tables
    part = render_history(
        tables.pools,
        observed_ledger=tables.ledger,
        ledger_close_time=tables.close_time,
        network=inputs.settings.network,
    )
    history = HistoryManifest(FORMAT, tables.ledger, [*inputs.history, part.entry])
    before = None if inputs.watched is None else inputs.watched.values
    watched = WatchedFile.of(watched_values(tables, inputs.settings.network, before))
    return RenderedRun(inputs, part, history, watched)


def times_of(identity: RunIdentity, interval: timedelta | None) -> PublishedTimes:
    """The time of publishing, and the time of the next run, which is None if no interval is promised."""
    published_at = int(identity.published_at.timestamp())
    expected = None if interval is None else published_at + int(interval.total_seconds())
    return {"next_expected_at": expected, "published_at": published_at}
