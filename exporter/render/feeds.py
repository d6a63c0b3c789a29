"""The changes as Atom feeds (RFC 4287): one of all, and one of each market. Links are relative to the feed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import NAMESPACE_URL, uuid5

from exporter.render.changes import by_market
from exporter.render.site.templates import environment
from exporter.tree.documents import ChangeList, RunChange
from exporter.tree.families import FEED, MARKET_FEED
from exporter.tree.files import FileKind, RenderedFile

MOST_ENTRIES = 200


def render_feeds(changes: ChangeList, network: str, updated: str) -> Iterator[RenderedFile]:
    """Render all feeds.

    Args:
        changes: the run's.
        network: the network's passphrase, which is part of a feed's id.
        updated: when the history began; what a feed without entries says, so that it changes with the first.
    """
    names = {market.market: market.name or market.market for market in changes.markets}
    pools = {(pool.market, pool.pool) for pool in changes.pools}
    template = environment().get_template("feed.atom.j2")

    def page_of(market: str, pool: str | None = None) -> str:
        """The page of a changed market or pool; the list of markets for one that is no longer read."""
        if pool is not None and (market, pool) in pools:
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
            entries=[(change, page_of(change.market, change.pool)) for change in entries[:MOST_ENTRIES]],
        )
        return RenderedFile(key, f"{text}\n".encode(), FileKind.DOCUMENT)

    yield feed(FEED.template, "", "Changes of the lending markets", "index.html", changes.data)
    for market, entries in by_market(changes).items():
        key, title = MARKET_FEED.key(market=market), f"Changes of {names.get(market, market)}"
        yield feed(key, market, title, page_of(market), entries)
