"""Renders the Atom feeds of changes (RFC 4287)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import NAMESPACE_URL, uuid5

from exporter.render.change_list import bounded
from exporter.render.site.templates import environment
from exporter.tables import PoolKey
from exporter.tree.documents import (
    ChangeList,
    RunChange,
    WatchedValues,
)
from exporter.tree.families import FEED, MARKET_FEED
from exporter.tree.files import FileKind, RenderedFile

MAX_FEED_ENTRIES = 200
"""Largest number of changes in a feed."""


def render_feeds(changes: ChangeList, now: WatchedValues, network: str, updated: str) -> Iterator[RenderedFile]:
    """Render the feed of all changes, and a feed for each market.

    ``now`` has the watched values of the run, which name the markets and pools that have a page. ``updated`` is the
    time that an empty feed states: when the history began.
    """
    names = {market.market: market.name or market.market for market in now.markets}
    pools = {PoolKey(pool.market, pool.pool) for pool in now.pools}
    template = environment().get_template("feed.atom.j2")

    def page_of(market: str, pool: str | None = None) -> str:
        """The page of a market or pool; the list of markets, if the market is no longer read."""
        if pool is not None and PoolKey(market, pool) in pools:
            return f"pools/{market}/{pool}.html"
        return f"markets/{market}.html" if market in names else "markets.html"

    def feed(key: str, name: str, title: str, page: str, entries: Sequence[RunChange]) -> RenderedFile:
        text = template.render(
            key=key,
            id=f"urn:uuid:{uuid5(NAMESPACE_URL, f'{network}/feed/{name}')}",
            title=title,
            page=page,
            up="../" * key.count("/"),
            updated=entries[0].ledger_close_time if entries else updated,
            entries=[(change, page_of(change.market, change.pool)) for change in bounded(entries, MAX_FEED_ENTRIES)],
        )
        return RenderedFile(key, f"{text}\n".encode(), FileKind.DOCUMENT)

    yield feed(FEED.only_key, "", "Changes of the lending markets", "index.html", changes.data)
    watched = {item.market for item in now.markets} | {item.market for item in now.unread}
    for market in sorted(watched | {change.market for change in changes.data}):
        entries = [change for change in changes.data if change.market == market]
        key, title = MARKET_FEED.key(market=market), f"Changes of {names.get(market, market)}"
        yield feed(key, market, title, page_of(market), entries)
