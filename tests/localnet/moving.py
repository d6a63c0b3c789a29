"""A small embedded network of one protocol's made markets, with the tokens they lend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Protocol

from exporter.deployments.networks import NETWORKS
from exporter.ledger.codec.entries import code_key
from exporter.ledger.codec.scval_encode import encode_opaque
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain, Change
from exporter.localnet.contracts import OWN_LAYOUT_WASM, TOKEN_WASM, Code, Contracts, Token, run_token, wasm_hash
from exporter.localnet.made import DEFAULT_START_LEDGER, DEFAULT_START_TIME, PROTOCOL_VERSION
from exporter.localnet.made_assets import make_tokens
from exporter.localnet.network import LocalNetwork

TOKENS: list[Token] = make_tokens(Random(1), 20, at_least=8)[0]


class Markets(Protocol):
    """What a protocol's made markets give to the network."""

    def first_entries(self, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]:
        """All entries as of the first ledger."""
        ...

    def advance(self, chain: Chain, ledger: int, time: int) -> Iterator[Change]:
        """What changes in the next ledger."""
        ...


class MovingNetwork(LocalNetwork):
    """A chain of one protocol's markets that closes a ledger every five seconds."""

    def __init__(self, markets: Markets, code: Mapping[bytes, Code]) -> None:
        self.markets = markets
        entries = dict(markets.first_entries(DEFAULT_START_LEDGER, DEFAULT_START_TIME))
        life = DEFAULT_START_LEDGER + 1_000_000
        for wasm in (TOKEN_WASM, OWN_LAYOUT_WASM):
            data = b"\0\0\0\x07\0\0\0\0" + wasm_hash(wasm) + encode_opaque(wasm)
            entries[code_key(wasm_hash(wasm))] = RawEntry(data, DEFAULT_START_LEDGER - 9, life)
        for token in TOKENS:
            key, data = token.instance_entry()
            entries[key] = RawEntry(data, DEFAULT_START_LEDGER - 9, life)
        chain = Chain(entries, start_ledger=DEFAULT_START_LEDGER, start_time=DEFAULT_START_TIME)
        contracts = Contracts(
            {wasm_hash(TOKEN_WASM): run_token, wasm_hash(OWN_LAYOUT_WASM): run_token, **code}, stellar_asset=run_token
        )
        super().__init__(chain, NETWORKS["local"].passphrase, PROTOCOL_VERSION, contracts)

    def advance(self) -> int:
        """Close one more ledger."""
        time = self.chain.close_time(self.chain.latest) + 5
        changes = list(self.markets.advance(self.chain, self.chain.latest + 1, time))
        return self.chain.close(changes, close_time=time)
