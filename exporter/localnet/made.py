"""A made network of lending markets: realistic, seeded, of any size, moving from ledger to ledger.

The same arguments give the same entries at the same ledgers, whatever is asked in between: everything random comes
from the seed, and `MadeNetwork.advance` draws from it in one order. Blend's markets are made here; `alula_made` and
its like have those of the other protocols, `made_assets` the tokens, oracles and price feeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from exporter.deployments.made_addresses import LOCAL_ROUTER, made_address
from exporter.deployments.networks import NETWORKS
from exporter.ledger.codec.entries import code_key
from exporter.ledger.codec.scval_encode import encode_opaque
from exporter.ledger.events import ContractEvent
from exporter.ledger.source import RawEntry
from exporter.localnet.alula_made import AlulaMarkets
from exporter.localnet.blend import (
    SCALE_7,
    V1,
    V2,
    Deployment,
    Event,
    Generation,
    Market,
    Reserve,
    ReserveConfig,
    backstop_entries,
    deploy_event,
    deployed_entry,
    factory_entries,
    pool_instance,
    reserve_config,
    reserve_data,
    reserve_list,
    reward_zone,
)
from exporter.localnet.blend_rewards import BlendRewards
from exporter.localnet.chain import DEFAULT_WINDOW, Chain, Change
from exporter.localnet.contracts import (
    ORACLE_WASM,
    OWN_LAYOUT_WASM,
    TOKEN_WASM,
    Entry,
    Token,
    asset_entry,
    made_wasm,
    oracle_instance,
    router_entries,
    wasm_entry,
)
from exporter.localnet.k2_made import K2Markets
from exporter.localnet.made_assets import Feed, FeedKind, Oracle, made_account, make_feeds, make_oracles, make_tokens
from exporter.localnet.network import CODE, LocalNetwork
from exporter.localnet.peridot_made import PeridotMarkets
from exporter.localnet.reflector_made import ReflectorOracles
from exporter.localnet.slender_made import SlenderMarkets
from exporter.localnet.xoxno_made import XoxnoMarkets


@dataclass(frozen=True, slots=True)
class Others:
    """How much there is of each protocol: XOXNO's hub markets, and the markets of the rest."""

    xoxno_pools: int = 0
    k2_markets: int = 0
    peridot_markets: int = 0
    slender_markets: int = 0


NONE = Others()
SOME = Others(xoxno_pools=8, k2_markets=3, peridot_markets=1, slender_markets=1)
"""What a demonstration has: what the lists of the local network know, and no more."""


class OtherMarkets:
    """The made markets of these protocols. The rest of a network is the same with and without them."""

    def __init__(self, others: Others, seed: int, tokens: list[Token], start_time: int) -> None:
        """Make them as of ``start_time`` (unix seconds)."""
        self.xoxno = XoxnoMarkets(seed, others.xoxno_pools, tokens, start_time)
        self.k2 = K2Markets(seed, others.k2_markets, tokens, start_time)
        self.peridot = PeridotMarkets(seed, others.peridot_markets, tokens, start_time)
        self.slender = SlenderMarkets(seed, others.slender_markets, tokens, start_time)
        self._parts = [part for part in (self.xoxno, self.k2, self.peridot, self.slender) if part.markets]

    def first_entries(self, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]:
        """All entries as of the first ledger, closed at ``time``."""
        for part in self._parts:
            yield from part.first_entries(ledger, time)

    def advance(self, chain: Chain, ledger: int, time: int) -> Iterator[Change]:
        """What changes in the ledger that closes next."""
        for part in self._parts:
            yield from part.advance(chain, ledger, time)

    def events_of(self, ledger: int) -> list[ContractEvent]:
        """What their contracts published in a ledger that was just advanced to."""
        return [event for event in self.xoxno.events if event.ledger == ledger]


# Blend: two deployments with pools of all sizes, statuses and conditions.

_SIZES = (1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 8, 10, 14, 20, 30)
_NAMES = (
    "Fixed",
    "YieldBlox",
    "Orbit",
    "Forex",
    "Etherfuse",
    "Spectra PTs",
    "Solv",
    "Treasury",
    "Etherfuse",
    "Stable",
)
_STATUSES = (1, 1, 0, 2, 3, 4, 5, 6)  # what the first markets have, so that a small network has them all
_MORE_STATUSES = (1,) * 10 + (0, 0, 2, 3, 3, 4, 5, 6)
_MAX_AMOUNT = 10**32  # far below the contract's 2^127, far above 2^63


def make_deployments() -> dict[str, Deployment]:
    """The contracts around the pools, by generation; the backstops are those that `exporter.deployments.networks`
    knows.
    """
    return {
        generation.label: Deployment(
            generation=generation,
            factory=made_address(f"localnet blend {generation.label} factory"),
            backstop=made_address(f"localnet blend {generation.label} backstop"),
            emitter=made_address("localnet blend emitter"),
            blnd=made_address("localnet blnd token"),
            usdc=made_address("localnet token 1"),
            lp_token=made_address("localnet lp token"),
            admin=made_account("localnet blend admin"),
        )
        for generation in (V1, V2)
    }


def market_sizes(random: Random, pools: int, markets: int | None = None) -> list[int]:
    """How many reserves each market has; they add up to ``pools``. With ``markets`` there are so many, all alike."""
    if markets is not None:
        return [pools // markets + (index < pools % markets) for index in range(markets)]
    sizes: list[int] = []
    while pools > 0:
        size = min(random.choice(_SIZES) if sizes else 3, pools)
        sizes.append(size)
        pools -= size
    return sizes


def make_markets(
    random: Random, sizes: list[int], tokens: list[Token], oracles: list[Oracle], start_time: int
) -> list[Market]:
    """A market for each size, the generations in turn, and a last one in Setup that has no reserve list yet."""
    markets = [make_market(random, index, size, tokens, oracles, start_time) for index, size in enumerate(sizes)]
    markets.append(_empty_market(len(sizes), oracles[0]))
    return markets


def make_market(
    random: Random, index: int, size: int, tokens: list[Token], oracles: list[Oracle], start_time: int
) -> Market:
    """The market of a number, which its address is made from; the generations take turns."""
    generation = V2 if index % 2 == 0 else V1
    market = Market(
        address=made_address(f"localnet blend {generation.label} pool {index}"),
        generation=generation,
        name=_NAMES[index % len(_NAMES)],
        status=_STATUSES[index] if index < len(_STATUSES) else random.choice(_MORE_STATUSES),
        oracle=oracles[index % len(oracles)].contract,
        take_rate=random.choice((0, 1_000_000, 2_000_000, 2_000_000, 3_333_333)),
        max_positions=random.randint(2, 12),
        min_collateral=random.choice((0, 10**7, 50 * 10**7)),
    )
    for position, token in enumerate(_tokens_of(random, tokens, size, first=index == 0)):
        market.reserves.append(_reserve(random, market, position, token, start_time, plain=index == 0))
    return market


def _tokens_of(random: Random, tokens: list[Token], size: int, first: bool) -> list[Token]:
    """Distinct tokens, the well-known ones more often; the first market has the first ones."""
    if first:
        return tokens[:size]
    known = [token for token in tokens[:8] if random.randrange(3) == 0]
    chosen = known + random.sample(tokens, size)
    return list(dict.fromkeys(chosen))[:size]


def _empty_market(index: int, oracle: Oracle) -> Market:
    return Market(
        address=made_address(f"localnet blend v2 pool {index}"),
        generation=V2,
        name="Etherfuse",
        status=6,
        oracle=oracle.contract,
        take_rate=2_000_000,
        max_positions=4,
        min_collateral=0,
        listed=False,
    )


def _reserve(random: Random, market: Market, index: int, token: Token, start_time: int, plain: bool) -> Reserve:
    generation = market.generation
    scale = generation.rate_scale
    config = _config(random, generation, index, token.decimals)
    dollars = random.randint(1, 9_999) * 10 ** random.randint(1, 4)
    whole_tokens = dollars * 10**14 // token.price
    supplied = min(whole_tokens * 10**token.decimals + random.randrange(10**token.decimals), _MAX_AMOUNT)
    utilization = random.choice((0, random.randint(1, 4_000_000), random.randint(4_000_000, 9_900_000)))
    if plain:
        utilization = random.randint(3_000_000, 8_500_000)
    d_rate = scale + random.randrange(scale // 3)
    b_rate = scale + (d_rate - scale) * random.randint(0, 80) // 100
    kind = "plain" if plain else random.choice(("plain",) * 12 + ("unused", "loss", "beyond", "idle"))
    if kind == "unused":
        supplied = 0
    elif kind == "loss" and generation is V2:  # bad debt was shared by the suppliers
        b_rate = random.randint(scale // 10, scale - 1)
    elif kind == "beyond":
        utilization = random.randint(SCALE_7 + 1, SCALE_7 * 11 // 10)
    idle_for = random.randint(30 * 86_400, 300 * 86_400) if kind == "idle" else random.randint(0, 100_000)
    return Reserve(
        generation=generation,
        token=token.contract,
        config=config,
        take_rate=market.take_rate,
        b_rate=b_rate if supplied else scale,
        d_rate=d_rate if supplied else scale,
        ir_mod=generation.modifier_scale * random.randint(100, 3_000) // 1_000,
        b_supply=supplied * scale // b_rate,
        d_supply=supplied * utilization // SCALE_7 * scale // d_rate,
        backstop_credit=supplied * random.randrange(1_000) // 10_000_000,
        last_time=start_time - idle_for,
    )


def _config(random: Random, generation: Generation, index: int, decimals: int) -> ReserveConfig:
    factor = random.choice((0, 5_000_000, 7_500_000, 9_000_000, 9_500_000))
    util = random.choice((5_000_000, 6_500_000, 7_500_000, 8_000_000, 9_000_000))
    return ReserveConfig(
        index=index,
        decimals=decimals,
        c_factor=factor,
        l_factor=random.choice((7_500_000, 9_000_000, 9_500_000)),
        util=util,
        max_util=random.choice((9_500_000, 9_800_000, SCALE_7)),
        r_base=random.choice((1_000, 30_000, 100_000, 300_000)),
        r_one=random.choice((200_000, 400_000, 500_000, 600_000)),
        r_two=random.choice((1_200_000, 2_000_000, 5_000_000)),
        r_three=random.choice((15_000_000, 50_000_000, 75_000_000)),
        reactivity=random.choice((20, 31, 100, 1_000)),
        supply_cap=random.choice((2**127 - 1, 10 ** (decimals + 11))) if generation is V2 else 2**127 - 1,
        enabled=random.randrange(20) != 0,
    )


DEFAULT_START_LEDGER = 65_000_000
DEFAULT_START_TIME = 1_794_996_000
"""2026-11-18 10:00:00 UTC: fixed, so that the made network is the same on every day."""

PROTOCOL_VERSION = 28
_LEDGERS_PER_DAY = 17_280
_LIFE = 46 * _LEDGERS_PER_DAY  # what the pool contract extends the life of its shared entries to
_RENEW_BELOW = 45 * _LEDGERS_PER_DAY


class MadeNetwork(LocalNetwork):
    """A chain of made markets; ``markets``, ``tokens``, ``oracles`` and ``feeds`` say what is in it.

    ``pools`` is the number of reserves in all markets together. One more market is in Setup and has none. At each
    `advance`, ``changes_per_ledger`` reserves change as a user's operation changes them, and ``prices_per_ledger``
    feeds get a new price. ``archived`` and ``missing`` of the reserves have archived entries, or no ``ResData`` at all.
    ``alula`` has as many markets of Alula as ``alula_markets`` says, with their own oracle; of their pools
    ``alula_missing`` have no entry. ``others`` says what there is of the other protocols. The
    rest of the network is the same with and without all of these.
    With ``market_count`` the pools are spread evenly over so many markets; events are kept ``event_window`` ledgers.
    Before the first ledger come ``quiet_ledgers`` without any change. With ``real_oracles`` Blend's pools have oracles
    whose entries are as on mainnet (`exporter.localnet.reflector_made`), in place of ones that do odd things.
    """

    def __init__(
        self,
        *,
        pools: int = 60,
        market_count: int | None = None,
        seed: int = 1,
        start_ledger: int = DEFAULT_START_LEDGER,
        start_time: int = DEFAULT_START_TIME,
        close_seconds: int = 5,
        changes_per_ledger: int = 3,
        prices_per_ledger: int = 2,
        archived: int = 0,
        missing: int = 0,
        alula_markets: int = 0,
        alula_missing: int = 0,
        others: Others = NONE,
        window: int = DEFAULT_WINDOW,
        event_window: int | None = None,
        quiet_ledgers: int = 0,
        real_oracles: bool = False,
    ) -> None:
        """Make the network as of ``start_ledger``, closed at ``start_time`` (unix seconds)."""
        if pools < archived + missing or min(archived, missing) < 0:
            raise ValueError("there are not that many reserves to be archived or missing")
        self.close_seconds = close_seconds
        self.changes_per_ledger = changes_per_ledger
        self.prices_per_ledger = prices_per_ledger
        self._random = Random(seed)
        sizes = market_sizes(self._random, pools, market_count)
        self.oracles = make_oracles()
        self.tokens, token_prices = make_tokens(self._random, pools, at_least=max(sizes, default=0))
        self.feeds = make_feeds(self._random, self.oracles, self.tokens, token_prices)
        self.markets = make_markets(self._random, sizes, self.tokens, self.oracles, start_time)
        self.reflector = ReflectorOracles(seed, self.tokens, start_time) if real_oracles else None
        if self.reflector is not None:
            for place, market in enumerate(self.markets):
                market.oracle = self.reflector.aggregator if place % 2 else self.reflector.oracle
        self.deployments = make_deployments()
        self.blend_rewards = BlendRewards(seed, self.markets, self.deployments, start_time)
        reserves = [(market, reserve) for market in self.markets for reserve in market.reserves]
        broken = self._random.sample(reserves, archived + missing)
        self.archived, self.missing = broken[:archived], broken[archived:]
        self._active = [pair for pair in reserves if all(pair[1] is not reserve for _, reserve in broken)]
        self._renewed = [feed for feed in self.feeds if feed.renewed]
        self._next_feed = 0
        self.alula = AlulaMarkets(seed, alula_markets, self.tokens, start_time, missing=alula_missing)
        self.others = OtherMarkets(others, seed, self.tokens, start_time)
        entries = dict(self._first_entries(start_ledger, start_time))
        entries |= self.blend_rewards.first_entries(self.markets, start_ledger)
        if self.alula.markets:
            entries |= self.alula.first_entries(start_ledger, start_time)
        entries |= self.others.first_entries(start_ledger, start_time)
        if self.reflector is not None:
            entries |= self.reflector.first_entries(start_ledger, start_time)
        chain = Chain(
            entries,
            start_ledger=start_ledger,
            start_time=start_time,
            window=window,
            event_window=event_window,
            quiet_ledgers=quiet_ledgers,
        )
        super().__init__(chain, NETWORKS["made"].passphrase, PROTOCOL_VERSION, CODE)

    def advance(self) -> int:
        """Close one more ledger: a few reserves change, a few prices move. Gives the ledger's number."""
        ledger = self.chain.latest + 1
        time = self.chain.close_time(self.chain.latest) + self.close_seconds
        changes = []
        operated = self._random.sample(self._active, min(self.changes_per_ledger, len(self._active)))
        for market, reserve in operated:
            reserve.operate(self._random, time, market.status)
            changes.append(self._write(reserve_data(market, reserve), ledger))
        for _ in range(min(self.prices_per_ledger, len(self._renewed))):
            feed = self._renewed[self._next_feed % len(self._renewed)]
            self._next_feed += 1
            feed.move(self._random)
            changes.append(Change(*feed.entry(time), feed.live_until(ledger)))
        changes += self.blend_rewards.advance(ledger, time, operated)
        if self.alula.markets:
            changes += self.alula.advance(self.chain, ledger, time)
        changes += self.others.advance(self.chain, ledger, time)
        if self.reflector is not None:
            changes += self.reflector.advance(ledger, time)
        events = [(event.contract, event.topics, event.value) for event in self.others.events_of(ledger)]
        return self.chain.close(changes, close_time=time, events=events)

    def deploy_market(self, size: int = 2, *, through_factory: bool = True) -> Market:
        """Close a ledger in which somebody deploys a Blend pool with so many reserves; gives the market.

        Not ``through_factory``: the same code, deployed by itself, of which the factory knows and publishes nothing.
        """
        time = self.chain.close_time(self.chain.latest) + self.close_seconds
        market = make_market(self._random, len(self.markets), size, self.tokens, self.oracles, time)
        deployment = self.deployments[market.generation.label]
        self.markets.append(market)
        written = [pool_instance(market, deployment), reserve_list(market)]
        for reserve in market.reserves:
            written += [reserve_config(market, reserve), reserve_data(market, reserve)]
        events: list[Event] = []
        if through_factory:
            written.append(deployed_entry(deployment, market))
            events.append(deploy_event(deployment, market))
        self._close(written, time, events)
        return market

    def empty_reward_zones(self) -> int:
        """Close a ledger in which no backstop rewards any pool any more; gives its number."""
        time = self.chain.close_time(self.chain.latest) + self.close_seconds
        return self._close([reward_zone(deployment, []) for deployment in self.deployments.values()], time)

    def publish(self, *events: Event) -> int:
        """Close a ledger with these events and no changes; gives its number."""
        return self._close([], self.chain.close_time(self.chain.latest) + self.close_seconds, events)

    def remove_market(self, market: Market) -> int:
        """Close a ledger in which a pool's contract is gone, as when a network was wiped; gives its number."""
        time = self.chain.close_time(self.chain.latest) + self.close_seconds
        key, _ = pool_instance(market, self.deployments[market.generation.label])
        return self.chain.close([Change(key, None)], close_time=time)

    def _close(self, written: Sequence[Entry], time: int, events: Sequence[Event] = ()) -> int:
        life = self.chain.latest + 1 + _LIFE
        return self.chain.close([Change(*entry, life) for entry in written], close_time=time, events=events)

    def _write(self, entry: Entry, ledger: int) -> Change:
        key, data = entry
        before = self.chain.entry(key, ledger - 1)
        live_until = (before.live_until if before else None) or 0
        return Change(key, data, live_until if live_until >= ledger + _RENEW_BELOW else ledger + _LIFE)

    def _first_entries(self, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]:
        for wasm in (ORACLE_WASM, TOKEN_WASM, OWN_LAYOUT_WASM):
            yield self._old(ledger, wasm_entry(wasm))
        for token in self.tokens:
            yield self._old(ledger, token.instance_entry())
        for oracle in self.oracles:
            yield self._old(ledger, oracle_instance(oracle.contract, oracle.decimals, oracle.durability))
        for feed in self.feeds:
            yield from self._feed_entries(feed, ledger, time)
        for label, deployment in self.deployments.items():
            markets = [market for market in self.markets if market.generation.label == label]
            for entry in (*backstop_entries(deployment, markets), *factory_entries(deployment, markets)):
                yield self._old(ledger, entry)
        for market in self.markets:
            yield from self._market_entries(market, ledger, time)
        # The real code is not here, but a call of a pool has its entry in the footprint.
        code = b"\0\0\0\x07\0\0\0\0" + V2.wasm_hash + encode_opaque(made_wasm("localnet blend v2 pool"))
        yield code_key(V2.wasm_hash), RawEntry(code, max(ledger - _LIFE, 1), ledger + _LIFE)
        for key, data in router_entries(LOCAL_ROUTER.address):
            yield key, RawEntry(data, max(ledger - _LIFE, 1), ledger + _LIFE)

    def _feed_entries(self, feed: Feed, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]:
        if feed.kind is not FeedKind.UNKNOWN:
            constant = feed.scaled_price() if feed.kind is FeedKind.CONSTANT else None
            yield self._old(ledger, asset_entry(feed.oracle.contract, feed.token, constant))
        if feed.has_price_entry:
            age = self._random.randrange(0, 60)  # ledgers
            key, data = feed.entry(time - age * self.close_seconds)
            yield key, RawEntry(data, ledger - age, feed.live_until(ledger))

    def _market_entries(self, market: Market, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]:
        yield self._old(ledger, pool_instance(market, self.deployments[market.generation.label]))
        if market.listed:
            yield self._old(ledger, reserve_list(market))
        for reserve in market.reserves:
            archived = self._is_in(self.archived, reserve)
            yield self._old(ledger, reserve_config(market, reserve), archived)
            if not self._is_in(self.missing, reserve):
                key, data = reserve_data(market, reserve)
                age = (time - reserve.last_time) // self.close_seconds
                modified = max(ledger - age, 1)
                life = max(modified + _LIFE, ledger + _LIFE // 2)
                yield key, RawEntry(data, modified, ledger - 1 if archived else life)

    def _old(self, ledger: int, entry: Entry, archived: bool = False) -> tuple[bytes, RawEntry]:
        """An entry that was written at some time before the first ledger."""
        key, data = entry
        modified = max(ledger - self._random.randint(1, 30 * _LEDGERS_PER_DAY), 1)
        left = -1 if archived else self._random.randint(_LIFE // 2, _LIFE)
        return key, RawEntry(data, modified, ledger + left)

    @staticmethod
    def _is_in(pairs: list[tuple[Market, Reserve]], reserve: Reserve) -> bool:
        return any(reserve is other for _, other in pairs)
