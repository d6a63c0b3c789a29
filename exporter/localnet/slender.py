"""Slender in the embedded network: reserves and what users do with them, the entries of its pool, and its code.

Written from the contract's source (docs/protocols/slender.md), in plain integers and apart from the exporter's own
math, with the configuration that mainnet's pool was deployed with. Coefficients and rates have 9 decimals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import (
    VOID,
    address,
    encode_scval,
    i128,
    struct_map,
    symbol,
    u32,
    u64,
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
    storage_of,
    stored_entry,
    wasm_hash,
)
from exporter.localnet.reflector_contract import REFLECTOR_CODE

ONE = 10**9
YEAR = 31_557_600
WINDOW = 20
_MOST = 10**30  # shares: nobody supplies more to a reserve, however long the network runs
ALPHA, INITIAL_RATE, HIGHEST_RATE, LENDERS_SHARE = 143 * ONE // 100, 2 * ONE // 100, 5 * ONE, 9 * ONE // 10


@dataclass(slots=True)
class Reserve:
    """A reserve's state: shares, coefficients and rates, and in base units of the token ``cash`` and ``fees``."""

    token: str
    s_token: str
    debt_token: str
    decimals: int
    last_update: int
    lender_ar: int = ONE
    lender_ir: int = 0
    borrower_ar: int = ONE
    borrower_ir: int = 0
    s_supply: int = 0
    debt_supply: int = 0
    cash: int = 0
    fees: int = 0
    liquidity_cap: int = 10**18
    util_cap: int = 9_000
    discount: int = 8_000
    borrowing: bool = True

    def elapsed(self, time: int) -> int:
        """The whole windows since the last update, in seconds."""
        return max(time - self.last_update, 0) // WINDOW * WINDOW

    def debt_coefficient(self, time: int) -> int:
        """What a share of the debt is worth."""
        return _grown(self.borrower_ar, self.borrower_ir, self.elapsed(time))

    def owned(self, time: int) -> int:
        """What the suppliers own: what lies there, and their part of the debt."""
        return self.cash + _grown(self.lender_ar, self.lender_ir, self.elapsed(time)) * self.debt_supply // ONE

    def collateral_coefficient(self, time: int) -> int:
        """What a share of the supply is worth."""
        return self.owned(time) * ONE // self.s_supply if self.s_supply else ONE

    def operate(self, random: Random, time: int) -> None:
        """Do what one user might."""
        part = random.randint(1, 200)  # up to 2% of what is there
        if random.random() < 0.5 and self.s_supply < _MOST:
            self.deposit(max(self.owned(time), 10**self.decimals) * part // 10_000, time)
        elif random.random() < 0.5:
            self.borrow(self.cash * part // 10_000, time)
        else:
            self.repay(self.debt_supply * self.debt_coefficient(time) // ONE * part // 10_000, time)

    def deposit(self, amount: int, time: int) -> None:
        """Supply an amount for shares, if the cap allows it."""
        if self.lender_ar * self.debt_supply // ONE + self.cash + amount > self.liquidity_cap:
            return
        self.s_supply += self.s_supply * amount // self.owned(time) if self.s_supply else amount
        self.cash += amount
        self._update(time)

    def borrow(self, amount: int, time: int) -> None:
        """Lend an amount, if the cap allows it, for shares of debt.

        They are one more than the quotient, unless the amount is a multiple of a share.
        """
        if not amount or not self.borrowing:
            return
        coefficient = self.debt_coefficient(time)
        shares = self.debt_supply + max(amount * ONE // coefficient + (amount % coefficient != 0), 1)
        if shares * ONE // self.s_supply <= self.util_cap * ONE // 10_000:
            self.debt_supply = shares
            self.cash -= amount
            self._update(time)

    def repay(self, amount: int, time: int) -> None:
        """Take an amount back, of which the protocol keeps what debt has grown by more than supply."""
        coefficient = self.debt_coefficient(time)
        fee = (coefficient - self.collateral_coefficient(time)) * amount // ONE
        self.debt_supply -= amount * ONE // coefficient
        self.cash += amount - fee
        self.fees += fee
        self._update(time)

    def _update(self, time: int) -> None:
        """Fix the rates by what is lent now, and accrue the whole time since the last update with them."""
        elapsed = self.elapsed(time)
        if not elapsed or not self.s_supply:
            return
        self.borrower_ir = borrow_rate(self.s_supply, self.debt_supply)
        self.lender_ir = self.borrower_ir * LENDERS_SHARE // ONE
        self.lender_ar = _grown(self.lender_ar, self.lender_ir, elapsed)
        self.borrower_ar = _grown(self.borrower_ar, self.borrower_ir, elapsed)
        self.last_update = time


def borrow_rate(s_supply: int, debt_supply: int) -> int:
    """The rate a year by the share of shares that is lent, u: the initial rate over (1 - u) to the power of alpha.

    The power is the first terms of its binomial series, 4 up to u = 1/2 and 20 above.
    """
    used = debt_supply * ONE // s_supply
    if not used:
        return 0
    if used >= ONE:
        return HIGHEST_RATE
    term = ALPHA * -used // ONE
    power = ONE + term
    for number in range(2, 21 if used > ONE // 2 else 5):
        term = (term * -used // ONE) * (ALPHA - (number - 1) * ONE) // ONE
        term = term // number if term >= 0 else -(-term // number)  # divided toward zero
        power += term
    return HIGHEST_RATE if power < 0 else min(INITIAL_RATE * ONE // power, HIGHEST_RATE)


def _grown(accrued: int, rate: int, seconds: int) -> int:
    return accrued * (ONE + rate * (seconds * ONE // YEAR) // ONE) // ONE


POOL_WASM = made_wasm("localnet slender pool")
POOL_WASM_HASH = wasm_hash(POOL_WASM)
NO_RESERVE = "Error(Contract, #1)"
"""Uninitialized: what the contract says of anything that is not in its storage."""


@dataclass(slots=True)
class Market:
    """A pool contract with its reserves; ``feeds`` are the assets that the oracle knows the tokens as."""

    address: str
    oracle: str
    admin: str
    reserves: list[Reserve] = field(default_factory=list)
    feeds: dict[str, ScVal] = field(default_factory=dict)
    wasm_hash: bytes = POOL_WASM_HASH


def pool_instance(market: Market) -> Entry:
    """The instance entry of a pool."""
    storage: dict[ScVal, ScVal] = {
        vec(symbol("Admin")): address(market.admin),
        vec(symbol("Pause")): struct_map(
            {"grace_period_secs": u64(0), "paused": boolean(False), "unpaused_at": u64(0)}
        ),
        vec(symbol("PoolConfig")): struct_map(
            {
                "base_asset_address": address(market.reserves[0].token),
                "base_asset_decimals": u32(market.reserves[0].decimals),
                "flash_loan_fee": u32(9),
                "grace_period": u64(86_400),
                "initial_health": u32(2_500),
                "ir_alpha": u32(143),
                "ir_initial_rate": u32(200),
                "ir_max_rate": u32(50_000),
                "ir_scaling_coeff": u32(9_000),
                "liquidation_protocol_fee": u32(100),
                "min_collat_amount": i128(10**8),
                "min_debt_amount": i128(10**8),
                "timestamp_window": u64(WINDOW),
                "user_assets_limit": u32(3),
            }
        ),
        vec(symbol("Reserves")): vec(*(address(reserve.token) for reserve in market.reserves)),
    }
    for index, reserve in enumerate(market.reserves):
        storage[vec(symbol("ReserveAssetKey"), address(reserve.token))] = reserve_value(reserve, index)
        storage[vec(symbol("TokenSupply"), address(reserve.s_token))] = i128(reserve.s_supply)
        storage[vec(symbol("TokenSupply"), address(reserve.debt_token))] = i128(reserve.debt_supply)
        if reserve.fees:
            storage[vec(symbol("ProtocolFeeVault"), address(reserve.token))] = i128(reserve.fees)
        storage[vec(symbol("PriceFeed"), address(reserve.token))] = price_feed(market, reserve)
    pairs = sorted(storage.items(), key=lambda pair: encode_scval(pair[0]))
    return instance_entry(market.address, market.wasm_hash, pairs)


def cash_entry(market: Market, reserve: Reserve) -> Entry:
    """What lies in a reserve: the balance of its sToken, an entry of its own."""
    return stored_entry(market.address, _cash_key(reserve.token, reserve.s_token), i128(reserve.cash))


def _cash_key(token: str, s_token: str) -> ScVal:
    return vec(symbol("TokenBalance"), address(token), address(s_token))


def reserve_value(reserve: Reserve, index: int) -> ScVal:
    """The struct ``ReserveData``."""
    configuration: dict[str, ScVal] = {
        "borrowing_enabled": boolean(reserve.borrowing),
        "discount": u32(reserve.discount),
        "is_active": boolean(True),
        "liquidity_cap": i128(reserve.liquidity_cap),
        "pen_order": u32(index + 1),
        "util_cap": u32(reserve.util_cap),
    }
    return struct_map(
        {
            "borrower_ar": i128(reserve.borrower_ar),
            "borrower_ir": i128(reserve.borrower_ir),
            "configuration": struct_map(configuration),
            "id": (scval.BYTES, bytes((index,))),
            "last_update_timestamp": u64(reserve.last_update),
            "lender_ar": i128(reserve.lender_ar),
            "lender_ir": i128(reserve.lender_ir),
            "reserve_type": vec(symbol("Fungible"), address(reserve.s_token), address(reserve.debt_token)),
        }
    )


def run_pool(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of a pool: its views of a reserve, of shares and of balances."""
    if function not in ("get_reserve", "collat_coeff", "debt_coeff", "token_total_supply", "token_balance"):
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1 + (function == "token_balance"):
        raise TrapError(WRONG_ARGUMENTS)
    if any(kind != scval.ADDRESS for kind, _ in arguments):
        raise TrapError(UNEXPECTED_TYPE)
    asset: str = arguments[0][1]
    if function == "token_balance":
        return host.data(contract, _cash_key(asset, arguments[1][1])) or i128(0)
    if function == "token_total_supply":
        return i128(_number(host, contract, "TokenSupply", asset))
    stored = storage_of(host.instance(contract), vec(symbol("ReserveAssetKey"), address(asset)))
    if function == "get_reserve":
        return VOID if stored is None else stored
    if stored is None:
        raise TrapError(NO_RESERVE)
    reserve = _reserve(host, contract, asset, stored)
    time = host.timestamp
    return i128(reserve.collateral_coefficient(time) if function == "collat_coeff" else reserve.debt_coefficient(time))


CODE: Mapping[bytes, Code] = {POOL_WASM_HASH: run_pool, **REFLECTOR_CODE}
"""The stand-ins by wasm hash, with that of the oracle."""


def _reserve(host: Host, contract: str, asset: str, stored: ScVal) -> Reserve:
    fields = fields_of(stored)
    _, (_, s_token), (_, debt_token) = fields["reserve_type"]
    return Reserve(
        token=asset,
        s_token=s_token,
        debt_token=debt_token,
        decimals=0,
        last_update=fields["last_update_timestamp"],
        lender_ar=fields["lender_ar"],
        lender_ir=fields["lender_ir"],
        borrower_ar=fields["borrower_ar"],
        borrower_ir=fields["borrower_ir"],
        s_supply=_number(host, contract, "TokenSupply", s_token),
        debt_supply=_number(host, contract, "TokenSupply", debt_token),
        cash=int((host.data(contract, _cash_key(asset, s_token)) or i128(0))[1]),
    )


def _number(host: Host, contract: str, variant: str, token: str) -> int:
    value = storage_of(host.instance(contract), vec(symbol(variant), address(token)))
    return 0 if value is None else int(value[1])


def price_feed(market: Market, reserve: Reserve) -> ScVal:
    """The struct ``PriceFeedConfig``, with one feed of the market's oracle."""
    feed = struct_map(
        {
            "feed": address(market.oracle),
            "feed_asset": market.feeds[reserve.token],
            "feed_decimals": u32(14),
            "min_timestamp_delta": u64(660),
            "timestamp_precision": vec(symbol("Sec")),
            "twap_records": u32(3),
        }
    )
    bounds = {"min_sanity_price_in_base": i128(1), "max_sanity_price_in_base": i128(10**18)}
    return struct_map({"asset_decimals": u32(reserve.decimals), "feeds": vec(feed), **bounds})
