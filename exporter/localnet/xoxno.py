"""The stand-in for XOXNO's contracts: their entries and events, what their code does, and the math of a hub market.

The embedded network plays the contracts here, so all of it is written apart from the exporter's own layout and math,
after docs/protocols/xoxno.md. Scaled amounts, indexes and rates are RAY, cash is token base units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any, NamedTuple

from exporter.deployments.made_addresses import made_address
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import (
    VOID,
    address,
    encode_scval,
    i128,
    string,
    struct_map,
    symbol,
    u32,
    u64,
    vec,
)
from exporter.ledger.events import ContractEvent
from exporter.localnet.contracts import (
    MISSING_FUNCTION,
    UNEXPECTED_TYPE,
    WRONG_ARGUMENTS,
    Entry,
    Host,
    TrapError,
    boolean,
    fields_of,
    instance_entry,
    made_wasm,
    stored_entry,
    variants,
    wasm_hash,
)

RAY = 10**27
BPS = 10_000
_MOST = 10**9  # whole tokens: nobody supplies more to a hub market, however long the network runs
YEAR = 31_556_926_000
"""Milliseconds."""
_TOP_INDEX = 10**36
_BUFFER_BPS = 200  # of what is supplied, that a borrower has to leave


class NoResultError(Exception):
    """The contract's arithmetic has no result: a division by zero."""


def half_up(left: int, right: int, divisor: int) -> int:
    """The contract's rounding of left × right / divisor."""
    if divisor == 0:
        raise NoResultError
    return (left * right + divisor // 2) // divisor


@dataclass(frozen=True, slots=True)
class Params:
    """The ``Params`` of a hub market but its token and decimals: rates and utilizations in RAY, the rest as named."""

    base_borrow_rate: int = 5 * 10**24
    slope1: int = 30 * 10**24
    slope2: int = 95 * 10**24
    slope3: int = RAY
    mid_utilization: int = 600 * 10**24
    optimal_utilization: int = 850 * 10**24
    max_utilization: int = 950 * 10**24
    max_borrow_rate: int = 1_250 * 10**24
    reserve_factor: int = 1_500
    flashloan_fee: int = 9
    is_flashloanable: bool = True

    def rate(self, utilization: int) -> int:
        """The rate a year; a knot belongs to the segment above it."""
        used = min(utilization, RAY)
        rate = self.base_borrow_rate
        if used < self.mid_utilization:
            rate += half_up(half_up(used, self.slope1, RAY), RAY, self.mid_utilization)
        elif used < self.optimal_utilization:
            over = half_up(used - self.mid_utilization, self.slope2, RAY)
            rate += self.slope1 + half_up(over, RAY, self.optimal_utilization - self.mid_utilization)
        else:
            over = half_up(used - self.optimal_utilization, self.slope3, RAY)
            rate += self.slope1 + self.slope2 + half_up(over, RAY, RAY - self.optimal_utilization)
        return min(rate, self.max_borrow_rate)


@dataclass(slots=True)
class HubMarket:
    """A hub market: its key, its parameters, and its state by the names of the ``State`` entry's fields."""

    hub: int
    token: str
    decimals: int
    params: Params = field(default_factory=Params)
    borrow_index: int = RAY
    borrowed: int = 0
    cash: int = 0
    last_timestamp: int = 0
    revenue: int = 0
    supplied: int = 0
    supply_index: int = RAY
    supply_cap: int = 10**30
    borrow_cap: int = 10**30

    @property
    def scale(self) -> int:
        """What one base unit is in RAY."""
        return int(10 ** (27 - self.decimals))

    def supply_value(self) -> int:
        """What the suppliers and the protocol own, RAY."""
        return half_up(self.supplied, self.supply_index, RAY)

    def debt_value(self) -> int:
        """What is owed, RAY."""
        return half_up(self.borrowed, self.borrow_index, RAY)

    def utilization(self) -> int:
        """Of the indexes as they stand."""
        supply = self.supply_value()
        return half_up(self.debt_value(), RAY, supply) if supply else 0

    def borrow_rate(self) -> int:
        """The rate a year of the indexes as they stand."""
        return self.params.rate(self.utilization())

    def deposit_rate(self) -> int:
        """The rate a year that suppliers earn."""
        factor = self.params.reserve_factor
        if not 0 <= factor < BPS:
            return 0
        return half_up(half_up(self.utilization(), self.borrow_rate(), RAY), BPS - factor, BPS)

    def amount(self, scaled: int, index: int) -> int:
        """Base units of a scaled amount, by two roundings."""
        return half_up(half_up(scaled, index, RAY), 1, self.scale)

    def claimable(self) -> int:
        """Base units of the protocol's revenue; unlike other amounts it is rounded down, twice."""
        return self.revenue * self.supply_index // RAY // self.scale

    def accrue(self, now: int) -> None:
        """Bring the state to a time, in milliseconds; to an earlier one no time has passed."""
        while self.last_timestamp < now:
            step = min(now - self.last_timestamp, YEAR)
            self._accrue(step)
            self.last_timestamp += step

    def _accrue(self, milliseconds: int) -> None:
        debt, supply = self.debt_value(), self.supply_value()
        x = half_up(self.borrow_rate(), 1, YEAR) * milliseconds
        factor, power, faculty = RAY + x, x, 1
        for k in range(2, 9):
            power, faculty = half_up(power, x, RAY), faculty * k
            factor += half_up(power, 1, faculty)
        self.borrow_index = min(half_up(self.borrow_index, factor, RAY), _TOP_INDEX)
        interest = self.debt_value() - debt
        fee = half_up(interest, self.params.reserve_factor, BPS)
        if supply and interest > fee:
            raised = (supply + interest - fee) * RAY // self.supplied
            self.supply_index = min(max(raised, self.supply_index), _TOP_INDEX)
        shares = (interest - (self.supply_value() - supply)) * RAY // self.supply_index
        self.supplied += shares
        self.revenue += shares

    def supply(self, amount: int) -> None:
        """Supply base units; the shares are rounded down."""
        self.supplied += amount * self.scale * RAY // self.supply_index
        self.cash += amount

    def borrow(self, amount: int) -> None:
        """Borrow base units; the debt's shares are rounded up."""
        self.borrowed += -(-amount * self.scale * RAY // self.borrow_index)
        self.cash -= amount

    def free(self) -> int:
        """Base units that can be borrowed: cash above the buffer, below the highest utilization."""
        supply = self.supply_value() // self.scale
        buffer = half_up(supply, _BUFFER_BPS, BPS)
        room = supply * self.params.max_utilization // RAY - -(-self.debt_value() // self.scale)
        return max(min(self.cash - buffer, room), 0)

    def write_off(self, value: int) -> None:
        """Take a bad debt, in RAY, from the suppliers: the supply index falls, to 1e24 at least."""
        total = self.supply_value()
        remaining = max(total - value, 0) * RAY // total
        self.supply_index = max(self.supply_index * remaining // RAY, 10**24)
        self.borrowed = max(self.borrowed - value * RAY // self.borrow_index, 0)

    def operate(self, random: Random, now: int) -> None:
        """What a user's operation does at a time in milliseconds: accrue, then supply, withdraw, borrow or repay."""
        self.accrue(now)
        supply = self.supply_value() // self.scale
        kind = random.randrange(4)
        if (kind == 0 and supply < _MOST * 10**self.decimals) or not supply:
            amount = random.randint(1, max(supply // 50, 10 ** max(self.decimals, 1)))
            if supply + amount <= self.supply_cap:
                self.supply(amount)
        elif kind == 1:
            amount = min(random.randint(1, max(supply // 100, 1)), self.free())
            shares = -(-amount * self.scale * RAY // self.supply_index)
            if amount and shares <= self.supplied - self.revenue:
                self.supplied -= shares
                self.cash -= amount
        elif kind == 2:
            amount = min(random.randint(1, max(supply // 80, 1)), self.free())
            if self.debt_value() // self.scale + amount <= self.borrow_cap:
                self.borrow(amount)
        else:
            debt = self.debt_value() // self.scale
            amount = random.randint(0, max(debt // 20, 0))
            self.borrowed = max(self.borrowed - amount * self.scale * RAY // self.borrow_index, 0)
            self.cash += amount


CONTROLLER_WASM = made_wasm("localnet xoxno controller")
CONTROLLER_WASM_HASH = wasm_hash(CONTROLLER_WASM)
POOL_WASM = made_wasm("localnet xoxno pool")
POOL_WASM_HASH = wasm_hash(POOL_WASM)
AGGREGATOR_WASM = made_wasm("localnet xoxno price aggregator")
FEEDS_WASM = made_wasm("localnet redstone: read_price_data_for_feed, unique_signer_threshold, write_prices")
FEEDS_WASM_HASH = wasm_hash(FEEDS_WASM)
FEEDS = made_address("localnet xoxno feeds")
FEED_UNIT = 10**10
"""A feed has 8 decimals, so that a price in WAD has so many of these."""

AGGREGATOR_WASM_HASH = wasm_hash(AGGREGATOR_WASM)


STATE_FIELDS = ("borrow_index", "borrowed", "cash", "revenue", "supplied", "supply_index")


@dataclass(frozen=True, slots=True)
class Source:
    """A feed among a token's one or two sources: its limit of age in seconds, and whether it follows a market."""

    max_age: int = 3_600
    market: bool = True


class Answer(NamedTuple):
    """What a source says: USD WAD of a whole token, and the time in unix seconds."""

    price: int
    time: int


def controller_instance(controller: str, pool: str, position_nft: str, aggregator: str, hubs: int) -> Entry:
    """The instance of a controller, which has a spoke more than hubs; every key is an enum variant."""
    storage = {
        "Accumulator": address(made_address("localnet xoxno accumulator")),
        "AppVersion": u32(1),
        "LastHubId": u32(hubs),
        "LastSpokeId": u32(hubs + 1),
        "MinBorrowCollateralUsd": i128(5 * 10**18),
        "Owner": address(made_address("localnet xoxno governance")),
        "Paused": boolean(False),
        "Pool": address(pool),
        "PositionLimits": struct_map({"max_borrow_positions": u32(5), "max_supply_positions": u32(5)}),
        "PositionNft": address(position_nft),
        "PriceAggregator": address(aggregator),
        "SwapAggregator": address(made_address("localnet xoxno swap aggregator")),
    }
    return instance_entry(controller, CONTROLLER_WASM_HASH, variants(storage))


def pool_instance(pool: str, controller: str) -> Entry:
    """The instance of the pool contract, which the controller owns."""
    return instance_entry(pool, POOL_WASM_HASH, variants({"Owner": address(controller)}))


def aggregator_instance(aggregator: str, tokens: Iterable[str]) -> Entry:
    """The instance of the price aggregator, with the index of what it prices."""
    keys = vec(*(price_key(token) for token in tokens))
    return instance_entry(aggregator, AGGREGATOR_WASM_HASH, variants({"OracleKeys": keys}))


def hub_asset_key(market: HubMarket) -> ScVal:
    """`HubAssetKey`."""
    return struct_map({"asset": address(market.token), "hub_id": u32(market.hub)})


def parameters_entry(pool: str, market: HubMarket) -> Entry:
    """``Params`` of a hub market."""
    return stored_entry(pool, vec(symbol("Params"), hub_asset_key(market)), parameters_value(market))


def state_entry(pool: str, market: HubMarket) -> Entry:
    """``State`` of a hub market."""
    return stored_entry(pool, vec(symbol("State"), hub_asset_key(market)), state_value(market))


def parameters_value(market: HubMarket) -> ScVal:
    """The struct of a ``Params`` entry: the thirteen fields."""
    fields: dict[str, ScVal] = {}
    for name, value in asdict(market.params).items():
        if isinstance(value, bool):
            fields[name] = boolean(value)
        else:
            fields[name] = u32(value) if name in ("reserve_factor", "flashloan_fee") else i128(value)
    return struct_map(fields | {"asset_decimals": u32(market.decimals), "asset_id": address(market.token)})


def state_value(market: HubMarket) -> ScVal:
    """The struct of a ``State`` entry."""
    fields = {name: i128(getattr(market, name)) for name in STATE_FIELDS}
    return struct_map(fields | {"last_timestamp": u64(market.last_timestamp)})


def hub_entry(controller: str, hub: int, active: bool = True) -> Entry:
    """``Hub``."""
    return stored_entry(controller, vec(symbol("Hub"), u32(hub)), struct_map({"is_active": boolean(active)}))


def spoke_entry(controller: str, spoke: int, deprecated: bool = False) -> Entry:
    """``Spoke``, with the curve that new ones have."""
    value = struct_map(
        {
            "hf_for_max_bonus_wad": i128(51 * 10**16),
            "is_deprecated": boolean(deprecated),
            "liquidation_bonus_factor_bps": u32(BPS),
            "liquidation_target_hf_wad": i128(102 * 10**16),
        }
    )
    return stored_entry(controller, vec(symbol("Spoke"), u32(spoke)), value)


SPOKE_ASSET: dict[str, bool | int] = {
    "is_collateralizable": True,
    "is_borrowable": True,
    "paused": False,
    "frozen": False,
    "no_seize": False,
    "loan_to_value": 7_500,
    "liquidation_threshold": 7_800,
    "liquidation_bonus": 900,
    "liquidation_fees": 1_200,
    "supply_cap": 0,
    "borrow_cap": 0,
}
"""The fields of ``SpokeAsset``: the caps are base units, all other numbers basis points."""


def spoke_asset_entry(controller: str, spoke: int, market: HubMarket, **changes: bool | int) -> Entry:
    """``SpokeAsset``: what a spoke allows with a hub market, its caps unless others are given."""
    fields = SPOKE_ASSET | {"supply_cap": market.supply_cap, "borrow_cap": market.borrow_cap} | changes
    value = {
        name: boolean(item) if isinstance(item, bool) else i128(item) if name.endswith("_cap") else u32(item)
        for name, item in fields.items()
    }
    return stored_entry(controller, _spoke_key("SpokeAsset", spoke, market), struct_map(value))


def spoke_usage_entry(controller: str, spoke: int, market: HubMarket) -> Entry:
    """``SpokeUsage`` of the one spoke whose accounts have all of a hub market that is not the protocol's."""
    value = {"supplied_scaled_ray": market.supplied - market.revenue, "borrowed_scaled_ray": market.borrowed}
    fields = struct_map({name: i128(amount) for name, amount in value.items()})
    return stored_entry(controller, _spoke_key("SpokeUsage", spoke, market), fields)


def _spoke_key(name: str, spoke: int, market: HubMarket) -> ScVal:
    return vec(symbol(name), u32(spoke), hub_asset_key(market))


def price_key(token: str) -> ScVal:
    """``PriceKey::Token``."""
    return vec(symbol("Token"), address(token))


def oracle_entry(
    aggregator: str, token: str, decimals: int, sources: Sequence[Source], max_age: int, upper_ratio_bps: int = 11_000
) -> Entry:
    """``AssetOracle`` of a token: one or two feeds, and a limit of age in seconds for all of them."""
    feeds = (
        struct_map(
            {
                "decimals": u32(8),
                "max_stale_seconds": u64(source.max_age),
                "provider": vec(
                    symbol("RedStone"),
                    struct_map(
                        {
                            "contract": address(FEEDS),
                            "feed_id": string(_feed_id(token, place)),
                            "nature": vec(symbol("Market" if source.market else "Fundamental")),
                        }
                    ),
                ),
            }
        )
        for place, source in enumerate(sources)
    )
    value = struct_map(
        {
            "asset_decimals": u32(decimals),
            "independence": vec(symbol("RequireDisjoint")),
            "max_price_stale_seconds": u64(max_age),
            "max_sanity_price_wad": i128(10**27),
            "min_sanity_price_wad": i128(1),
            "sources": vec(*(vec(symbol("Feed"), feed) for feed in feeds)),
            "tolerance": struct_map({"lower_ratio_bps": u32(9_091), "upper_ratio_bps": u32(upper_ratio_bps)}),
        }
    )
    return stored_entry(aggregator, vec(symbol("Oracle"), price_key(token)), value)


def feeds_instance() -> Entry:
    """The instance of the contract that has the feeds, a RedStone adapter."""
    return instance_entry(FEEDS, FEEDS_WASM_HASH, [(string("owner"), address(FEEDS))])


def feed_entries(token: str, answers: Sequence[Answer | None]) -> Iterator[Entry]:
    """The same answers as `answers_entry`, where the real contract's sources have them: in feeds of 8 decimals."""
    for place, item in enumerate(answers):
        if item is not None:
            value = {
                "package_timestamp": u64(item.time * 1000),
                "price": (scval.U256, item.price // FEED_UNIT),
                "write_timestamp": u64(item.time * 1000),
            }
            yield stored_entry(FEEDS, string(_feed_id(token, place)), struct_map(value))


def _feed_id(token: str, place: int) -> str:
    return f"{token[:8]}{place}"


def answers_entry(aggregator: str, token: str, answers: Sequence[Answer | None]) -> Entry:
    """What a token's sources say, in their order; the real contract asks others for it, here one entry has it."""
    said = (
        VOID if item is None else struct_map({"price_wad": i128(item.price), "timestamp": u64(item.time)})
        for item in answers
    )
    return stored_entry(aggregator, vec(symbol("Answers"), price_key(token)), vec(*said))


def created_event(controller: str, pool: str, market: HubMarket, ledger: int) -> ContractEvent:
    """What the controller publishes when a hub market is created."""
    rates = (
        "base_borrow_rate",
        "max_borrow_rate",
        "mid_utilization",
        "optimal_utilization",
        "slope1",
        "slope2",
        "slope3",
    )
    fields = {name: i128(getattr(market.params, name)) for name in rates}
    fields |= {"base_asset": address(market.token), "hub_id": u32(market.hub), "market_address": address(pool)}
    return ContractEvent(controller, ledger, (symbol("market"), symbol("create")), struct_map(fields))


def parameters_event(pool: str, markets: Sequence[HubMarket], ledger: int) -> ContractEvent:
    """What the pool publishes when parameters are set."""
    items = [
        struct_map({"asset": address(item.token), "hub_id": u32(item.hub), "params": parameters_value(item)})
        for item in markets
    ]
    return ContractEvent(pool, ledger, (symbol("market"), symbol("batch_params_update")), vec(*items))


def state_event(pool: str, markets: Sequence[HubMarket], ledger: int) -> ContractEvent:
    """What the pool publishes after each change: the whole state of each hub market concerned."""
    order = ("supply_index", "borrow_index", "cash", "supplied", "borrowed", "revenue")
    items = [
        vec(
            u32(item.hub),
            address(item.token),
            u64(item.last_timestamp),
            *(i128(getattr(item, name)) for name in order),
        )
        for item in markets
    ]
    return ContractEvent(pool, ledger, (symbol("market"), symbol("batch_state_update")), vec(*items))


POOL_NOT_INITIALIZED = "Error(Contract, #30)"
MATH_OVERFLOW = "Error(Contract, #33)"

_MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What Python raises where an entry has another form than the code expects, for which a contract traps."""
_FUTURE, _LEGS_APART = 60, 3_600  # seconds

_VIEWS: dict[str, Callable[[HubMarket], int]] = {
    "get_borrow_rate": lambda market: market.borrow_rate(),
    "get_borrowed_amount": lambda market: market.amount(market.borrowed, market.borrow_index),
    "get_deposit_rate": lambda market: market.deposit_rate(),
    "get_reserves": lambda market: market.cash,
    "get_revenue": lambda market: market.claimable(),
    "get_supplied_amount": lambda market: market.amount(market.supplied, market.supply_index),
    "get_utilisation": lambda market: market.utilization(),
}


def run_pool(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of the pool contract: the views of a hub market, and ``get_bulk_indexes``."""
    if function not in (*_VIEWS, "get_bulk_indexes"):
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    (argument,) = arguments
    try:
        if function == "get_bulk_indexes":
            if argument[0] != scval.VEC:
                raise TrapError(UNEXPECTED_TYPE)
            return vec(*(_indexes(_hub_market(host, contract, key), host.timestamp * 1_000) for key in argument[1]))
        return i128(_VIEWS[function](_hub_market(host, contract, argument)))
    except NoResultError:
        raise TrapError(MATH_OVERFLOW) from None
    except _MALFORMED:
        raise TrapError(UNEXPECTED_TYPE) from None


def run_aggregator(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of the price aggregator: ``quotes(Vec<PriceKey>)``, a map in which each key stands once."""
    if function != "quotes":
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, keys = arguments[0]
    if kind != scval.VEC:
        raise TrapError(UNEXPECTED_TYPE)
    try:
        found = {key: price_status(_status(host, contract, key)) for key in keys}
    except _MALFORMED:
        raise TrapError(UNEXPECTED_TYPE) from None
    return (scval.MAP, tuple(sorted(found.items(), key=lambda pair: encode_scval(pair[0]))))


UNUSABLE: dict[str, Any] = {
    "final_wad": 0,
    "primary_wad": 0,
    "secondary_wad": 0,
    "price_timestamp": 0,
    "stale": False,
    "deviation": False,
    "valid": False,
}
"""The status of what has no oracle or no price."""


def price_status(status: Mapping[str, Any]) -> ScVal:
    """``PriceStatus`` with the fields of `UNUSABLE`."""
    fields = {name: (scval.BOOL if isinstance(value, bool) else scval.I128, value) for name, value in status.items()}
    return struct_map(fields | {"price_timestamp": u64(status["price_timestamp"])})


def _status(host: Host, contract: str, key: ScVal) -> dict[str, Any]:
    """The fields of a key's ``PriceStatus``."""
    kind, parts = key
    if kind != scval.VEC or len(parts) != 2 or parts[0][1] not in ("Token", "Ref"):
        raise TrapError(UNEXPECTED_TYPE)
    status = dict(UNUSABLE)
    stored = host.data(contract, vec(symbol("Oracle"), key))
    if stored is None:
        return status
    oracle, now = fields_of(stored), host.timestamp
    answers = host.data(contract, vec(symbol("Answers"), key)) or vec()
    said = [None if answer == VOID else fields_of(answer) for answer in answers[1]]
    said = [item if item and item["price_wad"] > 0 and item["timestamp"] <= now + _FUTURE else None for item in said]
    feeds = [fields_of(source[1][1]) for source in oracle["sources"]]
    got = [item for item in said if item is not None]
    if not got:
        return status
    status["price_timestamp"] = min(item["timestamp"] for item in got)
    status["stale"] = any(
        now - item["timestamp"] > min(feed["max_stale_seconds"], oracle["max_price_stale_seconds"])
        for item, feed in zip(said, feeds, strict=True)
        if item is not None
    )
    legs = [item["price_wad"] if item else 0 for item in said]
    if len(legs) == 1:
        legs *= 2
    status["primary_wad"], status["secondary_wad"] = legs
    if len(got) < len(said):
        status["deviation"] = True
        return status
    of_markets = all(fields_of(feed["provider"][1])["nature"][0] == (scval.SYMBOL, "Market") for feed in feeds)
    times = [item["timestamp"] for item in got]
    status["stale"] |= of_markets and max(times) - min(times) > _LEGS_APART
    status["deviation"] = (
        half_up(max(legs), BPS, min(legs)) > fields_of((scval.MAP, oracle["tolerance"]))["upper_ratio_bps"]
    )
    status["final_wad"] = sum(legs) // 2
    in_bounds = oracle["min_sanity_price_wad"] <= status["final_wad"] <= oracle["max_sanity_price_wad"]
    status["valid"] = not status["stale"] and not status["deviation"] and in_bounds
    return status


def _indexes(market: HubMarket, now: int) -> ScVal:
    market.accrue(now)
    return struct_map({"borrow_index": i128(market.borrow_index), "supply_index": i128(market.supply_index)})


def _hub_market(host: Host, contract: str, key: ScVal) -> HubMarket:
    """A hub market as its two entries have it."""
    state, params = (fields_of(_stored(host, contract, name, key)) for name in ("State", "Params"))
    return HubMarket(
        hub=fields_of(key)["hub_id"],
        token=params["asset_id"],
        decimals=params["asset_decimals"],
        params=Params(**{name: params[name] for name in Params.__slots__}),
        last_timestamp=state["last_timestamp"],
        **{name: state[name] for name in STATE_FIELDS},
    )


def _stored(host: Host, contract: str, name: str, key: ScVal) -> ScVal:
    if key[0] != scval.MAP:
        raise TrapError(UNEXPECTED_TYPE)
    found = host.data(contract, vec((scval.SYMBOL, name), key))
    if found is None:
        raise TrapError(POOL_NOT_INITIALIZED)
    return found


XOXNO_CODE = {
    POOL_WASM_HASH: run_pool,
    AGGREGATOR_WASM_HASH: run_aggregator,
}
"""By wasm hash."""
