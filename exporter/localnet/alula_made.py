"""The Alula markets of the made network: seeded, with an oracle of their own, and moving with the network.

The first three are those that `exporter.deployments.networks` knows for the local network: one in order, one whose
borrowing is
frozen and that has a price gone stale, and one just deployed, frozen, half configured: its first pool is empty and a
second one only queued. Any more have statuses and sizes of all kinds.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.deployments.made_addresses import made_address
from exporter.ledger.codec.entries import PERSISTENT
from exporter.ledger.source import RawEntry
from exporter.localnet.alula import (
    BPS,
    MARKET_WASM,
    STATUSES,
    Curve,
    Market,
    Pool,
    PoolConfig,
    cached_price_entry,
    manager_entries,
    market_instance,
    pool_entry,
    pool_list,
    queued_entry,
)
from exporter.localnet.chain import Chain, Change
from exporter.localnet.contracts import Entry, Token, asset_entry, oracle_instance, price_entry, wasm_entry
from exporter.localnet.made_assets import made_account
from exporter.localnet.made_markets import MadeMarkets, holds, renewed

ORACLE_DECIMALS = 14
_ACTIVE, _BORROW_FROZEN, _FROZEN = 0, 1, 5
_PRICES_AFTER = 120  # seconds: the oracle writes all prices anew when they are this old; the market takes 360
_STALE_SECONDS = 400
_LIFE, _RENEW_BELOW = 734_400, 720_000  # ledgers: to what and from where a pool's life is extended
_INSTANCE_LIFE = 590_400
_CACHED_PRICE_LIFE = 17_280  # the network's shortest life of a temporary entry
_CURVES = (
    Curve(),
    Curve(100, 400, 4_000, 1_500, 9_000, 5_000),
    Curve(0, 600, 8_000, 2_000, 9_000, 10_000),
)


class AlulaMarkets(MadeMarkets):
    """The made markets; ``markets`` says what is in them, ``stale`` is the token whose price is old.

    At each `advance`, ``changes_per_ledger`` pools of markets that are not frozen change as a user's operation changes
    them. ``missing`` of the pools are listed and have no entry.
    """

    def __init__(
        self,
        seed: int,
        count: int,
        tokens: list[Token],
        start_time: int,
        *,
        missing: int = 0,
        changes_per_ledger: int = 1,
    ) -> None:
        """Make ``count`` markets of some of the tokens, as of ``start_time`` (unix seconds)."""
        super().__init__("alula", seed, changes_per_ledger)
        self.oracle = made_address("localnet alula oracle")
        self.manager = made_address("localnet alula market manager")
        self.admin = made_account("localnet alula admin")
        self.stale = tokens[3].contract
        self.markets = [self._market(index, tokens, start_time) for index in range(count)]
        settled = [(market, pool) for market in self.markets for pool in market.pools if pool.total_j_tokens]
        for market, pool in self._random.sample(settled, missing):
            market.missing.append(pool)
        self._active = [
            (market, pool) for market, pool in settled if market.status < _FROZEN and not holds(market.missing, pool)
        ]
        used = {pool.address for market in self.markets for pool in market.pools}
        self._prices = {token.contract: token.price for token in tokens if token.contract in used}
        self._priced_at = start_time - self._random.randrange(60)

    def first_entries(self, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]:
        """All entries as of the first ledger, closed at ``time``."""
        yield self._old(ledger, wasm_entry(MARKET_WASM))
        yield self._old(ledger, oracle_instance(self.oracle, ORACLE_DECIMALS))
        for entry in manager_entries(self.manager, self.admin, self.markets):
            yield self._old(ledger, entry)
        for token, price in self._prices.items():
            yield self._old(ledger, asset_entry(self.oracle, token))
            written = time - _STALE_SECONDS if token == self.stale else self._priced_at
            key, data = price_entry(self.oracle, token, price, written, PERSISTENT)
            yield key, RawEntry(data, max(ledger - (time - written) // 5, 1), ledger + _INSTANCE_LIFE)
        for market in self.markets:
            yield self._old(ledger, market_instance(market))
            yield self._old(ledger, pool_list(market))
            for token in market.queued:
                yield self._old(ledger, queued_entry(market, token, time - 3_600))
            for pool in market.pools:
                if not holds(market.missing, pool):
                    age = (time - pool.last_accrual_timestamp) // 5
                    modified = max(ledger - age, 1)
                    key, data = pool_entry(market, pool)
                    yield key, RawEntry(data, modified, max(modified, ledger) + _LIFE)

    def advance(self, chain: Chain, ledger: int, time: int) -> Iterator[Change]:
        """What changes in the ledger that closes next: prices when they are due, then a few pools."""
        if self.due(time, _PRICES_AFTER):
            for token in self._prices:
                if token != self.stale:
                    self._prices[token] = self.moved(self._prices[token])
                    written = price_entry(self.oracle, token, self._prices[token], time, PERSISTENT)
                    yield Change(*written, ledger + _INSTANCE_LIFE)
        for market, pool in self.used(self._active):
            operation = pool.operate(self._random, time, market.status < 3, market.status == _ACTIVE)
            key, data = pool_entry(market, pool)
            yield renewed(chain, ledger, (key, data), _LIFE, _RENEW_BELOW)
            if operation in ("borrow", "remove_collateral") and pool.address != self.stale:  # these look at prices
                cached = cached_price_entry(market.address, pool.address, self._prices[pool.address], time)
                yield Change(*cached, ledger + _CACHED_PRICE_LIFE)

    def _market(self, index: int, tokens: list[Token], time: int) -> Market:
        random = self._random
        names = ("main", "growth", "frontier")
        market = Market(
            address=made_address(f"localnet alula market {index}"),
            name=names[index] if index < len(names) else f"market {index}",
            status=(_ACTIVE, _BORROW_FROZEN, _FROZEN)[index] if index < 3 else random.randrange(len(STATUSES)),
            oracle=self.oracle,
            manager=self.manager,
            admin=self.admin,
            insurance_fund=made_address("localnet alula insurance fund"),
        )
        if index == 0:
            chosen = [tokens[1], tokens[0], tokens[2]]  # registered in another order than that of their addresses
        elif index == 1:
            chosen = [tokens[1], tokens[3], tokens[4]]
        elif index == 2:
            chosen = [tokens[5]]
            market.queued.append(tokens[6].contract)
        else:
            fresh = [token for token in tokens if token.contract != self.stale]
            chosen = random.sample(fresh, random.randint(1, min(8, len(fresh))))
        market.pools = [self._pool(token, time, plain=index == 0, empty=index == 2) for token in chosen]
        return market

    def _pool(self, token: Token, time: int, plain: bool, empty: bool) -> Pool:
        random = self._random
        config = PoolConfig(
            curve=random.choice(_CURVES),
            take_rate_bps=random.choice((0, 500, 1_000, 1_000, 2_000)),
            borrow_fee_bps=random.choice((0, 5, 10)),
            supply_limit=random.choice((0, 0, 10 ** (token.decimals + 12))),
            reactivity=random.choice((0, 0, 5, 20)),
        )
        pool = Pool(
            address=token.contract,
            symbol=token.symbol,
            name=token.name,
            decimals=token.decimals,
            config=config,
            last_accrual_timestamp=time - random.randint(3_000, 9_000_000),
        )
        if empty:
            return pool
        dollars = random.randint(1_000, 9_999) * 10 ** random.randint(1, 4)
        amount = dollars * 10 ** (14 + token.decimals) // token.price
        pool.deposit(amount + random.randrange(10**token.decimals))
        lent = random.randint(3_000, 8_500)
        if not plain:
            lent = random.choice((0, random.randint(100, 3_000), lent))
        pool.borrow(pool.supply * lent // BPS)
        pool.total_collateral = amount * random.choice((0, random.randint(1, 9_000))) // BPS
        pool.accrue(time - random.randint(0, 2_999))
        return pool

    def _old(self, ledger: int, entry: Entry) -> tuple[bytes, RawEntry]:
        return self.before(ledger, entry, 400_000, _LIFE)
