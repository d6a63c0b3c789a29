"""From a protocol's columns to the shared ones, and the rule of age."""

from __future__ import annotations

import polars as pl
import pytest

from exporter.ledger.oracles import Quote
from exporter.protocols.price_age import price_failure
from exporter.protocols.shared_columns import TEXTS, raw_rows, shared_columns
from exporter.tables import PROTOCOL_COLUMNS

NOW = 1_794_996_000


def rows() -> pl.DataFrame:
    """One pool with every shared column under its own name, and two more."""
    numbers = [name for name, dtype in PROTOCOL_COLUMNS.items() if dtype != pl.String() and name != "decimals"]
    columns: dict[str, list[object]] = {name: [f"a {name}"] for name in TEXTS}
    columns |= {name: [number] for number, name in enumerate(numbers)}
    columns |= {"other": [10**30], "label": ["v7"], "decimals": [7]}
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


def test_unknown_columns() -> None:
    """A column that is none of the shared ones is refused: it would be lost without a word."""
    with pytest.raises(TypeError, match="no protocol has the columns collateral"):
        shared_columns(rows(), "made", "v1", collateral=0)


def test_numbers_that_do_not_fit() -> None:
    """A time that no 64 bits hold raises, rather than to come out as another."""
    with pytest.raises(pl.exceptions.InvalidOperationError):
        shared_columns(rows(), "made", "v1", last_accrual_time="other")


@pytest.mark.parametrize(
    ("age", "future", "expected"),
    [
        (0, False, None),
        (360, False, None),
        (361, False, "the price is 6 minutes 1 second old, more than 6 minutes"),
        (-1, True, None),
        (-1, False, "the price is of 1 second after the ledger"),
    ],
)
def test_age(age: int, future: bool, expected: str | None) -> None:
    """A price of exactly the limit's age is good, and one of after the ledger only where the rule has it so."""
    assert expected == price_failure(Quote("O", "T", 7, 1, NOW - age), NOW, 360, future=future)


def test_no_price() -> None:
    """What the oracle said stands as the reason, and a price that is not above zero is none."""
    assert "it trapped" == price_failure(Quote("O", "T", failure="it trapped"), NOW, 360)
    assert "the oracle gave no price" == price_failure(Quote("O", "T"), NOW, 360)
    assert "the price is 0, not above zero" == price_failure(Quote("O", "T", 7, 0, NOW), NOW, 360)
