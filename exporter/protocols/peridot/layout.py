"""How Peridot's contracts keep their state in the ledger (docs/protocols/peridot.md, "Keys").

Every value has a persistent entry of its own. Amounts, rates and factors are u128.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from exporter.errors import DecodeError
from exporter.exact import INT128_MAX
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import coded_instance, instance_key, variant_key
from exporter.ledger.codec.fields import expect
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.observation import Entry
from exporter.protocols.base import Parameter
from exporter.protocols.collector import config_hash_of, live

VERSION = "v1"
SCALE = 10**6
MAX_VAULTS = 64
"""A controller with more is not one of Peridot's, whose users can enter a few."""

USUAL_AGE_MULTIPLIER = 2
_USUAL_INCENTIVE = 1_080_000
_MAX_TIME = 1 << 62

PAUSES = {
    "deposits": "PauseDeposit",
    "redemptions": "PauseRedeem",
    "borrowing": "PauseBorrow",
    "liquidations": "PauseLiquidation",
}
"""The entry of each pause; a second one with ``Until`` says until when."""

NOT_PAUSED, FOR_EVER = -1, 1 << 64
"""In place of the last second of a pause."""

CONTROLLER_ENTRIES = (
    "SupportedMarkets",
    "Oracle",
    "OracleMaxAgeMultiplier",
    *PAUSES.values(),
    *(f"{name}Until" for name in PAUSES.values()),
)
_INCENTIVE, _REWARD_TOKEN = "LiquidationIncentiveScaled", "PeridotToken"
SPEEDS = {"supply": "SupplySpeed", "borrow": "BorrowSpeed"}
CURVE = {
    "base_rate": "BaseRatePerYear",
    "multiplier": "MultiplierPerYear",
    "jump_multiplier": "JumpMultiplierPerYear",
    "kink": "Kink",
}

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
"""The numbers of a vault, with their entries, and what they are without one."""
TIMES = {"last_update_time": ("LastUpdateTime", _REQUIRED), "boost_cached_at": ("BoostedUnderlyingUpdatedAt", 0)}

_OF_CACHING_CODE = ("BoostedAssetCount", "BoostedHealthCache")
_SAY_THE_SAME_ARCHIVED = (
    "CollateralFactorScaled",
    "RatesReady",
    "TotalBorrowPrincipal",
    *_OF_CACHING_CODE,
    _INCENTIVE,
    _REWARD_TOKEN,
)
"""Entries that no totals or rates follow from."""
_VAULT_ENTRIES = (
    "UnderlyingToken",
    "Peridottroller",
    "InterestModel",
    "BoostedVault",
    "ManagedCash",
    "BorrowYearlyRateScaled",
    "RatesReady",
    "TotalBorrowPrincipal",
    *_OF_CACHING_CODE,
    *(name for name, _ in (NUMBERS | TIMES).values()),
)
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
    CACHED = 1
    UNKNOWN = 2


BOOST_RULES = {
    "df06cfa8174d5523bb8b067a6179af7d669bcb30fa2ce34d811b5b85788f6f00": BoostRule.QUOTED,
    "5f35bc16b3262feb27fb77080fc007d3461a536bd62afd3b5580688ab4b004e1": BoostRule.CACHED,
    "2aa62df324ae3d28b6492e8e08d230a41c62e1fd6d4719e4bec5ee11b30c66bc": BoostRule.CACHED,
    "016c4baed7298f4835c49cae27857232ec9de9422bf77dcb55cc97d3664b05b6": BoostRule.CACHED,
}
"""By the wasm hash of a vault (docs/protocols/peridot.md, "Revisions")."""

Entries = Mapping[bytes, Entry | None]


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller's stored state.

    ``pauses`` has, for each of `PAUSES`, the paused vaults with the last second of the pause, after which it ends by
    itself. ``incentive`` is what a liquidator gets for a debt of 1, 6 decimals.
    """

    wasm_hash: str
    oracle: str | None
    age_multiplier: int
    supported: tuple[str, ...] | None
    pauses: dict[str, dict[str, int]]
    incentive: int
    reward_token: str | None

    def paused(self, vault: str, time: int) -> set[str]:
        """What is paused of a vault at a time (unix seconds)."""
        return {what for what, ends in self.pauses.items() if time <= ends.get(vault, NOT_PAUSED)}

    def status_of(self, vaults: Iterable[str], time: int) -> str:
        """The market's status at a time (unix seconds)."""
        states = [self.paused(vault, time) for vault in vaults]
        if not any(states):
            return "active"
        return "paused" if all({"deposits", "borrowing"} <= state for state in states) else "partly_paused"


@dataclass(frozen=True, slots=True)
class Vault:
    """A vault's stored state.

    ``numbers`` are `NUMBERS`, `TIMES`, and ``fixed_rate`` (-1: none), ``boost_rule``, ``governed`` and ``rates_ready``.
    ``managed_cash`` is None before the first operation of code that counts it, as only if ``counts_cash``.
    ``borrow_principal`` is what the borrow cap is held against, None where that is the debt.
    """

    token: str
    controller: str | None
    model: str | None
    boosted: str | None
    managed_cash: int | None
    counts_cash: bool
    receipt_supply: int | None
    borrow_principal: int | None
    numbers: dict[str, int]

    @property
    def cash_is_stored(self) -> bool:
        """Whether the entries alone show what cash the vault counts."""
        return self.boosted is None and self.managed_cash is not None

    @property
    def set_aside(self) -> int:
        """Reserves and admin fees."""
        return self.numbers["total_reserves"] + self.numbers["total_admin_fees"]

    @property
    def implied_cash(self) -> int:
        """The cash of its own that a vault counts: what it keeps, or, before its first operation, what it implies."""
        if self.managed_cash is not None:
            return self.managed_cash
        lent = self.numbers["total_borrowed"] + self.numbers["boost_cached"]
        return max(self.numbers["total_deposited"] + self.set_aside - lent, 0)  # as the contract derives it


def entry_keys(contract: str, names: Iterable[str]) -> list[bytes]:
    """The ledger keys of a contract's entries, in the order of their names."""
    return [variant_key(contract, name) for name in names]


def controller_keys(controller: str) -> list[bytes]:
    """The ledger keys of all that is read of a controller."""
    return [instance_key(controller), *entry_keys(controller, (*CONTROLLER_ENTRIES, _INCENTIVE, _REWARD_TOKEN))]


def vault_keys(vault: str) -> list[bytes]:
    """The ledger keys of all that is read of a vault."""
    return [instance_key(vault), *entry_keys(vault, _VAULT_ENTRIES)]


def collateral_factor_key(controller: str, vault: str) -> bytes:
    """The ledger key of the collateral factor that a controller has for a vault."""
    return variant_key(controller, "MarketCF", address(vault))


def speed_keys(controller: str, vault: str) -> list[bytes]:
    """The ledger keys of what a controller pays the two sides of a vault, in the order of `SPEEDS`."""
    return [variant_key(controller, name, address(vault)) for name in SPEEDS.values()]


class _Stored:
    """The entries of one contract under their names, each None where it is missing.

    All raise `DecodeError`, and `UnreadError` for one that is archived.
    """

    def __init__(self, contract: str, what: str, entries: Entries) -> None:
        self.contract, self.what, self.entries = contract, what, entries

    def instance(self) -> tuple[ContractInstance, str]:
        entry = self.entries.get(instance_key(self.contract))
        if entry is None:
            raise DecodeError(f"{self.what} instance is missing")
        data = live(entry, f"the {self.what}'s instance").contract_data()
        instance, wasm_hash = coded_instance(data, f"{self.what} instance")
        return instance, wasm_hash.hex()

    def value(self, name: str) -> ScVal | None:
        entry = self.entries.get(variant_key(self.contract, name))
        if entry is not None and name not in _SAY_THE_SAME_ARCHIVED:
            live(entry, f"the {self.what}'s entry {name}")
        return None if entry is None else entry.value

    def of_kind(self, name: str, kind: int) -> Any:
        value = self.value(name)
        return None if value is None else expect(value, kind, name)

    def number(self, name: str) -> int | None:
        value = self.value(name)
        return None if value is None else decode_amount(value, name)

    def numbers(self, entries: Mapping[str, tuple[str, int]]) -> dict[str, int]:
        """The numbers of a table of entries and what they are without one."""
        found = {}
        for column, (name, usual) in entries.items():
            number = self.time(name) if column in TIMES else self.number(name)
            if number is None and usual == _REQUIRED:
                raise DecodeError(f"{self.what}: entry {name} is missing")
            found[column] = usual if number is None else number
        return found

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

    def by_vault(self, name: str, kind: int) -> dict[str, Any] | None:
        """A map from vaults to values of a kind."""
        if self.value(name) is None:
            return None
        pairs = self.of_kind(name, scval.MAP) or ()
        if len(pairs) > MAX_VAULTS:
            raise DecodeError(f"{name}: {len(pairs)} vaults, more than {MAX_VAULTS}")
        found = {expect(key, scval.ADDRESS, name): expect(item, kind, name) for key, item in pairs}
        if not all(vault.startswith("C") for vault in found):
            raise DecodeError(f"{name}: a vault is not a contract")
        return found

    def pauses(self, name: str) -> dict[str, int]:
        flags, ends = self.by_vault(name, scval.BOOL) or {}, self.by_vault(f"{name}Until", scval.U64) or {}
        return {vault: ends.get(vault, FOR_EVER) for vault, paused in flags.items() if paused}


def decode_controller(controller: str, entries: Entries) -> Controller:
    """Decode a controller's instance and entries. Raises `DecodeError` naming the entry that has another form."""
    stored = _Stored(controller, "controller", entries)
    _, wasm_hash = stored.instance()
    listed, paid_in = stored.by_vault("SupportedMarkets", scval.BOOL), stored.value(_REWARD_TOKEN)
    multiplier, incentive = stored.of_kind("OracleMaxAgeMultiplier", scval.U64), stored.number(_INCENTIVE)
    return Controller(
        wasm_hash=wasm_hash,
        oracle=stored.of_kind("Oracle", scval.ADDRESS),
        age_multiplier=USUAL_AGE_MULTIPLIER if multiplier is None else multiplier,
        supported=None if listed is None else tuple(vault for vault, supported in listed.items() if supported),
        pauses={what: stored.pauses(name) for what, name in PAUSES.items()},
        incentive=_USUAL_INCENTIVE if incentive is None else incentive,
        reward_token=paid_in[1] if paid_in is not None and paid_in[0] == scval.ADDRESS else None,
    )


def decode_vault(vault: str, entries: Entries) -> Vault:
    """Decode a vault's instance and entries. Raises `DecodeError` naming the entry that is missing or has another form.

    No token has a number that does not fit into signed 128 bits.
    """
    stored = _Stored(vault, "vault", entries)
    instance, wasm_hash = stored.instance()
    supply = next((value for key, value in instance.storage or () if key == vec(symbol("TotalSupply"))), None)
    receipt_supply = None if supply is None else int(expect(supply, scval.I128, "vault instance: TotalSupply"))
    if receipt_supply is not None and receipt_supply < 0:
        raise DecodeError("vault instance: TotalSupply is negative")
    numbers = stored.numbers(TIMES | NUMBERS)
    for column in ("reserve_factor", "admin_fee"):
        if numbers[column] > SCALE:
            raise DecodeError(f"{NUMBERS[column][0]} is {numbers[column]}, above {SCALE}")
    token, controller, model = (stored.address(name) for name in ("UnderlyingToken", "Peridottroller", "InterestModel"))
    if token is None:
        raise DecodeError("vault: entry UnderlyingToken is missing")
    ready, managed_cash = stored.of_kind("RatesReady", scval.BOOL), stored.number("ManagedCash")
    fixed_rate = stored.number("BorrowYearlyRateScaled")
    caching = any(stored.value(name) is not None for name in _OF_CACHING_CODE)
    numbers |= {
        "fixed_rate": -1 if fixed_rate is None else fixed_rate,
        "boost_rule": int(BOOST_RULES.get(wasm_hash, BoostRule.CACHED if caching else BoostRule.UNKNOWN)),
        "governed": int(controller is not None),
        "rates_ready": int(model is not None if ready is None else ready),
    }
    return Vault(
        token=token,
        controller=controller,
        model=model,
        boosted=stored.address("BoostedVault"),
        managed_cash=managed_cash,
        counts_cash=managed_cash is not None or ready is not None,
        receipt_supply=receipt_supply,
        borrow_principal=stored.number("TotalBorrowPrincipal"),
        numbers=numbers,
    )


def decode_curve(vault: Vault, entries: Entries) -> dict[str, int]:
    """The parameters of a vault's rate model, 6 decimals; without one the same rate at every utilization.

    Raises `DecodeError` for a vault without either, and for a parameter that is missing or not an amount.
    """
    if vault.model is not None:
        model = _Stored(vault.model, f"rate model {vault.model}", entries)
        return model.numbers({column: (name, _REQUIRED) for column, name in CURVE.items()})
    if vault.numbers["fixed_rate"] < 0:
        raise DecodeError("vault: entries InterestModel and BorrowYearlyRateScaled are missing")
    return {"base_rate": vault.numbers["fixed_rate"], "multiplier": 0, "jump_multiplier": 0, "kink": SCALE}


def decode_speed(entry: Entry | None) -> int | None:
    """A speed: 0 without an entry, None for one of another form. An archived one says the same as before."""
    try:
        return 0 if entry is None else decode_amount(entry.value, "speed")
    except DecodeError:
        return None


def decode_amount(value: ScVal, what: str) -> int:
    """A u128 that fits into signed 128 bits, as every amount of a token does. Raises `DecodeError`."""
    amount: int = expect(value, scval.U128, what)
    if amount > INT128_MAX:
        raise DecodeError(f"{what} is {amount}, more than any token has")
    return amount


def shown_parameters(vault: Vault, shown: Mapping[str, int], incentive: int) -> tuple[Parameter, ...]:
    """The rate model, the factors and the limits (base units of the token); ``shown`` are curve, numbers and terms."""
    factors = (*CURVE, "reserve_factor", "admin_fee", "collateral_factor")
    return (
        *(Parameter(name, shown[name], 6) for name in factors),
        Parameter("liquidation_incentive", incentive, 6),
        *(Parameter(name, shown[name], 0, no_limit=not shown[name]) for name in ("supply_cap", "borrow_cap")),
        Parameter("boosted", int(vault.boosted is not None), 0),
    )


def shown_pauses(controller: Controller, vault: str, time: int) -> tuple[Parameter, ...]:
    """Whether each operation of a vault is paused at a time."""
    paused = controller.paused(vault, time)
    return tuple(Parameter(f"{what}_paused", int(what in paused), 0) for what in PAUSES)


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
