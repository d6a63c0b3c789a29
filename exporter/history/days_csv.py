"""Writes the days of a pool as CSV for spreadsheets: the fields of its history, and approximate columns for plots."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec.structs import astuple, replace

from exporter.history import approximate
from exporter.history.approximate import nearest_double
from exporter.tables import unit_by_ending
from exporter.tree.documents import DaysMetadata, HistoryBucket, TableColumn
from exporter.tree.values import Amount, BasisPoints, UsdCents, doc

MAX_DAYS = 3_660
"""The file of a pool has at most its days of about the last ten years: at most some 1.7 MB."""


class PoolDay(HistoryBucket, frozen=True, forbid_unknown_fields=True):
    """A day of a pool: what its documents have, and what the newest run has as well (`v1/latest.csv`)."""

    supplied_usd_cents: Annotated[
        UsdCents | None, doc("Mean of what was lent into the pool, in US cents, rounded down; null without a price.")
    ]
    borrowed_usd_cents: Annotated[
        UsdCents | None, doc("Mean of what was owed to the pool, in US cents, rounded down; null without a price.")
    ]
    available_to_withdraw: Annotated[
        Amount | None,
        doc(
            "Mean of what the pool could pay out to its suppliers, in token base units, rounded down; null if unknown."
        ),
    ]
    total_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Median annual yield of suppliers compounded daily, rewards included, in basis points, rounded down; null "
            "if the reward was not known."
        ),
    ]
    supply_index: Annotated[
        Amount,
        doc(
            "What one share of supply was worth at the last observation, in units of 10^-index_decimals: between two "
            "days a deposit grew as much as this."
        ),
    ]
    borrow_index: Annotated[
        Amount,
        doc(
            "What one share of debt was worth at the last observation, in units of 10^-index_decimals: between two "
            "days a loan grew as much as this."
        ),
    ]
    index_decimals: Annotated[
        int, doc("Decimals of both indexes at the last observation; indexes are comparable while these are equal.")
    ]


EXACT = PoolDay.__struct_fields__

PLOTTED = tuple(
    replace(column, source="oracle_price_usd", meaning="approximate: oracle_price_usd; null without a valid price")
    if column.name == "price_usd"
    else column
    for column in approximate.APPROXIMATE
    if column.name == "price_usd" or column.source in EXACT
)
"""The approximate columns of `exporter.history.approximate` whose sources a day has. A day's price is text."""

APPROXIMATE = tuple(column.name for column in PLOTTED)


def days_metadata() -> DaysMetadata:
    """What the file of each pool holds, with the words that the documents have for their fields."""
    types = {"start_time": "datetime", "end_time": "datetime", "listed": "boolean"}
    described = {
        name: TableColumn(types.get(name, "number"), _unit(name), meaning) for name, meaning in _meanings().items()
    }
    plotted = {column.name: TableColumn("number", column.unit, column.meaning) for column in PLOTTED}
    return DaysMetadata(
        title="The closed days of a lending pool, ascending",
        description="A row is a day, UTC, of one pool: averages and medians of its observations. The file has all "
        f"closed days of the last {MAX_DAYS:,}; history/daily.parquet has the days of all pools, each with its last "
        "observation. The columns that are said to be approximate are for plots; all others are exact. What is null is "
        "empty. Nothing that a contract calls itself is in the file.",
        csv="../v1/assets/{market}/{pool}/history.csv",
        columns=described | plotted,
    )


def _meanings() -> dict[str, str]:
    """The description of each field of a bucket, as the models have it."""
    properties = msgspec.json.schema(PoolDay)["$defs"]["PoolDay"]["properties"]
    return {name: properties[name]["description"] for name in EXACT}


def _unit(name: str) -> str:
    if name.endswith("_price_usd"):
        return "US dollars"
    if name.endswith("_index"):
        return "10^-index_decimals"
    if name.startswith(("total_", "interest_", "available_")) and not unit_by_ending(name):
        return "base units"
    return unit_by_ending(name)


def days_csv(days: Iterable[tuple[PoolDay, int]]) -> bytes:
    """The days as CSV in UTF-8 with a header, in which null is empty.

    Each day comes with the decimals that the pool's token had at its last observation.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*EXACT, *APPROXIMATE))
    for day, decimals in days:
        writer.writerow([_cell(value) for value in (*astuple(day), *_approximate(day, decimals))])
    return text.getvalue().encode()


def _approximate(day: PoolDay, decimals: int) -> Iterator[float | None]:
    for column in PLOTTED:
        value = getattr(day, column.source)
        if value is None:
            yield None
        elif column.name == "price_usd":
            dollars, _, fraction = value.partition(".")
            yield nearest_double(int(dollars + fraction), len(fraction))
        else:
            yield nearest_double(int(value), decimals if isinstance(column.decimals, str) else column.decimals)


def _cell(value: object) -> object:
    """A value as Polars writes it into the other CSV files."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value
