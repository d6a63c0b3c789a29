"""The Slender markets of the made network: seeded, with an oracle of their own, and moving with the network.

The first is the one that `made_addresses` lists. Nothing more can be borrowed of each one's third reserve.
``archived`` of them have archived entries, as the real one is said to have: they keep their data, and nothing of it
changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.deployments.made_addresses import made_address
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain, Change
from exporter.localnet.contracts import Entry, Token, wasm_entry
from exporter.localnet.made_assets import made_account
from exporter.localnet.made_markets import MadeMarkets, holds
from exporter.localnet.reflector_contract import (
    REFLECTOR_WASM,
    by_address,
    by_symbol,
    reflector_entries,
)
from exporter.localnet.slender import POOL_WASM, Market, Reserve, cash_entry, pool_instance

ORACLE_DECIMALS = 14
_PRICES_AFTER = 240  # seconds: the oracle writes all prices anew when they are this old
_LIFE = 7 * 17_280  # ledgers: to what a pool extends the life of its instance; that of a balance is longer
_LONG_LIFE = 1_000_000


class SlenderMarkets(MadeMarkets):
    """The made markets; ``markets`` says what is in them, ``archived`` which of them nobody has used for long."""

    def __init__(
        self,
        seed: int,
        count: int,
        tokens: list[Token],
        start_time: int,
        *,
        archived: int = 0,
        changes_per_ledger: int = 1,
    ) -> None:
        """Make ``count`` markets of the first three tokens, as of ``start_time`` (unix seconds)."""
        if not 0 <= archived <= count:
            raise ValueError("there are not that many Slender markets to be archived")
        super().__init__("slender", seed, changes_per_ledger)
        self.oracle = made_address("localnet slender oracle")
        self._tokens = tokens[:3]
        self._prices = {token.contract: token.price for token in self._tokens}
        self._priced_at = start_time - self._random.randrange(60)
        self.markets = [self._market(index, start_time) for index in range(count)]
        self.archived = self.markets[count - archived :]

    def first_entries(self, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]:  # noqa: ARG002
        """All entries as of the first ledger, closed at ``time``."""
        for key, data in map(wasm_entry, (POOL_WASM, REFLECTOR_WASM)):
            yield key, RawEntry(data, max(ledger - _LONG_LIFE, 1), ledger + _LONG_LIFE)
        for key, data in self._price_entries(self._priced_at):
            yield key, RawEntry(data, max(ledger - 20, 1), ledger + _LONG_LIFE)
        for market in self.markets:
            archived = holds(self.archived, market)
            for key, data in (pool_instance(market), *(cash_entry(market, reserve) for reserve in market.reserves)):
                yield key, RawEntry(data, max(ledger - 1_000, 1), ledger - 1 if archived else ledger + _LIFE)

    def advance(self, chain: Chain, ledger: int, time: int) -> Iterator[Change]:  # noqa: ARG002
        """What changes in the ledger that closes next: prices when they are due, then a few pools."""
        if self.due(time, _PRICES_AFTER):
            for token, price in self._prices.items():
                self._prices[token] = self.moved(price)
            for key, data in self._price_entries(time):
                yield Change(key, data, ledger + _LONG_LIFE)
        used = self.markets[: len(self.markets) - len(self.archived)]
        for market in self._random.sample(used, min(self.changes_per_ledger, len(used))):
            reserve = self._random.choice(market.reserves)
            reserve.operate(self._random, time)
            for key, data in (pool_instance(market), cash_entry(market, reserve)):
                yield Change(key, data, ledger + _LIFE)

    def _market(self, index: int, time: int) -> Market:
        market = Market(
            made_address(f"localnet slender pool {index}"), self.oracle, made_account("localnet slender admin")
        )
        for place, token in enumerate(self._tokens):
            start = time - self._random.randint(3_000, 9_000_000)
            reserve = Reserve(
                token=token.contract,
                s_token=made_address(f"localnet slender s token {index} {place}"),
                debt_token=made_address(f"localnet slender debt token {index} {place}"),
                decimals=token.decimals,
                last_update=start,
            )
            dollars = self._random.randint(10, 9_999)
            reserve.deposit(dollars * 10 ** (14 + token.decimals) // token.price, start)
            reserve.borrow(reserve.cash * self._random.randint(0, 8_500) // 10_000, start)
            reserve.deposit(10**token.decimals, time - self._random.randint(0, 2_999))
            reserve.liquidity_cap = 2 * reserve.owned(time)
            reserve.discount = (8_000, 9_500, 8_000)[place]
            reserve.borrowing = place != 2
            market.reserves.append(reserve)
            market.feeds[token.contract] = by_symbol("XLM") if place == 0 else by_address(token.contract)
        return market

    def _price_entries(self, time: int) -> Iterator[Entry]:
        prices = {
            by_address(token.contract) if place else by_symbol("XLM"): self._prices[token.contract]
            for place, token in enumerate(self._tokens)
        }
        return reflector_entries(self.oracle, ORACLE_DECIMALS, prices, time)
