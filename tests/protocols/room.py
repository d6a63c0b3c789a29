"""What a protocol's reader asks for before it announces its pools, and behind that."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from exporter.deployments import Deployment
from exporter.ledger.source import LedgerSource
from exporter.ledger.view import LedgerView, read_at_one_ledger
from exporter.protocols.base import Candidate, ProtocolReading
from exporter.protocols.protocol import Protocol


@dataclass(frozen=True)
class RoomMade:
    """How often a reader asked for room, for how many pools, and how many keys it used before that and in all."""

    pools: tuple[int, ...]
    keys_before: int
    keys: int


def room_made(
    protocol: Protocol, source: LedgerSource, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> tuple[ProtocolReading, RoomMade]:
    """A reading of a protocol, and how it asked for room."""
    asked: list[tuple[int, int]] = []

    async def program(view: LedgerView) -> tuple[ProtocolReading, int]:
        async def room(pools: int) -> None:
            asked.append((pools, len(branch.observed.used_keys)))

        branch = view.branch(view.batcher(), room)
        branch.observed.begin()
        reading = await protocol.read(branch, candidates, deployments)
        return reading, len(branch.observed.used_keys)

    reading, keys = asyncio.run(read_at_one_ledger(source, program)).result
    return reading, RoomMade(
        tuple(pools for pools, _ in asked), min((before for _, before in asked), default=keys), keys
    )
