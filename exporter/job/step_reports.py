"""What the steps of a run report: the facts that go into the report, and the messages that go with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import structs
from msgspec.structs import asdict

from exporter.config import Settings
from exporter.deployments.listing import MarketListings
from exporter.discovery import Discovered
from exporter.errors import CheckError, pluralize
from exporter.job.run_log import RunLog
from exporter.protocols.compute import Tables
from exporter.render.run_documents import unpriced_bps, unpriced_markets
from exporter.tree.documents import Unread
from exporter.tree.values import SkipReason

if TYPE_CHECKING:
    from exporter.job.reading import MarketsReading


MAX_NAMED_POOLS = 5
"""The console names at most this many discoveries, or markets without prices; the report names all."""


def report_dead_endpoints(answers: Mapping[str, int], errors: Mapping[str, Mapping[str, int]], log: RunLog) -> None:
    """Warn of each RPC that answered nothing, although the reading succeeded with the answers of others."""
    for label, names in sorted(errors.items()):
        if answers and not answers.get(label):
            counted = ", ".join(f"{name} ({count} times)" for name, count in sorted(names.items()))
            log.warning(
                f"the RPC {label} gave no usable answer, but another one did, so nothing is lost: {counted}",
                endpoint=label,
            )


def report_notices(notices: Sequence[str], log: RunLog, already_printed: Sequence[str] = ()) -> None:
    """Put the notices into the report, and print those that were not printed before."""
    notices = sorted(notices)
    log.add(notices=notices)
    for notice in notices:
        if notice not in already_printed:
            log.warning(notice)


def report_discovered(discovered: Sequence[Discovered], log: RunLog) -> None:
    """Report the markets and pools that discovery found."""
    log.add(discovered=[asdict(item) for item in discovered])
    if discovered:
        names = [f"{item.protocol} {item.market}{f'/{item.pool}' if item.pool else ''}" for item in discovered]
        count = pluralize(len(names), "market or pool", "markets and pools")
        text = f"found {count} that are not in the package's lists: {_first(names)}"
        log.event("discovered", text, count=len(names))


def report_missing(settings: Settings, tables: Tables, reading: MarketsReading, log: RunLog) -> list[str]:
    """Report what the tables lack: what was unread, unpriced, bounded, absent or skipped.

    Returns what should have been read and was not, as ``MARKET[/POOL]``. Raises `CheckError` if no market was read at
    all.
    """
    log.add(
        unread=[structs.asdict(item) for item in tables.unread],
        unpriced=[structs.asdict(item) for item in tables.unpriced],
        bounded=[structs.asdict(item) for item in tables.bounded],
        absent=[structs.asdict(item) for item in tables.absent],
        skipped=[structs.asdict(item) for item in tables.skipped],
    )
    report_notices(tables.notices, log, reading.notices)
    for item in tables.of_listed().bounded:
        log.warning(f"{item.market}/{item.pool}: {item.field} is capped at {item.bound}")
    missed = should_have_been_read(settings, reading.listings, tables.unread)
    for unread in missed:
        name = name_of(unread)
        log.warning(f"{name} could not be read: {unread.detail}", reason=unread.reason)
    unlisted = sum(not reading.listings.is_listed(each.protocol, each.market) for each in tables.unread)
    if unlisted:
        others = pluralize(unlisted, "market or pool", "markets and pools")
        log.event("unread_unlisted", f"{others} that are not listed could not be read", count=unlisted)
    if tables.skipped:
        counts = Counter(item.reason for item in tables.skipped)
        shown = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
        skipped = pluralize(len(tables.skipped), "market")
        log.event("skipped", f"{skipped} skipped or not read to the end: {shown}", count=len(tables.skipped))
    if not tables.markets.height:
        raise CheckError(
            "no market was read, and what was published before stays; check network.name, the endpoints, "
            "and [[markets]] if discovery is off"
        )
    return list(dict.fromkeys(map(name_of, missed)))


def should_have_been_read(settings: Settings, listings: MarketListings, unread: Iterable[Unread]) -> list[Unread]:
    """The part of what is unread for which a run ends with 7.

    That is all of listed markets, except what the operator excludes or allows to be unread.
    """
    return [
        item
        for item in unread
        if listings.is_listed(item.protocol, item.market)
        and item.reason != SkipReason.EXCLUDED
        and not settings.may_be_unread(name_of(item))
    ]


def name_of(item: Unread) -> str:
    """A market or pool that is unread, as ``MARKET[/POOL]``."""
    return item.market if item.pool is None else f"{item.market}/{item.pool}"


def report_unpriced(tables: Tables, log: RunLog) -> None:
    """Report how many pools of listed markets have no price, for each market."""
    listed = tables.of_listed()
    unpriced, markets = len(listed.unpriced), unpriced_markets(listed)
    if unpriced:
        shown = _first([f"{item.market} {item.unpriced_count} of {item.pool_count}" for item in markets])
        pools = pluralize(listed.pools.height, "pool")
        log.event("unpriced", f"{unpriced:,} of {pools} have no price: {shown}", count=unpriced)
    log.add(unpriced_bps=unpriced_bps(tables), unpriced_markets=[structs.asdict(item) for item in markets])


def report_outcome(log: RunLog, tables: Tables, run_id: str, *, published: bool) -> None:
    """Print the last line of a run: what was published, at which ledger, how many pools, and how long it took."""
    pools, unpriced, seconds = tables.pools.height, len(tables.unpriced), log.seconds
    log.event(
        "published" if published else "rendered",
        f"{'published' if published else 'rendered, not published,'} {run_id} at {tables.ledger}, "
        f"{pluralize(pools, 'pool')}, {unpriced:,} unpriced, {seconds:.1f} s",
        run_id=run_id,
        ledger=tables.ledger,
        pools=pools,
        unpriced=unpriced,
        seconds=seconds,
    )


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_NAMED_POOLS]) + (", ..." if len(names) > MAX_NAMED_POOLS else "")
