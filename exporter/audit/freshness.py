"""Judges whether the published run is as fresh as it promised, for `exporter status`.

Only the status document is read.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec

from exporter.bounds import DOCUMENT_BYTES
from exporter.clocks import UNNOTICED_CLOCK_ERROR
from exporter.errors import CheckError, NothingPublishedError, SourceError, lasting, pluralize, printable
from exporter.stores.tree_sources import open_tree
from exporter.tree.decoding import decode_json, refuse_other_format
from exporter.tree.families import STATUS_KEY
from exporter.tree.values import Timestamp

MAX_STATUS_BYTES = DOCUMENT_BYTES
"""Largest status document that is read. It names every pool that could not be read or priced, so it can be large."""

READING_SECONDS = 120.0
"""Longest time that reading the status document may take, all tries together."""

UNPROMISED_MAX_AGE = timedelta(days=1)
"""Largest age of a run that does not say when the next one is expected."""


class JudgedStatus(msgspec.Struct, frozen=True):
    """The fields of the status document that are judged. Other fields are ignored.

    A document that expects the next run before it was published itself is not decoded.
    """

    run_id: str
    observed_ledger: int
    ledger_close_time: Timestamp
    generated_at: Timestamp
    next_expected_at: Timestamp | None
    pool_count: int
    unread_count: int
    unpriced_count: int

    def __post_init__(self) -> None:
        if self.next_expected_at is not None and self.next_expected_at < self.generated_at:
            raise ValueError("`next_expected_at` is before `generated_at`")

    @property
    def published(self) -> datetime:
        """When the run was published."""
        return datetime.fromisoformat(self.generated_at)

    def age(self, now: datetime) -> int:
        """Seconds since the run was published."""
        return (now - self.published) // timedelta(seconds=1)


def describe(status: JudgedStatus, now: datetime) -> str:
    """The run in one line for people."""
    promised = status.next_expected_at
    return (
        f"run {printable(status.run_id)}: ledger {status.observed_ledger}, closed {status.ledger_close_time}; "
        f"published {status.generated_at}, {lasting(max(status.age(now), 0))} ago; next expected "
        + ("at an unknown time" if promised is None else promised)
        + f"; {pluralize(status.pool_count, 'pool')}, {status.unread_count:,} unread, "
        f"{status.unpriced_count:,} unpriced"
    )


def judge(
    status: JudgedStatus, now: datetime, max_lag: timedelta, max_age: timedelta | None, grace: timedelta | None
) -> list[str]:
    """What is wrong with a published run at a moment, as texts; none if it is fresh.

    Args:
        status: the run.
        now: the moment.
        max_lag: how long before it was published its ledger may have closed.
        max_age: how old the run may be. None for as old as it promised itself, plus ``grace``; a run without a promise
            may be `UNPROMISED_MAX_AGE` old.
        grace: how late the next run may be; None for another promised interval.
    """
    problems = []
    second = timedelta(seconds=1)
    if status.published > now + UNNOTICED_CLOCK_ERROR:
        problems.append(
            f"the run says that it was published at {status.generated_at}, but here it is {_time(now)}; "
            "one of the two clocks is wrong"
        )
    if max_age is not None:
        allowed = max_age
    elif status.next_expected_at is None:
        allowed = UNPROMISED_MAX_AGE
    else:
        interval = datetime.fromisoformat(status.next_expected_at) - status.published
        allowed = interval + (interval if grace is None else grace)
    if (late := now - status.published - allowed) > timedelta(0):
        problems.append(
            f"the published run is stale: a newer one is due since {_time(now - late)}, "
            f"{lasting(late // second)} ago; look at the scheduled runs and their reports"
        )
    lag = status.published - datetime.fromisoformat(status.ledger_close_time)
    if lag > max_lag:
        problems.append(
            f"the published ledger closed {lasting(lag // second)} before it was published, and "
            f"{lasting(max_lag // second)} is allowed; the RPC lags behind the network: use another"
        )
    return problems


async def read_status(uri: str) -> JudgedStatus:
    """Read the status document of the tree at a URI.

    Raises `ConfigError` for a URI that is not accepted, `SourceError` if there is no such document or it cannot be
    read, and `CheckError` if it is too large.
    """
    async with open_tree(uri) as source:
        try:
            async with asyncio.timeout(READING_SECONDS):
                data = await source.get(STATUS_KEY, MAX_STATUS_BYTES)
        except TimeoutError:
            raise SourceError(f"{STATUS_KEY} of {source.uri} did not come within {READING_SECONDS:.0f} s") from None
        if data is None:
            raise NothingPublishedError(
                f"{source.uri} has no {STATUS_KEY}: nothing is published there, or it may not be read"
            )
        if len(data) > MAX_STATUS_BYTES:
            raise CheckError(f"{STATUS_KEY} of {source.uri} is larger than {MAX_STATUS_BYTES} bytes")
        try:
            refuse_other_format(f"{source.uri}: {STATUS_KEY}", data)
            return decode_json(data, JudgedStatus)
        except msgspec.DecodeError as error:
            text = printable(str(error))[:200]
            raise SourceError(f"{STATUS_KEY} of {source.uri} is not a status document: {text}") from None


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
