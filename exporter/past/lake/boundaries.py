"""Which ledgers a range of time has: the last one at or before each boundary of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, pairwise

from exporter.errors import ConfigError
from exporter.history.export import Moment
from exporter.past.lake.objects import Lake


def ledger_at(time: int, first: int, last: int, close_time: Callable[[int], int]) -> int | None:
    """The last ledger of a range that closed at or before a time (unix seconds); None where none did."""
    found = bisect_right(range(first, last + 1), time, key=close_time)
    return first + found - 1 if found else None


def find_range(lake: Lake, start: Moment, end: Moment) -> tuple[int, int, int, int]:
    """First and last ledger, and first and last time (unix seconds), from the last ledger at or before the start.

    An end that is left out or later is the newest ledger. Raises `ConfigError` for an empty range, `LakeError`.
    """

    def time(ledger: int) -> int:
        return lake.close_of(ledger)[0]

    def edge(moment: Moment) -> tuple[int | None, int]:
        if moment.ledger is not None:
            ledger = min(max(moment.ledger, oldest), newest)
            return (None if moment.ledger < oldest else ledger), time(ledger)
        if moment.time is None:
            return oldest, time(oldest)
        wanted = int(moment.time.timestamp())
        return ledger_at(wanted, oldest, newest, time), wanted

    if start.ledger is not None and end.ledger is not None:
        oldest, newest = start.ledger, end.ledger
    else:
        oldest, newest = lake.span()
    first, begins = edge(start)
    last, ends = edge(end) if end != Moment() else (newest, time(newest))
    first, begins = (oldest, time(oldest)) if first is None else (first, begins)
    if last is None or last < first:
        raise ConfigError(
            f"{lake.label} has no ledger between --from and --to: it goes from ledger {oldest} "
            f"({_shown(time(oldest))}) to {newest} ({_shown(time(newest))})"
        )
    return first, last, begins, min(ends, time(last)) if last == newest else ends


def _shown(time: int) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%SZ}"


def boundaries(begins: int, ends: int, every: int) -> range:
    """The multiples of ``every`` seconds since 1970 from one time to another, both included."""
    return range(-(-begins // every) * every, ends + 1, every)


def last_before(times: range, closes: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """For each time of `boundaries` the last ledger that closed at or before it, each ledger once.

    ``closes`` are ledgers, each with its close time and more, ascending; the last of them is the last one for any time.
    """
    for close, after in pairwise(chain(closes, [(0, times.stop, 0)])):
        time = max(-(-close[1] // times.step) * times.step, times.start)
        if time < min(after[1], times.stop):
            yield close
