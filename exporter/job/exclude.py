"""What the operator tells a run to leave alone: the key ``exclude`` of the configuration.

An excluded market is not read, and an excluded pool has no numbers. An oracle is never called, so the prices that hang
on it are missing.
"""

from __future__ import annotations

from collections.abc import Collection

from exporter.ledger.observation import EXCLUDED
from exporter.ledger.oracles import Quote
from exporter.protocols.base import ProtocolReading
from exporter.tree.documents import Unread
from exporter.tree.values import SkipReason


def leave_out(reading: ProtocolReading, excluded: Collection[str]) -> None:
    """Take pools that are excluded, by their address or as ``MARKET/POOL``, and prices of excluded oracles, away."""
    places = {pool.place for pool in reading.pools}
    out = {place for place in places if place[1] in excluded or "/".join(place) in excluded}
    reading.pools[:] = [pool for pool in reading.pools if pool.place not in out]
    reading.unread += [Unread(*place, reading.protocol, SkipReason.EXCLUDED, EXCLUDED) for place in sorted(out)]
    without = [pair for pair in reading.quotes if pair[0] in excluded]
    if without:
        no_price = {pair: Quote(*pair, failure=EXCLUDED, is_known=False) for pair in without}
        reading.quotes = {**reading.quotes, **no_price}
