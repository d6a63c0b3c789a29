"""Reads every Blend pool.

Keys are requested in three waves: the factories' records with the markets, then factories and backstops, then all
reserves. A pool or reserve that cannot be read is recorded as unread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from exporter.deployments import FACTORY, Deployment
from exporter.errors import Barrier, pluralize
from exporter.ledger.batches import gather_or_cancel
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.observation import Entries, Entry
from exporter.ledger.oracles import PriceKey, quote_calls
from exporter.ledger.tokens import read_tokens
from exporter.ledger.view import LedgerView
from exporter.protocols.base import (
    Candidate,
    DeploymentRole,
    Market,
    Origin,
    PoolReading,
    ProtocolReading,
    TokenOfMarket,
)
from exporter.protocols.blend import layout
from exporter.protocols.blend.backstop import BackstopKeys, PoolBackstop
from exporter.protocols.blend.emissions import SIDES, decode_emission, plan_key, reserve_emission_key
from exporter.protocols.blend.records import Records
from exporter.protocols.collector import Collector, UnreadError, instance_keys, proposed, required, shortened
from exporter.tree.values import UnreadReason

NAME = "blend"

_ANSWERED_FOR = {
    Origin.CONFIGURATION: "read, because [[markets]] names them",
    Origin.DEPLOYMENT: "read, because the list of deployments has them",
    Origin.REMEMBERED: "read, because an earlier run did",
}


class _Reader(Collector):
    def __init__(self, candidates: Sequence[Candidate]) -> None:
        super().__init__(NAME, candidates)
        self.instances: dict[str, layout.PoolInstance] = {}
        self.assets: dict[str, tuple[str, ...]] = {}
        self.queued: dict[str, list[str]] = {}
        """The tokens that events name as queued reserves, by market. Some may be reserves already."""
        for candidate in candidates:
            if candidate.pool is not None:
                self.queued.setdefault(candidate.address, []).append(candidate.pool)
        self.planned: set[str] = set()
        """The markets that have a plan of emissions (`plan_key`)."""
        self.backstops: dict[str, PoolBackstop] = {}
        """The backstops by market, of the markets that name one."""
        self._unconfirmed: dict[Origin, list[str]] = {}

    def accepts(self, candidate: Candidate, entries: Entries, records: Records) -> bool:
        """Whether a contract counts as a market: a factory has a record of it, or somebody vouches for the address.

        If no factory could be read, every contract counts.
        """
        factory = records.voucher(candidate.address, entries)
        if factory is not None:
            self.reading.verified[candidate.address] = factory
        elif records.any_factory_read(entries):
            self._unconfirmed.setdefault(candidate.origin, []).append(candidate.address)
            return candidate.origin in _ANSWERED_FOR
        return True

    def report_unconfirmed(self) -> None:
        """Tell the operator which contracts no known factory has a record of, and what was done with them."""
        for origin, markets in self._unconfirmed.items():
            done = _ANSWERED_FOR.get(
                origin, "not read, because anybody can deploy such contracts; name those that you trust in [[markets]]"
            )
            self.notice(
                f"no known factory has a record of {pluralize(len(markets), 'contract')} ({shortened(markets)}): {done}"
            )

    def take_market(self, market: str, candidate: Candidate, entries: Entries, records: Records) -> None:
        """Decode a market's instance and its list of reserves. Raises `UnreadError` or `DecodeError`."""
        instance_entry, list_entry = (entries[key] for key in layout.market_keys(market))
        if instance_entry is not None and not self.accepts(candidate, entries, records):
            return
        if not self.market_is_there(market, instance_entry):
            return
        instance = layout.decode_instance(required(instance_entry, "the market's instance"))
        assets = layout.decode_reserve_list(list_entry)
        if list_entry is None and instance.status != layout.SETUP:
            raise UnreadError(
                UnreadReason.ABSENT,
                f"the market is {instance.status} and has no list of reserves, which only one in {layout.SETUP} lacks",
            )
        if bytes.fromhex(instance.wasm_hash) not in layout.GENERATIONS:
            self.unknown_code(market, instance.wasm_hash, instance.generation)
        if instance.reward_token is None:
            self.notice(f"market {market} names no contract as the token of its emissions, so rewards are not known")
        self.take_admins(market, instance_entry, {"Admin": "admin"})
        self.assets[market] = assets
        self.instances[market] = replace(instance, name=self.shown_name(market, instance.name))

    def take_reserves(self, market: str, entries: Entries) -> None:
        """Record a market with what is queued for it, and read each of its reserves."""
        instance, assets = self.instances[market], self.assets[market]
        configs = [entries[layout.reserve_config_key(market, asset)] for asset in assets]
        lacking = [
            asset
            for index, (asset, config) in enumerate(zip(assets, configs, strict=True))
            if not layout.has_index(config, index)
        ]
        if not self.list_is_its_own(market, assets, lacking):
            return
        taken = Market(
            address=market,
            protocol=NAME,
            version=instance.generation,
            name=instance.name,
            status=instance.status,
            oracle=instance.oracle,
            config_hash=layout.config_hash(instance, assets, configs),
            wasm_hash=instance.wasm_hash,
            members=assets,
        )
        self.reading.markets.append(taken)
        if market in self.backstops:
            self.reading.backstops[market] = self.backstops[market].row
        admin = None if instance.generation == "v1" else entries[layout.proposed_admin_key(market)]
        if admin is not None:
            self.take_pending(market, None, "admin", lambda: proposed(admin.value, "admin"))
        for asset in self.new_assets(market):
            queued = entries[layout.queued_reserve_key(market, asset)]
            if queued is not None:
                self.take_pending(market, None, "terms", partial(layout.decode_queued_reserve, queued, None, new=asset))
        for asset, entry in zip(assets, configs, strict=True):
            queued = entries[layout.queued_reserve_key(market, asset)]
            if queued is not None:
                self.take_pending(market, asset, "terms", partial(layout.decode_queued_reserve, queued, entry))
            with self.record_unread(market, asset):
                config = required(entry, "the reserve's ResConfig entry")
                data = required(entries[layout.reserve_data_key(market, asset)], "the reserve's ResData entry")
                self.take_reserve(taken, asset, config, data, entries)

    def take_backstop(self, market: str, backstop_keys: BackstopKeys, entries: Entries, records: Records) -> None:
        """Decode a market's backstop. If that fails in an unforeseen way, it costs the backstop and no pool."""
        with Barrier(lambda text: self.notice(f"the backstop of market {market} was not read: {text}")):
            self.backstops[market] = backstop_keys.read(entries, records.zones)

    def new_assets(self, market: str) -> list[str]:
        """The tokens that are queued as reserves of a market and are not reserves yet."""
        return [asset for asset in self.queued.get(market, ()) if asset not in self.assets[market]]

    def emission_keys(self, market: str, asset: str) -> dict[str, bytes]:
        """The ledger key of the emission to each side of a reserve.

        For a market without a plan of emissions it is the key of the plan, whose absence shows that nothing is paid.
        """
        index = self.assets[market].index(asset)
        generation = self.instances[market].generation
        return {
            side: reserve_emission_key(generation, market, index, side) if market in self.planned else plan_key(market)
            for side in SIDES
        }

    def take_reserve(self, market: Market, asset: str, config: Entry, data: Entry, entries: Entries) -> None:
        """Record a reserve as a pool. Raises `UnreadError` or `DecodeError`."""
        instance, index = self.instances[market.address], market.members.index(asset)
        reserve = layout.decode_reserve(config, data, instance.backstop_rate)
        form = reserve.config.generation
        if form != market.version:  # the scales of the two generations differ
            detail = f"its ResConfig has the form of {form}, but the market is of {market.version}"
            raise UnreadError(UnreadReason.INCONSISTENT, detail)
        if reserve.config.index != index:
            raise UnreadError(
                UnreadReason.INCONSISTENT, f"the list has it at place {index}, but its ResConfig has another index"
            )
        backstop = self.backstops.get(market.address)
        funded = None if backstop is None else backstop.funding.funded
        emission_keys = self.emission_keys(market.address, asset)
        reserve = replace(
            reserve,
            reward_token=instance.reward_token,
            supply_emission=decode_emission(entries[emission_keys["supply"]], funded),
            borrow_emission=decode_emission(entries[emission_keys["borrow"]], funded),
        )
        decimals = reserve.config.decimals
        self.compare_decimals(market.address, decimals, self.reading.tokens.get(asset))
        keys = (
            layout.market_keys(market.address)[1],
            plan_key(market.address),
            layout.reserve_config_key(market.address, asset),
            layout.reserve_data_key(market.address, asset),
            *emission_keys.values(),
        )
        pool = PoolReading(market, asset, asset, decimals, market.oracle, reserve)
        self.append_pool(pool, keys)
        if instance.wasm_hash in layout.PRICE_LIMITS:
            self.reading.price_limits[pool.key] = layout.PRICE_LIMITS[instance.wasm_hash]
        self.reading.parameters[pool.key] = layout.shown_parameters(instance, config)


async def read_pools(
    view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """Read all Blend pools. Raises only `SourceError`; what is wrong with a market or reserve is in the reading.

    Keys are requested in three waves: records and markets, then factories and backstops, then reserves and deposits.
    """
    reader = _Reader(candidates)
    records = Records(deployments, reader.notice)
    ordered = sorted(candidates, key=lambda item: item.configured)
    named = {candidate.address: candidate for candidate in ordered if candidate.pool is None}
    entries = await _read_markets(view, reader, records, named)
    reader.each_market(sorted(named), lambda market: reader.take_market(market, named[market], entries, records))
    reader.report_unconfirmed()
    missing = sorted(records.rewarded & {item.market for item in reader.reading.absent})
    if missing:
        reader.notice(
            f"reward zones list {pluralize(len(missing), 'market')} without a contract: {shortened(missing)}; not read"
        )
    await view.make_room(sum(map(len, reader.assets.values())))
    await _read_reserves(view, reader, records, entries)
    await _read_reward_prices(view, reader)
    return reader.reading


async def _read_markets(view: LedgerView, reader: _Reader, records: Records, named: Mapping[str, Candidate]) -> Entries:
    """The entries of the named markets and of the records about them. Raises `SourceError`.

    The reading also has the factories, and the markets of reward zones that are not among those that are named.
    """
    # The records are the first keys, so that one request has them all: an archived entry is known at one ledger only.
    record_keys = records.keys_of(named)
    wanted = [*record_keys, *records.own_keys(), *_keys_of_markets(named)]
    entries = dict(await view.read(wanted, never_removed=[*record_keys, *map(plan_key, named)]))
    records.take_own(entries)
    reader.reading.contracts = {DeploymentRole(label, FACTORY): factory for label, factory in records.learned.items()}

    rewarded = sorted(records.rewarded - named.keys())
    reader.reading.named = [Candidate(NAME, market, Origin.NAMED_BY_CONTRACT) for market in rewarded]
    wanted = [instance_key(contract) for contract in (*records.factories.values(), *_backstops_of(named, entries))]
    record_keys = records.keys_of(named)  # the backstops may have named more factories
    entries |= await view.read([*record_keys, *wanted], record_keys)
    records.check_factories(entries)
    return entries


async def _read_reserves(view: LedgerView, reader: _Reader, records: Records, entries: Entries) -> None:
    """Read the reserves of the markets that were taken, their tokens, prices and backstops. Raises `SourceError`."""
    instances = reader.instances
    reader.planned = {market for market in instances if entries[plan_key(market)] is not None}
    backstop_keys = {
        market: BackstopKeys(market, instance, instance.backstop, entries.get(instance_key(instance.backstop)))
        for market, instance in instances.items()
        if instance.backstop is not None
    }
    reserves = [(market, asset) for market in instances for asset in reader.assets[market]]
    new = [(market, asset) for market in instances for asset in reader.new_assets(market)]
    priced = (token for item in backstop_keys.values() if item.tokens is not None for token in item.tokens[1:])
    tokens = list(dict.fromkeys([*(asset for _, asset in reserves), *priced]))
    keys = [
        *(key for item in backstop_keys.values() for key in item.keys.values()),
        *(layout.reserve_data_key(*reserve) for reserve in reserves),
        *(layout.reserve_config_key(*reserve) for reserve in reserves),
        *(layout.queued_reserve_key(*reserve) for reserve in (*reserves, *new)),
        *instance_keys(instance.oracle for instance in instances.values()),
        *(layout.proposed_admin_key(market) for market, instance in instances.items() if instance.generation != "v1"),
    ]
    never_removed = [key for reserve in reserves for key in reader.emission_keys(*reserve).values()]
    never_removed += [key for item in backstop_keys.values() for key in item.never_removed.values()]
    quoted = [PriceKey(instances[market].oracle, asset) for market, asset in reserves]
    quoted += [
        PriceKey(instances[market].oracle, item.tokens.usdc)
        for market, item in backstop_keys.items()
        if item.tokens is not None
    ]
    # Reading the tokens' instances along with the rest saves a request, and asking for prices meanwhile saves a wait.
    reading = view.read([*keys, *map(instance_key, tokens)], never_removed)
    await gather_or_cancel(reading, view.simulate_early(quote_calls(quoted)))
    states, reader.reading.tokens = await view.read(keys, never_removed), await read_tokens(view, tokens)
    for market, item in backstop_keys.items():
        reader.take_backstop(market, item, states, records)
    reader.each_market(instances, lambda market: reader.take_reserves(market, states))
    reader.report_empty()


async def _read_reward_prices(view: LedgerView, reader: _Reader) -> None:
    """Find what BLND is worth by each backstop, and read all prices that the markets need. Raises `SourceError`."""
    prices = {
        TokenOfMarket(market, item.tokens.blnd): price
        for market, item in reader.backstops.items()
        if item.tokens is not None and (price := item.reward_price(reader.reading.tokens)) is not None
    }
    reader.reading.reward_prices = prices
    more = [PriceKey(reader.instances[reward.market].oracle, price.priced_in) for reward, price in prices.items()]
    await reader.read_quotes(view, more)


def _keys_of_markets(markets: Iterable[str]) -> list[bytes]:
    return [key for market in markets for key in layout.market_keys(market)]


def _backstops_of(markets: Iterable[str], entries: Entries) -> list[str]:
    backstops = []
    for market in markets:
        entry = entries.get(instance_key(market))
        with Barrier():  # `take_market` reports a failure
            backstop = None if entry is None else layout.decode_instance(entry).backstop
            backstops += [] if backstop is None else [backstop]
    return backstops
