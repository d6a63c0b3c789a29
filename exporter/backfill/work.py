"""What a worker does: one ledger snapshot file to one file of the history. Nothing but bytes goes in and out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from exporter.config import Settings
from exporter.errors import ExporterError
from exporter.history.manifest import HistoryPart
from exporter.history.parquet import render_history
from exporter.job.reading import open_snapshot, read_protocols, view_limits
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.view import read_at_one_ledger
from exporter.protocols import PROTOCOLS
from exporter.protocols.compute import compute

FAILED = "failed"
EMPTY = "empty"
DONE = "done"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a file.

    ``state`` is `DONE` with a ``part``, `EMPTY` where the ledger has no market, or `FAILED` with ``problem``.
    ``unread`` names what could not be read, as ``MARKET`` or ``MARKET/POOL``.
    """

    state: str
    ledger: int = 0
    part: HistoryPart | None = None
    unread: tuple[str, ...] = ()
    problem: str = ""


def part_of_snapshot(content: bytes, name: str, settings: Settings) -> Outcome:
    """Compute the file of the history that a ledger snapshot file gives; the same content gives the same bytes.

    Prices need contract code, which such a file has not: they are null, with that reason. It raises nothing that the
    exporter raises on purpose, because not every executor can send an error back; that is a failed `Outcome`.
    """
    try:
        return _part(content, name, settings)
    except ExporterError as error:
        return Outcome(FAILED, problem=str(error))


def _part(content: bytes, name: str, settings: Settings) -> Outcome:
    snapshot = LedgerSnapshot.of(content, name)
    opened = open_snapshot(settings, snapshot, name)
    program = partial(read_protocols, settings=settings, opened=opened, modules=PROTOCOLS)
    reading = asyncio.run(read_at_one_ledger(opened.source, program, view_limits(settings)))
    tables = compute(reading.result, PROTOCOLS, snapshot.ledger, snapshot.close_time)
    unread = tuple(item.market if item.pool is None else f"{item.market}/{item.pool}" for item in tables.unread)
    if not tables.markets.height:
        return Outcome(EMPTY, snapshot.ledger, unread=unread)
    part = render_history(
        tables.pools,
        observed_ledger=snapshot.ledger,
        ledger_close_time=snapshot.close_time,
        network=opened.network.passphrase,
    )
    return Outcome(DONE, snapshot.ledger, part, unread)
