"""Decides what becomes of a contract that the readers of several protocols take for a market of theirs.

A contract is a market of one protocol. Whoever deploys a contract chooses its storage, so somebody can make one that
two readers understand. Then what either of them reads is a claim that the other one contradicts.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from exporter.deployments.listing import MarketListings
from exporter.protocols.base import ProtocolReading
from exporter.tree.documents import Unread
from exporter.tree.values import UnreadReason


def without_contested(readings: Sequence[ProtocolReading], listings: MarketListings) -> list[ProtocolReading]:
    """The readings, in which no address is a market of two protocols.

    A contested address stays a market of the protocol for which it is listed. If it is listed for none, or for several,
    nobody can tell whose it is. For every other protocol it becomes unread.
    """
    protocols_of: dict[str, set[str]] = {}
    for reading in readings:
        for market in reading.markets:
            protocols_of.setdefault(market.address, set()).add(reading.protocol)
    lost: dict[str, dict[str, str]] = {}
    for address, names in protocols_of.items():
        if len(names) > 1:
            owners = [name for name in names if listings.is_listed(name, address)]
            for name in names - {*owners[: len(owners) == 1]}:
                lost.setdefault(name, {})[address] = " and of ".join(sorted(names - {name}))
    return [_without(reading, lost[reading.protocol]) if reading.protocol in lost else reading for reading in readings]


def _without(reading: ProtocolReading, lost: dict[str, str]) -> ProtocolReading:
    """A reading without some markets, which become unread. ``lost`` names the other protocols of each."""
    unread = [
        Unread(
            market.address,
            None,
            reading.protocol,
            UnreadReason.INCONSISTENT,
            f"its entries are also those of a market of {lost[market.address]}; a contract is a market of one protocol",
        )
        for market in reading.markets
        if market.address in lost
    ]
    return replace(
        reading,
        markets=[market for market in reading.markets if market.address not in lost],
        pools=[pool for pool in reading.pools if pool.market.address not in lost],
        unread=[item for item in reading.unread if item.market not in lost] + unread,
        frozen={key: reason for key, reason in reading.frozen.items() if key.market not in lost},
        parameters={key: values for key, values in reading.parameters.items() if key.market not in lost},
        controls=[item for item in reading.controls if item.market not in lost],
        pending=[item for item in reading.pending if item.market not in lost],
        backstops={market: backstop for market, backstop in reading.backstops.items() if market not in lost},
    )
