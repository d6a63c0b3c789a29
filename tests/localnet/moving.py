"""A small embedded network of one protocol's made markets, with the tokens they lend."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Protocol

from exporter.deployments.networks import NETWORKS
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain, Change
from exporter.localnet.contracts import OWN_LAYOUT_WASM, TOKEN_WASM, Token, wasm_entry
from exporter.localnet.made import DEFAULT_START_LEDGER, DEFAULT_START_TIME, PROTOCOL_VERSION
from exporter.localnet.made_assets import make_tokens
from exporter.localnet.network import CODE, LocalNetwork

TOKENS: list[Token] = make_tokens(Random(1), 20, at_least=8)[0]


class Markets(Protocol):
    """What a protocol's made markets give to the network."""

    def first_entries(self, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]: ...

    def advance(self, chain: Chain, ledger: int, time: int) -> Iterator[Change]: ...


class MovingNetwork(LocalNetwork):
    """A chain of one protocol's markets that closes a ledger every five seconds."""

    def __init__(self, markets: Markets) -> None:
        self.markets = markets
        entries = dict(markets.first_entries(DEFAULT_START_LEDGER, DEFAULT_START_TIME))
        for key, data in (
            *map(wasm_entry, (TOKEN_WASM, OWN_LAYOUT_WASM)),
            *(token.instance_entry() for token in TOKENS),
        ):
            entries[key] = RawEntry(data, DEFAULT_START_LEDGER - 9, DEFAULT_START_LEDGER + 1_000_000)
        chain = Chain(entries, start_ledger=DEFAULT_START_LEDGER, start_time=DEFAULT_START_TIME)
        super().__init__(chain, NETWORKS["made"].passphrase, PROTOCOL_VERSION, CODE)

    def advance(self, seconds: int = 5) -> int:
        time = self.chain.close_time(self.chain.latest) + seconds
        changes = list(self.markets.advance(self.chain, self.chain.latest + 1, time))
        return self.chain.close(changes, close_time=time)
