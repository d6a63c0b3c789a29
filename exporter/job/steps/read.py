"""The first step of a run: reads every market at one ledger, and keeps what was discovered on the way."""

from __future__ import annotations

import asyncio

from msgspec.structs import asdict

from exporter.deployments.networks import network_id
from exporter.job.evidence import Evidence
from exporter.job.known_markets_file import load_memory, save_memory
from exporter.job.reading import MarketsReading, read_markets
from exporter.job.sources import check_ledger_clock
from exporter.job.step_reports import report_dead_endpoints, report_discovered, report_notices
from exporter.job.steps.job import Job
from exporter.ledger.rpc.client import RpcCounters
from exporter.tree.files import RenderedFile


def read_ledger(job: Job) -> tuple[MarketsReading, RenderedFile]:
    """Read every market at one ledger. Returns them and the file of the evidence."""
    with job.log.step("read", "reading the ledger") as facts:
        reading, evidence = asyncio.run(_read_within_source(job))
        certificate = reading.certificate
        facts.update(ledger=certificate.ledger, keys=certificate.keys)
        facts.update(calls=certificate.calls, rounds=certificate.rounds)
    report_notices(reading.notices, job.log)
    if job.source.live:
        slow = check_ledger_clock(job.settings, certificate.ledger, reading.close_time, job.now())
        if slow is not None:
            job.log.warning(slow)
    # The evidence is the largest object in memory, and later steps need no more of it than its file.
    return reading, evidence.file()


async def _read_within_source(job: Job) -> tuple[MarketsReading, Evidence]:
    """Read within the source. The report then has what the source was asked, also if reading fails."""
    settings, log = job.settings, job.log
    with log.console.progress("requests") as progress:
        async with job.source.open(settings, progress.advance) as opened:
            memory = load_memory(job.store, network_id(settings.passphrase)) if opened.discovers(settings) else None
            if memory is not None and job.replaced_ledger is not None:
                memory.rewind(job.replaced_ledger)
            try:
                reading, evidence = await read_markets(settings, opened, memory)
            finally:
                log.add(reading=opened.report())
    if isinstance(opened.facts, RpcCounters):
        report_dead_endpoints(opened.facts.answers, opened.facts.errors, log)
    certificate = asdict(reading.certificate)
    certificate |= asdict(certificate.pop("interval"))
    log.add(certificate=certificate, ledger_close_time=reading.close_time)
    return reading, evidence


def keep_discoveries(job: Job, reading: MarketsReading) -> None:
    """Save what was discovered, before anything can go wrong with the rest of the run."""
    report_discovered(reading.discovered, job.log)
    if reading.memory is None:
        return
    ledger = reading.certificate.ledger
    if job.replaced_ledger is not None and ledger < job.replaced_ledger:
        # The network has not come to the replaced ledger yet. What events of later ledgers named is forgotten.
        reading.memory.rewind(ledger + 1)
    with job.log.optional("what this run discovered was not saved; the next run discovers it again"):
        save_memory(job.store, reading.memory)
