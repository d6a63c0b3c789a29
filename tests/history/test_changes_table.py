"""The table of all changes: a row a change of a listed market, and no row of an earlier run is ever lost or doubled."""

from __future__ import annotations

import io

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.errors import DecodeError
from exporter.history.changes_table import NO_ROWS, SCHEMA, render_changes_table, rows_before
from exporter.tree.documents import RunChange
from tests.render.rendering import contract

CHANGE = RunChange(
    id="urn:uuid:00000000-0000-5000-8000-000000000001",
    kind="paused",
    market=contract(1),
    pool=None,
    listed=True,
    title="A market: active is now frozen",
    before="active",
    after="frozen",
    unit=None,
    takes_effect=None,
    observed_ledger=100,
    ledger_close_time="2026-11-23T00:00:00Z",
    previous_ledger=90,
)


def at(ledger: int, *, listed: bool = True) -> RunChange:
    return msgspec.structs.replace(CHANGE, observed_ledger=ledger, id=f"{CHANGE.id[:-3]}{ledger}", listed=listed)


def ledgers(data: bytes) -> list[int]:
    return pl.read_parquet(io.BytesIO(data))["observed_ledger"].to_list()


def test_a_row_has_what_the_change_says() -> None:
    """Each column has the field of its name, the time as a time, and says in its metadata what it is."""
    data = render_changes_table(NO_ROWS, [CHANGE]).data
    (row,) = pl.read_parquet(io.BytesIO(data)).to_dicts()
    schema = pq.read_schema(io.BytesIO(data))

    assert SCHEMA.names == schema.names
    assert f"{row.pop('ledger_close_time'):%Y-%m-%dT%H:%M:%SZ}" == CHANGE.ledger_close_time
    assert row == {name: getattr(CHANGE, name) for name in row}
    assert all(schema.field(name).metadata[b"description"] for name in schema.names)


def test_later_runs_add_their_rows() -> None:
    """A run adds its own changes to the rows before it, of listed markets alone; without one the bytes are the same."""
    first = render_changes_table(NO_ROWS, [at(101), at(100, listed=False)]).data
    second = render_changes_table(rows_before(first, 102), [at(102)]).data

    assert [101, 102] == ledgers(second)
    assert second == render_changes_table(rows_before(second, 103), []).data


def test_rows_of_a_run_that_died_are_found_again() -> None:
    """A table that a run replaced before it died has its rows once, after the next run found them again."""
    died = render_changes_table(NO_ROWS, [at(100), at(101)]).data

    assert [100, 101] == ledgers(render_changes_table(rows_before(died, 101), [at(101)]).data)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"not a table at all, of any kind"])
def test_what_is_no_table_is_refused(data: bytes) -> None:
    """A damaged table is never taken for an empty one, which would lose all rows."""
    with pytest.raises(DecodeError):
        rows_before(data, 100)


def test_a_table_of_a_version_with_fewer_columns() -> None:
    """Rows that a version without a column wrote stay, and have null in it."""
    earlier = pl.read_parquet(io.BytesIO(render_changes_table(NO_ROWS, [at(100)]).data)).drop("title")
    file = io.BytesIO()
    earlier.write_parquet(file)

    table = rows_before(file.getvalue(), 101)

    assert SCHEMA == table.schema
    assert earlier.to_dicts() == table.drop_columns("title").to_pylist()
    assert [None] == table.column("title").to_pylist()


@pytest.mark.parametrize("names", [["id", "id", *SCHEMA.names], SCHEMA.names[1:]], ids=["twice", "missing"])
def test_columns_of_no_table_of_changes(names: list[str]) -> None:
    """A column that is there twice, and one that every version had and that is missing, are refused."""
    table = pq.read_table(io.BytesIO(render_changes_table(NO_ROWS, [at(100)]).data))
    other = pa.Table.from_arrays([table.column(name) for name in names], names=names)
    file = io.BytesIO()
    pq.write_table(other, file)

    with pytest.raises(DecodeError, match="does not have the columns of a table of changes"):
        rows_before(file.getvalue(), 101)


def test_a_table_of_a_later_version() -> None:
    """A column that this version does not know is named, because writing the table again would lose it."""
    file = io.BytesIO()
    rows = pl.read_parquet(io.BytesIO(render_changes_table(NO_ROWS, [at(100)]).data))
    rows.with_columns(why=pl.lit("x")).write_parquet(file)

    with pytest.raises(DecodeError, match="the columns why, which only a later version knows"):
        rows_before(file.getvalue(), 101)
