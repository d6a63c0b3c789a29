"""Reads every Slender market.

The first request has the markets' instances, which contain the reserves; the second has the reserves' cash and price
feeds. A market or reserve that cannot be read is recorded as unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from exporter.deployments import Deployment
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.observation import Entry
from exporter.ledger.oracles import PriceKey, read_asset_quotes
from exporter.ledger.tokens import MAX_TOKEN_DECIMALS, read_tokens
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, Market, PoolReading, PriceLimits, ProtocolReading
from exporter.protocols.collector import Collector, UnreadError, instance_keys, required
from exporter.protocols.slender import layout
from exporter.tree.values import UnreadReason

NAME = "slender"
MARKET_NAME = "Slender"
"""The name of every market, because the contract itself has none."""


class _DecodedReserve(NamedTuple):
    """A reserve as its market's instance has it, which is without its cash."""

    market: Market
    asset: str
    state: layout.Reserve

    @property
    def cash_key(self) -> bytes:
        return layout.cash_key(self.market.address, self.asset, self.state.s_token)


class _Reader(Collector):
    def __init__(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment]) -> None:
        super().__init__(NAME, candidates)
        self.deployments = deployments
        self.pools: dict[str, layout.PoolInstance] = {}
        self.reserves: list[_DecodedReserve] = []
        self.pools_read: list[PoolReading[layout.Reserve]] = []

    def take_market(self, market: str, entry: Entry | None) -> None:
        """Decode a market's instance and the reserves in it. Raises `DecodeError`."""
        if not self.market_is_there(market, entry):
            return
        pool = self.pools[market] = layout.decode_instance(required(entry, "the market's instance"))
        self.check_code(market, pool.wasm_hash, self.deployments, layout.VERSION)
        self.take_admins(market, entry, {"Admin": "admin"})
        self.take_reserves(market, pool)

    def take_reserves(self, market: str, pool: layout.PoolInstance) -> None:
        """Record a market, and decode each of its reserves."""
        members, decoded = [], {}
        for asset in pool.reserves:
            reserve, is_rwa = None, False
            with self.record_unread(market, asset):
                reserve = layout.decode_reserve(pool, asset)
                is_rwa = reserve is None
            if is_rwa:
                self.notice(f"market {market}: reserve {asset} is of type RWA, which lends nothing; it is not a pool")
                continue
            members.append(asset)
            if reserve is not None:
                decoded[asset] = reserve
        feeds = {reserve.feed and reserve.feed.contract for reserve in decoded.values()}
        read_market = Market(
            address=market,
            protocol=NAME,
            version=layout.VERSION,
            name=MARKET_NAME,
            status="paused" if pool.settings.paused else "active",
            oracle=feeds.pop() if len(feeds) == 1 else None,  # None if the reserves have different feeds
            config_hash=layout.config_hash(pool),
            wasm_hash=pool.wasm_hash,
            members=tuple(members),
        )
        self.reading.markets.append(read_market)
        self.reserves += [_DecodedReserve(read_market, asset, state) for asset, state in decoded.items()]

    def take_cash(self, decoded: _DecodedReserve, entry: Entry | None) -> None:
        """Record a reserve with its cash as a pool. Raises `UnreadError` or `DecodeError`.

        The contract counts a missing balance as 0. Supplying writes the balance and nothing removes it, so it can only
        be missing if nothing was ever supplied. If there are shares or debt, a missing balance is a contradiction.
        """
        market, asset, reserve = decoded
        what = f"the reserve's cash, TokenBalance of sToken {reserve.s_token},"
        if entry is None and (reserve.s_supply or reserve.debt_supply):
            raise UnreadError(UnreadReason.ABSENT, f"{what} is missing, though there are shares or debt; it is not 0")
        cash = layout.amount_of(None if entry is None else entry.value, "TokenBalance")
        token, feed = self.reading.tokens[asset], reserve.feed
        decimals = token.decimals if reserve.feed_decimals is None else reserve.feed_decimals
        if decimals is None or decimals > MAX_TOKEN_DECIMALS:
            raise UnreadError(UnreadReason.UNDECODABLE, f"its token's decimals are {decimals}: {token.failure}")
        self.compare_decimals(market.address, decimals, token)
        oracle = None if feed is None else feed.contract
        pool = PoolReading(market, asset, asset, decimals, oracle, replace(reserve, cash=cash))
        self.append_pool(pool, [decoded.cash_key, instance_key(reserve.s_token)])
        self.pools_read.append(pool)
        if feed is not None:
            self.reading.price_limits[pool.key] = PriceLimits(feed.max_age)
        self.reading.parameters[pool.key] = layout.shown_parameters(self.pools[market.address], asset)


async def read_markets(
    view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """Read the candidates. There are no others, because nothing on the chain lists Slender's markets.

    Raises only `SourceError`; what is wrong with a market or reserve is in the reading.
    """
    reader = _Reader(candidates, deployments)
    markets = sorted({candidate.address for candidate in candidates})
    entries = await view.read([instance_key(market) for market in markets])
    reader.each_market(markets, lambda market: reader.take_market(market, entries[instance_key(market)]))
    await view.make_room(sum(len(market.members) for market in reader.reading.markets))
    tokens = dict.fromkeys(reserve.asset for reserve in reader.reserves)
    keys = [reserve.cash_key for reserve in reader.reserves]
    keys += instance_keys(reserve.state.feed and reserve.state.feed.contract for reserve in reader.reserves)
    keys += [instance_key(reserve.state.s_token) for reserve in reader.reserves]
    entries = await view.read([*keys, *map(instance_key, tokens)])
    reader.reading.tokens = await read_tokens(view, tokens)
    for reserve in reader.reserves:
        with reader.record_unread(reserve.market.address, reserve.asset):
            reader.take_cash(reserve, entries[reserve.cash_key])
    assets = {
        PriceKey(pool.state.feed.contract, pool.token_address): pool.state.feed.asset
        for pool in reader.pools_read
        if pool.state.feed is not None
    }
    reader.reading.quotes = await read_asset_quotes(view, assets)
    return reader.reading
