"""The changes as Atom feeds (RFC 4287): one of all, and one of each market. Links are relative to the feed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from uuid import NAMESPACE_URL, uuid5
from xml.sax.saxutils import escape, quoteattr

from exporter.render.changes import by_market
from exporter.tree.documents import ChangeList, RunChange
from exporter.tree.families import FEED, MARKET_FEED, kind_of
from exporter.tree.files import RenderedFile

MOST_ENTRIES = 200
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_feeds(changes: ChangeList, network: str, updated: str) -> Iterator[RenderedFile]:
    """Render all feeds.

    Args:
        changes: the run's.
        network: the network's passphrase, which is part of a feed's id.
        updated: when the history began; what a feed without entries says, so that it changes with the first.
    """
    names = {market.market: market.name or market.market for market in changes.markets}
    pools = {(pool.market, pool.pool) for pool in changes.pools}

    def page_of(market: str, pool: str | None = None) -> str:
        """The page of a changed market or pool; the list of markets for one that is no longer read."""
        if pool is not None and (market, pool) in pools:
            return f"pools/{market}/{pool}.html"
        return f"markets/{market}.html" if market in names else "markets.html"

    def feed(key: str, name: str, title: str, page: str, entries: Sequence[RunChange]) -> RenderedFile:
        up = "../" * key.count("/")
        at = entries[0].ledger_close_time if entries else updated
        parts = [
            '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n',
            f"<id>urn:uuid:{uuid5(NAMESPACE_URL, f'{network}/feed/{name}')}</id>\n<title>{_text(title)}</title>\n",
            f"<updated>{at}</updated>\n<author><name>lending-markets-exporter</name></author>\n",
            f'<link rel="self" type="application/atom+xml" href={quoteattr(up + key)}/>\n',
            f"<link href={quoteattr(up + page)}/>\n",
            *(_entry(change, up + page_of(change.market, change.pool)) for change in entries[:MOST_ENTRIES]),
            "</feed>\n",
        ]
        return RenderedFile(key, "".join(parts).encode(), kind_of(key))

    yield feed(FEED.template, "", "Changes of the lending markets", "index.html", changes.data)
    for market, entries in by_market(changes).items():
        key, title = MARKET_FEED.key(market=market), f"Changes of {names.get(market, market)}"
        yield feed(key, market, title, page_of(market), entries)


def _entry(change: RunChange, page: str) -> str:
    unit = "" if change.unit is None else f" {change.unit.replace('_', ' ')}"
    before = "" if change.before is None else f" It was: {change.before}{unit}."
    after = "" if change.after is None else f" It is: {change.after}{unit}."
    effect = "" if change.takes_effect is None else f" It can take effect from {change.takes_effect}."
    ledgers = f"At ledger {change.observed_ledger}, compared with ledger {change.previous_ledger}."
    summary = f"{ledgers}{before}{after}{effect}"
    return (
        f"<entry><id>{change.id}</id><title>{_text(change.title)}</title>"
        f"<updated>{change.ledger_close_time}</updated><category term={quoteattr(change.kind)}/>"
        f"<link href={quoteattr(page)}/><summary>{_text(summary)}</summary></entry>\n"
    )


def _text(text: str) -> str:
    """A text inside an element. Contracts may give names that XML cannot hold."""
    return escape(_NOT_XML.sub("�", text))
