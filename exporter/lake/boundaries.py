"""Which ledgers a range of time has: the last one at or before each boundary of it.

first, last = ledgers_between(lake, start, end)
for ledger in last_before(boundaries(start, end, every), closes): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from exporter.errors import ConfigError
from exporter.history.export import Moment
from exporter.lake.close_meta import header_of
from exporter.lake.extract import split
from exporter.lake.objects import Lake


def close_time_of(lake: Lake, ledger: int) -> int:
    """When a ledger closed, by its header. Raises `LakeError`, `DecodeError`."""
    return next(header_of(meta).close_time for meta, number in split(lake.batch_of(ledger)) if number == ledger)


def ledger_at(time: int, first: int, last: int, close_time: Callable[[int], int]) -> int | None:
    """The last ledger of a range that closed at or before a time (unix seconds); None where none did."""
    if close_time(first) > time:
        return None
    while first < last:
        middle = (first + last + 1) // 2
        if close_time(middle) <= time:
            first = middle
        else:
            last = middle - 1
    return first


def find_range(lake: Lake, start: Moment, end: Moment) -> tuple[int, int, int, int]:
    """The ledgers and the times (unix seconds) that a range means in a lake: first and last of each.

    The first ledger is the last one at or before the start, so that the first boundary has one. An end that is left out
    is the newest ledger of the lake; so is a later one.

    Raises:
        ConfigError: the lake has no ledger in the range.
        LakeError: it cannot be read, or cannot be listed though that is needed.
    """
    if start.ledger is not None and end.ledger is not None:
        oldest, newest = start.ledger, end.ledger
    else:
        oldest, newest = lake.span()
    first, begins = _edge(lake, start, oldest, newest)
    last, ends = _edge(lake, end, oldest, newest) if end != Moment() else (newest, close_time_of(lake, newest))
    first, begins = (oldest, close_time_of(lake, oldest)) if first is None else (first, begins)
    if last is None or last < first:
        raise ConfigError(
            f"{lake.label} has no ledger between --from and --to: it goes from ledger {oldest} "
            f"({_shown(close_time_of(lake, oldest))}) to {newest} ({_shown(close_time_of(lake, newest))})"
        )
    return first, last, begins, min(ends, close_time_of(lake, last)) if last == newest else ends


def _edge(lake: Lake, moment: Moment, oldest: int, newest: int) -> tuple[int | None, int]:
    if moment.ledger is not None:
        ledger = min(max(moment.ledger, oldest), newest)
        return (None if moment.ledger < oldest else ledger), close_time_of(lake, ledger)
    if moment.time is None:
        return oldest, close_time_of(lake, oldest)
    time = int(moment.time.timestamp())
    return ledger_at(time, oldest, newest, lambda ledger: close_time_of(lake, ledger)), time


def _shown(time: int) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%SZ}"


def boundaries(begins: int, ends: int, every: int) -> range:
    """The multiples of ``every`` seconds since 1970 from one time to another, both included."""
    return range(-(-begins // every) * every, ends + 1, every)


def last_before(times: Iterable[int], closes: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """For each time, ascending, the last ledger that closed at or before it, each ledger once.

    ``closes`` are ledgers, each with its close time and more, ascending; the last of them is the last one for any time.
    """
    wanted = iter(times)
    time = next(wanted, None)
    before: tuple[int, int, int] | None = None
    for close in closes:
        found = False
        while time is not None and time < close[1]:
            found = True
            time = next(wanted, None)
        if found and before is not None:
            yield before
        before = close
        if time is None:
            return
    if time is not None and before is not None:
        yield before
