"""The days of a pool as CSV: the fields of its history by day, and columns for plots that follow from them."""

from __future__ import annotations

import csv
import json
import re
from random import Random

from exporter.history.days_csv import APPROXIMATE, EXACT, days_metadata
from exporter.stores.memory import MemoryStore
from tests.history.bucket_judge import LENGTHS, buckets_of
from tests.history.runs import MONDAY, Historian, observe, places

HARMLESS = re.compile(r"|-?[0-9.]+(e[-+]?[0-9]+)?|true|false|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z")
"""Numbers, times and yes or no: nothing that a spreadsheet runs."""


def as_text(value: object) -> str:
    """A value of JSON as a cell of CSV."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_a_file_has_the_closed_days() -> None:
    """Each closed day is a row with the fields of the document, and the open one is not there yet."""
    historian, place = Historian(MemoryStore()), places(1, 1)
    for number in range(3):
        historian.run(
            observe(Random(number), place, 100 + number, MONDAY + 86_400 * number),
            100 + number,
            MONDAY + 86_400 * number,
        )
    market, pool = place[0]
    stored = historian.store.get(f"v1/assets/{market}/{pool}/history.csv")
    document = historian.store.get(f"v1/assets/{market}/{pool}/history/1d.json")
    assert stored is not None
    assert document is not None
    rows = list(csv.DictReader(stored.data.decode().splitlines()))
    days = json.loads(document.data)["data"]

    assert [*EXACT, *APPROXIMATE] == list(rows[0])
    assert 2 == len(rows) == len(days) == len(buckets_of(historian.observations, LENGTHS["1d"])[place[0]]) - 1
    for row, day in zip(rows, days, strict=True):
        assert {name: as_text(value) for name, value in day.items()} == {name: row[name] for name in day}
        assert float(row["supply_apy"]) == day["supply_apy_bps"] / 10_000
        assert [] == [cell for cell in row.values() if not HARMLESS.fullmatch(cell)]


def test_what_the_columns_are() -> None:
    """Every column has a type, a meaning, and the unit that its name says; the tokens' own words are in none."""
    columns = days_metadata().columns

    assert [*EXACT, *APPROXIMATE] == list(columns)
    assert [] == [name for name, column in columns.items() if not column.description]
    assert {"datetime", "boolean", "number"} == {column.type for column in columns.values()}
    units = {"total_supplied": "base units", "interest_paid_usd_cents": "US cents", "supply_apy_bps": "basis points"}
    units |= {"oracle_price_usd": "US dollars", "supplied": "tokens", "tvl_usd": "US dollars", "supply_apy": "fraction"}
    assert units == {name: columns[name].unit for name in units}


def test_a_pool_without_a_closed_day_has_a_head() -> None:
    """The file of a new pool has the names of the columns and no row."""
    historian, place = Historian(MemoryStore()), places(1, 1)
    historian.run(observe(Random(1), place, 100, MONDAY), 100, MONDAY)
    stored = historian.store.get("v1/assets/{}/{}/history.csv".format(*place[0]))

    assert stored is not None
    assert [",".join((*EXACT, *APPROXIMATE))] == stored.data.decode().splitlines()
