"""Decides what becomes of a contract that several protocols claim as a market of theirs.

A contract is a market of one protocol. A protocol claims a contract if the contract is listed for it, or if its reader
understands the contract. Whoever deploys a contract chooses its storage, so somebody can make one that two readers
understand. Then what either of them reads is a claim that the other one contradicts. A list contradicts the readers of
all other protocols in the same way, even if the listed protocol's own reader fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from exporter.deployments.listing import MarketListings
from exporter.protocols.base import ProtocolReading
from exporter.tree.documents import Unread
from exporter.tree.values import UnreadReason


def without_contested(readings: Sequence[ProtocolReading], listings: MarketListings) -> list[ProtocolReading]:
    """The readings, in which no address is a market of two protocols.

    A contested address stays a market of the protocol for which it is listed, whether or not that protocol could read
    it. If it is listed for none, or for several, nobody can tell whose it is. For every other protocol that read it, it
    becomes unread.
    """
    readers_of: dict[str, set[str]] = {}
    for reading in readings:
        for market in reading.markets:
            readers_of.setdefault(market.address, set()).add(reading.protocol)
    lost: dict[str, dict[str, str]] = {}
    for address, readers in readers_of.items():
        listed_for = listings.protocols_of(address)
        if len(readers | listed_for) > 1:
            owner = listed_for if len(listed_for) == 1 else set[str]()
            for name in readers - owner:
                lost.setdefault(name, {})[address] = _contradiction(readers - {name}, listed_for - {name})
    return [_without(reading, lost[reading.protocol]) if reading.protocol in lost else reading for reading in readings]


def _contradiction(readers: set[str], listed_for: set[str]) -> str:
    """Why a protocol's reading of a market does not count: the other protocols that read it, or else that list it."""
    others = " and of ".join(sorted(readers or listed_for))
    said = "its entries are also those of a market of" if readers else "it is listed as a market of"
    return f"{said} {others}; a contract is a market of one protocol"


def _without(reading: ProtocolReading, lost: dict[str, str]) -> ProtocolReading:
    """A reading without some markets, which become unread. ``lost`` says why, by address."""
    unread = [
        Unread(market.address, None, reading.protocol, UnreadReason.INCONSISTENT, lost[market.address])
        for market in reading.markets
        if market.address in lost
    ]
    reading = copy(reading)
    reading.remove_markets(lost)
    reading.unread += unread
    return reading
