"""Tests which ledgers a range of time means."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from exporter.errors import ConfigError
from exporter.history.export import Moment
from exporter.past.backfill.lake_command import find_range
from exporter.past.backfill.lake_job import boundaries, last_before
from exporter.past.backfill.segments import Close

CLOSES = {5: 100, 6: 110, 7: 110, 8: 120}


class Lake:
    """A lake of four ledgers; two of them closed in one second."""

    label = "a lake"

    def span(self) -> tuple[int, int]:
        return min(CLOSES), max(CLOSES)

    def close_of(self, ledger: int) -> tuple[int, int]:
        return CLOSES[ledger], 28


def at(seconds: int) -> Moment:
    return Moment(time=datetime.fromtimestamp(seconds, UTC))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (Moment(), Moment(), (5, 8, 100, 120)),
        (at(50), at(115), (5, 7, 100, 115)),  # no ledger is before
        (at(100), at(500), (5, 8, 100, 120)),  # no later one is there
        (at(119), Moment(ledger=99), (7, 8, 119, 120)),
        (Moment(ledger=6), Moment(ledger=7), (6, 7, 110, 110)),
        (Moment(ledger=2), at(100), (5, 5, 100, 100)),
    ],
)
def test_a_range_begins_with_the_ledger_valid_at_its_start(
    start: Moment, end: Moment, expected: tuple[int, int, int, int]
) -> None:
    """A range begins with the last ledger at or before its start, and ends with the last one up to its end."""
    assert expected == find_range(cast("Any", Lake()), start, end)


def test_a_range_without_ledgers() -> None:
    """The error says which ledgers the lake has."""
    with pytest.raises(ConfigError, match=r"no ledger between --from and --to: it goes from ledger 5 .* to 8"):
        find_range(cast("Any", Lake()), Moment(), at(99))


def test_the_last_ledger_of_each_boundary() -> None:
    """The last ledger of a second counts. One ledger may belong to many boundaries, and is given once."""
    closes = [Close(ledger, time, 28) for ledger, time in CLOSES.items()]

    assert [5, 7, 8] == [close.ledger for close in last_before(boundaries(100, 150, 10), closes)]
    assert [7] == [close.ledger for close in last_before(boundaries(111, 119, 5), closes)]
