"""Whether the close time that an RPC states for the run's ledger can be true, and whether the ledger is new enough.

A close time that is too late would bar every honest run after it, because no later ledger closes earlier. Files,
archives and evidence are of old ledgers on purpose; they are not judged here.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from exporter.config import Settings
from exporter.errors import SourceError, lasting
from exporter.tree.documents import timestamp

TOLERANCE = timedelta(minutes=5)
"""How far a ledger's close time may lie ahead of this machine's clock, and behind it without a warning."""


def check_ledger_clock(settings: Settings, ledger: int, close_time: int, now: datetime) -> str | None:
    """Compare the close time (unix seconds) of a ledger from an RPC with this machine's clock; gives a warning, if any.

    Raises:
        SourceError: it is too far in the future, or the ledger is older than ``network.max_ledger_age``.
    """
    behind = now - datetime.fromtimestamp(close_time, UTC)
    seconds, longest = int(abs(behind).total_seconds()), settings.max_ledger_age
    closed = f"ledger {ledger} closed at {timestamp(close_time)}, {lasting(seconds)}"
    if behind < -TOLERANCE:
        raise SourceError(
            f"{closed} after the time of this machine's clock, {timestamp(int(now.timestamp()))}, and at most "
            f"{lasting(int(TOLERANCE.total_seconds()))} are allowed. Nothing was published. One of the two clocks is "
            "wrong: correct this machine's, or use another rpc_url"
        )
    if behind <= TOLERANCE or not longest:
        return None
    if seconds > longest:
        raise SourceError(
            f"{closed} ago, and network.max_ledger_age allows {lasting(longest)}: the RPC does not follow the network, "
            "or this machine's clock is wrong. Nothing was published; use another rpc_url, or correct the clock"
        )
    if settings.network.prefer_checkpoint:  # up to 63 ledgers before the newest, on purpose
        return None
    return f"{closed} ago: the RPC lags behind the network, or this machine's clock is fast"
