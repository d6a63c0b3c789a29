"""Reading every Slender market: its instance, what lies in its reserves, and what becomes of that which is archived."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.deployments import Deployment
from exporter.errors import DecodeError
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.observation import Entry
from exporter.ledger.oracles import read_asset_quotes
from exporter.ledger.tokens import read_tokens
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, Market, ProtocolReading
from exporter.protocols.collector import MAX_TOKEN_DECIMALS, Collector, UnreadError, live, oracle_keys
from exporter.protocols.slender import layout
from exporter.tree.documents import Absent

NAME = "slender"
MARKET_NAME = "Slender"
"""The contract has no name of its own."""


class _Reader(Collector):
    def __init__(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment]) -> None:
        super().__init__(NAME, candidates)
        self.deployments = deployments
        self.pools: dict[str, layout.PoolInstance] = {}
        self.markets: dict[str, Market] = {}
        self.reserves: dict[tuple[str, str], layout.Reserve] = {}
        self.assets: dict[tuple[str, str], ScVal] = {}

    def take_market(self, market: str, entry: Entry | None) -> None:
        """A published pool that is archived is absent; one that the operator named is unread (docs/decisions.md)."""
        if entry is not None and entry.archived and market not in self._demanded:
            reason = "archived: nobody has used the pool for long; its instance can be restored"
            self.reading.absent.append(Absent(market, NAME, reason))
            return
        if not self.market_is_usable(market, entry, None, ""):
            return
        with self.noting(market):
            pool = self.pools[market] = layout.decode_instance(live(entry, "the market's instance"))
            self.check_code(market, pool.wasm_hash, self.deployments, layout.VERSION)
            self.take_admins(market, entry, {"Admin": "admin"})

    def take_reserves(self, market: str) -> None:
        pool = self.pools[market]
        members = []
        for asset in pool.reserves:
            try:
                self.reserves[market, asset] = layout.decode_reserve(pool, asset)
            except layout.RwaReserveError:
                self.notice(f"market {market}: reserve {asset} is of type RWA, which lends nothing; it is not a pool")
                continue
            except DecodeError as error:
                self.unread(market, asset, "undecodable", str(error))
            members.append(asset)
        own = (item for (owner, _), item in self.reserves.items() if owner == market)
        feeds = {None if item.feed is None else item.feed.contract for item in own}
        self.markets[market] = Market(
            address=market,
            protocol=NAME,
            version=layout.VERSION,
            name=MARKET_NAME,
            status="paused" if pool.numbers["paused"] else "active",
            oracle=feeds.pop() if len(feeds) == 1 else None,  # each reserve has a feed of its own
            config_hash=layout.config_hash(pool),
            wasm_hash=pool.wasm_hash,
            members=tuple(members),
        )
        self.reading.markets.append(self.markets[market])

    def cash_of(self, market: str, asset: str, entry: Entry | None) -> int:
        """The cash of a reserve. Raises `DecodeError` and `UnreadError` where that cannot be determined.

        The contract takes a missing balance for 0. It is 0 only where nothing was ever supplied: whoever supplies
        writes it, and nothing removes it, so a missing one with shares or debt is a contradiction.
        """
        what = f"the reserve's cash, TokenBalance of sToken {self.reserves[market, asset].s_token},"
        numbers = self.reserves[market, asset].numbers
        if entry is None:
            if numbers["s_supply"] or numbers["debt_supply"]:
                raise UnreadError("absent", f"{what} is missing, though there are shares or debt; it is not 0")
            return 0
        if entry.archived:
            raise UnreadError("archived", f"{what} is archived; it is not 0, and can be restored")
        return layout.decode_cash(entry)

    def append_reserve(self, market: str, asset: str, cash: int) -> None:
        reserve, token = self.reserves[market, asset], self.reading.tokens[asset]
        decimals = token.decimals if reserve.decimals is None else reserve.decimals
        if decimals is None or decimals > MAX_TOKEN_DECIMALS:
            raise UnreadError("undecodable", f"its token's decimals are {decimals}: {token.failure}")
        self.compare_decimals(market, decimals, token)
        if reserve.feed is not None:
            self.assets[reserve.feed.contract, asset] = reserve.feed.asset
            self.reading.price_limits[market, asset] = reserve.feed.max_age
        own = {"decimals": decimals, "s_token": reserve.s_token, "debt_token": reserve.debt_token, "cash": cash}
        oracle = reserve.feed and reserve.feed.contract
        self.append_pool(self.markets[market], asset, asset, reserve.numbers | own | {"oracle": oracle})
        self.reading.parameters[market, asset] = reserve.shown


async def read_markets(
    view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """Read the candidates: nothing on the chain lists Slender's markets. Raises `SourceError` alone."""
    reader = _Reader(candidates, deployments)
    markets = sorted({candidate.address for candidate in candidates})
    entries = await view.read([instance_key(market) for market in markets])
    for market in markets:
        reader.take_market(market, entries[instance_key(market)])
    for market in reader.pools:
        reader.take_reserves(market)
    keys = [(*pair, layout.cash_key(*pair, reserve.s_token)) for pair, reserve in reader.reserves.items()]
    tokens = dict.fromkeys(asset for _, asset in reader.reserves)
    feeds = oracle_keys(reserve.feed.contract for reserve in reader.reserves.values() if reserve.feed is not None)
    entries = await view.read([*(key for *_, key in keys), *feeds, *(instance_key(token) for token in tokens)])
    reader.reading.tokens = await read_tokens(view, tokens)
    for market, asset, key in keys:
        with reader.noting(market, asset):
            reader.append_reserve(market, asset, reader.cash_of(market, asset, entries[key]))
    reader.reading.quotes = await read_asset_quotes(view, reader.assets)
    return reader.reading
