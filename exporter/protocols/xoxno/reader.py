"""Reads XOXNO Lending. A controller or hub market that cannot be read is recorded as unread.

The first request has the controllers and the tokens. The second has the hub markets with their hubs, spokes and
oracles. The third has, for each spoke that lists a hub market, what the spoke's accounts use of it. Nothing on the
chain lists the hub markets; lists, the operator, events and earlier runs name them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

from exporter.deployments import Deployment, deployments_of
from exporter.errors import Barrier, DecodeError
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.events import ContractEvent, EventFilter
from exporter.ledger.observation import Entries, Entry
from exporter.ledger.oracles import PriceKey
from exporter.ledger.tokens import read_tokens
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, Market, Origin, Parameter, PoolReading, ProtocolReading
from exporter.protocols.collector import Collector, UnreadError, instance_keys, required
from exporter.protocols.xoxno import layout
from exporter.protocols.xoxno.prices import read_prices
from exporter.tree.values import UnreadReason

PROTOCOL = "xoxno"

POOL = "pool"
"""The role of the contract that holds the hub markets' entries."""

MAX_SPOKE_ASSETS = 4_096
"""The largest number of pairs of a spoke and a pool of one controller. If there are more, no spoke is read."""

CREATED = ("market", "create")
PARAMETERS_SET = ("market", "batch_params_update")
STATE_CHANGED = ("market", "batch_state_update")

MAX_POOLS_IN_EVENT = 256
_STATE_VALUES = 9


class _Reader(Collector):
    def __init__(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment]) -> None:
        super().__init__(PROTOCOL, candidates)
        self.deployments = deployments
        self.controllers: dict[str, layout.Controller] = {}
        self.spokes: dict[str, range] = {}
        """The numbers of each controller's spokes, if they are read."""
        self.named: dict[str, dict[layout.HubAsset, bool]] = {candidate.address: {} for candidate in candidates}
        """The hub markets of each controller that something names, and whether each is expected to exist.

        It is expected if an earlier run read it or if the operator named it. If it is then absent, that is a failure. A
        hub market that only a list or an event names may not be created yet.
        """
        for listed in (pool for deployment in deployments for pool in deployment.pools):
            if listed.market in self.named:
                self.take_pool_id(listed.market, listed.pool, expected=False)
        for candidate in candidates:
            if candidate.pool is not None:
                expected = candidate.origin in (Origin.CONFIGURATION, Origin.REMEMBERED)
                self.take_pool_id(candidate.address, candidate.pool, expected=expected)
        self.named = {market: dict(sorted(pools.items())) for market, pools in self.named.items()}

    def take_pool_id(self, market: str, pool: str, *, expected: bool) -> None:
        """Add a hub market that something names, by the pool's id."""
        with self.record_unread(market, pool):
            asset = layout.hub_asset(pool)
            self.named[market][asset] = expected or self.named[market].get(asset, False)

    def take_controller(self, market: str, entries: Entries) -> None:
        """Decode a controller's instance, and compare it with the lists. Raises `DecodeError`."""
        entry = entries[instance_key(market)]
        if not self.market_is_there(market, entry):
            return
        controller = layout.decode_controller(required(entry, "the market's instance"))
        self.check_code(market, controller.wasm_hash, self.deployments, layout.VERSION)
        self.take_admins(market, entry, {"Owner": "owner"})
        if controller.aggregator is None:
            self.notice(f"market {market} names no price aggregator, so its pools have no price")
        listed = next((item for item in self.deployments if market in item.markets), None)
        for role, contract, uses in (
            (POOL, controller.pool, "keeps its pools in"),
            ("price_aggregator", controller.aggregator, "takes its prices from"),
        ):
            listed_contract = None if listed is None else listed.address(role)
            if contract is not None and listed_contract not in (None, contract):
                self.notice(
                    f"market {market} {uses} contract {contract}, not the {listed_contract} of the package's list; the "
                    "contract that it uses was read"
                )
        self.controllers[market] = controller
        last = controller.last_spoke
        if last is None or last * len(self.named[market]) > MAX_SPOKE_ASSETS:
            count = "not known" if last is None else f"{last}, too many"
            self.notice(f"market {market}: what its spokes allow was not read; their number is {count}")
        else:
            self.spokes[market] = range(1, last + 1)

    def keys(self, market: str) -> Iterator[bytes]:
        """The ledger keys of a controller's hub markets, of their oracles, hubs and spokes.

        The entries that change most often come first.
        """
        controller, pools = self.controllers[market], self.named[market]
        yield from (layout.pool_key(controller.pool, name, pool) for name in ("State", "Params") for pool in pools)
        if controller.aggregator is not None:
            yield from dict.fromkeys(layout.oracle_key(controller.aggregator, pool.token) for pool in pools)
        yield from (layout.controller_key(market, "Hub", hub) for hub in dict.fromkeys(pool.hub for pool in pools))
        for spoke in self.spokes.get(market, ()):
            yield layout.controller_key(market, "Spoke", spoke)
            yield from (layout.controller_key(market, "SpokeAsset", spoke, pool) for pool in pools)
        yield from (instance_key(controller.pool), layout.proposed_owner_key(market))
        yield from instance_keys([controller.aggregator])

    def keys_of(self, market: Market, pool: layout.HubAsset, entries: Entries) -> Iterator[bytes]:
        """The ledger keys of the entries of one hub market, with those of its hub, its spokes and its oracle."""
        controller = self.controllers[market.address]
        yield instance_key(controller.pool)
        yield from (layout.pool_key(controller.pool, name, pool) for name in ("State", "Params"))
        if controller.aggregator is not None:
            yield layout.oracle_key(controller.aggregator, pool.token)
        yield layout.controller_key(market.address, "Hub", pool.hub)
        for spoke in self.spokes.get(market.address, ()):
            listed = layout.controller_key(market.address, "SpokeAsset", spoke, pool)
            if entries[listed] is not None:
                yield listed
                yield layout.controller_key(market.address, "Spoke", spoke)
                yield layout.controller_key(market.address, "SpokeUsage", spoke, pool)

    def spokes_of(self, market: str, pool: layout.HubAsset, entries: Entries) -> tuple[layout.Spoke, ...] | None:
        """The spokes that list a hub market, with their terms. None if these cannot be determined."""
        if market not in self.spokes:
            return None
        spokes = []
        with Barrier() as barrier:
            for number in self.spokes[market]:
                asset = entries[layout.controller_key(market, "SpokeAsset", number, pool)]
                if asset is not None:
                    spoke = entries[layout.controller_key(market, "Spoke", number)]
                    usage = entries[layout.controller_key(market, "SpokeUsage", number, pool)]
                    spokes.append(layout.decode_spoke(number, spoke, asset, usage))
            return tuple(spokes)
        self.notice(f"market {market}: what spokes allow with pool {pool.pool} cannot be determined: {barrier.failure}")
        return None

    def hub_active(self, market: str, hub: int, entries: Entries) -> bool | None:
        """Whether a hub is active. A hub without an entry is not. None if its entry cannot be decoded."""
        entry = entries[layout.controller_key(market, "Hub", hub)]
        with Barrier() as barrier:
            return entry is not None and Fields.of(entry.value, "Hub").boolean("is_active")
        self.notice(f"market {market}: whether hub {hub} is active is not known: {barrier.failure}")
        return None

    def take_pools(self, market: str, entries: Entries) -> None:
        """Record a market, and each of its hub markets as a pool."""
        controller = self.controllers[market]
        self.take_code(market, f"pool contract {controller.pool}", entries[instance_key(controller.pool)])
        proposed = entries[layout.proposed_owner_key(market)]
        if proposed is not None:
            self.take_pending(market, None, "admin", partial(layout.decode_proposed_owner, proposed))
        stored = {
            pool: tuple(entries[layout.pool_key(controller.pool, name, pool)] for name in ("State", "Params"))
            for pool in self.named[market]
        }
        missing = [pool for pool, both in stored.items() if both == (None, None) and not self.named[market][pool]]
        members = [pool for pool in stored if pool not in missing]
        if missing:
            named = ", ".join(pool.pool for pool in missing)
            self.notice(f"market {market}: these pools are announced but not deployed: {named}")
        if not members:
            self.notice(
                f"market {market} was read, but none of its pools is known: its contracts do not list them, so a list, "
                "an event or an earlier run has to name them"
            )
        read = Market(
            address=market,
            protocol=PROTOCOL,
            version=layout.VERSION,
            name="XOXNO Lending",  # the contracts themselves have no name
            status=controller.status,
            oracle=controller.aggregator,
            config_hash=layout.config_hash(controller, [(pool, stored[pool][1]) for pool in members]),
            wasm_hash=controller.wasm_hash,
            members=tuple(pool.pool for pool in members),
        )
        self.reading.markets.append(read)
        for pool in members:
            with self.record_unread(market, pool.pool):
                self.take_pool(read, pool, stored[pool], entries)

    def take_pool(
        self, market: Market, pool: layout.HubAsset, stored: Sequence[Entry | None], entries: Entries
    ) -> None:
        """Record a hub market as a pool, from its ``State`` and its ``Params`` entry.

        Raises `UnreadError` or `DecodeError`.
        """
        state_entry, parameters_entry = (
            required(
                entry, f"the pool's {what} entry", f"the pool was found or listed, but its {what} entry is missing"
            )
            for what, entry in zip(("State", "Params"), stored, strict=True)
        )
        state = layout.decode_state(state_entry)
        token, parameters, shown = layout.decode_parameters(parameters_entry)
        if token != pool.token:
            raise UnreadError(
                UnreadReason.INCONSISTENT, f"the parameters of this pool say that they are of token {token}"
            )
        hub_market = layout.HubMarket(
            state=state,
            parameters=parameters,
            pool_contract=self.controllers[market.address].pool,
            paused=market.status == "paused",
            hub_active=self.hub_active(market.address, pool.hub, entries),
            spokes=self.spokes_of(market.address, pool, entries),
        )
        read = PoolReading(market, pool.pool, pool.token, parameters.asset_decimals, market.oracle, hub_market)
        self.append_pool(read, self.keys_of(market, pool, entries))
        self.reading.parameters[read.key] = (Parameter("hub_id", pool.hub, 0), *shown)


async def read_markets(
    view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """Read the controllers and hub markets that the deployments and candidates name.

    Raises only `SourceError`; what is wrong with a controller or hub market is in the reading.
    """
    reader = _Reader(candidates, deployments)
    markets = sorted(reader.named)
    tokens = dict.fromkeys(pool.token for market in markets for pool in reader.named[market])
    entries = dict(await view.read(map(instance_key, (*markets, *tokens))))
    reader.each_market(markets, lambda market: reader.take_controller(market, entries))
    await view.make_room(sum(len(reader.named[market]) for market in reader.controllers))
    entries |= await view.read(reader.keys_of_each(reader.controllers, reader.keys))
    entries |= await view.read(
        [
            layout.controller_key(market, "SpokeUsage", spoke, pool)
            for market, spokes in reader.spokes.items()
            for spoke in spokes
            for pool in reader.named[market]
            if entries[layout.controller_key(market, "SpokeAsset", spoke, pool)] is not None
        ]
    )
    reader.each_market(reader.controllers, lambda market: reader.take_pools(market, entries))

    pools = reader.reading.pools
    reader.reading.tokens = await read_tokens(view, [pool.token_address for pool in pools])
    for pool in pools:
        reader.compare_decimals(pool.market.address, pool.decimals, reader.reading.tokens[pool.token_address])
    prices = [PriceKey(pool.oracle, pool.token_address) for pool in pools if pool.oracle is not None]
    asked = {price: entries[layout.oracle_key(*price)] for price in prices}
    reader.reading.quotes = await read_prices(view, asked)
    return reader.reading


def event_filters(deployments: Sequence[Deployment]) -> tuple[EventFilter, ...]:
    """The events to ask for: controllers that create hub markets, and pool contracts that update them."""
    controllers = tuple(address for deployment in deployments for address in deployment.markets)
    pools = tuple(address for deployment in deployments for address in deployment.addresses(POOL))
    created = (EventFilter(controllers, CREATED),) if controllers else ()
    updated = (EventFilter(pools, PARAMETERS_SET), EventFilter(pools, STATE_CHANGED)) if pools else ()
    return created + updated


def candidates_in(event: ContractEvent) -> list[Candidate]:
    """The hub markets that an event names and that no list has, each once. Raises `DecodeError`."""
    topics = tuple(str(payload) for kind, payload in event.topics[:2] if kind == scval.SYMBOL)
    if topics not in (CREATED, PARAMETERS_SET, STATE_CHANGED):
        raise DecodeError(f"the event's topics {topics} do not name a hub market")
    what = topics[1]
    items: Sequence[ScVal] = (event.value,) if topics == CREATED else expect(event.value, scval.VEC, what) or ()
    if len(items) > MAX_POOLS_IN_EVENT:
        raise DecodeError(f"{what}: {len(items)} pools, more than {MAX_POOLS_IN_EVENT}")
    named = []
    for item in items:
        if topics == STATE_CHANGED:
            values: Sequence[ScVal] = expect(item, scval.VEC, what) or ()
            if len(values) < _STATE_VALUES:
                raise DecodeError(f"{what}: {len(values)} values, fewer than {_STATE_VALUES}")
            hub, token = expect(values[0], scval.U32, f"{what}: hub_id"), expect(values[1], scval.ADDRESS, what)
        else:
            fields = Fields.of(item, what)
            hub, token = fields.u32("hub_id"), fields.address("base_asset" if topics == CREATED else "asset")
        if not strkey.is_contract(token):
            raise DecodeError(f"the token {token} of a hub market is not a contract")
        named.append(layout.HubAsset(hub, token).pool)
    if event.contract not in _listed():
        raise DecodeError(f"the event is of contract {event.contract}, which is not a known controller or its pool")
    listed = _listed()[event.contract]
    return [
        Candidate(PROTOCOL, listed.controller, Origin.EVENT, pool)
        for pool in dict.fromkeys(named)
        if pool not in listed.pools
    ]


class _Listed(NamedTuple):
    """A controller in the package's lists, and the ids of its hub markets there."""

    controller: str
    pools: frozenset[str]


@cache
def _listed() -> Mapping[str, _Listed]:
    """The controllers in the package's lists, keyed by their own address and by that of their pool contract.

    An event comes from one of the two contracts, and does not name the other.
    """
    deployments = [item for network in ("mainnet", "testnet", "local") for item in deployments_of(network)]
    by_contract: dict[str, _Listed] = {}
    for deployment in deployments:
        if deployment.protocol != PROTOCOL:
            continue
        for controller in deployment.markets:
            pools = frozenset(pool.pool for pool in deployment.pools if pool.market == controller)
            contracts = (controller, *deployment.addresses(POOL))
            by_contract |= dict.fromkeys(contracts, _Listed(controller, pools))
    return by_contract
