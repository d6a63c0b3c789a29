"""How Peridot's contracts keep their state in the ledger (docs/protocols/peridot.md, "Keys").

Every value has a persistent entry of its own, whose key is a Rust enum variant: a vector of the variant's symbol, for
some with an address. Amounts, rates and factors are u128.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from exporter.errors import DecodeError
from exporter.exact import INT128_MAX
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import coded_instance, instance_key, variant_key
from exporter.ledger.codec.fields import expect
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.observation import Entry
from exporter.protocols.base import Parameter
from exporter.protocols.collector import config_hash_of

VERSION = "v1"
"""The one form of entries that is known; the contracts have no number of their version."""

SCALE = 10**6
"""Of rates, factors and the exchange rate."""

MAX_VAULTS = 64
"""A controller with more is not one of Peridot's, whose users can enter a few."""

USUAL_AGE_MULTIPLIER = 2
"""Of the oracle's resolution: how old a price may be, unless the controller says otherwise."""

_MAX_TIME = 1 << 62

PAUSES = {
    "deposits": "PauseDeposit",
    "redemptions": "PauseRedeem",
    "borrowing": "PauseBorrow",
    "liquidations": "PauseLiquidation",
}
"""The operations that a controller can pause for a vault, and the entry that says so; a second one with ``Until`` says
until when."""

NOT_PAUSED, FOR_EVER = -1, 1 << 64
"""In place of the last second of a pause."""

CONTROLLER_ENTRIES = (
    "SupportedMarkets",
    "Oracle",
    "OracleMaxAgeMultiplier",
    *PAUSES.values(),
    *(f"{name}Until" for name in PAUSES.values()),
)
LIQUIDATION_INCENTIVE = "LiquidationIncentiveScaled"
REWARD_TOKEN = "PeridotToken"
SPEEDS = {"supply": "SupplySpeed", "borrow": "BorrowSpeed"}
"""The rewards that a controller pays a vault's suppliers and borrowers, base units of the reward token a second."""

USUAL_INCENTIVE = 1_080_000
"""The liquidator's share for a debt of 1, unless the controller says otherwise."""
CURVE = {
    "base_rate": "BaseRatePerYear",
    "multiplier": "MultiplierPerYear",
    "jump_multiplier": "JumpMultiplierPerYear",
    "kink": "Kink",
}
"""The parameters of a rate model, 6 decimals, with their entries."""

_REQUIRED = -1
NUMBERS = {
    "total_borrowed": ("TotalBorrowed", _REQUIRED),
    "total_reserves": ("TotalReserves", 0),
    "total_admin_fees": ("TotalAdminFees", 0),
    "total_deposited": ("TotalDeposited", 0),
    "boost_cached": ("BoostedUnderlyingCached", 0),
    "borrow_index": ("BorrowIndex", _REQUIRED),
    "initial_exchange_rate": ("InitialExchangeRate", SCALE),
    "reserve_factor": ("ReserveFactorScaled", 0),
    "admin_fee": ("AdminFeeScaled", 0),
    "supply_cap": ("SupplyCap", 0),
    "borrow_cap": ("BorrowCap", 0),
    "collateral_factor": ("CollateralFactorScaled", 500_000),
}
"""The numbers of a vault, with their entries, and what they are without one: token base units, an index of 18 decimals,
and 6 decimals from the exchange rate on, but for the caps. The collateral factor counts without a controller alone.
"""
TIMES = {"last_update_time": ("LastUpdateTime", _REQUIRED), "boost_cached_at": ("BoostedUnderlyingUpdatedAt", 0)}
"""The same for its times, unix seconds."""

_OF_CACHING_CODE = ("BoostedAssetCount", "BoostedHealthCache")
"""Entries that only the code with `BoostRule.CACHED` writes."""

_MARKS = ("CollateralFactorScaled", "RatesReady", "TotalBorrowPrincipal", *_OF_CACHING_CODE)
NUMBERED_ENTRIES = (
    "UnderlyingToken",
    "Peridottroller",
    "InterestModel",
    "BoostedVault",
    "ManagedCash",
    "BorrowYearlyRateScaled",
    *(name for name, _ in (NUMBERS | TIMES).values() if name not in _MARKS),
)
"""Those that totals and rates follow from; the others say the same whether they are archived or not."""

VAULT_ENTRIES = (*NUMBERED_ENTRIES, *_MARKS)
"""The entries that are read of a vault, in addition to its instance, which has the supply of its receipt token."""

_CONFIGURATION = (
    "UnderlyingToken",
    "Peridottroller",
    "InterestModel",
    "ReserveFactorScaled",
    "AdminFeeScaled",
    "SupplyCap",
    "BorrowCap",
    "CollateralFactorScaled",
    "BorrowYearlyRateScaled",
    "BoostedVault",
)


class BoostRule(IntEnum):
    """The boosted cash that a vault's code counts for the rate (docs/protocols/peridot.md, "Formulas")."""

    QUOTED = 0
    """The boosted vault's quote at that moment: the code of May 2026."""
    CACHED = 1
    """The quote of the last hour, else what the accounts imply: the code since about August 2026."""
    UNKNOWN = 2
    """One of these; nothing says which."""


BOOST_RULES = {
    "df06cfa8174d5523bb8b067a6179af7d669bcb30fa2ce34d811b5b85788f6f00": BoostRule.QUOTED,
    "5f35bc16b3262feb27fb77080fc007d3461a536bd62afd3b5580688ab4b004e1": BoostRule.CACHED,
    "2aa62df324ae3d28b6492e8e08d230a41c62e1fd6d4719e4bec5ee11b30c66bc": BoostRule.CACHED,
    "016c4baed7298f4835c49cae27857232ec9de9422bf77dcb55cc97d3664b05b6": BoostRule.CACHED,
}
"""By the wasm hash of a vault (docs/protocols/peridot.md, "Revisions")."""

_T = TypeVar("_T")

Entries = Mapping[bytes, Entry | None]


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller: which vaults it supports, its oracle, and what it has paused of which vault.

    ``pauses`` has, for each of `PAUSES`, the paused vaults with the last second of the pause. ``incentive`` is what a
    liquidator gets for a debt of 1, 6 decimals; ``reward_token`` is what it pays in addition to interest, if anything.
    """

    wasm_hash: str
    oracle: str | None
    age_multiplier: int
    supported: tuple[str, ...] | None
    pauses: dict[str, dict[str, int]]
    incentive: int
    reward_token: str | None

    def paused_until(self, what: str, vault: str) -> int:
        """The last second of a vault's pause, or `NOT_PAUSED`. It ends after that by itself."""
        return self.pauses[what].get(vault, NOT_PAUSED)

    def paused(self, what: str, vault: str, time: int) -> bool:
        """Whether something of a vault is paused at a time."""
        return time <= self.paused_until(what, vault)

    def status_of(self, vaults: Iterable[str], time: int) -> str:
        """The market's status at a time (unix seconds).

        ``paused`` when nothing can be opened, because deposits and borrowing of all vaults are paused;
        ``partly_paused`` when anything else is; or ``active``.
        """
        states = [{what for what in PAUSES if self.paused(what, vault, time)} for vault in vaults]
        if not any(states):
            return "active"
        return "paused" if all({"deposits", "borrowing"} <= state for state in states) else "partly_paused"


@dataclass(frozen=True, slots=True)
class Vault:
    """A vault's stored state.

    ``numbers`` are `NUMBERS` and `TIMES`. ``receipt_supply`` is in base units of the receipt token, None where the
    instance has none. ``managed_cash`` is None where the vault does not keep it, and
    ``counts_cash`` says whether its code would at its next operation. ``fixed_rate`` counts where there is
    no ``model``, or where that refuses to answer. ``rule`` is that by which its code counts boosted cash.
    ``borrow_principal`` is what the borrow cap is held against, None where that is the debt. Without ``rates_ready``
    nothing can be borrowed.
    """

    token: str
    controller: str | None
    model: str | None
    boosted: str | None
    managed_cash: int | None
    counts_cash: bool
    fixed_rate: int | None
    receipt_supply: int | None
    numbers: dict[str, int]
    rule: BoostRule
    borrow_principal: int | None
    rates_ready: bool

    @property
    def cash_is_stored(self) -> bool:
        """Whether the entries alone show what cash the vault counts."""
        return self.boosted is None and self.managed_cash is not None

    @property
    def implied_cash(self) -> int:
        """The cash of its own that a vault counts: what it keeps, or, before its first operation, what it implies."""
        if self.managed_cash is not None:
            return self.managed_cash
        numbers = self.numbers
        aside = numbers["total_reserves"] + numbers["total_admin_fees"]
        derived = numbers["total_deposited"] + aside - numbers["total_borrowed"] - numbers["boost_cached"]
        return max(derived, 0)  # as the contract derives it


def entry_keys(contract: str, names: Iterable[str]) -> list[bytes]:
    """The ledger keys of a contract's entries, in the order of their names."""
    return [variant_key(contract, name) for name in names]


def controller_keys(controller: str) -> list[bytes]:
    """The ledger keys of all that is read of a controller."""
    names = (*CONTROLLER_ENTRIES, LIQUIDATION_INCENTIVE, REWARD_TOKEN)
    return [instance_key(controller), *entry_keys(controller, names)]


def vault_keys(vault: str) -> list[bytes]:
    """The ledger keys of all that is read of a vault."""
    return [instance_key(vault), *entry_keys(vault, VAULT_ENTRIES)]


def collateral_factor_key(controller: str, vault: str) -> bytes:
    """The ledger key of the collateral factor that a controller has for a vault."""
    return variant_key(controller, "MarketCF", address(vault))


def speed_keys(controller: str, vault: str) -> list[bytes]:
    """The ledger keys of what a controller pays the two sides of a vault."""
    return [variant_key(controller, name, address(vault)) for name in SPEEDS.values()]


def oracle_symbol_key(controller: str, token: str) -> bytes:
    """The ledger key of the symbol under which the oracle knows a token, where it is not by its address."""
    return variant_key(controller, "OracleAssetSymbol", address(token))


def archived_entry(contract: str, names: Iterable[str], entries: Entries) -> str | None:
    """The name of a contract's first archived entry, None when all are live or missing."""
    keys = [("instance", instance_key(contract)), *((name, variant_key(contract, name)) for name in names)]
    for name, key in keys:
        entry = entries.get(key)
        if entry is not None and entry.archived:
            return name
    return None


class _Stored:
    """The entries of one contract under their names, each None where it is missing. All raise `DecodeError`."""

    def __init__(self, contract: str, entries: Entries) -> None:
        self.contract, self.entries = contract, entries

    def instance(self, what: str) -> tuple[ContractInstance, bytes]:
        entry = self.entries.get(instance_key(self.contract))
        if entry is None:
            raise DecodeError(f"{what} is missing")
        return coded_instance(entry.contract_data(), what)

    def value(self, name: str) -> ScVal | None:
        entry = self.entries.get(variant_key(self.contract, name))
        return None if entry is None else entry.value

    def of_kind(self, name: str, kind: int) -> Any:
        value = self.value(name)
        return None if value is None else expect(value, kind, name)

    def number(self, name: str) -> int | None:
        value = self.value(name)
        return None if value is None else decode_amount(value, name)

    def time(self, name: str) -> int | None:
        time: int | None = self.of_kind(name, scval.U64)
        if time is not None and time >= _MAX_TIME:
            raise DecodeError(f"{name} is beyond any time")
        return time

    def address(self, name: str) -> str | None:
        found: str | None = self.of_kind(name, scval.ADDRESS)
        if found is not None and not found.startswith("C"):
            raise DecodeError(f"{name} is not a contract")
        return found


def _required(value: _T | None, what: str) -> _T:
    if value is None:
        raise DecodeError(f"{what} is missing")
    return value


def decode_controller(controller: str, entries: Entries) -> Controller:
    """Decode a controller's instance and entries. Raises `DecodeError` naming the entry that has another form."""
    stored = _Stored(controller, entries)
    _, wasm_hash = stored.instance("controller instance")
    listed, paid_in = stored.value("SupportedMarkets"), stored.value(REWARD_TOKEN)
    multiplier, incentive = stored.of_kind("OracleMaxAgeMultiplier", scval.U64), stored.number(LIQUIDATION_INCENTIVE)
    return Controller(
        wasm_hash=wasm_hash.hex(),
        oracle=stored.of_kind("Oracle", scval.ADDRESS),
        age_multiplier=USUAL_AGE_MULTIPLIER if multiplier is None else multiplier,
        supported=None if listed is None else _true_of(listed, "SupportedMarkets"),
        pauses={what: _pauses(stored, name) for what, name in PAUSES.items()},
        incentive=USUAL_INCENTIVE if incentive is None else incentive,
        reward_token=paid_in[1] if paid_in is not None and paid_in[0] == scval.ADDRESS else None,
    )


def decode_vault(vault: str, entries: Entries) -> Vault:
    """Decode a vault's instance and entries.

    Raises `DecodeError` naming the entry for one that has to be there and is not, for another kind, and for a number
    that no token can have.
    """
    stored = _Stored(vault, entries)
    instance, wasm_hash = stored.instance("vault instance")
    supply = next((value for key, value in instance.storage or () if key == vec(symbol("TotalSupply"))), None)
    receipt_supply = None if supply is None else int(expect(supply, scval.I128, "vault instance: TotalSupply"))
    if receipt_supply is not None and receipt_supply < 0:
        raise DecodeError("vault instance: TotalSupply is negative")
    numbers = {}
    for read, columns in ((stored.time, TIMES), (stored.number, NUMBERS)):
        for column, (name, usual) in columns.items():
            found = read(name)
            if found is None and usual == _REQUIRED:
                raise DecodeError(f"vault: entry {name} is missing")
            numbers[column] = usual if found is None else found
    for column in ("reserve_factor", "admin_fee"):
        if numbers[column] > SCALE:
            raise DecodeError(f"{NUMBERS[column][0]} is {numbers[column]}, above {SCALE}")
    model, ready = stored.address("InterestModel"), stored.of_kind("RatesReady", scval.BOOL)
    managed_cash = stored.number("ManagedCash")
    caching = any(stored.value(name) is not None for name in _OF_CACHING_CODE)
    return Vault(
        token=_required(stored.address("UnderlyingToken"), "vault: entry UnderlyingToken"),
        controller=stored.address("Peridottroller"),
        model=model,
        boosted=stored.address("BoostedVault"),
        managed_cash=managed_cash,
        counts_cash=managed_cash is not None or ready is not None,
        fixed_rate=stored.number("BorrowYearlyRateScaled"),
        receipt_supply=receipt_supply,
        numbers=numbers,
        rule=BOOST_RULES.get(wasm_hash.hex(), BoostRule.CACHED if caching else BoostRule.UNKNOWN),
        borrow_principal=stored.number("TotalBorrowPrincipal"),
        rates_ready=model is not None if ready is None else ready,
    )


def decode_model(model: str, entries: Entries) -> dict[str, int]:
    """The parameters of a rate model, 6 decimals. Raises `DecodeError` naming one that is missing or no u128."""
    stored = _Stored(model, entries)
    return {
        column: _required(stored.number(name), f"rate model {model}: entry {name}") for column, name in CURVE.items()
    }


def fixed_curve(rate: int) -> dict[str, int]:
    """The parameters with which the curve is the same rate at every utilization."""
    return {"base_rate": rate, "multiplier": 0, "jump_multiplier": 0, "kink": SCALE}


def decode_oracle_symbol(entry: Entry | None) -> str | None:
    """The symbol under which the oracle knows a token; None when it knows it by its address. Raises `DecodeError`."""
    return None if entry is None else str(expect(entry.value, scval.SYMBOL, "OracleAssetSymbol"))


def decode_collateral_factor(entry: Entry | None) -> int:
    """The collateral factor of a vault, 6 decimals: 0 where the controller has none. Raises `DecodeError`."""
    return 0 if entry is None else decode_amount(entry.value, "MarketCF")


def decode_speed(entry: Entry | None) -> int | None:
    """A speed: 0 without an entry, None for one of another form. An archived one says the same as before."""
    try:
        return 0 if entry is None else decode_amount(entry.value, "speed")
    except DecodeError:
        return None


def decode_amount(value: ScVal, what: str, kind: int = scval.U128) -> int:
    """A number of a kind that fits into signed 128 bits, as every amount of a token does. Raises `DecodeError`."""
    amount: int = expect(value, kind, what)
    if amount > INT128_MAX:
        raise DecodeError(f"{what} is {amount}, more than any token has")
    return amount


def shown_parameters(
    vault: Vault, curve: Mapping[str, int], collateral_factor: int, incentive: int
) -> tuple[Parameter, ...]:
    """The rate model, the factors and the limits (base units of the token), to be shown."""
    shown = {name: (value, 6) for name, value in curve.items()}
    shown |= {name: (vault.numbers[name], 6) for name in ("reserve_factor", "admin_fee")}
    shown |= {"collateral_factor": (collateral_factor, 6), "liquidation_incentive": (incentive, 6)}
    shown |= {name: (vault.numbers[name], 0) for name in ("supply_cap", "borrow_cap")}
    shown["boosted"] = (vault.boosted is not None, 0)
    return tuple(
        Parameter(name, int(value), decimals, no_limit=name.endswith("_cap") and not value)
        for name, (value, decimals) in shown.items()
    )


def shown_pauses(controller: Controller, vault: str, time: int) -> tuple[Parameter, ...]:
    """The paused operations of a vault at a time, to be shown."""
    return tuple(Parameter(f"{what}_paused", int(controller.paused(what, vault, time)), 0) for what in PAUSES)


def config_hash(controller: str, vaults: Iterable[str], models: Iterable[str], entries: Entries) -> str:
    """16 hex digits that change if and only if the market's configuration does.

    The start of SHA-256 over the canonical XDR of a ScVal map: under the XDR of its ledger key, in ascending order,
    the value of each entry of the controller, of the rate models, and of those entries of the vaults that are
    configuration, not state. An entry that cannot be decoded counts as missing.
    """
    keys = entry_keys(controller, CONTROLLER_ENTRIES)
    keys += [key for vault in vaults for key in entry_keys(vault, _CONFIGURATION)]
    keys += [collateral_factor_key(controller, vault) for vault in vaults]
    keys += [key for model in models for key in entry_keys(model, CURVE.values())]
    pairs = []
    for key in sorted(set(keys)):
        entry = entries.get(key)
        if entry is not None:
            with suppress(DecodeError):  # whoever reads it names it; here it must not cost the other vaults
                pairs.append(((scval.BYTES, key), entry.value))
    return config_hash_of(pairs)


def _pauses(stored: _Stored, name: str) -> dict[str, int]:
    flags, ends = stored.value(name), stored.value(f"{name}Until")
    paused = () if flags is None else _true_of(flags, name)
    until = {} if ends is None else _by_vault(ends, scval.U64, f"{name}Until")
    return {vault: until.get(vault, FOR_EVER) for vault in paused}


def _true_of(value: ScVal, what: str) -> tuple[str, ...]:
    """The addresses for which a map from addresses to yes or no says yes."""
    return tuple(vault for vault, flag in _by_vault(value, scval.BOOL, what).items() if flag)


def _by_vault(value: ScVal, kind: int, what: str) -> dict[str, Any]:
    pairs: Any = expect(value, scval.MAP, what) or ()
    if len(pairs) > MAX_VAULTS:
        raise DecodeError(f"{what}: {len(pairs)} vaults, more than {MAX_VAULTS}")
    found = {expect(key, scval.ADDRESS, what): expect(item, kind, what) for key, item in pairs}
    if not all(vault.startswith("C") for vault in found):
        raise DecodeError(f"{what}: a vault is not a contract")
    return found
