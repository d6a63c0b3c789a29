"""The K2 markets of the made network: seeded, each with its own tokens and rates, one oracle, moving with the network.

The first market is in order, but for one price gone stale, which fails the call for all of its prices; a reserve of
it is frozen, one has no parameters of its own, each has a ceiling of debt, and one pays rewards. The second is paused.
The third, whose oracle is of the published source, was just made: its one reserve is empty. Any more have sizes of all
kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exporter.deployments.made_addresses import made_address
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain, Change
from exporter.localnet.contracts import Entry, Token, balance_entry, wasm_entry
from exporter.localnet.k2 import (
    ACTIVE,
    BORROWING,
    FLASH,
    FROZEN,
    ORACLE_WASM,
    RATES_WASM,
    RAY,
    ROUTER_WASM,
    TOKEN_WASM,
    Market,
    Model,
    Reserve,
    a_token_instance,
    debt_ceiling_entry,
    debt_token_instance,
    oracle_instance,
    price_entry,
    rates_entry,
    rates_instance,
    reserve_count,
    reserve_entry,
    reserve_list,
    reward_entries,
    router_instance,
)
from exporter.localnet.made_assets import made_account
from exporter.localnet.made_markets import MadeMarkets, renewed

_PRICES_AFTER = 600  # seconds: the oracle writes all prices anew when they are this old
_STALE_SECONDS = 20_000  # as on mainnet, where some feeds went without a price for hours
_LIFE = 6_307_200  # ledgers: 365 days, to which everything is extended
_RENEWED = 518_400  # from fewer than these, 30 days
_MODELS = (
    Model(),
    Model(RAY // 100, 9 * RAY // 10, 5 * RAY // 100, 3 * RAY // 4),
    Model(0, 45 * RAY // 100, 7 * RAY // 100, 3 * RAY),
)


class K2Markets(MadeMarkets):
    """The made markets; ``markets`` says what is in them, ``tokens`` has their tokens, of ``stale`` the price is old.

    At each `advance`, ``changes_per_ledger`` reserves of markets that are not paused change as a user's operation
    changes them.
    """

    def __init__(
        self,
        seed: int,
        count: int,
        tokens: list[Token],
        start_time: int,
        *,
        changes_per_ledger: int = 1,
    ) -> None:
        """Make ``count`` markets of some of the tokens, as of ``start_time`` (unix seconds)."""
        super().__init__("k2", seed, changes_per_ledger)
        self.oracle = made_address("localnet k2 oracle")
        self.plain_oracle = made_address("localnet k2 oracle of the published source")
        self.admin = made_account("localnet k2 admin")
        self.stale = tokens[4].contract
        self.tokens = {token.contract: token for token in tokens}
        self.markets = [self._market(index, tokens, start_time) for index in range(count)]
        settled = [(market, item) for market in self.markets for item in market.reserves if item.supply_scaled]
        self._active = [pair for pair in settled if not pair[0].paused]
        priced = {token.contract: token.price for token in tokens}
        self._prices = {
            (market.oracle, item.asset): priced[item.asset] for market in self.markets for item in market.reserves
        }
        self._priced_at = start_time - self._random.randrange(60)

    def first_entries(self, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]:
        """All entries as of the first ledger, closed at ``time``."""
        for wasm in (ROUTER_WASM, TOKEN_WASM, RATES_WASM, ORACLE_WASM):
            yield self._old(ledger, wasm_entry(wasm))
        yield self._old(ledger, oracle_instance(self.oracle, self.admin))
        yield self._old(ledger, oracle_instance(self.plain_oracle, self.admin, fresh=False))
        for (oracle, token), price in self._prices.items():
            written = time - _STALE_SECONDS if token == self.stale else self._priced_at
            key, data = price_entry(oracle, token, price, written)
            yield key, RawEntry(data, max(ledger - (time - written) // 5, 1), ledger + _LIFE)
        for market in self.markets:
            yield from self._market_entries(market, ledger, time)

    def advance(self, chain: Chain, ledger: int, time: int) -> Iterator[Change]:
        """What changes in the ledger that closes next: prices when they are due, then a few reserves."""
        if self.due(time, _PRICES_AFTER):
            for (oracle, token), price in self._prices.items():
                if token != self.stale:
                    moved = self.moved(price)
                    self._prices[oracle, token] = moved
                    yield Change(*price_entry(oracle, token, moved, time), ledger + _LIFE)
        for market, reserve in self.used(self._active):
            operation = reserve.operate(self._random, time)
            token_instance = a_token_instance if operation in ("supply", "withdraw") else debt_token_instance
            entries = (reserve_entry(market, reserve), token_instance(market, reserve), self._cash(reserve))
            for key, data in entries:
                yield renewed(chain, ledger, (key, data), _LIFE, _RENEWED)

    def _market_entries(self, market: Market, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]:
        yield self._old(ledger, router_instance(market))
        list_key, listed = self._old(ledger, reserve_list(market))
        yield list_key, listed
        key, data = reserve_count(market)  # written with the list
        yield key, replace(listed, data=data)
        yield self._old(ledger, rates_instance(market))
        for reserve in market.reserves:
            modified = max(ledger - (time - reserve.last_update) // 5, 1)
            if reserve.own_model:
                yield self._old(ledger, rates_entry(market, reserve))
            key, data = reserve_entry(market, reserve)
            yield key, RawEntry(data, modified, ledger + _LIFE)
            for entry in reward_entries(market, reserve):
                yield self._old(ledger, entry)
            tokens = [debt_token_instance(market, reserve), self._cash(reserve)]
            if reserve.debt_ceiling:
                yield self._old(ledger, debt_ceiling_entry(market, reserve))
            tokens.append(a_token_instance(market, reserve))
            for key, data in tokens:
                yield key, RawEntry(data, modified, ledger + _LIFE)

    def _cash(self, reserve: Reserve) -> Entry:
        """What a reserve's aToken has of the token."""
        return balance_entry(self.tokens[reserve.asset], reserve.a_token, reserve.cash)

    def _market(self, index: int, tokens: list[Token], time: int) -> Market:
        random = self._random
        market = Market(
            address=made_address(f"localnet k2 router {index}"),
            oracle=self.plain_oracle if index == 2 else self.oracle,
            rates=made_address(f"localnet k2 rates {index}"),
            admin=self.admin,
            configurator=made_address(f"localnet k2 configurator {index}"),
            treasury=made_address(f"localnet k2 treasury {index}"),
            paused=index == 1,
            defaults=_MODELS[1],
        )
        if index == 0:
            chosen = [tokens[1], tokens[0], tokens[4], tokens[3]]  # in another order than that of their addresses
        elif index == 1:
            chosen = [tokens[1], tokens[2]]
        elif index == 2:
            chosen = [tokens[5]]
        else:
            fresh = [token for token in tokens if token.contract != self.stale]
            chosen = random.sample(fresh, random.randint(1, min(6, len(fresh))))
        for number, token in enumerate(chosen):
            market.reserves.append(self._reserve(index, number, token, time))
        if index == 0:  # the first reserve's suppliers are paid in the token of the second; its borrowers were
            market.incentives = made_address("localnet k2 incentives")
            paid = chosen[1].contract
            market.reserves[0].rewards = {0: (paid, 2_000, 0), 1: (paid, 500, time - 86_400)}
        return market

    def _reserve(self, index: int, number: int, token: Token, time: int) -> Reserve:
        random = self._random
        own_model = index != 0 or number != 1
        reserve = Reserve(
            asset=token.contract,
            symbol=token.symbol,
            decimals=token.decimals,
            a_token=made_address(f"localnet k2 a-token {index} {number}"),
            debt_token=made_address(f"localnet k2 debt-token {index} {number}"),
            last_update=time - random.randint(200, 4_000_000),
            id=number,
            model=random.choice(_MODELS) if own_model else _MODELS[1],
            own_model=own_model,
            reserve_factor=random.choice((0, 1_000, 2_000, 3_500)),
            flags=ACTIVE | BORROWING | FLASH | (FROZEN if (index, number) == (0, 3) else 0),
            borrow_cap=random.choice((0, 500_000)),
            supply_cap=random.choice((0, 1_000_000)),
        )
        if index == 2:
            return reserve
        dollars = random.randint(1_000, 9_999) * 10 ** random.randint(1, 4)
        amount = dollars * 10 ** (14 + token.decimals) // token.price + random.randrange(10**token.decimals)
        reserve.supply_scaled = amount
        reserve.debt_scaled = amount * random.choice((0, random.randint(100, 9_500), random.randint(3_000, 8_500)))
        reserve.debt_scaled //= 10_000
        reserve.update_rates()
        reserve.accrue(reserve.last_update + random.randint(0, time - reserve.last_update))
        reserve.update_rates()
        supplied, borrowed = reserve.totals()
        reserve.cash = max(supplied - borrowed, 0) + 10**token.decimals // 100  # which the treasury may collect
        if index == 0:
            reserve.debt_ceiling = 2 * borrowed // 10**token.decimals
        return reserve

    def _old(self, ledger: int, entry: Entry) -> tuple[bytes, RawEntry]:
        return self.before(ledger, entry, _LIFE)
