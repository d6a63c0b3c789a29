"""Which part of the history is asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import ConfigError
from exporter.history.export import Moment, Selection, parse_moment
from exporter.tree.documents import HistoryFile

START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("55261759", Moment(ledger=55_261_759)),
        ("2026-11-21", Moment(time=datetime(2026, 11, 21, tzinfo=UTC))),
        ("2026-11-21T10:30:00Z", Moment(time=datetime(2026, 11, 21, 10, 30, tzinfo=UTC))),
        ("2026-11-21T10:30:00+02:00", Moment(time=datetime(2026, 11, 21, 8, 30, tzinfo=UTC))),
        ("2026-11-21T10:30", Moment(time=datetime(2026, 11, 21, 10, 30, tzinfo=UTC))),
    ],
)
def test_moments(text: str, expected: Moment) -> None:
    """A number is a ledger, everything else a time, in UTC where it does not say otherwise."""
    assert expected == parse_moment(text, "--from")


@pytest.mark.parametrize("text", ["", "0", "4294967296", "-1", "tomorrow", "2026-13-01", "21.11.2026", "\uff11\uff12"])
def test_no_moments(text: str) -> None:
    """Anything else is refused by the name of its option."""
    with pytest.raises(ConfigError, match=r"^--from: "):
        parse_moment(text, "--from")


def test_impossible_selections() -> None:
    """A range that ends before it begins, and what is not a contract, are refused."""
    with pytest.raises(ConfigError, match="--from 5 is after --to 4"):
        Selection(Moment(ledger=5), Moment(ledger=4))
    with pytest.raises(ConfigError, match=r"--from .* is after --to "):
        Selection(Moment(time=START), Moment(time=START - timedelta(days=1)))
    for name in ("market", "token"):
        with pytest.raises(ConfigError, match=f"--{name}: 'XLM' is not the address of a contract"):
            Selection(**{name: "XLM"})  # type: ignore[arg-type]


def file_of(key: str, first: int, last: int) -> HistoryFile:
    return HistoryFile(f"history/pools/{key}", "../x", 1, 1, "0" * 64, first, last)


moments = st.one_of(
    st.just(Moment()),
    st.integers(90, 200).map(lambda ledger: Moment(ledger=ledger)),
    st.integers(-40, 120).map(lambda days: Moment(time=START + timedelta(days=days, hours=7))),
)


@given(moments, moments, st.booleans())
def test_files_hold_every_row_that_is_selected(start: Moment, end: Moment, compacted: bool) -> None:
    """Whatever is asked for, every row of it is in one of the chosen files."""
    if (start.ledger or 0) > (end.ledger or 10**9) or (start.time and end.time and start.time > end.time):
        return
    selection = Selection(start, end)
    rows = [(100 + number, START + timedelta(days=number)) for number in range(90)]  # November to January
    frame = pl.DataFrame(
        rows, schema={"observed_ledger": pl.Int64(), "ledger_close_time": pl.Datetime("us", "UTC")}, orient="row"
    )
    months = {f"{time:%Y-%m}": [own for own, other in rows if f"{other:%Y-%m}" == f"{time:%Y-%m}"] for _, time in rows}
    files = [file_of(f"date={time:%Y-%m-%d}/{ledger}.parquet", ledger, ledger) for ledger, time in rows]
    if compacted:
        files = [
            file_of(f"month={name}/{own[0]}-{own[-1]}-{12 * 'a'}.parquet", own[0], own[-1])
            for name, own in months.items()
        ]

    chosen = selection.files(reversed(files))

    wanted = frame.filter(selection.rows())["observed_ledger"].to_list()
    covered = {ledger for file in chosen for ledger in range(file.first_ledger, file.last_ledger + 1)}
    assert set(wanted) <= covered
    assert chosen == sorted(chosen, key=lambda file: file.first_ledger)
    if not compacted:
        assert len(covered) <= len(wanted) + 2
