"""Reads every Alula market.

The first request has the markets with their lists of pools, the second their managers, pools and tokens. A market or
pool that cannot be read is recorded as unread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from exporter.deployments import Deployment
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.fields import contracts
from exporter.ledger.observation import Entry
from exporter.ledger.tokens import MAX_SYMBOL_LENGTH, Token, read_tokens
from exporter.ledger.view import LedgerView
from exporter.protocols.alula import layout
from exporter.protocols.base import Candidate, Market, PoolReading, ProtocolReading
from exporter.protocols.collector import Collector, UnreadError, instance_keys, required
from exporter.tables import PoolKey
from exporter.tree.values import UnreadReason


class _Reader(Collector):
    def __init__(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment]) -> None:
        super().__init__(layout.NAME, candidates)
        self.deployments = deployments
        self.entries: dict[bytes, Entry | None] = {}
        self.instances: dict[str, layout.MarketInstance] = {}
        self.pools: dict[PoolKey, layout.PoolEntry] = {}

    def take_market(self, market: str) -> None:
        """Decode a market's instance and its list of pools. Raises `UnreadError` or `DecodeError`."""
        instance_entry, list_entry = (self.entries[key] for key in layout.market_keys(market))
        if not self.market_is_there(market, instance_entry):
            return
        instance = layout.decode_instance(required(instance_entry, "the market's instance"))
        read = instance.market
        members = () if list_entry is None else contracts(list_entry.value, "AllPools", layout.MAX_POOLS)
        if list_entry is None and read.status != layout.FROZEN:
            raise UnreadError(
                UnreadReason.ABSENT,
                f"the market is {read.status} and has no list of pools; only one lacks it that has just been "
                f"deployed, and is {layout.FROZEN}",
            )
        self.check_code(market, read.wasm_hash, self.deployments, layout.VERSION)
        self.take_admins(market, instance_entry, {"Admin": "admin"}, {"ProposedAdmin": "admin"})
        if layout.QUEUED_MARKET in instance.settings:
            self.take_pending(market, None, "terms", partial(layout.decode_queued_market, instance))
        read = replace(read, name=self.shown_name(market, read.name), members=members)
        self.instances[market] = replace(instance, market=read)

    def take_manager(self, market: str) -> None:
        """Look whether the manager that a market names has a record of it, which may be archived.

        A market without a record is read, too, but the operator is told.
        """
        manager = self.instances[market].manager
        record = None if manager is None else self.entries[layout.record_key(manager, market)]
        if manager is not None and record is not None:
            self.reading.verified[market] = manager
        else:
            why = f"its market manager {manager} has no record of it" if manager else "it names no market manager"
            self.notice(f"market {market} was read because a list or [[markets]] names it, but {why}")
        upgrade = None if manager is None else self.entries[layout.queued_upgrade_key(manager, market)]
        if upgrade is not None:
            self.take_pending(market, None, "code", partial(layout.decode_queued_upgrade, upgrade, record))

    def take_pools(self, market: str) -> None:
        """Record a market, and each of its pools with what is queued for it."""
        instance = self.instances[market]
        members = instance.market.members
        pool_entries = [self.entries[layout.pool_key(market, pool)] for pool in members]
        lacking = [pool for pool, entry in zip(members, pool_entries, strict=True) if entry is None]
        if not self.list_is_its_own(market, members, lacking):
            return
        read_market = replace(instance.market, config_hash=layout.config_hash(instance, pool_entries))
        self.reading.markets.append(read_market)
        for pool, entry in zip(members, pool_entries, strict=True):
            with self.record_unread(market, pool):
                missing = "the pool is listed, but its Pool entry is missing"
                self.take_pool(read_market, pool, required(entry, "the pool's entry", missing))
            queued = self.entries[layout.queued_pool_key(market, pool)]
            if queued is not None:
                now = self.pools.get(PoolKey(market, pool))
                decode = partial(layout.decode_queued_pool, queued, now, instance.queue_seconds)
                self.take_pending(market, pool, "terms", decode)

    def take_pool(self, market: Market, pool: str, entry: Entry) -> None:
        """Record a pool. Raises `UnreadError` or `DecodeError`."""
        decoded = layout.decode_pool(entry)
        if decoded.pool_address != pool:
            raise UnreadError(
                UnreadReason.INCONSISTENT, f"the entry of this pool says that it is of pool {decoded.pool_address}"
            )
        read = PoolReading(market, pool, decoded.token_address, decoded.decimals, market.oracle, decoded.pool)
        self.pools[read.key] = decoded
        self.append_pool(read, [layout.market_keys(market.address)[1], layout.pool_key(*read.key)])
        self.reading.parameters[read.key] = decoded.shown
        limits = decoded.pool.limits
        lacking = ", ".join(sorted(name for name in limits.__struct_fields__ if getattr(limits, name) is None))
        if lacking:
            self.notice(
                f"the entry of pool {pool} of market {market.address} lacks {lacking}; what depends on that is null"
            )

    def take_tokens(self, read: Mapping[str, Token]) -> None:
        """Record the tokens. A token that does not give its symbol gets the copy that its first pool has of it."""
        tokens = dict(read)
        for (market, pool), decoded in self.pools.items():
            token, decimals = read[decoded.token_address], decoded.decimals
            if token.symbol is None:
                has_no_copy_yet = tokens[token.address].symbol is None
                if has_no_copy_yet and len(decoded.token_symbol) <= MAX_SYMBOL_LENGTH:
                    tokens[token.address] = Token(token.address, decoded.token_symbol, decimals)
                    self.notice(
                        f"token {token.address} does not give its symbol ({token.failure}); "
                        f"{decoded.token_symbol!r} is the copy in pool {pool} of market {market}"
                    )
            else:
                self.compare_decimals(market, decimals, token)
        self.reading.tokens = tokens


async def read_markets(
    view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """Read the candidates. There are no others, because nothing on the chain lists Alula's markets.

    Raises only `SourceError`; what is wrong with a market or pool is in the reading.
    """
    reader = _Reader(candidates, deployments)
    markets = sorted({candidate.address for candidate in candidates})
    reader.entries |= await view.read([key for market in markets for key in layout.market_keys(market)])
    reader.each_market(markets, reader.take_market)
    await view.make_room(sum(len(instance.market.members) for instance in reader.instances.values()))

    members = [
        PoolKey(market, pool) for market, instance in reader.instances.items() for pool in instance.market.members
    ]
    keys = [key(*member) for key in (layout.pool_key, layout.queued_pool_key) for member in members]
    for market, instance in reader.instances.items():
        if instance.manager is not None:
            keys += [key(instance.manager, market) for key in (layout.record_key, layout.queued_upgrade_key)]
    keys += instance_keys(instance.market.oracle for instance in reader.instances.values())
    # A pool's id is its token's address, so the tokens can be read along. A token with another address is read below.
    keys += dict.fromkeys(instance_key(member.pool) for member in members)
    reader.entries |= await view.read(keys)
    reader.each_market(reader.instances, reader.take_manager)
    reader.each_market(reader.instances, reader.take_pools)
    reader.take_tokens(await read_tokens(view, [pool.token_address for pool in reader.pools.values()]))

    reader.report_empty()
    await reader.read_quotes(view)
    return reader.reading
