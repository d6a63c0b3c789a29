"""Runs of the job as tests want them: against an embedded network, at a fixed time, with the report in memory."""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from exporter.config import Settings, load
from exporter.console import Console, Silence
from exporter.job.from_archive import FromArchive
from exporter.job.on_chain import ChainCheck, check_chain
from exporter.job.report import RunLog, RunReport
from exporter.job.run import execute
from exporter.job.sources import RpcEndpoints, Source, StoredLedger
from exporter.localnet.player import NETWORK
from exporter.stores import open_store
from exporter.stores.store import Store

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def settings_for(out: Path | None = None, url: str | None = None, **flags: Any) -> Settings:
    """Settings of a run against the recorded network; ``output__uri`` means output.uri."""
    values: dict[str, Any] = {
        "network.name": NETWORK,
        "network.requests_per_second": 10_000.0,
        "network.max_ledger_age": 0,  # the clock of tests is their own
    }
    if out is not None:
        values["output.uri"] = str(out)
    if url is not None:
        values["network.rpc_urls"] = [url]
    values |= {key.replace("__", "."): value for key, value in flags.items()}
    return load(None, values, environment={}).settings


def on_chain(settings: Settings, snapshot: Path | None = None) -> ChainCheck:
    """What ``exporter check --on-chain`` finds with these settings."""

    async def work() -> ChainCheck:
        source: Source = RpcEndpoints() if snapshot is None else StoredLedger(snapshot)
        async with source.open(settings) as opened:
            return await check_chain(settings, opened)

    return asyncio.run(work())


def run(
    settings: Settings,
    store: Store | None = None,
    *,
    now: datetime = NOW,
    said: io.StringIO | None = None,
    report: RunReport | None = None,
    snapshot: Path | None = None,
    archive: FromArchive | None = None,
    **options: Any,
) -> tuple[int, dict[str, Any]]:
    """One run, into the settings' output unless a store is given; gives its exit code and the facts of its report."""
    report = report or RunReport(None)
    console = Silence() if said is None else Console("text", said)
    store = store or open_store(settings.output.uri)
    source: Source = archive or (RpcEndpoints() if snapshot is None else StoredLedger(snapshot))
    done = execute(settings, store, RunLog(console, report), source, now=lambda: now, **options)
    return done.exit_code, report.facts
