"""The days of a pool as CSV: the fields of its history by day, and columns for plots that follow from them."""

from __future__ import annotations

import csv
import json
import re
from random import Random
from typing import Any

import msgspec
import polars as pl
import pytest
from msgspec.structs import asdict, replace

from exporter.history.buckets import aggregate, observations_of
from exporter.history.days_csv import APPROXIMATE, EXACT, MAX_DAYS, PoolDay, days_csv, days_metadata
from exporter.history.series import OLDER_KEY
from exporter.history.time_buckets import DAY
from exporter.stores.memory import MemoryStore
from exporter.tree.documents import AssetHistory
from tests.history.bucket_judge import INDEX_DECIMALS, LENGTHS, buckets_of
from tests.history.frames import pools_frame
from tests.history.runs import MONDAY, Historian, observe, places

HARMLESS = re.compile(r"|-?[0-9.]+(e[-+]?[0-9]+)?|true|false|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z")
"""Numbers, times and yes or no: nothing that a spreadsheet runs."""


def as_text(value: object) -> str:
    """A value of JSON as a cell of CSV."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def bucket(**fields: Any) -> PoolDay:
    """A day with these fields; the others are those of some day."""
    historian, place = Historian(MemoryStore()), places(1, 1)
    for number in range(2):
        ledger, time = 100 + number, MONDAY + 86_400 * number
        historian.run(observe(Random(1), place, ledger, time), ledger, time)
    stored = historian.store.get("v1/assets/{}/{}/history/1d.json".format(*place[0]))
    assert stored is not None
    (day,) = msgspec.json.decode(stored.data, type=AssetHistory).data
    more: dict[str, Any] = dict.fromkeys(
        ("supplied_usd_cents", "borrowed_usd_cents", "available_to_withdraw", "total_supply_apy_bps"), None
    )
    indexes: dict[str, Any] = {"supply_index": "1000000000000", "borrow_index": "1000000000000", "index_decimals": 12}
    return replace(PoolDay(**asdict(day), **more, **indexes), **fields)


def published_days(historian: Historian, place: tuple[str, str]) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """The rows of a pool's file of days as CSV, and the buckets of its newest document of days."""
    market, pool = place
    stored = historian.store.get(f"v1/assets/{market}/{pool}/history.csv")
    document = historian.store.get(f"v1/assets/{market}/{pool}/history/1d.json")
    assert stored is not None
    assert document is not None
    return list(csv.DictReader(stored.data.decode().splitlines())), json.loads(document.data)["data"]


def test_a_file_has_the_closed_days() -> None:
    """Each closed day is a row with the fields of the document, and the open one is not there yet."""
    historian, place = Historian(MemoryStore()), places(1, 1)
    for number in range(3):
        historian.run(
            observe(Random(number), place, 100 + number, MONDAY + 86_400 * number),
            100 + number,
            MONDAY + 86_400 * number,
        )
    rows, days = published_days(historian, place[0])

    assert [*EXACT, *APPROXIMATE] == list(rows[0])
    assert 2 == len(rows) == len(days) == len(buckets_of(historian.observations, LENGTHS["1d"])[place[0]]) - 1
    for row, day in zip(rows, days, strict=True):
        assert {name: as_text(value) for name, value in day.items()} == {name: row[name] for name in day}
        assert float(row["supply_apy"]) == day["supply_apy_bps"] / 10_000
        assert [] == [cell for cell in row.values() if not HARMLESS.fullmatch(cell)]


def test_the_indexes_are_those_of_the_last_observation() -> None:
    """The growth of a deposit or a loan between two days follows from the indexes of two rows."""
    historian, place = Historian(MemoryStore()), places(1, 1)
    for number in range(7):
        time = MONDAY + 30_000 * number
        historian.run(observe(Random(number), place, 100 + number, time), 100 + number, time)
    rows, _ = published_days(historian, place[0])
    last_of_day = {observed.time // 86_400: observed for observed in historian.observations}
    observed = [(str(last.supply_index), str(last.borrow_index)) for last in last_of_day.values()]

    assert 2 == len(rows) == len(observed) - 1
    assert observed[:-1] == [(row["supply_index"], row["borrow_index"]) for row in rows]
    assert {str(INDEX_DECIMALS)} == {row["index_decimals"] for row in rows}
    assert observed[0] != observed[1]


def test_the_columns_for_plots() -> None:
    """Each is its exact field in whole tokens, US dollars or as a fraction; those of dollars need a price."""
    day = bucket(
        total_supplied="123456789",
        total_borrowed="98765432",
        tvl_usd_cents="1234",
        oracle_price_usd="0.0525",
        supply_apy_bps=100,
        borrow_apy_bps=250,
        comparable_supply_apy_bps=-75,
        comparable_borrow_apy_bps=325,
        total_supply_apy_bps=425,
        supplied_usd_cents="1200",
        borrowed_usd_cents="900",
        available_to_withdraw="20000000",
    )
    none = dict.fromkeys(("tvl_usd_cents", "supplied_usd_cents", "borrowed_usd_cents", "oracle_price_usd"))
    unpriced = replace(day, **none)
    rows = list(csv.DictReader(days_csv([(day, 7), (unpriced, 7)]).decode().splitlines()))

    amounts, rates = ["12.3456789", "9.8765432", "2.0"], ["0.01", "0.025", "-0.0075", "0.0325", "0.0425"]
    assert [*amounts, "12.0", "9.0", "12.34", "0.0525", *rates] == [rows[0][name] for name in APPROXIMATE]
    assert [*amounts, "", "", "", "", *rates] == [rows[1][name] for name in APPROXIMATE]


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


@pytest.mark.parametrize("apart", [42, pytest.param(12, marks=pytest.mark.slow)])
def test_a_file_has_all_closed_days_up_to_ten_years(apart: int) -> None:
    """A day that left the pool's newest document stays in the file; a day before the last `MAX_DAYS` does not.

    Nor does the state of the next run keep older days than that before the newest of them.
    """
    historian, place = Historian(MemoryStore()), places(1, 1)
    numbers = [MAX_DAYS, *range(MAX_DAYS + 100, MAX_DAYS + 100 + 48 * 7, apart)]
    first_day = numbers[-1] - MAX_DAYS
    numbers = [0, 1, 2, first_day - 1, first_day, *numbers]
    for ledger, number in enumerate(numbers, 100):
        time = MONDAY + 86_400 * number
        historian.run(observe(Random(number), place, ledger, time), ledger, time)
    rows, newest_days = published_days(historian, place[0])
    days = buckets_of(historian.observations, LENGTHS["1d"])[place[0]][:-1]
    kept = [day for day in days if day["last_ledger"] >= 104]
    older = historian.store.get(OLDER_KEY)

    assert 240 // apart < len(kept) < len(days)
    assert len(newest_days) < len(kept)
    assert [str(day["last_ledger"]) for day in kept] == [row["last_ledger"] for row in rows]
    assert [as_text(day["total_supplied"]) for day in kept] == [row["total_supplied"] for row in rows]
    assert older is not None
    starts: list[int] = pl.read_parquet(older.data)["start"].to_list()
    assert max(starts) - min(starts) < MAX_DAYS * DAY.seconds


def test_each_observation_counts_for_the_four_columns_of_the_file_alone() -> None:
    """Means of what can leave and of US dollars, the median of the yield with its reward; unknown ones do not count."""
    rows = [(100, 700, 10), (101, None, 30), (102, 201, None)]
    frames = [
        pools_frame(
            [{"available_to_withdraw": leaves, "total_supply_apy_bps": total, "total_supplied": own, "decimals": 0}],
            ledger,
            MONDAY + ledger,
        )
        for (ledger, leaves, total), own in zip(rows, (5, 6, 7), strict=True)
    ]
    (day,) = aggregate(observations_of(pl.concat(frames)), DAY).to_dicts()

    assert (450, 20) == (day["available_to_withdraw"], day["total_supply_apy_bps"])


def test_whole_tokens_of_a_day_have_that_days_decimals() -> None:
    """If a token changes its decimals, the days before it keep their amounts in whole tokens, also the older ones."""
    historian, (place,) = Historian(MemoryStore()), places(1, 1)
    for number, day in enumerate((0, 1, 2, 100, 200, 300, 400, 500, 501)):
        decimals, time = 7 if number < 2 else 9, MONDAY + 86_400 * day
        (observed,) = observe(Random(number), [place], 100 + number, time)
        supplied = replace(observed, total_supplied=5 * 10**decimals, decimals=decimals)
        historian.run([supplied], 100 + number, time)
    rows, newest_days = published_days(historian, place)

    assert (["5.0"] * 8, True) == ([row["supplied"] for row in rows], len(newest_days) < len(rows))
