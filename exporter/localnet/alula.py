"""The stand-in for Alula: the entries of a market and its manager, and the code of the market's two views.

``get_market_data()`` and ``get_pool_data(pool)`` do not accrue, and one bad price fails the whole call with the
contract's own error code. The math is written apart from the exporter's, in plain Python integers; all of it is
docs/protocols/alula.md. Amounts are token base units, rates and ratios basis points.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import TEMPORARY, code_key
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import (
    VOID,
    address,
    i128,
    string,
    struct_map,
    symbol,
    u32,
    u64,
    vec,
)
from exporter.localnet.contracts import (
    MISSING_FUNCTION,
    UNWRAPPED_NONE,
    WRONG_ARGUMENTS,
    Entry,
    Host,
    TrapError,
    boolean,
    fields_of,
    instance_entry,
    made_wasm,
    one_address,
    run_oracle,
    stored_entry,
    variants,
    wasm_hash,
)

BPS = 10_000
SCALED_ONE = 10**18
SECONDS_PER_YEAR = 31_556_926
_LOWEST_MODIFIER, _HIGHEST_MODIFIER = 1_000, 100_000
_MODIFIER_SECONDS = 900  # more time than this does not move the modifier further: in the newest source
_FIRST_SHARES = 10  # shares that the first deposit gets for each base unit, so that one is worth about 0.1

ALL_ENABLED = 2**32 - 1
DEPOSIT, BORROW, ADD_COLLATERAL = 1, 2, 4
"""Bits of a pool's status."""


class NoResultError(Exception):
    """The contract's arithmetic has no result: a division by zero, or a number that does not fit."""


@dataclass(frozen=True, slots=True)
class Curve:
    """``KinkedIRConfig``: the rate a year over the utilization."""

    base_apr_bps: int = 1
    kink1_apr_bps: int = 3_000
    kink1_ur_bps: int = 7_000
    kink2_apr_bps: int = 6_000
    kink2_ur_bps: int = 8_000
    max_apr_bps: int = 40_000

    def apr(self, utilization: int) -> int:
        """The rate before the modifier; a knot belongs to the slope above it."""
        if utilization < self.kink1_ur_bps:
            return self.base_apr_bps + (self.kink1_apr_bps - self.base_apr_bps) * utilization // self.kink1_ur_bps
        if utilization < self.kink2_ur_bps:
            run, span = utilization - self.kink1_ur_bps, self.kink2_ur_bps - self.kink1_ur_bps
            return self.kink1_apr_bps + (self.kink2_apr_bps - self.kink1_apr_bps) * run // span
        if self.kink2_ur_bps == BPS:
            raise NoResultError
        run, span = utilization - self.kink2_ur_bps, BPS - self.kink2_ur_bps
        return self.kink2_apr_bps + (self.max_apr_bps - self.kink2_apr_bps) * run // span


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """What of ``PoolConfig`` differs between the made pools; the rest is the same in all."""

    curve: Curve = Curve()
    take_rate_bps: int = 1_000
    borrow_fee_bps: int = 10
    open_ltv_bps: int = 7_500
    close_ltv_bps: int = 8_000
    liquidation_incentive_bps: int = 500
    supply_limit: int = 0
    utilization_limit_bps: int = 9_000
    reactivity: int = 0
    target_utilization_bps: int = 6_500
    flags: int = ALL_ENABLED


@dataclass(slots=True)
class Pool:
    """A ``Pool`` entry: ``address`` is the token's; ``borrow_apr_bps`` and ``supply_apr_bps`` of the last accrual."""

    address: str
    symbol: str
    name: str
    decimals: int
    config: PoolConfig
    last_accrual_timestamp: int
    total_available: int = 0
    total_borrowed: int = 0
    total_collateral: int = 0
    total_j_tokens: int = 0
    total_d_tokens: int = 0
    take_rate_fees_sum: int = 0
    operation_fees_sum: int = 0
    interest_rate_modifier_bps: int = BPS
    borrow_apr_bps: int = 0
    supply_apr_bps: int = 0

    @property
    def available(self) -> int:
        """What can be lent or withdrawn."""
        return max(self.total_available - self.take_rate_fees_sum, 0)

    @property
    def supply(self) -> int:
        """What the suppliers own."""
        return self.available + self.total_borrowed

    def utilization(self) -> int:
        """The utilization that drives the rates, rounded up."""
        return _ceiling(self.total_borrowed * BPS, self.supply) if self.supply else 0

    def current_aprs(self) -> tuple[int, int]:
        """The borrow and the supply rate a year at the stored utilization and modifier."""
        utilization = self.utilization()
        borrow = _ceiling(self.config.curve.apr(utilization) * self.interest_rate_modifier_bps, BPS)
        return borrow, borrow * utilization // BPS * (BPS - self.config.take_rate_bps) // BPS

    def share_rates(self) -> tuple[int, int]:
        """What a supply share and a debt share are worth, in basis points."""
        supply_rate = self.supply * BPS // self.total_j_tokens if self.total_j_tokens else 0
        debt_rate = _ceiling(self.total_borrowed * BPS, self.total_d_tokens) if self.total_d_tokens else 0
        return supply_rate, debt_rate

    def accrue(self, time: int) -> None:
        """Bring interest up to ``time`` and then move the modifier (as in the newest source)."""
        elapsed = time - self.last_accrual_timestamp
        if elapsed <= 0:
            return
        utilization = self.utilization()
        self.borrow_apr_bps, self.supply_apr_bps = self.current_aprs()
        grown = _ceiling(self.total_borrowed * multiplier(self.borrow_apr_bps, elapsed), SCALED_ONE)
        self.take_rate_fees_sum += (grown - self.total_borrowed) * self.config.take_rate_bps // BPS
        self.total_borrowed = grown
        self.last_accrual_timestamp = time
        self.interest_rate_modifier_bps = next_modifier(
            self.interest_rate_modifier_bps,
            utilization,
            self.config.target_utilization_bps,
            self.config.reactivity,
            min(elapsed, _MODIFIER_SECONDS),
        )

    def operate(self, random: Random, time: int, may_deposit: bool = True, may_borrow: bool = True) -> str:
        """Accrue, and do what one user might: gives which operation it was.

        What the market's status, the pool's own or its limits forbid becomes a repayment or, without debt, nothing but
        the accrual (``refresh``).
        """
        self.accrue(time)
        part = random.randint(1, 200)  # up to 2% of what is there
        operation = random.choice(("deposit", "withdraw", "borrow", "repay", "add_collateral", "remove_collateral"))
        flags = self.config.flags
        allowed = {
            "deposit": may_deposit and flags & DEPOSIT != 0,
            "add_collateral": may_deposit and flags & ADD_COLLATERAL != 0,
            "borrow": may_borrow and flags & BORROW != 0,
        }
        if allowed.get(operation, True) and getattr(self, f"_{operation}")(part):
            return operation
        return "repay" if self._repay(part) else "refresh"

    def deposit(self, amount: int) -> None:
        """Supply an amount for shares at their present worth; the first ones are worth about 0.1."""
        shares = amount * self.total_j_tokens // self.supply if self.supply else amount * _FIRST_SHARES
        self.total_j_tokens += shares
        self.total_available += amount

    def borrow(self, amount: int) -> None:
        """Lend an amount, with the operation's fee added to the debt; the debt's shares are rounded up."""
        fee = amount * self.config.borrow_fee_bps // BPS
        debt = amount + fee
        shares = _ceiling(debt * self.total_d_tokens, self.total_borrowed) if self.total_borrowed else debt
        self.total_d_tokens += shares
        self.total_borrowed += debt
        self.total_available -= debt
        self.operation_fees_sum += fee

    def _deposit(self, part: int) -> bool:
        amount = max(self.supply, 10**self.decimals) * part // BPS
        limit = self.config.supply_limit
        if amount == 0 or (limit and self.supply + amount > limit):
            return False
        self.deposit(amount)
        return True

    def _withdraw(self, part: int) -> bool:
        amount = self.available * part // BPS
        shares = _ceiling(amount * self.total_j_tokens, self.supply) if self.supply else 0
        if not 0 < shares <= self.total_j_tokens:
            return False
        self.total_j_tokens -= shares
        self.total_available -= amount
        return True

    def _borrow(self, part: int) -> bool:
        amount = self.available * part // BPS
        owed = self.total_borrowed + amount + amount * self.config.borrow_fee_bps // BPS
        if amount == 0 or owed * BPS > self.supply * self.config.utilization_limit_bps:
            return False
        self.borrow(amount)
        return True

    def _repay(self, part: int) -> bool:
        amount = self.total_borrowed * part // BPS
        shares = amount * self.total_d_tokens // self.total_borrowed if self.total_borrowed else 0
        if shares == 0:
            return False
        self.total_d_tokens -= shares
        self.total_borrowed -= amount
        self.total_available += amount
        return True

    def _add_collateral(self, part: int) -> bool:
        self.total_collateral += max(self.total_collateral, 10**self.decimals) * part // BPS
        return True

    def _remove_collateral(self, part: int) -> bool:
        self.total_collateral -= self.total_collateral * part // BPS
        return True


def multiplier(apr: int, seconds: int) -> int:
    """The growth of a debt, with 18 decimals: the growth of a second to the power of the seconds.

    Raises `NoResultError` when it does not fit into 128 bits.
    """
    square = SCALED_ONE + _ceiling(apr * SCALED_ONE, BPS) // SECONDS_PER_YEAR
    result = SCALED_ONE
    while seconds:
        if seconds & 1:
            result = result * square // SCALED_ONE
        seconds >>= 1
        if seconds:  # the result will be at least this square
            square = square * square // SCALED_ONE
        if max(result, square) >= 2**127:
            raise NoResultError
    return result


def apy(apr: int) -> int:
    """A rate compounded every second for a year, in basis points; raises `NoResultError` above 32 bits."""
    bps = max(0, multiplier(apr, SECONDS_PER_YEAR) // 10**14 - BPS)
    if bps >= 2**32:
        raise NoResultError
    return bps


def next_modifier(modifier: int, utilization: int, target: int, reactivity: int, seconds: int) -> int:
    """The modifier after some time at a utilization off its target: higher below it, lower above it."""
    difference = utilization - target
    step = seconds * abs(difference) * reactivity // BPS
    if difference >= 0:
        return max(_LOWEST_MODIFIER, modifier - step)
    return min(_HIGHEST_MODIFIER, modifier + step)


def _ceiling(number: int, divisor: int) -> int:
    return -(-number // divisor)


MARKET_WASM = made_wasm("localnet alula market")
MARKET_WASM_HASH = wasm_hash(MARKET_WASM)
MANAGER_WASM_HASH = wasm_hash(made_wasm("localnet alula market manager"))

STATUSES = (
    "Active",
    "BorrowFrozen",
    "BorrowFrozenByAdmin",
    "DepositFrozen",
    "DepositFrozenByAdmin",
    "Frozen",
    "FrozenByAdmin",
)
"""The variants of MarketStatus by their ordinal, which is ``GlobalState.status``."""

UPGRADE_DELAY = 43_200  # seconds


@dataclass(slots=True)
class Market:
    """One market contract with its pools; addresses are strkeys.

    ``status`` is the ordinal. ``missing`` are pools that are listed and have no entry. ``queued`` are tokens with a
    queued configuration that are no pools yet.
    """

    address: str
    name: str
    status: int
    oracle: str
    manager: str
    admin: str
    insurance_fund: str
    pools: list[Pool] = field(default_factory=list)
    missing: list[Pool] = field(default_factory=list)
    queued: list[str] = field(default_factory=list)


def market_instance(market: Market) -> Entry:
    """The instance of a market: the twelve keys that its constructor writes."""
    storage = {
        "Admin": address(market.admin),
        "BadDebtLockDuration": u64(43_200),
        "DeployerHost": address(market.manager),
        "InsolvencyLtvBps": i128(9_850),
        "InsuranceFund": address(market.insurance_fund),
        "IsOwned": boolean(True),
        "MarketStatus": vec(symbol(STATUSES[market.status])),
        "MaxPositions": u32(10),
        "MinCollateralValueCents": i128(500),
        "Name": string(market.name),
        "Oracle": address(market.oracle),
        "UpdateInQueuePeriod": u64(UPGRADE_DELAY),
    }
    return instance_entry(market.address, MARKET_WASM_HASH, variants(storage))


def pool_list(market: Market) -> Entry:
    """``AllPools``: the pools in the order of their registration. A market without any has no such entry."""
    return stored_entry(market.address, vec(symbol("AllPools")), vec(*(address(pool.address) for pool in market.pools)))


def pool_entry(market: Market, pool: Pool) -> Entry:
    """``Pool(address)``: the 21 fields of a pool; its address is that of its token."""
    return stored_entry(market.address, pool_key(pool.address), pool_value(pool))


def queued_entry(market: Market, token: str, time: int) -> Entry:
    """``QueuedPoolSet(address)``: a configuration that waits for its time, here for a token that is no pool yet."""
    value = struct_map({"new_config": config_value(PoolConfig()), "queued_in_timestamp": u64(time)})
    return stored_entry(market.address, vec(symbol("QueuedPoolSet"), address(token)), value)


def cached_price_entry(market: str, token: str, price: int, time: int) -> Entry:
    """``CachedPrice(token)``, temporary: the price that a transaction used, with its ledger's time."""
    return stored_entry(market, cached_price_key(token), vec(i128(price), u64(time)), TEMPORARY)


def manager_entries(manager: str, admin: str, markets: list[Market]) -> list[Entry]:
    """A market manager's instance, and its word for each market that it deployed it; it has no list of them."""
    entries = [instance_entry(manager, MANAGER_WASM_HASH, variants({"Admin": address(admin)}))]
    for market in markets:
        key = vec(symbol("DeployedMarket"), address(market.address))
        entries.append(stored_entry(manager, key, u64(UPGRADE_DELAY)))
    return entries


def pool_key(pool: str) -> ScVal:
    """The key of a pool's entry."""
    return vec(symbol("Pool"), address(pool))


def cached_price_key(token: str) -> ScVal:
    """The key of a cached price."""
    return vec(symbol("CachedPrice"), address(token))


def pool_value(pool: Pool) -> ScVal:
    """The struct of a ``Pool`` entry."""
    amounts = (
        "borrow_apr_bps",
        "interest_rate_modifier_bps",
        "operation_fees_sum",
        "supply_apr_bps",
        "take_rate_fees_sum",
        "total_available",
        "total_borrowed",
        "total_collateral",
        "total_d_tokens",
        "total_j_tokens",
    )
    fields = {name: i128(getattr(pool, name)) for name in amounts} | {
        "bad_debt_lock_d": u64(0),
        "bad_debt_request_count": u32(0),
        "config": config_value(pool.config),
        "farm_debt": VOID,
        "farm_supply": VOID,
        "last_accrual_timestamp": u64(pool.last_accrual_timestamp),
        "name": string(pool.name),
        "pool_address": address(pool.address),
        "token_address": address(pool.address),
        "token_decimals": u32(pool.decimals),
        "token_symbol": string(pool.symbol),
    }
    return struct_map(fields)


def config_value(config: PoolConfig) -> ScVal:
    """The struct ``PoolConfig`` with its parts."""
    curve = {name: i128(getattr(config.curve, name)) for name in config.curve.__slots__}
    free = (
        "add_collateral_fee_bps",
        "deposit_fee_bps",
        "remove_collateral_fee_bps",
        "repay_fee_bps",
        "withdraw_fee_bps",
    )
    rates = dict.fromkeys(free, 0) | {
        "borrow_fee_bps": config.borrow_fee_bps,
        "flash_loan_fee_bps": 9,
        "take_rate_bps": config.take_rate_bps,
        "withdraw_max_scarcity_fee_bps": 200,
    }
    fees = {name: u32(value) for name, value in rates.items()}
    fees |= dict.fromkeys(("operation_fee_beneficiaries", "referrers", "take_rate_beneficiaries"), VOID)
    health = {
        "close_ltv_bps": config.close_ltv_bps,
        "liability_factor_bps": 10_000,
        "liquidation_close_factor_bps": 5_000,
        "max_liquidation_incentive_bps": config.liquidation_incentive_bps,
        "open_ltv_bps": config.open_ltv_bps,
        "supply_limit": config.supply_limit,
        "utilization_ratio_limit_bps": config.utilization_limit_bps,
        "withdraw_scarcity_limit_bps": 500,
    }
    limits = {name: i128(value) for name, value in health.items()} | {"withdraw_scarcity_cooldown_s": u64(3_600)}
    return struct_map(
        {
            "accrual_model": vec(symbol("Compounded")),
            "fee_config": struct_map(fees),
            "health_config": struct_map(limits),
            "interest_rate_model": vec(symbol("Kinked"), struct_map(curve)),
            "ir_reactivity_constant": u32(config.reactivity),
            "status": struct_map({"flags": u32(config.flags)}),
            "target_utilization_ratio_bps": i128(config.target_utilization_bps),
        }
    )


INTERNAL_ERROR = "Error(Contract, #0)"
OVER_OR_UNDERFLOW = "Error(Contract, #9)"
POOL_DOES_NOT_EXIST = "Error(Contract, #101)"
ORACLE_DOES_NOT_KNOW_ASSET_PRICE = "Error(Contract, #500)"
ORACLE_STALE_PRICE = "Error(Contract, #501)"
NON_POSITIVE_ORACLE_PRICE = "Error(Contract, #502)"

_MAX_PRICE_AGE = 360  # seconds
_STATUS = {name: ordinal for ordinal, name in enumerate(STATUSES)}


def run_market(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of a market: ``get_market_data()`` and ``get_pool_data(pool)``."""
    storage = _storage(host.instance(contract))
    if function == "get_market_data":
        if arguments:
            raise TrapError(WRONG_ARGUMENTS)
        return _market_data(host, contract, storage)
    if function != "get_pool_data":
        raise TrapError(MISSING_FUNCTION)
    return _pool_data(host, contract, storage, one_address(arguments), POOL_DOES_NOT_EXIST)


def _market_data(host: Host, contract: str, storage: dict[str, ScVal]) -> ScVal:
    listed = host.data(contract, vec(symbol("AllPools")))
    pools = [] if listed is None else [pool for _, pool in listed[1]]
    return struct_map(
        {
            "global_state": _global_state(storage),
            "oracle_price_decimals": _call_oracle(host, storage, "decimals"),
            "pools_data": vec(*(_pool_data(host, contract, storage, pool, INTERNAL_ERROR) for pool in pools)),
        }
    )


def _global_state(storage: dict[str, ScVal]) -> ScVal:
    names = {
        "admin": "Admin",
        "bad_debt_lock_d": "BadDebtLockDuration",
        "deployer": "DeployerHost",
        "insolvency_ltv_bps": "InsolvencyLtvBps",
        "insurance_fund": "InsuranceFund",
        "is_owned": "IsOwned",
        "max_positions": "MaxPositions",
        "min_collateral_value_cents": "MinCollateralValueCents",
        "name": "Name",
        "oracle": "Oracle",
        "update_in_queue_period": "UpdateInQueuePeriod",
    }
    ((_, status),) = storage["MarketStatus"][1]
    return struct_map({name: storage[key] for name, key in names.items()} | {"status": u32(_STATUS[status])})


def _pool_data(host: Host, contract: str, storage: dict[str, ScVal], address: str, missing: str) -> ScVal:
    stored = host.data(contract, pool_key(address))
    if stored is None:
        raise TrapError(missing)
    pool = pool_from(stored)
    try:
        borrow_apr, supply_apr = pool.current_aprs()
        yields = struct_map({"borrow_bps": u32(apy(borrow_apr)), "supply_bps": u32(apy(supply_apr))})
    except NoResultError:
        raise TrapError(OVER_OR_UNDERFLOW) from None
    supply_rate, debt_rate = pool.share_rates()
    return struct_map(
        {
            "apy": yields,
            "d_token_rate_ceil_bps": i128(debt_rate),
            "j_token_rate_floor_bps": i128(supply_rate),
            "oracle_asset_price": i128(_price(host, contract, storage, fields_of(stored)["token_address"])),
            "pool": stored,
            "total_available_adjusted": i128(pool.available),
            "total_supply": i128(pool.supply),
        }
    )


def _price(host: Host, contract: str, storage: dict[str, ScVal], token: str) -> int:
    """The price of a token: one cached in this very ledger, or else the oracle's, under the market's rules."""
    cached = host.data(contract, cached_price_key(token), TEMPORARY)
    if cached is not None:
        (_, price), (_, time) = cached[1]
        if time == host.timestamp:
            return int(price)
    quote = _call_oracle(host, storage, "lastprice", vec(symbol("Stellar"), address(token)))
    if quote[0] == scval.VOID:
        raise TrapError(ORACLE_DOES_NOT_KNOW_ASSET_PRICE)
    fields = fields_of(quote)
    if fields["price"] <= 0:
        raise TrapError(NON_POSITIVE_ORACLE_PRICE)
    if not 0 <= host.timestamp - fields["timestamp"] <= _MAX_PRICE_AGE:
        raise TrapError(ORACLE_STALE_PRICE)
    return int(fields["price"])


def _call_oracle(host: Host, storage: dict[str, ScVal], function: str, *arguments: ScVal) -> ScVal:
    oracle: str = storage["Oracle"][1]
    instance = host.instance(oracle)
    if instance.wasm_hash is not None:
        host.read(code_key(instance.wasm_hash))
    return run_oracle(host, oracle, function, arguments)


def pool_from(value: ScVal) -> Pool:
    """A pool as its entry's struct has it."""
    fields = fields_of(value)
    config = fields_of((scval.MAP, fields["config"]))
    (_, model), curve = config["interest_rate_model"]
    if model != "Kinked":
        raise TrapError(UNWRAPPED_NONE)
    health = fields_of((scval.MAP, config["health_config"]))
    fees = fields_of((scval.MAP, config["fee_config"]))
    same = (name for name in Pool.__slots__ if name not in ("address", "symbol", "name", "decimals", "config"))
    return Pool(
        address=fields["pool_address"],
        symbol=fields["token_symbol"].decode(),
        name=fields["name"].decode(),
        decimals=fields["token_decimals"],
        config=PoolConfig(
            curve=Curve(**fields_of(curve)),
            take_rate_bps=fees["take_rate_bps"],
            borrow_fee_bps=fees["borrow_fee_bps"],
            open_ltv_bps=health["open_ltv_bps"],
            close_ltv_bps=health["close_ltv_bps"],
            liquidation_incentive_bps=health["max_liquidation_incentive_bps"],
            supply_limit=health["supply_limit"],
            utilization_limit_bps=health["utilization_ratio_limit_bps"],
            reactivity=config["ir_reactivity_constant"],
            target_utilization_bps=config["target_utilization_ratio_bps"],
            flags=fields_of((scval.MAP, config["status"]))["flags"],
        ),
        **{name: fields[name] for name in same},
    )


def _storage(instance: ContractInstance) -> dict[str, ScVal]:
    """The instance storage by the variants that are its keys."""
    return {key[1][0][1]: value for key, value in instance.storage or () if key[0] == scval.VEC}
