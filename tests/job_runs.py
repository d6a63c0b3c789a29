"""Runs of the job as tests need them: against a simulated network, at a fixed time, with the report in memory."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from exporter.audit.on_chain import ChainCheck, check_chain
from exporter.config import Settings, load
from exporter.console import Console
from exporter.deployments.listing import MarketListings
from exporter.deployments.networks import NETWORKS
from exporter.job import rendering
from exporter.job.run import execute
from exporter.job.run_log import RunLog
from exporter.job.scope_reading import read_protocols
from exporter.job.sources import OpenSource, RpcEndpoints, Source, StoredLedger, WithoutProof
from exporter.ledger.view import LedgerView, read_at_one_ledger
from exporter.localnet.network import LocalNetwork
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.past.archive_source import FromArchive
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import ProtocolReading
from exporter.protocols.compute import Tables, compute
from exporter.stores import open_store
from exporter.stores.store import Store
from tests import made_once
from tests.localnet.direct_source import DirectSource

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def settings_for(out: Path | None = None, url: str | None = None, **flags: Any) -> Settings:
    """Settings of a run against the recorded network; ``output__uri`` means output.uri."""
    values: dict[str, Any] = {
        "network.name": NETWORK,
        "network.requests_per_second": 10_000.0,
        "network.max_ledger_age": "0s",  # the clock of tests is their own
    }
    if out is not None:
        values["output.uri"] = str(out)
    if url is not None:
        values["network.rpc_urls"] = [url]
    values |= {key.replace("__", "."): value for key, value in flags.items()}
    return load(None, values, environment={}).settings


def naming(network: RecordedNetwork) -> dict[str, Any]:
    """The key of the settings by which a run takes the copies in a network for listed markets."""
    return {"markets": [{"protocol": "blend", "address": market} for market in network.copies]}


def direct(network: LocalNetwork, *, moving: bool = False) -> OpenSource:
    """The network without a server between; calls are simulated. With ``moving``, each answer closes a ledger."""
    return OpenSource(DirectSource(network, moving), NETWORKS[NETWORK], [], "direct", None)


@dataclass(frozen=True)
class Opened(WithoutProof):
    """What is open already, as the source of a run."""

    source: OpenSource
    live: ClassVar[bool] = True

    @asynccontextmanager
    async def open(self, settings: Settings, on_request: object = None) -> AsyncIterator[OpenSource]:
        yield self.source


@contextmanager
def leaving_out_pages() -> Iterator[None]:
    """Runs render no web pages, which are a third of their time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made_once, "trees_are_whole", False)
        patch.setattr(rendering, "render_site", lambda *_: iter(()))
        yield


def read_tables(opened: OpenSource) -> Tables:
    """All that a run without discovery of events reads of a source."""

    async def program(view: LedgerView) -> list[ProtocolReading]:
        return await read_protocols(view, settings_for(), opened)

    async def work() -> Tables:
        reading = await read_at_one_ledger(opened.source, program)
        ledger = reading.certificate.ledger
        close_time = await opened.source.close_time(ledger)
        return compute(reading.result, PROTOCOLS, ledger, close_time, MarketListings(opened.network.deployments))

    return asyncio.run(work())


def on_chain(settings: Settings, snapshot: Path | None = None) -> ChainCheck:
    """What ``exporter check --on-chain`` finds with these settings."""
    source: Source = RpcEndpoints() if snapshot is None else StoredLedger(snapshot)
    return asyncio.run(check_chain(settings, source))


def run(
    settings: Settings,
    store: Store | None = None,
    *,
    now: datetime = NOW,
    said: io.StringIO | None = None,
    report: RunLog | None = None,
    snapshot: Path | None = None,
    archive: FromArchive | None = None,
    network: RecordedNetwork | None = None,
    **options: Any,
) -> tuple[int, dict[str, Any]]:
    """One run, into the settings' output unless a store is given; gives its exit code and the facts of its report.

    It reads one of snapshot, archive and network, else the RPCs of the settings.
    """
    report = report or RunLog(None, None if said is None else Console("text", said))
    store = store or open_store(settings.output.uri)
    source: Source = archive or (RpcEndpoints() if snapshot is None else StoredLedger(snapshot))
    if network is not None:
        source = Opened(direct(network))
    done = execute(settings, store, report, source, now=lambda: now, **options)
    return done.exit_code, dict(report.facts)
