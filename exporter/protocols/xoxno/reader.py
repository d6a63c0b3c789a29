"""Reading XOXNO Lending: which keys, in which waves, and what becomes of each hub market that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from exporter.deployments import Deployment
from exporter.errors import DecodeError
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.observation import Entries, Entry
from exporter.ledger.tokens import read_tokens
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, Market, Origin, Parameter, ProtocolReading
from exporter.protocols.collector import Collector, UnreadError, live, oracle_keys
from exporter.protocols.shared_columns import TEXTS
from exporter.protocols.xoxno import layout
from exporter.protocols.xoxno.prices import read_prices

PROTOCOL = "xoxno"

POOL = "pool"
"""The role of the contract that holds the hub markets' entries."""
PRICE_AGGREGATOR = "price_aggregator"
"""The role of the contract that the controller should name for prices."""

MAX_SPOKE_ASSETS = 4_096
"""How many times a spoke may allow something with a pool; with more none of it is read."""

COLUMNS = (
    *TEXTS,
    "pool_contract",
    "decimals",
    *layout.PARAMETERS,
    *layout.STATE,
    "paused",
    "hub_active",
    "spokes",
)


class _Reader(Collector):
    def __init__(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment]) -> None:
        super().__init__(PROTOCOL, candidates)
        self.deployments = deployments
        self.controllers: dict[str, layout.Controller] = {}
        self.named: dict[str, dict[layout.HubAsset, bool]] = {candidate.address: {} for candidate in candidates}
        """By controller: its hub markets, and whether each was there once, or the operator named it: then it is a
        failure if it is absent. Others, of a list or an event, are not created then, or not yet.
        """
        for listed in (pool for deployment in deployments for pool in deployment.pools):
            if listed.market in self.named:
                self.take_pool_id(listed.market, listed.pool, expected=False)
        for candidate in candidates:
            if candidate.pool is not None:
                expected = candidate.origin in (Origin.CONFIGURATION, Origin.REMEMBERED)
                self.take_pool_id(candidate.address, candidate.pool, expected=expected)

    def take_pool_id(self, market: str, pool: str, *, expected: bool) -> None:
        with self.noting(market, pool):
            asset = layout.hub_asset(pool)
            self.named[market][asset] = expected or self.named[market].get(asset, False)

    def pools(self, market: str) -> list[layout.HubAsset]:
        return sorted(self.named[market])

    def keys(self, market: str) -> Iterator[bytes]:
        """The keys of a controller's hub markets, the busiest first, of their oracles, and of what says more of it."""
        controller, pools = self.controllers[market], self.pools(market)
        yield from (layout.state_key(controller.pool, pool) for pool in pools)
        yield from (layout.parameters_key(controller.pool, pool) for pool in pools)
        if controller.aggregator is not None:
            yield from dict.fromkeys(layout.oracle_key(controller.aggregator, pool.token) for pool in pools)
        yield from (layout.hub_key(market, hub) for hub in dict.fromkeys(pool.hub for pool in pools))
        spokes = self.spoke_numbers(market)
        yield from (layout.spoke_key(market, spoke) for spoke in spokes)
        yield from (layout.spoke_asset_key(market, spoke, pool) for spoke in spokes for pool in pools)
        yield from (instance_key(controller.pool), layout.proposed_owner_key(market))
        yield from oracle_keys([controller.aggregator])

    def take_controller(self, market: str, entries: Entries) -> None:
        entry = entries[instance_key(market)]
        if not self.market_is_usable(market, entry, None, "list of pools"):
            return
        with self.noting(market):
            controller = self.controllers[market] = layout.decode_controller(live(entry, "the market's instance"))
            self.check_code(market, controller.wasm_hash, self.deployments, layout.VERSION)
            self.take_admins(market, entry, {"Owner": "owner"})
            if controller.aggregator is None:
                self.notice(f"market {market} names no price aggregator, so its pools have no price")
            listed = next((item for item in self.deployments if market in item.markets), None)
            for role, named, does in (
                (POOL, controller.pool, "keeps its pools in"),
                (PRICE_AGGREGATOR, controller.aggregator, "takes its prices from"),
            ):
                known = listed and listed.address(role)
                if None not in (known, named) and known != named:
                    self.notice(f"market {market} {does} contract {named}, not the listed {known}, and was read so")

    def spoke_numbers(self, market: str) -> range:
        last = self.controllers[market].last_spoke
        if last is None or last * len(self.named[market]) > MAX_SPOKE_ASSETS:
            return range(0)
        return range(1, last + 1)

    def spokes_of(self, market: str, pool: layout.HubAsset, entries: Entries) -> tuple[layout.Spoke, ...] | None:
        """None where terms cannot be determined. An archived entry says what it said: it cannot change."""
        if not self.spoke_numbers(market) and self.controllers[market].last_spoke != 0:
            return None
        try:
            return tuple(
                layout.decode_spoke(
                    number,
                    entries[layout.spoke_key(market, number)],
                    asset,
                    entries[layout.spoke_usage_key(market, number, pool)],
                )
                for number in self.spoke_numbers(market)
                if (asset := entries[layout.spoke_asset_key(market, number, pool)]) is not None
            )
        except DecodeError as error:
            self.notice(f"market {market}: what spokes allow with pool {pool.pool} cannot be determined: {error}")
            return None

    def hub_active(self, market: str, pool: layout.HubAsset, entries: Entries) -> bool | None:
        try:
            return layout.decode_hub(entries[layout.hub_key(market, pool.hub)])
        except DecodeError as error:
            self.notice(f"market {market}: whether hub {pool.hub} is active is not known: {error}")
            return None

    def take_pools(self, market: str, entries: Entries) -> None:
        controller = self.controllers[market]
        self.take_code(market, f"pool contract {controller.pool}", entries[instance_key(controller.pool)])
        proposed = entries[layout.proposed_owner_key(market)]
        if proposed is not None:
            self.take_pending(market, None, "admin", partial(layout.decode_proposed_owner, proposed))
        if controller.last_spoke != 0 and not self.spoke_numbers(market):
            count = "not known" if controller.last_spoke is None else f"{controller.last_spoke}, too many"
            self.notice(f"market {market}: what its spokes allow was not read; their number is {count}")
        contract = controller.pool
        entries_of = {
            pool: (entries[layout.state_key(contract, pool)], entries[layout.parameters_key(contract, pool)])
            for pool in self.pools(market)
        }
        missing = [pool for pool, found in entries_of.items() if found == (None, None) and not self.named[market][pool]]
        members = [pool for pool in entries_of if pool not in missing]
        if missing:
            named = ", ".join(pool.pool for pool in missing)
            self.notice(f"market {market}: these pools are announced but not deployed: {named}")
        if not members:
            self.notice(
                f"market {market} was read, but none of its pools is known: its contracts do not list them, so a list, "
                "an event or an earlier run has to name them"
            )
        found = Market(
            address=market,
            protocol=PROTOCOL,
            version=layout.VERSION,
            name=layout.NAME,
            status=controller.status,
            oracle=controller.aggregator,
            config_hash=layout.config_hash(controller, [(pool, entries_of[pool][1]) for pool in members]),
            wasm_hash=controller.wasm_hash,
            members=tuple(pool.pool for pool in members),
        )
        self.reading.markets.append(found)
        for pool in members:
            with self.noting(market, pool.pool):
                self.take_pool(found, pool, *entries_of[pool], entries)

    def take_pool(
        self, market: Market, pool: layout.HubAsset, state: Entry | None, parameters: Entry | None, entries: Entries
    ) -> None:
        present = [
            live(entry, f"the pool's {what} entry", f"the pool was found or listed, but its {what} entry is missing")
            for what, entry in (("State", state), ("Params", parameters))
        ]
        numbers, decoded = layout.decode_state(present[0]), layout.decode_parameters(present[1])
        if decoded.token != pool.token:
            detail = f"the parameters of this pool say that they are of token {decoded.token}"
            raise UnreadError("inconsistent", detail)
        row = {
            "pool_contract": self.controllers[market.address].pool,
            "decimals": decoded.numbers["asset_decimals"],
            **decoded.numbers,
            **numbers,
            "paused": market.status == layout.PAUSED,
            "hub_active": self.hub_active(market.address, pool, entries),
            "spokes": self.spokes_of(market.address, pool, entries),
        }
        self.append_pool(market, pool.pool, pool.token, row)
        self.reading.parameters[market.address, pool.pool] = (Parameter("hub_id", pool.hub, 0), *decoded.shown)


async def read_markets(
    view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """Read the controllers and hub markets that deployments and candidates name. Raises `SourceError` alone."""
    reader = _Reader(candidates, deployments)
    markets = sorted(reader.named)
    tokens = dict.fromkeys(pool.token for market in markets for pool in reader.pools(market))
    entries = dict(await view.read(map(instance_key, (*markets, *tokens))))
    for market in markets:
        reader.take_controller(market, entries)
    entries |= await view.read([key for market in reader.controllers for key in reader.keys(market)])
    entries |= await view.read(
        [
            layout.spoke_usage_key(market, spoke, pool)
            for market in reader.controllers
            for spoke in reader.spoke_numbers(market)
            for pool in reader.pools(market)
            if entries[layout.spoke_asset_key(market, spoke, pool)] is not None
        ]
    )
    for market in reader.controllers:
        reader.take_pools(market, entries)

    pools = reader.reading.pools
    reader.reading.tokens = await read_tokens(view, [pool["token_address"] for pool in pools])
    for pool in pools:
        reader.compare_decimals(pool["market"], pool["decimals"], reader.reading.tokens[pool["token_address"]])
    pairs = [(pool["oracle"], pool["token_address"]) for pool in pools if pool["oracle"] is not None]
    asked = {pair: entries[layout.oracle_key(*pair)] for pair in pairs}
    reader.reading.quotes = await read_prices(view, asked)
    return reader.reading
