"""From a protocol's columns to the shared ones, and the parameters that are shown next to them."""

from __future__ import annotations

import polars as pl
import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval_encode import symbol
from exporter.protocols.base import Parameter
from exporter.protocols.collector import parameters_of
from exporter.protocols.shared_columns import TEXTS, numbers_of, raw_rows, shared_columns
from exporter.tables import PROTOCOL_COLUMNS

NOW = 1_794_996_000


def rows() -> pl.DataFrame:
    """One pool with every shared column under its own name, and two more."""
    numbers = [name for name, dtype in PROTOCOL_COLUMNS.items() if dtype != pl.String() and name != "decimals"]
    columns: dict[str, list[object]] = {name: [f"a {name}"] for name in TEXTS}
    columns |= {name: [number] for number, name in enumerate(numbers)}
    columns |= {"other": [10**30], "label": ["v7"], "decimals": [7]}
    columns["close_time"] = [NOW]
    return raw_rows(columns, [*numbers, "other"], "label")


def test_shared_columns() -> None:
    """Every shared column is there in its order and type: as given, and else the one of its name."""
    frame = shared_columns(
        rows(),
        "made",
        pl.col("label"),
        total_supplied="other",
        backstop_credit=5,
        last_accrual_time=pl.col("other") // 10**21,
    )

    assert dict(PROTOCOL_COLUMNS) == dict(frame.schema)
    (row,) = frame.iter_rows(named=True)
    assert ("made", "v7", 10**30, 5, 10**9) == tuple(
        row[name] for name in ("protocol", "version", "total_supplied", "backstop_credit", "last_accrual_time")
    )
    assert "a market" == row["market"]


def test_terms_come_after_them_as_given() -> None:
    """Of the further columns a protocol gives those that it knows: an expression, a column, a number, a yes or no."""
    frame = shared_columns(
        rows(), "made", "v1", can_borrow=False, supply_cap="other", can_supply=pl.col("decimals") > 0
    )

    assert [*PROTOCOL_COLUMNS, "can_supply", "can_borrow", "supply_cap"] == frame.columns
    assert (True, False, 10**30) == frame.row(0)[-3:]
    assert [pl.Boolean, pl.Boolean, pl.Int128] == frame.dtypes[-3:]


def test_unknown_columns() -> None:
    """A column that is not one of the shared ones is refused: it would be lost without a word."""
    with pytest.raises(TypeError, match="no protocol has the columns collateral"):
        shared_columns(rows(), "made", "v1", collateral=0)


def test_numbers_that_do_not_fit() -> None:
    """A time that no 64 bits hold raises, rather than to come out as another."""
    with pytest.raises(pl.exceptions.InvalidOperationError):
        shared_columns(rows(), "made", "v1", last_accrual_time="other")


def test_nulls_are_refused() -> None:
    """A null in what is computed with is a mistake of the caller, and its column is named."""
    with pytest.raises(ValueError, match="null in debt"):
        numbers_of(pl.DataFrame({"cash": [1], "debt": [None]}), ("cash", "debt"))


def test_numbers_are_shown_and_the_rest_is_left_out() -> None:
    """Numbers and yes or no are taken in the given order with their scale; what is missing or no number is left out.

    The largest number of a kind is marked as no limit.
    """
    fields = Fields(
        (
            (symbol("cap"), (scval.I128, 10**30)),
            (symbol("enabled"), (scval.BOOL, True)),
            (symbol("name"), symbol("pool")),
            (symbol("util"), (scval.U32, 8_000_000)),
            (symbol("since"), (scval.U64, 2**63)),
            (symbol("positions"), (scval.U32, 2**32 - 1)),
            (symbol("most"), (scval.I128, 2**127 - 1)),
        ),
        "ResConfig",
    )
    scales = {"util": 7, "enabled": 0, "gone": 7, "name": 0, "cap": 18, "since": 0, "positions": 0, "most": 7}

    assert [
        Parameter("util", 8_000_000, 7),
        Parameter("enabled", 1, 0),
        Parameter("cap", 10**30, 18),
        Parameter("since", 2**63, 0),
        Parameter("positions", 2**32 - 1, 0, no_limit=True),
        Parameter("most", 2**127 - 1, 7, no_limit=True),
    ] == list(parameters_of(fields, scales))
