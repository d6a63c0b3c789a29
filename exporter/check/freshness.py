"""The verdict of `exporter status`: whether the published run is as fresh as it promised to be.

The pointer alone is read. It states when the run was published and when the next one is to be expected, so that
staleness can be seen from outside, by a monitor that shares nothing with the schedule that may have died.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from exporter.errors import SourceError, StoreError, lasting, pluralize, printable
from exporter.stores import open_store
from exporter.stores.tree_sources import StoreSource, TreeSource, open_tree
from exporter.tree.decoding import decode_json
from exporter.tree.families import POINTER_KEY
from exporter.tree.format import refuse_other_format

MAX_POINTER_BYTES = 64 * 2**20
"""Every pool that could not be read or priced is named in the pointer, so that it grows with the markets."""

READING_SECONDS = 120.0
"""The longest that reading the pointer may take, all tries together."""

DEFAULT_MAX_LAG_SECONDS = 3600
"""How far the ledger's close may lie before the publishing. Reading and rendering take their time; an RPC that
stopped following the network has none."""

UNPROMISED_MAX_AGE = timedelta(days=1)
"""How old a run may be that does not say when the next one is to be expected."""

CLOCK_TOLERANCE = timedelta(minutes=5)
"""A run that was published later than that from now was published by a wrong clock, or is judged by one."""


class PublishedStatus(msgspec.Struct, frozen=True):
    """The fields of the status document that are judged; others are ignored."""

    run_id: str
    observed_ledger: int
    ledger_close_time: datetime
    generated_at: datetime
    next_expected_at: datetime | None
    pool_count: int
    unread_count: int
    unpriced_count: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """How old a published run may be. Seconds each.

    Attributes:
        max_age: since it was published; None: what the run itself promised, plus ``grace``, and where it promised
            nothing `UNPROMISED_MAX_AGE`.
        grace: after the time at which the next run was to be expected; None: as long again as from run to run.
        max_lag: from the close of its ledger to its publishing.
    """

    max_age: int | None = None
    grace: int | None = None
    max_lag: int = DEFAULT_MAX_LAG_SECONDS


def describe(status: PublishedStatus, moment: datetime) -> str:
    """The run in one line."""
    promised = status.next_expected_at
    return (
        f"run {printable(status.run_id)}: ledger {status.observed_ledger}, closed {_time(status.ledger_close_time)}; "
        f"published {_time(status.generated_at)}, {lasting(max(age(status, moment), 0))} ago; next expected "
        + ("at an unknown time" if promised is None else _time(promised))
        + f"; {pluralize(status.pool_count, 'pool')}, {status.unread_count:,} unread, "
        f"{status.unpriced_count:,} unpriced"
    )


def age(status: PublishedStatus, moment: datetime) -> int:
    """Seconds since the run was published."""
    return _seconds(moment - status.generated_at)


def judge(status: PublishedStatus, bounds: Bounds, moment: datetime) -> list[str]:
    """Everything that is wrong with a published run at a moment; empty when it is fresh."""
    problems = []
    if status.generated_at > moment + CLOCK_TOLERANCE:
        problems.append(
            f"the run says that it was published at {_time(status.generated_at)}, but here it is {_time(moment)}; "
            "one of the two clocks is wrong"
        )
    if moment > (latest := _latest(status, bounds)):
        late = _seconds(moment - latest)
        problems.append(
            f"the published run is stale: a newer one is due since {_time(latest)}, {lasting(late)} ago; look "
            "at the scheduled runs and their reports"
        )
    lag = _seconds(status.generated_at - status.ledger_close_time)
    if lag > bounds.max_lag:
        problems.append(
            f"the published ledger closed {lasting(lag)} before it was published, and {lasting(bounds.max_lag)} is "
            "allowed; the RPC lags behind the network: use another"
        )
    return problems


def _latest(status: PublishedStatus, bounds: Bounds) -> datetime:
    """Until when the run is fresh."""
    try:
        if bounds.max_age is not None:
            return status.generated_at + timedelta(seconds=bounds.max_age)
        if status.next_expected_at is None:
            return status.generated_at + UNPROMISED_MAX_AGE
        interval = status.next_expected_at - status.generated_at
        return status.next_expected_at + (interval if bounds.grace is None else timedelta(seconds=bounds.grace))
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


async def read_status(uri: str) -> PublishedStatus:
    """Read the pointer of a tree: of a folder, of a bucket, or over HTTP below a base URL.

    Raises:
        ConfigError: the URI can be none of a tree, or the tree is of another format.
        SourceError: there is no pointer, or it cannot be read in time or understood; the message says which.
    """
    async with _open(uri) as source:
        try:
            async with asyncio.timeout(READING_SECONDS):
                data = await source.get(POINTER_KEY, MAX_POINTER_BYTES)
        except TimeoutError:
            raise SourceError(f"{POINTER_KEY} of {source.uri} did not come within {READING_SECONDS:.0f} s") from None
        except StoreError as error:
            raise SourceError(str(error)) from error
        if data is None:
            raise SourceError(f"{source.uri} has no {POINTER_KEY}: nothing is published there, or it may not be read")
        if len(data) > MAX_POINTER_BYTES:
            raise SourceError(f"{POINTER_KEY} of {source.uri} is larger than {MAX_POINTER_BYTES} bytes")
        return _decode(source.uri, data)


def _open(uri: str) -> AbstractAsyncContextManager[TreeSource]:
    """Open a tree. A store, which may be a bucket, is not read before the pointer is asked for."""
    if uri.lower().startswith(("http:", "https:")):
        return open_tree(uri)
    return nullcontext(StoreSource(open_store(uri)))


def _decode(uri: str, data: bytes) -> PublishedStatus:
    try:
        refuse_other_format(f"{uri}: {POINTER_KEY}", data)
        status = decode_json(data, PublishedStatus)
    except msgspec.DecodeError as error:
        raise SourceError(f"{POINTER_KEY} of {uri} is not a status document: {printable(str(error))[:200]}") from None
    times = {"ledger_close_time": status.ledger_close_time, "generated_at": status.generated_at}
    if status.next_expected_at is not None:
        times["next_expected_at"] = status.next_expected_at
    for name, time in times.items():
        if time.tzinfo is None:
            raise SourceError(f"{POINTER_KEY} of {uri}: {name} has no time zone")
    if status.next_expected_at is not None and status.next_expected_at < status.generated_at:
        raise SourceError(f"{POINTER_KEY} of {uri}: next_expected_at is before generated_at")
    return status


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(duration: timedelta) -> int:
    return duration // timedelta(seconds=1)
