"""What a reader does not contain itself costs its protocol, and never the run.

Readers put a barrier around decoding each market's and each pool's part (`Collector.record_unread`). What fails outside
of these is of no single market: then every market of the protocol is unread.
"""

from __future__ import annotations

from collections.abc import Sequence

from exporter.deployments import Deployment
from exporter.errors import Barrier
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, ProtocolReading
from exporter.protocols.protocol import Protocol
from exporter.tree.documents import Unread


async def read_contained(
    protocol: Protocol, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """One protocol's reading; one in which every market is unread where the reader fails.

    Raises `NEVER_CONTAINED` alone.
    """
    with Barrier() as barrier:
        reading = await protocol.read(view, candidates, deployments)
        reading.archived = await _archived_pools(view, reading)
        return reading
    detail = barrier.failure
    markets = {candidate.address for candidate in candidates}
    markets = markets or {contract.address for each in deployments for contract in each.contracts}
    notice = f"nothing of {protocol.name} could be read: {detail}"
    unread = [Unread(market, None, protocol.name, "undecodable", detail) for market in sorted(markets)]
    return ProtocolReading(protocol.name, unread=unread, notices=[notice])


async def _archived_pools(view: LedgerView, reading: ProtocolReading) -> set[tuple[str, str]]:
    """Market and pool of those with an archived entry. The reader has asked for all of them: nothing is sent."""
    entries = await view.read(dict.fromkeys(key for keys in reading.entry_keys.values() for key in keys))
    return {
        place
        for place, keys in reading.entry_keys.items()
        if any(entry.archived for key in keys if (entry := entries[key]) is not None)
    }
