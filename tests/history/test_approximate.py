"""The approximate columns, for plots: the double nearest to the exact quotient, or null if there is none."""

from __future__ import annotations

import io
from decimal import Decimal
from fractions import Fraction
from random import Random

import polars as pl
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from exporter.history.approximate import APPROXIMATE_NAMES, nearest_double
from exporter.history.parquet import FILE_SCHEMA, render_history, render_latest, run_file_of_latest
from tests.history.runs import MONDAY, frame_of, observe, places

INT128 = st.integers(-(2**127), 2**127 - 1)


@given(INT128, st.integers(0, 2**32 - 1))
def test_no_double_is_nearer(value: int, decimals: int) -> None:
    """No other double is nearer to the exact quotient, however many decimals a token claims to have."""
    found = nearest_double(value, decimals)

    assert found is not None
    exact = Fraction(value, 10 ** min(decimals, 700))
    assert abs(Fraction(found) - exact) <= abs(Fraction(float(Decimal(value).scaleb(-min(decimals, 700)))) - exact)


def test_what_is_not_known_is_null() -> None:
    """A pool without a price has no price in dollars, not zero."""
    assert [None, None, 0.0] == [nearest_double(None, 7), nearest_double(1, None), nearest_double(0, 7)]


def test_whole_tokens_of_a_dear_token() -> None:
    """Half a bitcoin is 0.52, although a division of decimals gives 1."""
    assert 0.52 == nearest_double(52_000_000, 8)


def latest() -> tuple[bytes, bytes]:
    frame = frame_of(observe(Random(7), places(2, 2), 100, MONDAY), 100, MONDAY)
    about = {"observed_ledger": 100, "ledger_close_time": MONDAY, "network": "made"}
    return render_history(frame, **about).file.data, render_latest(frame, **about)  # type: ignore[arg-type]


def test_the_newest_table_has_both() -> None:
    """The newest run's table has every exact column, then every approximate one, each with what it holds."""
    run, table = latest()
    schema = pq.read_schema(io.BytesIO(table))

    assert [*FILE_SCHEMA, *APPROXIMATE_NAMES] == schema.names
    assert [] == [name for name in schema.names if not schema.field(name).metadata[b"description"]]
    assert pl.read_parquet(run).equals(pl.read_parquet(table).select(FILE_SCHEMA.names()))


def test_supplied_is_the_total_in_whole_tokens() -> None:
    """`supplied` times the unit of the token is `total_supplied`, apart from rounding."""
    rows = pl.read_parquet(latest()[1])
    exact = rows["total_supplied"].cast(pl.Int128).to_list()
    again = [value * 10**decimals for value, decimals in rows.select("supplied", "decimals").iter_rows()]

    assert all(abs(one - other) <= abs(one) * 1e-15 for one, other in zip(exact, again, strict=True))


def test_the_file_of_the_run_follows_from_the_newest_table() -> None:
    """A lost file of the newest run is made again of the newest table, byte for byte."""
    run, table = latest()

    assert run == run_file_of_latest(table)
