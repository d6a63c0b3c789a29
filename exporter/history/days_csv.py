"""Writes the days of a pool as CSV for spreadsheets: the fields of its history, and approximate columns for plots."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import msgspec
from msgspec.structs import astuple, fields

from exporter.history.approximate import nearest_double
from exporter.tree.documents import DaysMetadata, HistoryBucket, TableColumn

EXACT = tuple(each.name for each in fields(HistoryBucket))

MEANINGS = {
    "supplied": "approximate: total_supplied in whole tokens",
    "borrowed": "approximate: total_borrowed in whole tokens",
    "tvl_usd": "approximate: tvl_usd_cents in US dollars; empty without a valid price",
    "price_usd": "approximate: oracle_price_usd; empty without a valid price",
    "supply_apy": "approximate: supply_apy_bps as a fraction (0.05 is 5 %)",
    "borrow_apy": "approximate: borrow_apy_bps as a fraction",
    "comparable_supply_apy": "approximate: comparable_supply_apy_bps as a fraction",
    "comparable_borrow_apy": "approximate: comparable_borrow_apy_bps as a fraction",
}
"""The columns for plots."""

APPROXIMATE = tuple(MEANINGS)
"""Whole tokens, US dollars and fractions, as in `exporter.history.approximate`."""


def days_metadata() -> DaysMetadata:
    """What the file of each pool holds, with the words that the documents have for their fields."""
    types = {"start_time": "datetime", "end_time": "datetime", "listed": "boolean"}
    described = {
        name: TableColumn(types.get(name, "number"), _unit(name), meaning) for name, meaning in _meanings().items()
    }
    units = ("tokens", "tokens", "US dollars", "US dollars", *["fraction"] * 4)
    plotted = {
        name: TableColumn("number", unit, meaning)
        for (name, meaning), unit in zip(MEANINGS.items(), units, strict=True)
    }
    return DaysMetadata(
        title="The closed days of a lending pool, ascending",
        description="A row is a day, UTC, of one pool: averages and medians of its observations. There are the newest "
        "192 to 240 closed days; history/daily.parquet has all days of all pools, each with its last observation. The "
        "columns that are said to be approximate are for plots; all others are exact. Nothing that a contract calls "
        "itself is in the file.",
        csv="../v1/assets/{market}/{pool}/history.csv",
        columns=described | plotted,
    )


def _meanings() -> dict[str, str]:
    """The description of each field of a bucket, as the models have it."""
    properties = msgspec.json.schema(HistoryBucket)["$defs"]["HistoryBucket"]["properties"]
    return {name: properties[name]["description"] for name in EXACT}


def _unit(name: str) -> str:
    for ending, unit in (("_bps", "basis points"), ("_usd_cents", "US cents"), ("_price_usd", "US dollars")):
        if name.endswith(ending):
            return unit
    return "base units" if name.startswith(("total_", "interest_")) else ""


def days_csv(days: Sequence[HistoryBucket], decimals: int | None) -> bytes:
    """The days as CSV in UTF-8 with a header, in which null is empty.

    ``decimals`` are those of the pool's token; None if there is no day.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*EXACT, *APPROXIMATE))
    for day in days:
        writer.writerow([_cell(value) for value in (*astuple(day), *_approximate(day, decimals))])
    return text.getvalue().encode()


def _approximate(day: HistoryBucket, decimals: int | None) -> tuple[float | None, ...]:
    dollars, _, fraction = (day.oracle_price_usd or "").partition(".")
    price = int(dollars + fraction) if dollars else None
    return (
        nearest_double(int(day.total_supplied), decimals),
        nearest_double(int(day.total_borrowed), decimals),
        nearest_double(None if day.tvl_usd_cents is None else int(day.tvl_usd_cents), 2),
        nearest_double(price, len(fraction)),
        nearest_double(day.supply_apy_bps, 4),
        nearest_double(day.borrow_apy_bps, 4),
        nearest_double(day.comparable_supply_apy_bps, 4),
        nearest_double(day.comparable_borrow_apy_bps, 4),
    )


def _cell(value: object) -> object:
    """A value as Polars writes it into the other CSV files."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value
