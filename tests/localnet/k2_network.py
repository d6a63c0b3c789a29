"""An embedded network of K2 markets alone: a chain, their code, and how it moves."""

from __future__ import annotations

import asyncio
from random import Random

from exporter.deployments.local import K2 as DEPLOYMENT
from exporter.ledger.codec.entries import code_key
from exporter.ledger.codec.scval_encode import encode_opaque
from exporter.ledger.source import RawEntry
from exporter.ledger.view import Reading, read_at_one_ledger
from exporter.localnet.chain import Chain
from exporter.localnet.contracts import (
    OWN_LAYOUT_WASM,
    OWN_LAYOUT_WASM_HASH,
    TOKEN_WASM,
    TOKEN_WASM_HASH,
    Contracts,
    Token,
    run_token,
    wasm_hash,
)
from exporter.localnet.k2 import CODE
from exporter.localnet.k2_made import K2Markets
from exporter.localnet.made_assets import make_tokens
from exporter.localnet.network import LocalNetwork
from exporter.numbers.compute import Tables, compute
from exporter.protocols.base import Candidate, ProtocolReading
from exporter.protocols.k2 import K2
from tests.localnet.direct_source import DirectSource

START_LEDGER, START_TIME = 60_000_000, 1_790_000_000


class K2Network(LocalNetwork):
    """Made K2 markets with the tokens of the made network, and nothing else."""

    def __init__(self, count: int = 4, seed: int = 1, *, archived: int = 0, missing: int = 0) -> None:
        self.tokens: list[Token] = make_tokens(Random(seed), 20, at_least=8)[0]
        self.k2 = K2Markets(seed, count, self.tokens, START_TIME, archived=archived, missing=missing)
        entries = {}
        for wasm in (TOKEN_WASM, OWN_LAYOUT_WASM):
            code = b"\0\0\0\x07\0\0\0\0" + wasm_hash(wasm) + encode_opaque(wasm)
            entries[code_key(wasm_hash(wasm))] = RawEntry(code, START_LEDGER - 1_000, START_LEDGER + 1_000_000)
        for token in self.tokens:
            key, data = token.instance_entry()
            entries[key] = RawEntry(data, START_LEDGER - 1_000, START_LEDGER + 1_000_000)
        entries |= self.k2.first_entries(START_LEDGER, START_TIME)
        chain = Chain(entries, start_ledger=START_LEDGER, start_time=START_TIME, window=1_000)
        stand_ins = {TOKEN_WASM_HASH: run_token, OWN_LAYOUT_WASM_HASH: run_token, **CODE}
        super().__init__(chain, "K2 alone", 23, Contracts(stand_ins, stellar_asset=run_token))

    def advance(self) -> int:
        """Close one more ledger, five seconds later."""
        ledger = self.chain.latest + 1
        time = self.chain.close_time(self.chain.latest) + 5
        return self.chain.close(list(self.k2.advance(self.chain, ledger, time)), close_time=time)


def read(network: K2Network, moving: bool = False) -> Reading[ProtocolReading]:
    """What the exporter reads of the network's markets."""
    candidates = [Candidate("k2", market.address) for market in network.k2.markets]
    source = DirectSource(network, moving)
    return asyncio.run(read_at_one_ledger(source, lambda view: K2().read(view, candidates, [DEPLOYMENT])))


def tables_of(network: K2Network, reading: Reading[ProtocolReading]) -> Tables:
    """The numbers of a reading at its ledger's close time."""
    ledger = reading.certificate.ledger
    return compute([reading.result], {"k2": K2()}, ledger, network.chain.close_time(ledger))
