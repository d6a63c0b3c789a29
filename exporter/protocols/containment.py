"""Contains the failure of a protocol's reader, so that it costs that protocol and never the run.

A reader puts a barrier around decoding each market's and each pool's part (`Collector.record_unread`). If it fails
outside of these, no single market is to blame, and every market of the protocol is unread.
"""

from __future__ import annotations

from collections.abc import Sequence

from exporter.deployments import Deployment
from exporter.errors import Barrier
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, ProtocolReading
from exporter.protocols.protocol import Protocol
from exporter.tables import PoolKey
from exporter.tree.documents import Unread
from exporter.tree.values import UnreadReason


async def read_contained(
    protocol: Protocol, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """Read one protocol. If its reader fails, the reading has every market as unread.

    Only errors of `NEVER_CONTAINED` are raised.
    """
    with Barrier() as barrier:
        reading = await protocol.read(view, candidates, deployments)
        reading.archived = await _archived_pools(view, reading)
        return reading
    detail = barrier.failure
    markets = {candidate.address for candidate in candidates}
    markets = markets or {contract.address for each in deployments for contract in each.contracts}
    notice = f"nothing of {protocol.name} could be read: {detail}"
    unread = [Unread(market, None, protocol.name, UnreadReason.UNDECODABLE, detail) for market in sorted(markets)]
    return ProtocolReading(protocol.name, unread=unread, notices=[notice])


async def _archived_pools(view: LedgerView, reading: ProtocolReading) -> set[PoolKey]:
    """The pools that have an archived entry. The reader has read all entries, so no request is made."""
    entries = await view.read(dict.fromkeys(key for keys in reading.entry_keys.values() for key in keys))
    archived = {key for key, entry in entries.items() if entry is not None and entry.archived}
    return {pool for pool, keys in reading.entry_keys.items() if not archived.isdisjoint(keys)}
