"""The stand-in for Peridot in the embedded network: its vaults in plain integers, their entries, and their code.

Written apart from the exporter's reader and math, after docs/protocols/peridot.md and for the code that caches what it
was quoted. A boosted vault keeps part of its cash in a DeFindex vault, whose shares are worth more over time. The
vault's views compute from the chain's state alone and do not accrue, like the contract's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import code_key
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
    UNWRAPPED_NONE,
    WRONG_ARGUMENTS,
    Code,
    Entry,
    Host,
    TrapError,
    boolean,
    instance_entry,
    made_wasm,
    storage_of,
    stored_entry,
    variants,
    wasm_hash,
)
from exporter.localnet.reflector_contract import REFLECTOR_CODE

CONTROLLER_WASM = made_wasm("localnet peridot controller")
VAULT_WASM = made_wasm("localnet peridot vault")
MODEL_WASM = made_wasm("localnet peridot rate model")
BOOST_WASM = made_wasm("localnet peridot boosted vault")
WASMS = (CONTROLLER_WASM, VAULT_WASM, MODEL_WASM, BOOST_WASM)
VAULT_WASM_HASH = wasm_hash(VAULT_WASM)
BOOST_WASM_HASH = wasm_hash(BOOST_WASM)

SCALE = 10**6
INDEX_SCALE = 10**18
YEAR = 31_536_000


@dataclass(frozen=True, slots=True)
class RateModel:
    """The parameters of a jump rate model contract at ``address``, 6 decimals."""

    address: str
    base: int
    multiplier: int
    jump: int
    kink: int

    def borrow_rate(self, cash: int, borrowed: int, reserves: int) -> int:
        """The rate a year that borrowers pay."""
        used = self.utilization(cash, borrowed, reserves)
        if used <= self.kink:
            return self.base + used * self.multiplier // SCALE
        return self.base + self.kink * self.multiplier // SCALE + (used - self.kink) * self.jump // SCALE

    @staticmethod
    def utilization(cash: int, borrowed: int, reserves: int) -> int:
        """The share that is lent."""
        owned = max(cash + borrowed - reserves, 0)
        return min(borrowed * SCALE // owned, SCALE) if borrowed and owned else 0


@dataclass(slots=True)
class Boost:
    """A vault's place in a DeFindex vault: its shares, and of that vault all shares and all assets."""

    address: str
    shares: int = 0
    all_shares: int = 0
    all_assets: int = 0

    def worth(self) -> int:
        """What the shares would pay out."""
        return self.shares * self.all_assets // self.all_shares if self.all_shares else 0

    def put(self, amount: int) -> None:
        """Pay in."""
        shares = amount * self.all_shares // self.all_assets if self.all_assets else amount
        self.shares += shares
        self.all_shares += shares
        self.all_assets += amount

    def take(self, amount: int) -> None:
        """Pay out; the shares that it costs are rounded up."""
        shares = min(-(-amount * self.all_shares // self.all_assets), self.shares)
        self.shares -= shares
        self.all_shares -= shares
        self.all_assets -= amount

    def earn(self, random: Random) -> None:
        """What the assets earn elsewhere in a short while."""
        self.all_assets += self.all_assets * random.randint(0, 20) // 10**7


@dataclass(slots=True)
class Vault:
    """A vault's state: amounts in base units of the token, ``receipts`` in those of the receipt token."""

    address: str
    controller: str
    token: str
    decimals: int
    model: RateModel
    reserve_factor: int
    admin_fee: int
    last_update: int
    boost: Boost | None = None
    cash: int = 0
    deposited: int = 0
    borrowed: int = 0
    reserves: int = 0
    admin_fees: int = 0
    index: int = INDEX_SCALE
    receipts: int = 0
    supply_cap: int = 0
    borrow_cap: int = 0
    gift: int = 0
    """What somebody sent to the vault: it has it, and does not count it as its own."""
    cached: int = 0
    cached_at: int = 0

    def all_cash(self) -> int:
        """The vault's own cash, and what it has boosted."""
        return self.cash + (self.boost.worth() if self.boost else 0)

    def underlying(self) -> int:
        """What the suppliers own."""
        return max(self.all_cash() + self.borrowed - self.reserves - self.admin_fees, 0)

    def available(self) -> int:
        """What can be paid out."""
        return max(self.underlying() - self.borrowed, 0)

    def exchange_rate(self) -> int:
        """What a receipt token is worth, 6 decimals."""
        owned = self.underlying()
        return owned * SCALE // self.receipts if owned and self.receipts else SCALE

    def look(self, time: int) -> None:
        """Ask what the boosted cash is worth, and remember it."""
        if self.boost:
            self.cached, self.cached_at = self.boost.worth(), time

    def boosted_for_rate(self, time: int) -> int:
        """What of the boosted cash counts for the rate: what is remembered for an hour, then what the accounts say."""
        accounts = max(self.deposited + self.reserves + self.admin_fees - self.borrowed - self.cash, 0)
        reported = self.cached if time - self.cached_at <= 3_600 else accounts
        known = max(self.cached, accounts)
        if known == 0 and self.borrowed == 0:
            return reported
        return min(reported, known + known * 5 // 100)

    def rate(self, time: int) -> int:
        """The rate a year that borrowers pay at this state."""
        cash = self.cash + self.gift + self.boosted_for_rate(time)
        return self.model.borrow_rate(cash, self.borrowed, self.reserves + self.admin_fees)

    def accrue(self, time: int) -> None:
        """Add the interest since the last time: simple, split among reserves, admin fees and suppliers."""
        if time <= self.last_update:
            return
        interest = self.borrowed * self.rate(time) * (time - self.last_update) // (YEAR * SCALE)
        if self.borrowed:
            self.index += self.index * interest // self.borrowed
        self.borrowed += interest
        self.reserves += interest * self.reserve_factor // SCALE
        self.admin_fees += interest * self.admin_fee // SCALE
        self.last_update = time

    def deposit(self, amount: int) -> None:
        """Supply an amount for receipt tokens; a boosted vault lends all of it on."""
        self.receipts += amount * SCALE // self.exchange_rate()
        self.deposited += amount
        self.cash += amount
        if self.boost:
            self.boost.put(amount)
            self.cash -= amount

    def borrow(self, amount: int) -> None:
        """Lend an amount, from the boosted cash where the vault's own does not suffice."""
        self._fetch(amount)
        self.cash -= amount
        self.borrowed += amount

    def repay(self, amount: int) -> None:
        """Take back what was lent."""
        self.cash += amount
        self.borrowed -= amount

    def withdraw(self, receipts: int) -> None:
        """Pay out receipt tokens."""
        amount = receipts * self.exchange_rate() // SCALE
        self._fetch(amount)
        self.receipts -= receipts
        self.deposited = max(self.deposited - amount, 0)
        self.cash -= amount

    def operate(self, random: Random, time: int) -> str:
        """Accrue, and do what one user might: gives which operation it was."""
        if self.boost:
            self.boost.earn(random)
        self.accrue(time)
        self.look(time)
        part = random.randint(1, 200)  # up to 2% of what is there
        operation = random.choice(("deposit", "borrow", "repay", "withdraw"))
        if operation == "deposit":
            amount = max(self.underlying(), 10**self.decimals) * part // 10_000
            if not self.supply_cap or self.underlying() + amount <= self.supply_cap:
                self.deposit(amount)
        elif operation == "repay":
            self.repay(self.borrowed * part // 10_000)
        elif operation == "borrow":
            amount = self.available() * part // 10_000
            if not self.borrow_cap or self.borrowed + amount <= self.borrow_cap:
                self.borrow(amount)
        else:
            receipts = self.receipts * part // 10_000
            if receipts * self.exchange_rate() // SCALE <= self.available():
                self.withdraw(receipts)
        return operation

    def _fetch(self, amount: int) -> None:
        if amount > self.cash and self.boost:
            missing = amount - self.cash
            self.boost.take(missing)
            self.cash += missing


@dataclass(slots=True)
class Market:
    """A controller with its vaults; ``symbols`` are those by which its oracle knows some tokens."""

    address: str
    oracle: str
    admin: str
    vaults: list[Vault] = field(default_factory=list)
    symbols: dict[str, str] = field(default_factory=dict)
    borrowing_paused: set[str] = field(default_factory=set)
    """For ever: a pause from before pauses had an end."""
    reward_token: str | None = None
    speeds: dict[tuple[str, str], int] = field(default_factory=dict)
    """What is paid a second, by the entry's name and the vault."""


def controller_entries(market: Market) -> Iterator[Entry]:
    """A controller's instance, its list of vaults, what it has paused, and what it knows of its oracle."""
    yield instance_entry(market.address, wasm_hash(CONTROLLER_WASM), variants({"Initialized": boolean(True)}))
    vaults = [vault.address for vault in market.vaults]
    values = {
        "Admin": address(market.admin),
        "CloseFactorScaled": u128(500_000),
        "LiquidationIncentiveScaled": u128(1_080_000),
        "Oracle": address(market.oracle),
        "OracleMaxAgeMultiplier": u64(2),
        "SupportedMarkets": flags(dict.fromkeys(vaults, True)),
        "PauseDeposit": flags({}),
        "PauseRedeem": flags({}),
        "PauseLiquidation": flags({}),
        "PauseBorrow": flags({vault: True for vault in vaults if vault in market.borrowing_paused}),
    }
    for name, value in values.items():
        yield stored_entry(market.address, vec(symbol(name)), value)
    for vault in vaults:
        yield stored_entry(market.address, vec(symbol("MarketCF"), address(vault)), u128(700_000))
    if market.reward_token is not None:
        yield stored_entry(market.address, vec(symbol("PeridotToken")), address(market.reward_token))
    for (name, vault), speed in market.speeds.items():
        yield stored_entry(market.address, vec(symbol(name), address(vault)), u128(speed))
    for token, name in market.symbols.items():
        yield stored_entry(market.address, vec(symbol("OracleAssetSymbol"), address(token)), symbol(name))


def model_entries(model: RateModel, admin: str) -> Iterator[Entry]:
    """A rate model's instance and parameters."""
    yield instance_entry(model.address, wasm_hash(MODEL_WASM), variants({}))
    values = {
        "Admin": address(admin),
        "BaseRatePerYear": u128(model.base),
        "MultiplierPerYear": u128(model.multiplier),
        "JumpMultiplierPerYear": u128(model.jump),
        "Kink": u128(model.kink),
    }
    for name, value in values.items():
        yield stored_entry(model.address, vec(symbol(name)), value)


def vault_configuration(vault: Vault, admin: str) -> Iterator[Entry]:
    """What of a vault no user's operation changes."""
    values = {
        "Admin": address(admin),
        "AdminFeeScaled": u128(vault.admin_fee),
        "BorrowCap": u128(vault.borrow_cap),
        "BorrowYearlyRateScaled": u128(50_000),
        "CollateralFactorScaled": u128(500_000),
        "InitialExchangeRate": u128(10**6),
        "Initialized": boolean(True),
        "InterestModel": address(vault.model.address),
        "Peridottroller": address(vault.controller),
        "RatesReady": boolean(True),
        "ReserveFactorScaled": u128(vault.reserve_factor),
        "SupplyCap": u128(vault.supply_cap),
        "UnderlyingToken": address(vault.token),
        "YearlyRateScaled": u128(0),
    }
    if vault.boost:
        values["BoostedVault"] = address(vault.boost.address)
    for name, value in values.items():
        yield stored_entry(vault.address, vec(symbol(name)), value)


def vault_state(vault: Vault) -> Iterator[Entry]:
    """A vault's instance, which has the supply of its receipt token, and its totals."""
    metadata = {"decimals": u32(6), "name": string("Peridot Receipt"), "symbol": string("pPRT")}
    yield instance_entry(
        vault.address,
        wasm_hash(VAULT_WASM),
        variants({"Meta": struct_map(metadata), "TotalSupply": i128(vault.receipts)}),
    )
    values = {
        "BorrowIndex": u128(vault.index),
        "LastUpdateTime": u64(vault.last_update),
        "ManagedCash": u128(vault.cash),
        "TotalAdminFees": u128(vault.admin_fees),
        "TotalBorrowed": u128(vault.borrowed),
        "TotalDeposited": u128(vault.deposited),
        "TotalReserves": u128(vault.reserves),
    }
    if vault.boost:
        values["BoostedUnderlyingCached"] = u128(vault.cached)
        values["BoostedUnderlyingUpdatedAt"] = u64(vault.cached_at)
        values["BoostedAssetCount"] = u32(1)
    for name, value in values.items():
        yield stored_entry(vault.address, vec(symbol(name)), value)


def boost_entries(vault: Vault, boost: Boost) -> Iterator[Entry]:
    """A DeFindex vault as far as it matters here: who has how many shares, and what all are worth."""
    yield instance_entry(boost.address, wasm_hash(BOOST_WASM), variants({}))
    yield stored_entry(boost.address, vec(symbol("Balance"), address(vault.address)), i128(boost.shares))
    yield stored_entry(boost.address, vec(symbol("Shares")), i128(boost.all_shares))
    yield stored_entry(boost.address, vec(symbol("Assets")), i128(boost.all_assets))


def flags(values: Mapping[str, bool]) -> ScVal:
    """A map from addresses to yes or no."""
    return (scval.MAP, tuple((address(key), (scval.BOOL, values[key])) for key in sorted(values)))


def run_vault(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of a vault: the views that tell of its totals."""
    views: dict[str, Callable[[Host, str], int]] = {
        "get_available_liquidity": lambda host, vault: max(_underlying(host, vault) - _borrowed(host, vault), 0),
        "get_total_borrowed": _borrowed,
        "get_total_reserves": lambda host, vault: _amount(host, vault, "TotalReserves"),
        "get_total_underlying": _underlying,
        "get_total_ptokens": _receipts,
        "get_exchange_rate": _exchange_rate,
    }
    if function not in views:
        raise TrapError(MISSING_FUNCTION)
    if arguments:
        raise TrapError(WRONG_ARGUMENTS)
    return u128(views[function](host, contract))


def run_boost(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of a DeFindex vault: ``balance(owner)`` and ``get_asset_amounts_per_shares(shares)``."""
    if function not in ("balance", "get_asset_amounts_per_shares"):
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, argument = arguments[0]
    if function == "balance":
        if kind != scval.ADDRESS:
            raise TrapError("Error(Value, UnexpectedType)")
        held = host.data(contract, vec(symbol("Balance"), address(argument)))
        return i128(0) if held is None else held
    if kind != scval.I128:
        raise TrapError("Error(Value, UnexpectedType)")
    shares, assets = (_required(host, contract, name) for name in ("Shares", "Assets"))
    return vec(i128(argument * assets // shares if shares else 0))


PERIDOT_CODE: Mapping[bytes, Code] = {
    VAULT_WASM_HASH: run_vault,
    BOOST_WASM_HASH: run_boost,
    **REFLECTOR_CODE,
}
"""The stand-ins by wasm hash, with that of the oracle."""


def _underlying(host: Host, vault: str) -> int:
    cash = _amount(host, vault, "ManagedCash") + _boosted(host, vault)
    kept = _amount(host, vault, "TotalReserves") + _amount(host, vault, "TotalAdminFees")
    return max(cash + _borrowed(host, vault) - kept, 0)


def _boosted(host: Host, vault: str) -> int:
    boosted = host.data(vault, vec(symbol("BoostedVault")))
    if boosted is None:
        return 0
    contract: str = boosted[1]
    instance = host.instance(contract)
    if instance.wasm_hash is not None:
        host.read(code_key(instance.wasm_hash))
    shares = run_boost(host, contract, "balance", (address(vault),))
    amounts = run_boost(host, contract, "get_asset_amounts_per_shares", (shares,))
    return int(amounts[1][0][1])


def _borrowed(host: Host, vault: str) -> int:
    return _required(host, vault, "TotalBorrowed")


def _receipts(host: Host, vault: str) -> int:
    supply = storage_of(host.instance(vault), vec(symbol("TotalSupply")))
    return 0 if supply is None else int(supply[1])


def _exchange_rate(host: Host, vault: str) -> int:
    receipts, owned = _receipts(host, vault), _underlying(host, vault)
    if receipts == 0 or owned == 0:
        return _amount(host, vault, "InitialExchangeRate") or SCALE
    return owned * SCALE // receipts


def _amount(host: Host, contract: str, name: str) -> int:
    value = host.data(contract, vec(symbol(name)))
    return 0 if value is None else int(value[1])


def _required(host: Host, contract: str, name: str) -> int:
    value = host.data(contract, vec(symbol(name)))
    if value is None:
        raise TrapError(UNWRAPPED_NONE)
    return int(value[1])
