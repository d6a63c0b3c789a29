"""Oracles of the made network as Blend's pools on mainnet have them: a Reflector oracle, and an aggregator over it.

Every five minutes the oracle writes the prices of all tokens. Of them ``missing`` has none in every other update,
``jumping`` moves too far each time, ``unknown`` is not among the aggregator's assets, and ``base`` is always 1 there.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from exporter.deployments.made_addresses import made_address
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Change
from exporter.localnet.contracts import Entry, Token, wasm_entry
from exporter.localnet.reflector_contract import (
    AGGREGATOR_WASM,
    REFLECTOR_WASM,
    RESOLUTION,
    aggregator_entry,
    by_address,
    reflector_entries,
)

DECIMALS = 14
AGGREGATOR_DECIMALS = 7
MAX_AGE = 900
MAX_DEVIATION = 5  # percent
_LIFE = 17_281  # ledgers: a day, and one
_LONG_LIFE = 2_000_000


class ReflectorOracles:
    """A Reflector oracle, ``oracle``, and an aggregator, ``aggregator``, of all tokens."""

    def __init__(self, seed: int, tokens: list[Token], start_time: int) -> None:
        """Make the oracles as of ``start_time`` (unix seconds), with the prices of the last half hour."""
        self._random = Random(f"reflector {seed}")  # apart from the network's own
        self.oracle, self.aggregator = (made_address(f"localnet {name}") for name in ("reflector", "aggregator"))
        self._prices = {token.contract: token.price for token in tokens}
        self.base, self.missing, self.jumping, self.unknown = (tokens[place].contract for place in (1, 2, 3, 4))
        self._updated_at = start_time

    def first_entries(self, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]:
        """All entries as of the first ledger, closed at ``time``."""
        for wasm in (REFLECTOR_WASM, AGGREGATOR_WASM):
            key, code = wasm_entry(wasm)
            yield key, RawEntry(code, max(ledger - _LIFE, 1), ledger + _LONG_LIFE)
        assets = {token: MAX_DEVIATION if place % 2 else 0 for place, token in enumerate(self._prices)}
        assets[self.jumping] = MAX_DEVIATION
        del assets[self.unknown], assets[self.base]
        key, data = aggregator_entry(self.aggregator, self.oracle, AGGREGATOR_DECIMALS, MAX_AGE, assets, [self.base])
        yield key, RawEntry(data, max(ledger - _LIFE, 1), ledger + _LONG_LIFE)
        for ago in range(5, -1, -1):
            for key, data in self._update(time - ago * RESOLUTION):
                yield key, RawEntry(data, max(ledger - ago * 60, 1), ledger + _LIFE)

    def advance(self, ledger: int, time: int) -> Iterator[Change]:
        """What changes in the ledger that closes next: all prices, once in five minutes."""
        if time // RESOLUTION > self._updated_at // RESOLUTION:
            self._updated_at = time
            for key, data in self._update(time):
                yield Change(key, data, ledger + _LIFE)

    def _update(self, time: int) -> Iterator[Entry]:
        number = time // RESOLUTION
        for token, price in self._prices.items():
            self._prices[token] = max(price + price * self._random.randint(-30, 30) // 10_000, 10**8)
        prices: dict[str, int | None] = dict(self._prices)
        if number % 2:
            prices[self.missing] = None
            prices[self.jumping] = self._prices[self.jumping] * 11 // 10
        named = {by_address(token): price for token, price in prices.items()}
        return reflector_entries(self.oracle, DECIMALS, named, time)
