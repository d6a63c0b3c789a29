"""Runs of the job as tests want them: against an embedded network, at a fixed time, with the report in memory."""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from exporter.config import Settings, load
from exporter.console import Console, Silence
from exporter.job.on_chain import ChainCheck, check_chain
from exporter.job.reading import open_source
from exporter.job.report import RunReport
from exporter.job.run import execute
from exporter.stores import open_store
from exporter.stores.store import Store

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def settings_for(out: Path | None = None, url: str | None = None, **flags: Any) -> Settings:
    """Settings of a run against the embedded network; ``output__uri`` stands for output.uri."""
    values: dict[str, Any] = {"network.name": "local", "network.requests_per_second": 10_000.0}
    if out is not None:
        values["output.uri"] = str(out)
    if url is not None:
        values["network.rpc_urls"] = [url]
    values |= {key.replace("__", "."): value for key, value in flags.items()}
    return load(None, values, environment={}).settings


def on_chain(settings: Settings, snapshot: Path | None = None) -> ChainCheck:
    """What ``exporter check --on-chain`` finds with these settings."""

    async def work() -> ChainCheck:
        async with open_source(settings, snapshot) as opened:
            return await check_chain(settings, opened)

    return asyncio.run(work())


def run(
    settings: Settings,
    store: Store | None = None,
    *,
    now: datetime = NOW,
    said: io.StringIO | None = None,
    report: RunReport | None = None,
    **options: Any,
) -> tuple[int, dict[str, Any]]:
    """One run, into the settings' output unless a store is given; gives its exit code and the facts of its report."""
    report = report or RunReport(None)
    console = Silence() if said is None else Console("text", said)
    store = store or open_store(settings.output.uri, precompressed=settings.output.precompressed)
    return execute(settings, store, console, report, now=lambda: now, **options).exit_code, report.facts
