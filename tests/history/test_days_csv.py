"""The days of a pool as CSV: the fields of its history by day, and columns for plots that follow from them."""

from __future__ import annotations

import csv
import json
from random import Random

from exporter.history.days_csv import APPROXIMATE, EXACT
from exporter.stores.memory import MemoryStore
from tests.history.bucket_judge import LENGTHS, buckets_of
from tests.history.runs import MONDAY, Historian, observe, places


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


def test_a_pool_without_a_closed_day_has_a_head() -> None:
    """The file of a new pool has the names of the columns and no row."""
    historian, place = Historian(MemoryStore()), places(1, 1)
    historian.run(observe(Random(1), place, 100, MONDAY), 100, MONDAY)
    stored = historian.store.get("v1/assets/{}/{}/history.csv".format(*place[0]))

    assert stored is not None
    assert [",".join((*EXACT, *APPROXIMATE))] == stored.data.decode().splitlines()
