"""The Parquet history: every file that its manifest names, and the newest one against the documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.check.agreement import TERM_PATHS
from exporter.check.whole import Whole, number, value_in_cents
from exporter.tables import MAX_TIMESTAMP_SECONDS
from exporter.tree.documents import AssetDetail, HistoryFile, PoolSnapshot, SystemStatus, timestamp
from exporter.tree.families import HISTORY_MANIFEST_KEY, HISTORY_PREFIX, LATEST_PARQUET, asset_key

_ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError)
_LEDGER = "observed_ledger"
_AS_WRITTEN = "%Y-%m-%dT%H:%M:%SZ"
_VALUE_COLUMNS = (*PoolSnapshot.__struct_fields__, "total_collateral", *TERM_PATHS)
_CLOSED = "ledger_close_time"
_FOLDER = re.compile(
    rf"{HISTORY_PREFIX}(?:date=([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})|month=([0-9]{{4}}-[0-9]{{2}}))/[^/]+\.parquet"
)


@dataclass(frozen=True, slots=True)
class ParquetFacts:
    """What a Parquet file says of itself.

    ``ledgers`` are the lowest and the highest in its rows, ``closed`` the first and the last time at which one of them
    closed, as documents write it; both are None without rows.
    """

    rows: int
    ledgers: tuple[int, int] | None
    closed: tuple[str, str] | None
    metadata: dict[str, str]
    values: tuple[tuple[object, ...], ...] | None
    """The rows in the columns that documents have, and with the plain collateral, for a file of one ledger."""


def read_parquet(data: bytes, ledger: int | None) -> ParquetFacts | str:
    """Read a file of the history; its values too when all its rows are of ``ledger``. A text says why it cannot be."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        table = file.read([_LEDGER, _CLOSED])
        ledgers, times = table.column(_LEDGER).to_pylist(), table.column(_CLOSED).to_pylist()
        metadata = {name.decode(): value.decode() for name, value in (file.metadata.metadata or {}).items()}
        values = None
        if set(ledgers) <= {ledger}:
            columns = file.read(list(_VALUE_COLUMNS)).to_pydict()
            values = tuple(zip(*(columns[name] for name in _VALUE_COLUMNS), strict=True))
        closed = (f"{min(times):{_AS_WRITTEN}}", f"{max(times):{_AS_WRITTEN}}") if times else None
        return ParquetFacts(
            int(file.metadata.num_rows), (min(ledgers), max(ledgers)) if ledgers else None, closed, metadata, values
        )
    except _ARROW_ERRORS as error:
        return f"pyarrow cannot read it: {error}"


def check_history(whole: Whole, status: SystemStatus, facts: dict[str, ParquetFacts]) -> None:
    """See that the history's manifest describes its files, and that it reaches to the run."""
    history = whole.history
    if history is None:
        if any(key.startswith(HISTORY_PREFIX) for key in whole.seen):
            whole.faults.add(HISTORY_MANIFEST_KEY, "is missing, though the history has files")
        return

    def fault(text: str) -> None:
        whole.faults.add(HISTORY_MANIFEST_KEY, text)

    if not history.files:
        fault("$.files is empty")
    newest = max((file.last_ledger for file in history.files), default=0)
    for name, found in (("observed_ledger", history.observed_ledger), ("files", newest)):
        if found != status.observed_ledger:
            fault(f"$.{name} reaches to ledger {found}, but the run is of ledger {status.observed_ledger}")
    for earlier, later in pairwise(history.files):
        if later.first_ledger <= earlier.last_ledger:
            fault(f"{earlier.key} reaches to ledger {earlier.last_ledger}, and {later.key} begins at or before it")
    if len({file.key for file in history.files}) != len(history.files):
        fault("$.files has a key twice")
    latest = whole.seen.get(LATEST_PARQUET.template)
    if latest is not None and latest.sha256 not in {file.sha256 for file in history.files[-1:]}:
        whole.faults.add(LATEST_PARQUET.template, "is not the newest file of the history")
    for file in history.files:
        try:
            whole.faults.add_all(file.key, _file_faults(whole, status, file, facts.get(file.key)))
        except (ArithmeticError, TypeError, ValueError) as error:
            whole.faults.add(file.key, f"holds values of another kind than its columns should: {error}")


def _file_faults(whole: Whole, status: SystemStatus, file: HistoryFile, facts: ParquetFacts | None) -> Iterator[str]:
    seen = whole.seen.get(file.key)
    if seen is None:
        if not whole.partial and not (whole.own_files_only and file.last_ledger < status.observed_ledger):
            yield "is missing, though the history's manifest lists it"
        return
    whole.looked.links += 1
    if (seen.bytes, seen.sha256) != (file.bytes, file.sha256):
        yield "does not have the bytes that the history's manifest gives for it"
    if file.first_ledger > file.last_ledger:
        yield f"begins at ledger {file.first_ledger} and ends at {file.last_ledger} in the history's manifest"
    if facts is None:
        return
    whole.looked.history_files += 1
    whole.looked.history_rows += facts.rows
    if facts.rows != file.rows:
        yield f"has {facts.rows} rows, but {file.rows} in the history's manifest"
    if facts.ledgers is not None and facts.ledgers != (file.first_ledger, file.last_ledger):
        yield (
            f"has rows of ledgers {facts.ledgers[0]} to {facts.ledgers[1]}, but {file.first_ledger} to "
            f"{file.last_ledger} in the history's manifest"
        )
    if facts.metadata.get("schema_version") != str(file.schema_version):
        yield f"is of schema version {facts.metadata.get('schema_version')}, not {file.schema_version}"
    yield from _date_faults(file, facts)
    if file.last_ledger == status.observed_ledger:
        yield from _newest_faults(whole, status, facts)


def _date_faults(file: HistoryFile, facts: ParquetFacts) -> Iterator[str]:
    """A file lies in the folder of the day, or of the month, in which all of its ledgers closed."""
    match = _FOLDER.fullmatch(file.key)
    if match is None:
        yield "is not under the key of a history file"
        return
    stated = facts.metadata.get(_CLOSED)  # a run's file says it also when it has no rows; a compacted one has rows
    for closed in facts.closed or (() if stated is None else (_time(stated),)):
        if not closed.startswith(match[1] or match[2]):
            yield f"is of a ledger that closed at {closed}, which is another day or month than its folder's"
            return


def _newest_faults(whole: Whole, status: SystemStatus, facts: ParquetFacts) -> Iterator[str]:
    """The file of the run itself holds the very rows that the documents hold."""
    if facts.metadata.get("network") != status.network:
        yield f"is of network {facts.metadata.get('network')!r}, but the status says {status.network!r}"
    closed = _time(facts.metadata.get("ledger_close_time", ""))
    if closed != status.ledger_close_time:
        yield f"has the close time {closed}, but the status says {status.ledger_close_time}"
    if facts.values is None:
        return
    if len(facts.values) != len(whole.listing):
        yield f"has {len(facts.values)} pools of the run's ledger, but the documents have {len(whole.listing)}"
        return
    for values, row in zip(facts.values, whole.by_name.values(), strict=True):
        fields, collateral = values[: len(PoolSnapshot.__struct_fields__)], values[len(PoolSnapshot.__struct_fields__)]
        detail = whole.of(AssetDetail).get(asset_key(row.market, row.pool))
        if detail is not None:
            terms = values[-len(TERM_PATHS) :]
            for name, value, published in zip(TERM_PATHS, terms, detail.terms, strict=True):
                if _wire(value) != published:
                    yield f"{row.market} {row.pool}: {name} is {_wire(value)!r}, its own document has {published!r}"
        for name, value in zip(PoolSnapshot.__struct_fields__, fields, strict=True):
            if _wire(value) != getattr(row, name):
                yield f"{row.market} {row.pool}: {name} is {_wire(value)!r}, the documents have {getattr(row, name)!r}"
        if row.oracle_price_usd is not None:
            amount = number(row.total_supplied) + int(str(collateral))
            wanted = str(value_in_cents(amount, row.oracle_price_usd, row.decimals))
            if row.tvl_usd_cents != wanted:
                yield f"{row.market} {row.pool}: tvl_usd_cents is {row.tvl_usd_cents}, but its parts give {wanted}"


def _time(seconds: str) -> str:
    """Unix seconds in digits as documents write a time; anything else as it stands."""
    known = seconds.isdecimal() and int(seconds[:12]) <= MAX_TIMESTAMP_SECONDS
    return timestamp(int(seconds)) if known else seconds


def _wire(value: Any) -> object:
    if isinstance(value, datetime):
        return f"{value:{_AS_WRITTEN}}"
    return str(value) if isinstance(value, Decimal) else value
