"""An embedded network of K2 markets alone."""

from __future__ import annotations

import asyncio

from exporter.deployments.local import K2 as DEPLOYMENT
from exporter.ledger.view import Reading, read_at_one_ledger
from exporter.localnet.k2 import CODE
from exporter.localnet.k2_made import K2Markets
from exporter.localnet.made import DEFAULT_START_TIME
from exporter.protocols.base import Candidate, ProtocolReading
from exporter.protocols.compute import Tables, compute
from exporter.protocols.k2 import K2
from tests.localnet.direct_source import DirectSource
from tests.localnet.moving import TOKENS, MovingNetwork


class K2Network(MovingNetwork):
    """Made K2 markets with the tokens of the made network, and nothing else."""

    def __init__(self, count: int = 4, seed: int = 1, *, archived: int = 0, missing: int = 0) -> None:
        self.k2 = K2Markets(seed, count, TOKENS, DEFAULT_START_TIME, archived=archived, missing=missing)
        super().__init__(self.k2, CODE)


def read(network: K2Network, moving: bool = False) -> Reading[ProtocolReading]:
    """What the exporter reads of the network's markets."""
    candidates = [Candidate("k2", market.address) for market in network.k2.markets]
    source = DirectSource(network, moving)
    return asyncio.run(read_at_one_ledger(source, lambda view: K2().read(view, candidates, [DEPLOYMENT])))


def tables_of(network: K2Network, reading: Reading[ProtocolReading]) -> Tables:
    """The numbers of a reading at its ledger's close time."""
    ledger = reading.certificate.ledger
    return compute([reading.result], {"k2": K2()}, ledger, network.chain.close_time(ledger))
