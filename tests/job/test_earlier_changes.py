"""A run goes on from the changes that the published run wrote, and from no other copy of them without a word."""

from __future__ import annotations

import io

import msgspec
import polars as pl
import pytest

from exporter.errors import StoreError
from exporter.history.changes_table import NO_ROWS, render_changes_table
from exporter.job.earlier_changes import LIST_KEY, TABLE_KEY, EarlierChanges, read_earlier_changes
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store, etag_of
from exporter.tree.documents import ChangeList, Intent, ManifestFile, RunChange
from exporter.tree.families import INTENT_KEY
from exporter.tree.read_back import render_document
from exporter.tree.run_listing import RunListing
from tests.history.test_changes_table import at

CHANGES = [at(103), at(103, listed=False), at(102), at(101)]
"""What three runs found, newest first."""


def table_of(changes: list[RunChange]) -> bytes:
    return render_changes_table(NO_ROWS, changes).data


def list_of(changes: list[RunChange]) -> bytes:
    return render_document(ChangeList(103, changes)).data


def publish(store: Store, ledger: int, changes: list[RunChange], *, second: int = 0, table: bytes | None = None) -> str:
    """Write what a run leaves: both files, its listing, and its manifest. Returns its id.

    ``table`` are the bytes of the table, if it is not written as this version does.
    """
    run_id = f"{ledger}-{second:012x}"
    files = {TABLE_KEY: table_of(changes) if table is None else table, LIST_KEY: list_of(changes)}
    listing = RunListing.of(ManifestFile(key, "document", len(data), etag_of(data)) for key, data in files.items())
    manifest = {
        "files_key": f"v1/runs/{run_id}.parquet",
        "files_sha256": etag_of(listing.parquet),
        "published_at": f"2026-11-21T12:00:{second:02}Z",
    }
    store.put(f"v1/runs/{run_id}.parquet", listing.parquet)
    store.put(f"v1/runs/{run_id}.json", msgspec.json.encode(manifest))
    for key, data in files.items():
        store.put(key, data)
    return run_id


def continued(store: Store, changes: dict[str, bytes | None], run_id: str) -> EarlierChanges:
    """What the next run goes on from, after some files were replaced; None removes a file."""
    for key, data in changes.items():
        if data is None:
            store.delete([key])
        else:
            store.put(key, data)
    return read_earlier_changes(store, run_id, 104)


@pytest.fixture
def store() -> MemoryStore:
    """A tree with one published run."""
    made = MemoryStore()
    publish(made, 103, CHANGES)
    return made


RUN_ID = "103-000000000000"


def test_files_as_published(store: MemoryStore) -> None:
    """Nothing is said of them."""
    earlier = continued(store, {}, RUN_ID)

    assert ([101, 102, 103], CHANGES, []) == (
        earlier.rows["observed_ledger"].to_pylist(),
        earlier.changes,
        earlier.warnings,
    )


@pytest.mark.parametrize(
    "table", [table_of([at(101)]), table_of([]), None, b"damaged"], ids=["older", "oldest", "missing", "damaged"]
)
def test_a_table_that_the_list_makes_whole(store: MemoryStore, table: bytes | None) -> None:
    """An older, lost or damaged table is made again with the list, as its digest proves, and the run says so."""
    earlier = continued(store, {TABLE_KEY: table}, RUN_ID)

    assert table_of(CHANGES) == render_changes_table(earlier.rows, []).data
    assert CHANGES == earlier.changes
    assert [True] == [f"it is made again, whole, with the help of {LIST_KEY}" in text for text in earlier.warnings]


NEWER = [at(104), *CHANGES]
"""What a later run found that a copy of the tree has no manifest of."""


@pytest.mark.parametrize(
    "listed",
    [list_of(NEWER), list_of(CHANGES[2:]), None, b"{"],
    ids=["newer", "older", "missing", "damaged"],
)
def test_a_newer_table_is_whole_whatever_the_list_is(store: MemoryStore, listed: bytes | None) -> None:
    """In a copy that was made while a run published, the table without that run's rows proves itself."""
    earlier = continued(store, {TABLE_KEY: table_of(NEWER), LIST_KEY: listed}, RUN_ID)

    assert table_of(CHANGES) == render_changes_table(earlier.rows, []).data
    assert [change for change in CHANGES if change.listed] == earlier.changes
    assert [
        f"{TABLE_KEY} is not as run {RUN_ID} published it; it is made again, whole; rows of later ledgers do not count",
        f"{LIST_KEY} is not as run {RUN_ID} published it; it is made again from {TABLE_KEY}, "
        "without changes of unlisted markets and changes that were queued",
    ] == earlier.warnings


def test_a_newer_table_next_to_the_published_list(store: MemoryStore) -> None:
    """The list stays as it is, with its changes of unlisted markets."""
    earlier = continued(store, {TABLE_KEY: table_of(NEWER)}, RUN_ID)

    assert ([101, 102, 103], CHANGES) == (earlier.rows["observed_ledger"].to_pylist(), earlier.changes)
    assert [TABLE_KEY] == [text.partition(" ")[0] for text in earlier.warnings]


def written_by_other_software(changes: list[RunChange]) -> bytes:
    """The table with the same rows in other bytes."""
    file = io.BytesIO()
    pl.read_parquet(io.BytesIO(table_of(changes))).write_parquet(file, compression="snappy")
    return file.getvalue()


def test_a_newer_table_that_other_software_wrote(store: MemoryStore) -> None:
    """If the same rows have other bytes, nothing is proven; what the error says to do keeps every row."""
    run_id = publish(store, 103, CHANGES, second=1, table=written_by_other_software(CHANGES))
    with pytest.raises(StoreError, match=rf"newest, remove only {LIST_KEY}, and the next run goes on with its 3 rows$"):
        continued(store, {TABLE_KEY: written_by_other_software(NEWER), LIST_KEY: list_of(NEWER)}, run_id)
    earlier = continued(store, {LIST_KEY: None}, run_id)

    assert table_of(CHANGES) == render_changes_table(earlier.rows, []).data


@pytest.mark.parametrize(
    ("table", "otherwise"),
    [
        (
            table_of([at(101)]),
            f"If this is the newest, remove only {LIST_KEY}, and the next run goes on with its 1 row",
        ),
        (None, f"If there is none, remove it and {LIST_KEY}, and the next run begins a new one"),
        (b"damaged", f"If there is none, remove it and {LIST_KEY}, and the next run begins a new one"),
    ],
    ids=["older", "missing", "damaged"],
)
@pytest.mark.parametrize("listed", [CHANGES[:2], None], ids=["cut", "older"])
def test_a_table_that_nothing_makes_whole(
    store: MemoryStore, table: bytes | None, otherwise: str, listed: list[RunChange] | None
) -> None:
    """If the list lacks a row, or is not as published either, the run refuses, names the file, and says what to do.

    It never says to remove a table whose rows can be read.
    """
    if listed is not None:  # the published list had no room for the change at ledger 102
        run_id = publish(store, 103, CHANGES, second=1)
        store.put(LIST_KEY, list_of(listed))
        listing = RunListing.of(
            ManifestFile(key, "document", len(data), etag_of(data))
            for key, data in ((TABLE_KEY, table_of(CHANGES)), (LIST_KEY, list_of(listed)))
        )
        manifest = {"files_key": f"v1/runs/{run_id}.parquet", "files_sha256": etag_of(listing.parquet)}
        store.put(f"v1/runs/{run_id}.parquet", listing.parquet)
        store.put(f"v1/runs/{run_id}.json", msgspec.json.encode(manifest))
    else:
        run_id = RUN_ID
        store.put(LIST_KEY, list_of(CHANGES[2:]))

    with pytest.raises(StoreError, match=rf"^{TABLE_KEY} is .*restore the newest copy of it\. {otherwise}$"):
        continued(store, {TABLE_KEY: table}, run_id)


@pytest.mark.parametrize(("table", "rows"), [(table_of([at(101)]), [101]), (None, [])], ids=["older", "missing"])
def test_without_a_list_a_run_goes_on_from_what_is_there(
    store: MemoryStore, table: bytes | None, rows: list[int]
) -> None:
    """Whoever removes the list too wants to go on; the run warns of both files."""
    earlier = continued(store, {TABLE_KEY: table, LIST_KEY: None}, RUN_ID)

    assert (rows, rows) == (
        earlier.rows["observed_ledger"].to_pylist(),
        [change.observed_ledger for change in earlier.changes],
    )
    assert [TABLE_KEY, LIST_KEY] == [text.partition(" ")[0] for text in earlier.warnings]


@pytest.mark.parametrize("listed", [list_of(CHANGES[2:]), None, b"{"], ids=["older", "missing", "damaged"])
def test_a_list_is_made_again_from_the_table(store: MemoryStore, listed: bytes | None) -> None:
    """The table has every change of listed markets; the run says that others are missing."""
    earlier = continued(store, {LIST_KEY: listed}, RUN_ID)

    assert [change for change in CHANGES if change.listed] == earlier.changes
    assert [True] == [text.startswith(f"{LIST_KEY} is not as") for text in earlier.warnings]


@pytest.mark.parametrize("files", [[TABLE_KEY], [LIST_KEY], [TABLE_KEY, LIST_KEY]])
@pytest.mark.parametrize("deaths", [1, 2])
def test_files_of_runs_that_died(store: MemoryStore, files: list[str], deaths: int) -> None:
    """Files of a run that died after it replaced them are no copies: nothing is said, and its changes do not count.

    The run may have died before another one that replaced nothing.
    """
    published = {key: store.get(key) for key in (TABLE_KEY, LIST_KEY)}
    run_id = publish(store, 104, [at(104), *CHANGES], second=1)
    for key, stored in published.items():
        if key not in files and stored is not None:
            store.put(key, stored.data)
    last = run_id if deaths == 1 else "105-000000000002"
    store.put(INTENT_KEY, msgspec.json.encode(Intent(last, 104, started_at="2026-11-21T12:00:01Z")))
    earlier = continued(store, {}, RUN_ID)

    assert ([101, 102, 103], CHANGES, []) == (
        earlier.rows["observed_ledger"].to_pylist(),
        earlier.changes,
        earlier.warnings,
    )


def test_a_run_without_a_listing(store: MemoryStore) -> None:
    """If nobody can tell what was published, the run goes on, and says so."""
    earlier = continued(store, {f"v1/runs/{RUN_ID}.json": None, TABLE_KEY: table_of([at(101)])}, RUN_ID)

    assert [101] == earlier.rows["observed_ledger"].to_pylist()
    assert [True] == ["are as published is not known" in text for text in earlier.warnings]
