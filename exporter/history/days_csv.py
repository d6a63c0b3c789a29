"""Writes the days of a pool as CSV for spreadsheets: the fields of its history, and approximate columns for plots."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from msgspec.structs import astuple, fields

from exporter.history.approximate import nearest_double
from exporter.tree.documents import HistoryBucket

EXACT = tuple(each.name for each in fields(HistoryBucket))

APPROXIMATE = (
    "supplied",
    "borrowed",
    "tvl_usd",
    "price_usd",
    "supply_apy",
    "borrow_apy",
    "comparable_supply_apy",
    "comparable_borrow_apy",
)
"""The approximate columns: whole tokens, US dollars and fractions, as in `exporter.history.approximate`."""


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
