"""K2 in the embedded network: reserves and what users do with them, the entries of its contracts, and their code.

Written from the contract's source (docs/protocols/k2.md), in plain integers and apart from the exporter's own math.
Amounts are token base units; rates, indexes and ratios have 27 decimals. The code has the traps of the real one: a
price that the oracle refuses fails the call for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import (
    address,
    i128,
    string,
    struct_map,
    symbol,
    u32,
    u64,
    u128,
    vec,
)
from exporter.localnet.contracts import (
    MISSING_FUNCTION,
    UNEXPECTED_TYPE,
    WRONG_ARGUMENTS,
    Code,
    Entry,
    Host,
    TrapError,
    boolean,
    fields_of,
    instance_entry,
    made_wasm,
    one_address,
    storage_of,
    stored_entry,
    wasm_hash,
)

RAY = 10**27
_SECONDS_PER_YEAR = 31_536_000
_BPS = 10_000

ACTIVE, FROZEN, BORROWING, PAUSED, FLASH = 1 << 50, 1 << 51, 1 << 52, 1 << 53, 1 << 56
"""Bits of a reserve's configuration."""


@dataclass(frozen=True, slots=True)
class Model:
    """A rate model: what borrowers pay over the utilization."""

    base: int = 0
    optimal: int = 8 * RAY // 10
    slope1: int = 4 * RAY // 100
    slope2: int = 6 * RAY // 10

    def rates(self, supplied: int, borrowed: int, reserve_factor: int) -> tuple[int, int]:
        """The supply and the borrow rate at these totals."""
        liquidity = max(supplied, borrowed)
        used = _over(borrowed, liquidity) if liquidity else 0
        if used > self.optimal:
            rate = self.base + self.slope1 + _times(self.slope2, _over(used - self.optimal, RAY - self.optimal))
        else:
            rate = self.base + (_times(self.slope1, _over(used, self.optimal)) if self.optimal else 0)
        return _times(_times(rate, used), RAY - reserve_factor * RAY // _BPS), rate


@dataclass(slots=True)
class Reserve:
    """A reserve: its entries' values, and in ``own_model`` whether it has parameters of its own."""

    asset: str
    symbol: str
    decimals: int
    a_token: str
    debt_token: str
    last_update: int
    id: int = 0
    model: Model = field(default_factory=Model)
    own_model: bool = True
    reserve_factor: int = 2_000
    flags: int = ACTIVE | BORROWING | FLASH
    borrow_cap: int = 0
    supply_cap: int = 0
    debt_ceiling: int = 0
    cash: int = 0
    rewards: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    """By side, 0 for suppliers and 1 for borrowers: a token, its base units a second, and the end in unix seconds."""
    liquidity_index: int = RAY
    borrow_index: int = RAY
    liquidity_rate: int = 0
    borrow_rate: int = 0
    supply_scaled: int = 0
    debt_scaled: int = 0

    @property
    def data_low(self) -> int:
        """The lower half of the configuration."""
        limits = 7_500 | 8_000 << 14 | 500 << 28 | self.decimals << 42
        return limits | self.flags | self.reserve_factor << 57

    @property
    def data_high(self) -> int:
        """The upper half: both caps, in whole tokens."""
        return self.borrow_cap | self.supply_cap << 64

    def indexes_at(self, time: int) -> tuple[int, int]:
        """The supply and the borrow index at a time that is not before the last update."""
        seconds = time - self.last_update
        supply = RAY + self.liquidity_rate * seconds // _SECONDS_PER_YEAR
        return _times(self.liquidity_index, supply), _times(self.borrow_index, _compounded(self.borrow_rate, seconds))

    def totals(self) -> tuple[int, int]:
        """What is supplied and what is borrowed, at the stored indexes."""
        return _times(self.supply_scaled, self.liquidity_index), _times(self.debt_scaled, self.borrow_index)

    def accrue(self, time: int) -> None:
        """Bring the indexes to a time."""
        self.liquidity_index, self.borrow_index = self.indexes_at(time)
        self.last_update = time

    def update_rates(self) -> None:
        """Fix the rates until the next action."""
        self.liquidity_rate, self.borrow_rate = self.model.rates(*self.totals(), self.reserve_factor)

    def operate(self, random: Random, time: int) -> str:
        """A user's operation at a time: its name."""
        self.accrue(time)
        supplied, borrowed = self.totals()
        free = max(supplied - borrowed, 0)
        operations = ["supply", "withdraw", "repay"]
        if self.flags & BORROWING and not self.flags & FROZEN:
            operations.append("borrow")
        operation = random.choice(operations)
        share = random.randint(1, 400)
        unit = 10**self.decimals
        if operation == "supply":
            amount = (supplied + unit) * share // _BPS
            if not self.supply_cap or supplied + amount <= self.supply_cap * unit:
                self.supply_scaled += amount * RAY // self.liquidity_index
                self.cash += amount
        elif operation == "withdraw":
            amount = min(supplied * share // _BPS, free, self.cash)
            scaled = -(-amount * RAY // self.liquidity_index)
            if scaled <= self.supply_scaled:
                self.supply_scaled -= scaled
                self.cash -= amount
        elif operation == "borrow":
            amount = min(free * share // _BPS, self.cash)
            if all(not most or borrowed + amount <= most * unit for most in (self.borrow_cap, self.debt_ceiling)):
                self.debt_scaled += amount * RAY // self.borrow_index
                self.cash -= amount
        else:
            amount = borrowed * share // _BPS
            self.debt_scaled -= min(amount * RAY // self.borrow_index, self.debt_scaled)
            self.cash += amount
        self.update_rates()
        return operation


def _times(left: int, right: int) -> int:
    return (left * right + RAY // 2) // RAY


def _over(left: int, right: int) -> int:
    return (left * RAY + right // 2) // right


def _compounded(rate: int, seconds: int) -> int:
    """The growth of debt: the second and third power's coefficients are cut to integers before they are multiplied."""
    power2 = _times(rate, rate) // _SECONDS_PER_YEAR**2
    power3 = _times(power2, rate) // _SECONDS_PER_YEAR
    before, two_before = max(seconds - 1, 0), max(seconds - 2, 0)
    growth = rate * seconds // _SECONDS_PER_YEAR
    growth += seconds * before * power2 // 2
    return RAY + growth + seconds * before * two_before * power3 // 6


ROUTER_WASM = made_wasm("localnet k2 router")
TOKEN_WASM = made_wasm("localnet k2 token")
RATES_WASM = made_wasm("localnet k2 interest rates")
ORACLE_WASM = made_wasm("localnet k2 oracle")
ROUTER_WASM_HASH, TOKEN_WASM_HASH, RATES_WASM_HASH, ORACLE_WASM_HASH = (
    wasm_hash(wasm) for wasm in (ROUTER_WASM, TOKEN_WASM, RATES_WASM, ORACLE_WASM)
)


@dataclass(slots=True)
class Market:
    """One router with its reserves; addresses are strkeys."""

    address: str
    oracle: str
    rates: str
    admin: str
    configurator: str
    treasury: str
    paused: bool = False
    defaults: Model = field(default_factory=Model)
    reserves: list[Reserve] = field(default_factory=list)
    incentives: str | None = None
    """The reward contract that the reserves' tokens name."""


def router_instance(market: Market) -> Entry:
    """The instance of a router."""
    storage = {
        "INIT": boolean(True),
        "ORACLE": address(market.oracle),
        "PADMIN": address(market.admin),
        "PAUSED": boolean(market.paused),
        "PCONFIG": address(market.configurator),
        "TREASURY": address(market.treasury),
    }
    return instance_entry(market.address, ROUTER_WASM_HASH, _symbols(storage))


def reserve_list(market: Market) -> Entry:
    """``RLIST``: the reserves in the order of their making."""
    return stored_entry(market.address, symbol("RLIST"), vec(*(address(item.asset) for item in market.reserves)))


def reserve_count(market: Market) -> Entry:
    """``RCOUNT``: how many reserves the list has."""
    return stored_entry(market.address, symbol("RCOUNT"), u32(len(market.reserves)))


def reserve_entry(market: Market, reserve: Reserve) -> Entry:
    """``RDATA`` of a reserve."""
    return stored_entry(market.address, reserve_key(reserve.asset), reserve_value(market, reserve))


def reserve_key(asset: str) -> ScVal:
    """The key of a reserve's entry."""
    return vec(symbol("RDATA"), address(asset))


def reserve_value(market: Market, reserve: Reserve) -> ScVal:
    """The struct of a reserve."""
    return struct_map(
        {
            "a_token_address": address(reserve.a_token),
            "configuration": struct_map({"data_high": u128(reserve.data_high), "data_low": u128(reserve.data_low)}),
            "current_liquidity_rate": u128(reserve.liquidity_rate),
            "current_variable_borrow_rate": u128(reserve.borrow_rate),
            "debt_token_address": address(reserve.debt_token),
            "id": u32(reserve.id),
            "interest_rate_strategy_address": address(market.rates),
            "last_update_timestamp": u64(reserve.last_update),
            "liquidity_index": u128(reserve.liquidity_index),
            "variable_borrow_index": u128(reserve.borrow_index),
        }
    )


def debt_ceiling_entry(market: Market, reserve: Reserve) -> Entry:
    """``RDEBTCEIL`` of a reserve, in whole tokens."""
    return stored_entry(market.address, vec(symbol("RDEBTCEIL"), address(reserve.asset)), u128(reserve.debt_ceiling))


def a_token_instance(market: Market, reserve: Reserve) -> Entry:
    """The instance of a reserve's aToken."""
    state = {"total_supply_scaled": i128(reserve.supply_scaled), "underlying_asset": address(reserve.asset)}
    return _token(market, reserve, reserve.a_token, "k2a", state)


def debt_token_instance(market: Market, reserve: Reserve) -> Entry:
    """The instance of a reserve's debt token."""
    state = {"borrowed_asset": address(reserve.asset), "total_debt_scaled": i128(reserve.debt_scaled)}
    return _token(market, reserve, reserve.debt_token, "k2d", state)


def rates_instance(market: Market) -> Entry:
    """The instance of a rate contract, with the parameters of reserves that have none of their own."""
    model = market.defaults
    storage = {"BVR": model.base, "OU": model.optimal, "VS1": model.slope1, "VS2": model.slope2}
    values = {name: u128(value) for name, value in storage.items()} | {"ADMIN": address(market.admin)}
    return instance_entry(market.rates, RATES_WASM_HASH, _symbols(values))


def rates_entry(market: Market, reserve: Reserve) -> Entry:
    """``APARAMS`` of a reserve with parameters of its own."""
    fields = {
        "base_variable_borrow_rate": reserve.model.base,
        "optimal_utilization_rate": reserve.model.optimal,
        "variable_rate_slope1": reserve.model.slope1,
        "variable_rate_slope2": reserve.model.slope2,
    }
    value = struct_map({name: u128(number) for name, number in fields.items()})
    return stored_entry(market.rates, vec(symbol("APARAMS"), address(reserve.asset)), value)


def oracle_instance(oracle: str, admin: str, *, fresh: bool = True) -> Entry:
    """The instance of an oracle; without ``fresh`` it has the functions of the published source alone."""
    return instance_entry(oracle, ORACLE_WASM_HASH, _symbols({"Admin": address(admin), "Fresh": boolean(fresh)}))


def price_entry(oracle: str, token: str, price: int, time: int) -> Entry:
    """What the oracle has last seen of a token: a price with 14 decimals, and its time."""
    return stored_entry(oracle, price_key(token), struct_map({"price": u128(price), "timestamp": u64(time)}))


def price_key(token: str) -> ScVal:
    """The key of a price."""
    return vec(symbol("LastPriceData"), vec(symbol("Stellar"), address(token)))


def _token(market: Market, reserve: Reserve, token: str, prefix: str, state: dict[str, ScVal]) -> Entry:
    state |= {
        "decimals": u32(reserve.decimals),
        "name": string(f"K2 {reserve.symbol}"),
        "pool_address": address(market.address),
        "symbol": string(f"{prefix}{reserve.symbol}"),
    }
    storage = [(vec(symbol("State")), struct_map(state))]
    if market.incentives is not None:
        storage.insert(0, (vec(symbol("IncentivesContract")), address(market.incentives)))
    return instance_entry(token, TOKEN_WASM_HASH, storage)


def reward_entries(market: Market, reserve: Reserve) -> Iterator[Entry]:
    """What holders of a reserve's two tokens are paid, in the reward contract."""
    for side, (paid, per_second, end) in reserve.rewards.items():
        contract, token = market.incentives or "", (reserve.a_token, reserve.debt_token)[side]
        yield stored_entry(contract, vec(symbol("RTL"), address(token)), vec(address(paid)))
        value = {"distribution_end": u64(end), "emission_per_second": u128(per_second), "is_active": boolean(True)}
        yield stored_entry(contract, vec(symbol("ARC"), address(token), address(paid), u32(side)), struct_map(value))


def _symbols(storage: dict[str, ScVal]) -> list[tuple[ScVal, ScVal]]:
    return [(symbol(name), storage[name]) for name in sorted(storage)]


MATH_OVERFLOW, RESERVE_NOT_FOUND = "Error(Contract, #37)", "Error(Contract, #24)"
"""Of the router."""

PRICE_TOO_OLD, ASSET_NOT_WHITELISTED = "Error(Contract, #4)", "Error(Contract, #7)"
"""Of the oracle."""

MAX_PRICE_AGE = 3_600
_BATCHES = ("get_asset_prices_vec", "get_asset_prices_vec_fresh")


def run_router(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of a router: its views of a reserve that accrue."""
    host.instance(contract)
    if function not in ("get_current_reserve_data", "get_current_var_borrow_idx"):
        raise TrapError(MISSING_FUNCTION)
    stored = host.data(contract, reserve_key(one_address(arguments)))
    if stored is None:
        raise TrapError(RESERVE_NOT_FOUND)
    liquidity, borrow = _current_indexes(stored, host.timestamp)
    if function == "get_current_var_borrow_idx":
        return u128(borrow)
    now = {
        "last_update_timestamp": u64(host.timestamp),
        "liquidity_index": u128(liquidity),
        "variable_borrow_index": u128(borrow),
    }
    return (scval.MAP, tuple((key, now.get(key[1], value)) for key, value in stored[1]))


def run_oracle(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of an oracle: the prices of some assets, all of them or an error."""
    fresh = storage_of(host.instance(contract), symbol("Fresh"))
    if function not in _BATCHES or (function == _BATCHES[1] and fresh != boolean(True)):
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, assets = arguments[0]
    if kind != scval.VEC:
        raise TrapError(UNEXPECTED_TYPE)
    return vec(*(_price(host, contract, asset) for asset in assets or ()))


def _price(host: Host, contract: str, asset: ScVal) -> ScVal:
    kind, parts = asset
    if kind != scval.VEC or not parts or len(parts) != 2 or parts[0] != symbol("Stellar"):
        raise TrapError(ASSET_NOT_WHITELISTED)
    found = host.data(contract, price_key(parts[1][1]))
    if found is None:
        raise TrapError(ASSET_NOT_WHITELISTED)
    if not 0 <= host.timestamp - fields_of(found)["timestamp"] <= MAX_PRICE_AGE:
        raise TrapError(PRICE_TOO_OLD)
    return found


def _current_indexes(stored: ScVal, time: int) -> tuple[int, int]:
    fields = fields_of(stored)
    reserve = Reserve(
        asset="",
        symbol="",
        decimals=0,
        a_token=fields["a_token_address"],
        debt_token=fields["debt_token_address"],
        last_update=fields["last_update_timestamp"],
        liquidity_index=fields["liquidity_index"],
        borrow_index=fields["variable_borrow_index"],
        liquidity_rate=fields["current_liquidity_rate"],
        borrow_rate=fields["current_variable_borrow_rate"],
    )
    if time < reserve.last_update:
        raise TrapError(MATH_OVERFLOW)
    return reserve.indexes_at(time)


CODE: Mapping[bytes, Code] = {
    ROUTER_WASM_HASH: run_router,
    ORACLE_WASM_HASH: run_oracle,
}
"""The stand-ins by wasm hash, for `exporter.localnet.network`."""
