"""Which part of the history is asked for: a range of time or ledgers, a market, a token; and which files have it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import polars as pl

from exporter.api.documents import HistoryFile
from exporter.errors import ConfigError

_DAY = re.compile(r"/date=(\d{4}-\d{2}-\d{2})/")
_MONTH = re.compile(r"/month=(\d{4})-(\d{2})/")
_LAST_LEDGER = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Moment:
    """One end of a range: exactly one of a ledger and a time (aware, UTC)."""

    ledger: int | None = None
    time: datetime | None = None


def parse_moment(text: str, option: str) -> Moment:
    """A ledger's number, a day (its beginning, UTC) or an RFC 3339 time.

    Raises:
        ConfigError: it is none of these; ``option`` is named.
    """
    if re.fullmatch(r"[0-9]{1,10}", text, re.ASCII):
        if not 1 <= int(text) <= _LAST_LEDGER:
            raise ConfigError(f"{option}: {text} is not the number of a ledger (1 to {_LAST_LEDGER})")
        return Moment(ledger=int(text))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{option}: {text!r} is neither a ledger's number, nor a day such as 2026-11-21, nor a time such as "
            "2026-11-21T10:30:00Z"
        ) from None
    return Moment(time=time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC))


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows from ``start`` on and before ``end`` (a ledger as ``end`` is the last one, included), of a market, token."""

    start: Moment = Moment()
    end: Moment = Moment()
    market: str | None = None
    token: str | None = None

    def __post_init__(self) -> None:
        """Refuse what can select nothing. Raises `ConfigError`."""
        for option, address in (("--market", self.market), ("--token", self.token)):
            if address is not None and re.fullmatch("C[A-Z2-7]{55}", address) is None:
                raise ConfigError(f"{option}: {address!r} is not the address of a contract (C...)")
        for low, high in ((self.start.ledger, self.end.ledger), (self.start.time, self.end.time)):
            if low is not None and high is not None and low > high:  # type: ignore[operator]
                raise ConfigError(f"--from {low} is after --to {high}")

    def files(self, files: Iterable[HistoryFile]) -> list[HistoryFile]:
        """The files that can have such rows, ascending by ledger."""
        return sorted((file for file in files if self._may_have(file)), key=lambda file: file.first_ledger)

    def rows(self) -> pl.Expr:
        """The condition on rows of a history file."""
        conditions = [pl.lit(True)]
        if self.start.ledger is not None:
            conditions.append(pl.col("observed_ledger") >= self.start.ledger)
        if self.end.ledger is not None:
            conditions.append(pl.col("observed_ledger") <= self.end.ledger)
        if self.start.time is not None:
            conditions.append(pl.col("ledger_close_time") >= self.start.time)
        if self.end.time is not None:
            conditions.append(pl.col("ledger_close_time") < self.end.time)
        if self.market is not None:
            conditions.append(pl.col("market") == self.market)
        if self.token is not None:
            conditions.append(pl.col("token_address") == self.token)
        return pl.all_horizontal(conditions)

    def _may_have(self, file: HistoryFile) -> bool:
        if self.start.ledger is not None and file.last_ledger < self.start.ledger:
            return False
        if self.end.ledger is not None and file.first_ledger > self.end.ledger:
            return False
        begins, ends = _span(file.key)
        if self.start.time is not None and ends <= self.start.time:
            return False
        return not (self.end.time is not None and begins >= self.end.time)


def _span(key: str) -> tuple[datetime, datetime]:
    """From when to before when the ledgers of a file closed, as its folder says."""
    if day := _DAY.search(key):
        begins = datetime.combine(date.fromisoformat(day[1]), datetime.min.time(), UTC)
        return begins, begins + timedelta(days=1)
    if month := _MONTH.search(key):
        year, number = int(month[1]), int(month[2])
        return datetime(year, number, 1, tzinfo=UTC), datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
    return datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
