"""An embedded network with XOXNO's contracts alone, as tests of them want it."""

from __future__ import annotations

import asyncio

from exporter.compute import Tables, compute
from exporter.deployments.local import XOXNO
from exporter.ledger.source import ContractCall
from exporter.ledger.view import Reading, read_at_one_ledger
from exporter.localnet.chain import Chain, Change
from exporter.localnet.contracts import Contracts, Simulation
from exporter.localnet.made import MadeNetwork
from exporter.localnet.network import LocalNetwork
from exporter.localnet.token_contract import OWN_LAYOUT_WASM_HASH, TOKEN_WASM_HASH, run_token
from exporter.localnet.xoxno_contract import run_aggregator, run_controller, run_pool
from exporter.localnet.xoxno_entries import AGGREGATOR_WASM_HASH, CONTROLLER_WASM_HASH, POOL_WASM_HASH
from exporter.localnet.xoxno_made import XoxnoMarkets
from exporter.protocols.base import Candidate, ProtocolReading
from exporter.protocols.xoxno import Xoxno
from tests.localnet.direct_source import DirectSource

CODE = Contracts(
    {
        TOKEN_WASM_HASH: run_token,
        OWN_LAYOUT_WASM_HASH: run_token,
        CONTROLLER_WASM_HASH: run_controller,
        POOL_WASM_HASH: run_pool,
        AGGREGATOR_WASM_HASH: run_aggregator,
    },
    stellar_asset=run_token,
)


class XoxnoNetwork(LocalNetwork):
    """The tokens of the made network and so many hub markets; moves by what `XoxnoMarkets.advance` says."""

    def __init__(self, count: int = 12, *, seed: int = 1, archived: int = 0, missing: int = 0) -> None:
        base = MadeNetwork(pools=0)
        ledger, time = base.chain.latest, base.chain.close_time(base.chain.latest)
        self.tokens = base.tokens
        self.xoxno = XoxnoMarkets(seed, count, base.tokens, time, archived=archived, missing=missing)
        entries = base.chain.state(ledger) | dict(self.xoxno.first_entries(ledger, time))
        super().__init__(Chain(entries, start_ledger=ledger, start_time=time), base.passphrase, 28, CODE)

    @property
    def time(self) -> int:
        """The close time of the latest ledger."""
        return self.chain.close_time(self.chain.latest)

    def advance(self, seconds: int = 5) -> int:
        """Close one more ledger, so many seconds later."""
        time = self.time + seconds
        changes = list(self.xoxno.advance(self.chain, self.chain.latest + 1, time))
        return self.chain.close(changes, close_time=time)

    def change(self, *entries: tuple[bytes, bytes]) -> None:
        """Close a ledger in which just these entries are written."""
        self.chain.close([Change(*entry, 90_000_000) for entry in entries], close_time=self.time + 5)

    def view(self, contract: str, function: str, *arguments: object) -> Simulation:
        """A simulated call."""
        call = ContractCall(contract, function, arguments)  # type: ignore[arg-type]
        return self.contracts.simulate(self.chain, self.chain.latest, call)

    def read(self, *more: Candidate, moving: bool = False) -> Reading[ProtocolReading]:
        """What the exporter reads: the controller with the pools of its list, and more candidates."""
        candidates = [Candidate("xoxno", self.xoxno.controller), *more]
        source = DirectSource(self, moving=moving)
        return asyncio.run(read_at_one_ledger(source, lambda view: Xoxno().read(view, candidates, [XOXNO])))

    def compute(self, reading: Reading[ProtocolReading]) -> Tables:
        """What the exporter makes of a reading."""
        ledger = reading.certificate.ledger
        return compute([reading.result], {"xoxno": Xoxno()}, ledger, self.chain.close_time(ledger))
