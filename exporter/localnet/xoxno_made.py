"""The XOXNO hub markets of the made network: seeded, with a price aggregator of their own, and moving with the network.

The first ones are those that `made_addresses` lists: one token is in two hubs, one has 18 decimals, and one
listed hub market is never created. Any more stand in no list: only events name them. A hub's markets are listed in the
spoke of the same number, and the first hub's also in the last spoke, where they can only be borrowed; the second spoke
is deprecated, and hub 3 is not active. What is created later no spoke lists.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from exporter.deployments.made_addresses import XOXNO_POOLS, made_address
from exporter.ledger.events import ContractEvent
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain, Change
from exporter.localnet.contracts import Entry, Token, wasm_entry
from exporter.localnet.made_markets import MadeMarkets, holds, renewed
from exporter.localnet.xoxno import (
    AGGREGATOR_WASM,
    BPS,
    CONTROLLER_WASM,
    FEED_UNIT,
    FEEDS_WASM,
    POOL_WASM,
    RAY,
    Answer,
    HubMarket,
    Params,
    Source,
    aggregator_instance,
    answers_entry,
    controller_instance,
    created_event,
    feed_entries,
    feeds_instance,
    hub_entry,
    oracle_entry,
    parameters_entry,
    parameters_event,
    pool_instance,
    spoke_asset_entry,
    spoke_entry,
    spoke_usage_entry,
    state_entry,
    state_event,
)

MAX_EVENTS = 10_000
_PRICES_AFTER = 600  # seconds: the made sources say a new price when theirs is this old
_STALE_SECONDS = 4_000  # above the limit of a feed
_LIFE, _RENEW_BELOW = 3_110_400, 3_024_000  # ledgers: 180 days, renewed when below 175
_WAD_PER_PRICE = 10**4  # tokens of the made network have prices of 14 decimals
_MILLI = 10**24
_PARAMS = (
    Params(),
    Params(
        10 * _MILLI,
        40 * _MILLI,
        100 * _MILLI,
        1_500 * _MILLI,
        500 * _MILLI,
        750 * _MILLI,
        900 * _MILLI,
        1_750 * _MILLI,
        2_000,
    ),
    Params(
        0, 25 * _MILLI, 150 * _MILLI, 1_000 * _MILLI, 500 * _MILLI, 800 * _MILLI, 900 * _MILLI, 2 * RAY, 2_500, 0, False
    ),
)


class XoxnoMarkets(MadeMarkets):
    """The made hub markets, in ``markets``; ``events`` is what their contracts published, the newest last.

    At each `advance`, ``changes_per_ledger`` of them change as a user's operation changes them. The price of
    ``stale`` is too old, the two sources of ``deviating`` differ too much, and of ``unpriced`` the aggregator knows
    nothing.
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
        """Make ``count`` hub markets of some of the tokens, as of ``start_time`` (unix seconds)."""
        super().__init__("xoxno", seed, changes_per_ledger)
        self._tokens = tokens
        self.controller = made_address("localnet xoxno controller")
        self.pool = made_address("localnet xoxno pool")
        self.aggregator = made_address("localnet xoxno price aggregator")
        self.stale, self.unpriced, self.deviating = (tokens[index].contract for index in (3, 5, 7))
        self.events: deque[ContractEvent] = deque(maxlen=MAX_EVENTS)
        self.markets = [self._market(*self._place(index), start_time) for index in range(count)]
        self._created: list[HubMarket] = []
        self._unlisted: list[HubMarket] = []
        self._priced_at = start_time - self._random.randrange(60)

    def create(self, hub: int, token: Token, time: int) -> HubMarket:
        """A new hub market, empty, which the next `advance` writes; its creation and state are published then."""
        market = HubMarket(hub, token.contract, token.decimals, last_timestamp=time * 1_000)
        self._created.append(market)
        return market

    def first_entries(self, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]:
        """All entries as of the first ledger, closed at ``time``."""
        for wasm in (CONTROLLER_WASM, POOL_WASM, AGGREGATOR_WASM):
            yield self._old(ledger, wasm_entry(wasm))
        for key, data in (wasm_entry(FEEDS_WASM), feeds_instance()):
            yield key, RawEntry(data, max(ledger - 400_000, 1), ledger + _LIFE)
        hubs = max(market.hub for market in self.markets)
        nft = made_address("localnet xoxno position nft")
        yield self._old(ledger, controller_instance(self.controller, self.pool, nft, self.aggregator, hubs))
        yield self._old(ledger, pool_instance(self.pool, self.controller))
        for hub in range(1, hubs + 1):
            yield self._old(ledger, hub_entry(self.controller, hub, active=hub != 3))
        for spoke in range(1, hubs + 2):
            yield self._old(ledger, spoke_entry(self.controller, spoke, deprecated=spoke == 2))
        for market in self.markets:
            for entry in self._spoke_entries(market, hubs + 1):
                yield self._old(ledger, entry)
        priced = [token.contract for token in self._tokens if token.contract != self.unpriced]
        yield self._old(ledger, aggregator_instance(self.aggregator, priced))
        for number, token in enumerate(self._tokens):
            if token.contract != self.unpriced:
                sources, max_age = [Source()] * self._sources(token), (57_600, 86_400)[number % 2]
                yield self._old(ledger, oracle_entry(self.aggregator, token.contract, token.decimals, sources, max_age))
        for key, data in self._price_entries(time, everything=True):
            yield key, RawEntry(data, max(ledger - (time - self._priced_at) // 5, 1), ledger + _LIFE)
        for market in self.markets:
            yield self._old(ledger, parameters_entry(self.pool, market))
            key, data = state_entry(self.pool, market)
            modified = max(ledger - (time - market.last_timestamp // 1_000) // 5, 1)
            yield key, RawEntry(data, modified, ledger + _LIFE)

    def advance(self, chain: Chain, ledger: int, time: int) -> Iterator[Change]:
        """What changes in the ledger that closes next: prices when they are due, creations, then a few operations."""
        if self.due(time, _PRICES_AFTER):
            for key, data in self._price_entries(time, everything=False):
                yield Change(key, data, ledger + _LIFE)
        self._unlisted += self._created
        for market in self._created:
            self.markets.append(market)
            self.events.append(created_event(self.controller, self.pool, market, ledger))
            self.events.append(parameters_event(self.pool, [market], ledger))
            yield Change(*parameters_entry(self.pool, market), ledger + _LIFE)
            yield Change(*state_entry(self.pool, market), ledger + _LIFE)
        fresh, self._created = self._created, []
        active = [market for market in self.markets if not holds(fresh, market)]
        for market in self.used(active):
            market.operate(self._random, time * 1_000)
            self.events.append(state_event(self.pool, [market], ledger))
            entries = [state_entry(self.pool, market)]
            if not holds(self._unlisted, market):
                entries.append(spoke_usage_entry(self.controller, market.hub, market))
            for key, data in entries:
                yield renewed(chain, ledger, (key, data), _LIFE, _RENEW_BELOW)

    def _spoke_entries(self, market: HubMarket, last: int) -> Iterator[Entry]:
        yield spoke_asset_entry(self.controller, market.hub, market)
        yield spoke_usage_entry(self.controller, market.hub, market)
        if market.hub == 1:
            changes: dict[str, bool | int] = {"is_collateralizable": False, "borrow_cap": market.borrow_cap // 10}
            yield spoke_asset_entry(self.controller, last, market, **changes)

    def _place(self, index: int) -> tuple[int, Token]:
        """The hub and the token of a hub market: first those of the list, but its last, then ever further hubs."""
        listed = XOXNO_POOLS[:-1]
        if index < len(listed):
            hub, token, _ = listed[index]
            return hub, self._tokens[token]
        further, token = divmod(index - len(listed), len(self._tokens))
        return 4 + further, self._tokens[token]

    def _market(self, hub: int, token: Token, time: int) -> HubMarket:
        random = self._random
        market = HubMarket(hub, token.contract, token.decimals, random.choice(_PARAMS))
        market.last_timestamp = (time - random.randint(40 * 86_400, 90 * 86_400)) * 1_000
        dollars = random.randint(1_000, 9_999) * 10 ** random.randint(0, 3)
        market.supply(dollars * 10 ** (14 + token.decimals) // token.price + random.randrange(10**token.decimals))
        market.borrow(market.free() * random.choice((0, random.randint(1, 3_000), random.randint(3_000, 9_900))) // BPS)
        market.accrue((time - random.randint(7 * 86_400, 39 * 86_400)) * 1_000)
        if random.randrange(8) == 0:
            market.write_off(market.debt_value() // 50)
        market.accrue((time - random.randint(0, 6 * 86_400)) * 1_000)
        market.supply_cap = 2 * (market.supply_value() // market.scale)
        market.borrow_cap = market.supply_cap // 2
        return market

    def _price_entries(self, time: int, *, everything: bool) -> Iterator[Entry]:
        for token in self._tokens:
            if token.contract == self.unpriced or (token.contract == self.stale and not everything):
                continue
            moved = token.price * _WAD_PER_PRICE * (BPS + self._random.randint(-30, 30)) // BPS
            other = (
                moved * 2
                if token.contract == self.deviating
                else moved * (BPS + self._random.randint(-100, 100)) // BPS
            )
            written = time - _STALE_SECONDS if token.contract == self.stale else self._priced_at
            said = [Answer(price // FEED_UNIT * FEED_UNIT, written) for price in (moved, other)][: self._sources(token)]
            yield answers_entry(self.aggregator, token.contract, said)
            yield from feed_entries(token.contract, said)

    def _sources(self, token: Token) -> int:
        """How many sources a token has: one or two."""
        return 1 if token.decimals == 7 and token.contract != self.deviating else 2

    def _old(self, ledger: int, entry: Entry) -> tuple[bytes, RawEntry]:
        return self.before(ledger, entry, _RENEW_BELOW, _LIFE)
