"""Reads the changes that earlier runs found, if the files that have them are those that a run published.

Each run goes on from two files: the table of all changes, and the list of the newest ones. Somebody may have put an
older copy of one back, or lost it. To go on from it would lose changes without a word. So both are compared with the
digests that the published run lists. A file that differs is made again from the other one, if that has all of it. A
table with rows of a later run, as in a copy that somebody made while that run published, is whole without these rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from exporter.errors import DecodeError, StoreError, pluralize
from exporter.history.changes_table import NO_ROWS, joined_changes, render_changes_table, rows_before
from exporter.publishing.published_state import listings_since, read_listing
from exporter.render.change_list import MAX_CHANGES, bounded, earlier_changes, in_turns
from exporter.stores.store import Store, etag_of
from exporter.tree.documents import RunChange, timestamp
from exporter.tree.families import CHANGES, CHANGES_TABLE, RUN
from exporter.tree.run_listing import RunListing, ledger_of

TABLE_KEY, LIST_KEY = CHANGES_TABLE.only_key, CHANGES.only_key


class EarlierChanges(NamedTuple):
    """The changes that earlier runs found.

    Attributes:
        rows: the rows of the table, all of listed markets.
        changes: the list of the newest, newest first.
        warnings: what was not as it was published, and what became of it.
    """

    rows: pa.Table
    changes: list[RunChange]
    warnings: list[str]


def read_earlier_changes(store: Store, run_id: str, before: int) -> EarlierChanges:
    """Read the changes at ledgers below ``before``, for a run that follows the published run ``run_id``.

    Raises `StoreError` if the table of all changes is not what was published and cannot be made again, because its rows
    are in no other file.
    """
    published_before = ledger_of(run_id) + 1
    files = {key: None if (stored := store.get(key)) is None else stored.data for key in (TABLE_KEY, LIST_KEY)}
    changed, warnings, published_digest = set[str](), list[str](), None
    try:
        listing = _published_listing(store, run_id)
        published_digest = listing.sha256_of(TABLE_KEY)
        changed |= {key for key, data in files.items() if not _is_as_published(store, run_id, listing, key, data)}
    except StoreError as error:
        warnings.append(f"whether {TABLE_KEY} and {LIST_KEY} are as published is not known: {error}")
    rows = NO_ROWS
    try:
        rows = rows_before(files[TABLE_KEY], published_before)
    except DecodeError as error:
        if TABLE_KEY not in changed:
            raise StoreError(f"{TABLE_KEY}: {error}. {_advice(NO_ROWS)}") from None
    changes = earlier_changes(files[LIST_KEY], published_before)
    if TABLE_KEY in changed:
        rows = _rows_again(run_id, published_digest, rows, None if LIST_KEY in changed else changes, files, warnings)
    if LIST_KEY in changed:
        changes = _newest_in(rows)
        warnings.append(
            f"{LIST_KEY} is not as run {run_id} published it; it is made again from {TABLE_KEY}, without changes of "
            "unlisted markets and changes that were queued"
        )
    rows = rows.filter(pc.less(rows["observed_ledger"], before))
    return EarlierChanges(rows, [change for change in changes if change.observed_ledger < before], warnings)


def rows_of_copy(store: Store, before: int) -> pa.Table:
    """The rows below the ledger ``before`` where no run is known, because somebody put a copy of ``history/`` back.

    Raises `StoreError` if the table cannot be read.
    """
    table = store.get(TABLE_KEY)
    try:
        return rows_before(None if table is None else table.data, before)
    except DecodeError as error:
        raise StoreError(f"{TABLE_KEY}: {error}. Restore it from a copy, or remove it to begin a new one") from None


def _advice(rows: pa.Table) -> str:
    """What the operator can do, if the table has these rows and they may not be all."""
    otherwise = f"If there is none, remove it and {LIST_KEY}, and the next run begins a new one"
    if rows.num_rows:
        count = pluralize(rows.num_rows, "row")
        otherwise = f"If this is the newest, remove only {LIST_KEY}, and the next run goes on with its {count}"
    return (
        "No other file has all changes of earlier runs, so nothing was published: restore the newest copy of it. "
        f"{otherwise}"
    )


def _published_listing(store: Store, run_id: str) -> RunListing:
    """The listing of the published run. Raises `StoreError` if it is missing or damaged."""
    listing = read_listing(store, RUN.key(run_id=run_id))
    if listing is None:
        raise StoreError(f"run {run_id} has no manifest")
    return listing


def _is_as_published(store: Store, run_id: str, listing: RunListing, key: str, data: bytes | None) -> bool:
    """Whether a file is the one that the published run listed, or that a later run wrote which was not published."""
    expected = listing.sha256_of(key)
    if expected is None or (data is not None and expected == etag_of(data)):
        return True  # a run of an earlier version may list no such file
    return data is not None and any(etag_of(data) == each.sha256_of(key) for each in listings_since(store, run_id))


def _rows_again(
    run_id: str,
    published_digest: str | None,
    rows: pa.Table,
    changes: list[RunChange] | None,
    files: dict[str, bytes | None],
    warnings: list[str],
) -> pa.Table:
    """The rows of the published table, made of ``rows`` and, if need be, of the list. ``warnings`` gets what to say.

    ``published_digest`` is the SHA-256 of the published table.

    ``rows`` are those in the file up to the published ledger. ``changes`` are None if the list is not as it was
    published either. A list that is missing says that somebody wants to go on without what is lost.

    Rows are proven by the bytes of the table that they make. Another version of pyarrow may write other bytes for the
    same rows. Then rows that are whole are not proven, and the error says how to go on with them.
    """
    is_missing = files[TABLE_KEY] is None
    fault = "is missing" if is_missing else f"is not as run {run_id} published it"
    if published_digest == _digest_of(rows):
        warnings.append(f"{TABLE_KEY} {fault}; it is made again, whole; rows of later ledgers do not count")
        return rows
    if not is_missing:
        fault += ", but maybe an older copy"
    if changes is not None:
        again = joined_changes(rows, changes)
        if published_digest == _digest_of(again):
            warnings.append(f"{TABLE_KEY} {fault}; it is made again, whole, with the help of {LIST_KEY}")
            return again
    elif files[LIST_KEY] is None:
        count = pluralize(rows.num_rows, "row")
        warnings.append(f"{TABLE_KEY} {fault}, and {LIST_KEY} is missing, too; the table goes on with {count}")
        return rows
    raise StoreError(f"{TABLE_KEY} {fault}. {_advice(rows)}")


def _digest_of(rows: pa.Table) -> str:
    """The SHA-256 of the table that has these rows, as this version writes it."""
    return etag_of(render_changes_table(rows, []).data)


def _newest_in(rows: pa.Table) -> list[RunChange]:
    """The list of the newest changes, as far as the table of all changes has them."""
    changes = sorted(_changes_in(rows), key=attrgetter("observed_ledger"), reverse=True)
    by_run = groupby(changes, key=attrgetter("observed_ledger"))
    return bounded([change for _, of_run in by_run for change in in_turns(of_run)], MAX_CHANGES)


def _changes_in(rows: pa.Table) -> Iterator[RunChange]:
    """The changes in the rows of a table. When a queued change takes effect is not in it, so these are left out."""
    row: dict[str, Any]
    for row in rows.filter(pc.not_equal(rows["kind"], "pending")).to_pylist():
        closed = timestamp(int(row.pop("ledger_close_time").timestamp()))
        yield RunChange(**row, ledger_close_time=closed, listed=True, takes_effect=None)
