"""The form of the table of liquidations: if another writer changed it, or its ledgers, that is a fault."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter import FORMAT
from exporter.errors import StoreError
from exporter.history.liquidations_table import (
    SCHEMA,
    encode_table,
    join_spans,
    read_table,
    restore_table,
    table_fault,
)
from exporter.stores.memory import MemoryStore
from exporter.stores.store import etag_of
from exporter.tree.documents import HistoryManifest, LedgerSpan, LiquidationsFile


def rows_at(*ledgers: int) -> pl.DataFrame:
    """An event in each ledger."""
    text = {
        name: ["x"] * len(ledgers)
        for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)
        if "string" in str(kind)
    }
    numbers = {"observed_ledger": ledgers, "event_index": [0] * len(ledgers), "percent": [50] * len(ledgers)}
    times = {"ledger_close_time": [datetime(2025, 1, 1, tzinfo=UTC)] * len(ledgers)}
    amounts = {"amount": [Decimal(10**18)] * len(ledgers)}
    columns = {**text, **numbers, **times, **amounts}
    table = pa.table([pa.array(list(columns[field.name]), field.type) for field in SCHEMA], schema=SCHEMA)
    return pl.DataFrame(pl.from_arrow(table))


def entry(data: bytes, rows: int, *spans: tuple[int, int]) -> LiquidationsFile:
    return LiquidationsFile(
        key="history/liquidations.parquet",
        url="../history/liquidations.parquet",
        sha256="0" * 64,
        bytes=len(data),
        rows=rows,
        spans=[LedgerSpan(*span) for span in spans],
    )


GOOD = encode_table(rows_at(10, 12))


def test_a_good_table() -> None:
    """A table that the exporter writes from events in its spans has no fault."""
    assert None is table_fault(GOOD, entry(GOOD, 2, (10, 12)))


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(1, 5), (6, 9)], [(1, 9)]),  # they touch
        ([(6, 9), (1, 5)], [(1, 9)]),
        ([(1, 5), (7, 9)], [(1, 5), (7, 9)]),  # ledger 6 is missing
        ([(1, 5), (5, 9)], [(1, 9)]),
        ([(1, 9), (2, 3), (10, 10)], [(1, 10)]),
        ([], []),
    ],
)
def test_spans_that_touch_are_one(spans: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    """Spans are joined if no ledger lies between them, whichever was covered first."""
    assert expected == [
        (span.first_ledger, span.last_ledger) for span in join_spans(LedgerSpan(*span) for span in spans)
    ]


@pytest.mark.parametrize(
    ("rows", "spans", "said"),
    [
        (3, [(10, 12)], "has 2 rows, but 3 in the history's manifest"),
        (2, [(10, 11)], "has rows of ledgers that its spans do not have"),
        (2, [], "has rows of ledgers that its spans do not have"),
        (2, [(12, 12), (10, 11)], "is of spans of ledgers that do not ascend"),
        (2, [(10, 11), (12, 12)], "is of spans of ledgers that do not ascend, each apart from the next"),
    ],
)
def test_a_manifest_that_says_otherwise(rows: int, spans: list[tuple[int, int]], said: str) -> None:
    """Rows and spans of the manifest are those of the table."""
    assert said in str(table_fault(GOOD, entry(GOOD, rows, *spans)))


def test_an_invented_table() -> None:
    """Rows out of order, other columns, no statistics, and bytes that are no Parquet are faults, whatever they say."""
    stream = io.BytesIO()
    pq.write_table(pa.table({"bad_debt": [10**18]}), stream)
    plain = io.BytesIO()
    pq.write_table(rows_at(10, 12).to_arrow().cast(SCHEMA), plain, compression="zstd", write_statistics=False)
    backwards = encode_table(rows_at(12, 10))

    for data, said in (
        (stream.getvalue(), "cannot be read"),
        (plain.getvalue(), "is not what writing its rows gives"),
        (backwards, "has rows that do not ascend"),
        (GOOD[:-3], "cannot be read"),
    ):
        assert said in str(table_fault(data, entry(data, 2, (10, 12)))), said


class TestBackfillThatDied:
    """A backfill died after it wrote the table, and before the manifest that names it."""

    SMALL, LARGE = encode_table(rows_at(10)), encode_table(rows_at(10, 60))

    def tree(self, data: bytes | None) -> tuple[MemoryStore, LiquidationsFile]:
        """A store with this file as the table, and the entry of a table with the event of ledger 10."""
        store = MemoryStore()
        if data is not None:
            store.put("history/liquidations.parquet", data)
        file = msgspec.structs.replace(entry(self.SMALL, 1, (1, 50)), sha256=etag_of(self.SMALL))
        return store, file

    def test_rows_of_other_ledgers_are_left_out(self) -> None:
        """Without the rows that the manifest does not have, the table is the one that it names, byte for byte."""
        assert self.SMALL == read_table(*self.tree(self.LARGE))
        assert self.SMALL == read_table(*self.tree(self.SMALL))

    @pytest.mark.parametrize(
        ("data", "fault"),
        [
            (None, "is missing"),
            (b"garbage", "is not the file"),
            (encode_table(rows_at(10, 12)), "is not the file"),  # another row in the same span
            (encode_table(rows_at(60)), "is not the file"),
        ],
        ids=["missing", "garbage", "another row", "a row less"],
    )
    def test_another_table_is_damage(self, data: bytes | None, fault: str) -> None:
        """A table with other rows of the manifest's ledgers is refused, and stays unchanged."""
        store, file = self.tree(data)
        with pytest.raises(StoreError, match=f"history/liquidations.parquet {fault}"):
            read_table(store, file)

        assert not restore_table(store, HistoryManifest(format=FORMAT, observed_ledger=0, files=[], liquidations=file))
        assert data == (None if (stored := store.get(file.key)) is None else stored.data)
