"""How Peridot's contracts keep their state in the ledger (facts/other-protocols.md 3.2).

Every value has a persistent entry of its own, whose key is a Rust enum variant: a vector of the variant's symbol.
Amounts, rates and factors are u128. What the controller keeps, and which entries may be missing, is what the
protocol's public source says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.errors import DecodeError
from exporter.exact import INT128_MAX
from exporter.ledger import scval
from exporter.ledger.entries import instance_key, instance_of, variant_key
from exporter.ledger.fields import expect
from exporter.ledger.observation import Entry
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import address, encode_scval, symbol, vec
from exporter.protocols.parameters import Parameter

VERSION = "v1"
"""The one form of entries that is known; the contracts have no number of their version."""

SCALE = 10**6
"""Of rates, factors and the exchange rate."""

MAX_VAULTS = 64
"""A controller with more is not one of Peridot's, whose users can enter a few."""

USUAL_AGE_MULTIPLIER = 2
"""Of the oracle's resolution: how old a price may be, unless the controller says otherwise."""

_MAX_TIME = 1 << 62

CONTROLLER_ENTRIES = ("SupportedMarkets", "Oracle", "OracleMaxAgeMultiplier", "PauseDeposit", "PauseBorrow")
MODEL_ENTRIES = ("BaseRatePerYear", "MultiplierPerYear", "JumpMultiplierPerYear", "Kink")

_REQUIRED = ("TotalBorrowed", "BorrowIndex")
_ZERO_UNLESS_SET = (
    "TotalReserves", "TotalAdminFees", "ReserveFactorScaled", "AdminFeeScaled", "SupplyCap", "BorrowCap",
)  # fmt: skip
_CONFIGURATION = (
    "UnderlyingToken", "Peridottroller", "InterestModel", "ReserveFactorScaled", "AdminFeeScaled", "SupplyCap",
    "BorrowCap", "CollateralFactorScaled", "BorrowYearlyRateScaled", "BoostedVault",
)  # fmt: skip
VAULT_ENTRIES = (
    *_CONFIGURATION, "ManagedCash", "TotalBorrowed", "BorrowIndex", "LastUpdateTime", "TotalReserves",
    "TotalAdminFees", "InitialExchangeRate",
)  # fmt: skip
"""What is read of a vault, beside its instance, which has the supply of its receipt token."""

Entries = Mapping[bytes, Entry | None]


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller: which vaults it supports, its oracle, and what it has paused of which vault."""

    wasm_hash: str
    oracle: str | None
    age_multiplier: int
    supported: tuple[str, ...] | None
    deposits_paused: frozenset[str]
    borrowing_paused: frozenset[str]

    def status_of(self, vaults: Iterable[str]) -> str:
        """The market's status: ``active``, ``partly_paused``, or ``paused`` when all vaults are, for both."""
        states = [(vault in self.deposits_paused, vault in self.borrowing_paused) for vault in vaults]
        if not any(any(state) for state in states):
            return "active"
        return "paused" if all(all(state) for state in states) else "partly_paused"


@dataclass(frozen=True, slots=True)
class Vault:
    """A vault's stored state.

    ``numbers`` are token base units (total_borrowed, total_reserves, total_admin_fees), 18 decimals (borrow_index),
    6 decimals (reserve_factor, admin_fee, initial_exchange_rate), base units of the receipt token (receipt_supply,
    None where the instance has none) and unix seconds (last_update_time). ``managed_cash`` is None where the vault
    does not keep it. ``fixed_rate`` counts where there is no ``model``.
    """

    token: str
    controller: str | None
    model: str | None
    boosted: str | None
    managed_cash: int | None
    fixed_rate: int | None
    receipt_supply: int | None
    numbers: dict[str, int]
    limits: tuple[int, int, int]

    @property
    def says_its_cash(self) -> bool:
        """Whether the entries alone tell what cash the vault counts."""
        return self.boosted is None and self.managed_cash is not None


def entry_keys(contract: str, names: Iterable[str]) -> list[bytes]:
    """The ledger keys of a contract's entries, in the order of their names."""
    return [variant_key(contract, name) for name in names]


def controller_keys(controller: str) -> list[bytes]:
    """The ledger keys of all that is read of a controller."""
    return [instance_key(controller), *entry_keys(controller, CONTROLLER_ENTRIES)]


def vault_keys(vault: str) -> list[bytes]:
    """The ledger keys of all that is read of a vault."""
    return [instance_key(vault), *entry_keys(vault, VAULT_ENTRIES)]


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


def decode_controller(controller: str, entries: Entries) -> Controller:
    """Decode a controller's instance and entries. Raises `DecodeError` naming the entry that has another form."""
    instance = instance_of(_present(entries, instance_key(controller), "controller instance").contract_data())
    if instance.executable != scval.WASM or instance.wasm_hash is None:
        raise DecodeError("controller instance: the contract has no wasm code of its own")
    listed = _value(controller, "SupportedMarkets", entries)
    oracle = _value(controller, "Oracle", entries)
    multiplier = _value(controller, "OracleMaxAgeMultiplier", entries)
    return Controller(
        wasm_hash=instance.wasm_hash.hex(),
        oracle=None if oracle is None else expect(oracle, scval.ADDRESS, "Oracle"),
        age_multiplier=(
            USUAL_AGE_MULTIPLIER if multiplier is None else expect(multiplier, scval.U64, "OracleMaxAgeMultiplier")
        ),
        supported=None if listed is None else _true_of(listed, "SupportedMarkets"),
        deposits_paused=_flags(controller, "PauseDeposit", entries),
        borrowing_paused=_flags(controller, "PauseBorrow", entries),
    )


def decode_vault(vault: str, entries: Entries) -> Vault:
    """Decode a vault's instance and entries.

    Raises `DecodeError` naming the entry for one that has to be there and is not, for another kind, and for a number
    that no token can have.
    """
    instance = instance_of(_present(entries, instance_key(vault), "vault instance").contract_data())
    if instance.executable != scval.WASM:
        raise DecodeError("vault instance: the contract has no wasm code of its own")
    supply = next((value for key, value in instance.storage or () if key == vec(symbol("TotalSupply"))), None)
    receipt_supply = None if supply is None else int(expect(supply, scval.I128, "vault instance: TotalSupply"))
    if receipt_supply is not None and receipt_supply < 0:
        raise DecodeError("vault instance: TotalSupply is negative")
    time = _value(vault, "LastUpdateTime", entries)
    if time is None:
        raise DecodeError("vault: entry LastUpdateTime is missing")
    last_update: int = expect(time, scval.U64, "LastUpdateTime")
    if last_update >= _MAX_TIME:
        raise DecodeError("LastUpdateTime is beyond any time")
    token = _address(vault, "UnderlyingToken", entries)
    if token is None:
        raise DecodeError("vault: entry UnderlyingToken is missing")
    found = {name: _number(vault, name, entries) for name in _REQUIRED}
    for name, value in found.items():
        if value is None:
            raise DecodeError(f"vault: entry {name} is missing")
    numbers = {name: _number(vault, name, entries) or 0 for name in (*_REQUIRED, *_ZERO_UNLESS_SET)}
    for name in ("ReserveFactorScaled", "AdminFeeScaled"):
        if numbers[name] > SCALE:
            raise DecodeError(f"{name} is {numbers[name]}, above {SCALE}")
    initial = _number(vault, "InitialExchangeRate", entries)
    factor = _number(vault, "CollateralFactorScaled", entries)
    return Vault(
        token=token,
        controller=_address(vault, "Peridottroller", entries),
        model=_address(vault, "InterestModel", entries),
        boosted=_address(vault, "BoostedVault", entries),
        managed_cash=_number(vault, "ManagedCash", entries),
        fixed_rate=_number(vault, "BorrowYearlyRateScaled", entries),
        receipt_supply=receipt_supply,
        numbers={
            "total_borrowed": numbers["TotalBorrowed"],
            "total_reserves": numbers["TotalReserves"],
            "total_admin_fees": numbers["TotalAdminFees"],
            "borrow_index": numbers["BorrowIndex"],
            "initial_exchange_rate": SCALE if initial is None else initial,
            "reserve_factor": numbers["ReserveFactorScaled"],
            "admin_fee": numbers["AdminFeeScaled"],
            "last_update_time": last_update,
        },
        limits=(numbers["SupplyCap"], numbers["BorrowCap"], SCALE // 2 if factor is None else factor),
    )


def decode_model(model: str, entries: Entries) -> dict[str, int]:
    """The parameters of a rate model, 6 decimals. Raises `DecodeError` naming one that is missing or no u128."""
    curve = {}
    columns = ("base_rate", "multiplier", "jump_multiplier", "kink")
    for column, name in zip(columns, MODEL_ENTRIES, strict=True):
        value = _number(model, name, entries)
        if value is None:
            raise DecodeError(f"rate model {model}: entry {name} is missing")
        curve[column] = value
    return curve


def fixed_curve(rate: int) -> dict[str, int]:
    """The parameters with which the curve is the same rate at every utilization."""
    return {"base_rate": rate, "multiplier": 0, "jump_multiplier": 0, "kink": SCALE}


def decode_oracle_symbol(entry: Entry | None) -> str | None:
    """The symbol under which the oracle knows a token; None when it knows it by its address. Raises `DecodeError`."""
    return None if entry is None else str(expect(entry.value, scval.SYMBOL, "OracleAssetSymbol"))


def decode_amount(value: ScVal, what: str) -> int:
    """A u128 that fits into signed 128 bits, as every amount of a token does. Raises `DecodeError`."""
    amount: int = expect(value, scval.U128, what)
    if amount > INT128_MAX:
        raise DecodeError(f"{what} is {amount}, more than any token has")
    return amount


def shown_parameters(vault: Vault, curve: Mapping[str, int], paused: tuple[bool, bool]) -> tuple[Parameter, ...]:
    """The rate model, the factors, the limits (base units of the token) and what is paused, to be shown."""
    supply_cap, borrow_cap, collateral_factor = vault.limits
    shown = {name: (value, 6) for name, value in curve.items()}
    shown |= {name: (vault.numbers[name], 6) for name in ("reserve_factor", "admin_fee")}
    shown |= {
        "collateral_factor": (collateral_factor, 6),
        "supply_cap": (supply_cap, 0),
        "borrow_cap": (borrow_cap, 0),
        "boosted": (vault.boosted is not None, 0),
        "deposits_paused": (paused[0], 0),
        "borrowing_paused": (paused[1], 0),
    }
    return tuple(
        Parameter(name, int(value), decimals, no_limit=name.endswith("_cap") and not value)
        for name, (value, decimals) in shown.items()
    )


def config_hash(controller: str, vaults: Iterable[str], models: Iterable[str], entries: Entries) -> str:
    """16 hex digits that change if and only if the market's configuration does.

    The start of SHA-256 over the canonical XDR of a ScVal map: under the XDR of its ledger key, in ascending order,
    the value of each entry of the controller, of the rate models, and of those entries of the vaults that are
    configuration, not state.
    """
    keys = entry_keys(controller, CONTROLLER_ENTRIES)
    keys += [key for vault in vaults for key in entry_keys(vault, _CONFIGURATION)]
    keys += [key for model in models for key in entry_keys(model, MODEL_ENTRIES)]
    pairs = []
    for key in sorted(set(keys)):
        entry = entries.get(key)
        if entry is not None:
            pairs.append(((scval.BYTES, key), entry.value))
    return hashlib.sha256(encode_scval((scval.MAP, tuple(pairs)))).hexdigest()[:16]


def _present(entries: Entries, key: bytes, what: str) -> Entry:
    entry = entries.get(key)
    if entry is None:
        raise DecodeError(f"{what} is missing")
    return entry


def _value(contract: str, name: str, entries: Entries) -> ScVal | None:
    entry = entries.get(variant_key(contract, name))
    return None if entry is None else entry.value


def _number(contract: str, name: str, entries: Entries) -> int | None:
    value = _value(contract, name, entries)
    return None if value is None else decode_amount(value, name)


def _address(contract: str, name: str, entries: Entries) -> str | None:
    value = _value(contract, name, entries)
    if value is None:
        return None
    found: str = expect(value, scval.ADDRESS, name)
    if not found.startswith("C"):
        raise DecodeError(f"{name} is no contract")
    return found


def _flags(controller: str, name: str, entries: Entries) -> frozenset[str]:
    value = _value(controller, name, entries)
    return frozenset() if value is None else frozenset(_true_of(value, name))


def _true_of(value: ScVal, what: str) -> tuple[str, ...]:
    """The addresses for which a map from addresses to yes or no says yes."""
    pairs: Any = expect(value, scval.MAP, what) or ()
    if len(pairs) > MAX_VAULTS:
        raise DecodeError(f"{what}: {len(pairs)} vaults, more than {MAX_VAULTS}")
    flags = {expect(key, scval.ADDRESS, what): expect(flag, scval.BOOL, what) for key, flag in pairs}
    if not all(vault.startswith("C") for vault in flags):
        raise DecodeError(f"{what}: a vault is no contract")
    return tuple(vault for vault, flag in flags.items() if flag)
