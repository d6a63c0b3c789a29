"""How Peridot's contracts keep their state and what is queued (docs/protocols/peridot.md, "Keys"): an entry a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from exporter.errors import DecodeError
from exporter.exact import INT128_MAX
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import coded_instance, instance_key, variant_key
from exporter.ledger.codec.fields import AMOUNT, TIME, Fields, Number, expect, named
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, symbol
from exporter.ledger.observation import Entry
from exporter.protocols.base import Parameter
from exporter.protocols.collector import Queued, config_hash_of, in_words, proposed

VERSION = "v1"
SCALE = 10**6
MAX_VAULTS = 64
"""A controller with more is not one of Peridot's, whose users can enter a few."""

USUAL_AGE_MULTIPLIER = 2
_USUAL_INCENTIVE = 1_080_000

PAUSES: dict[str, str] = {
    "deposits": "PauseDeposit",
    "redemptions": "PauseRedeem",
    "borrowing": "PauseBorrow",
    "liquidations": "PauseLiquidation",
}
"""The entry of each pause; a second one with ``Until`` says until when."""

_CONTROLLER_CONFIGURATION = (
    "SupportedMarkets",
    "Oracle",
    "OracleMaxAgeMultiplier",
    *PAUSES.values(),
    *(f"{name}Until" for name in PAUSES.values()),
)
_INCENTIVE, _REWARD_TOKEN = "LiquidationIncentiveScaled", "PeridotToken"
_CONTROLLER_ENTRIES = (*_CONTROLLER_CONFIGURATION, _INCENTIVE, _REWARD_TOKEN)
SPEEDS: dict[str, str] = {"supply": "SupplySpeed", "borrow": "BorrowSpeed"}
_AMOUNT, _FACTOR = Number(scval.U128), Number(scval.U128, most=SCALE)

_STATE_ENTRIES = (
    "LastUpdateTime",
    "BoostedUnderlyingUpdatedAt",
    "TotalBorrowed",
    "TotalBorrowPrincipal",
    "TotalReserves",
    "TotalAdminFees",
    "TotalDeposited",
    "ManagedCash",
    "BoostedUnderlyingCached",
    "BorrowIndex",
    "InitialExchangeRate",
)
_SETTING_ENTRIES = (
    "ReserveFactorScaled",
    "AdminFeeScaled",
    "SupplyCap",
    "BorrowCap",
    "CollateralFactorScaled",
    "BorrowYearlyRateScaled",
)

_OF_CACHING_CODE = ("BoostedAssetCount", "BoostedHealthCache")
_CONFIGURATION = (
    "UnderlyingToken",
    "Peridottroller",
    "InterestModel",
    "BoostedVault",
    *_SETTING_ENTRIES,
)
_VAULT_ENTRIES = (*_CONFIGURATION, "RatesReady", *_OF_CACHING_CODE, *_STATE_ENTRIES)


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
"""The rule of each known code, keyed by its wasm hash (docs/protocols/peridot.md, "Revisions")."""

Entries = Mapping[bytes, Entry | None]


class Pause(NamedTuple):
    """A pause that a controller stores for one vault."""

    what: str
    """One of the names in `PAUSES`."""
    vault: str
    last_second: int | None
    """Unix seconds: after this the pause ends by itself; None if it stays until somebody lifts it."""

    def is_in_effect(self, time: int) -> bool:
        """Whether the pause is in effect at a time (unix seconds)."""
        return self.last_second is None or time <= self.last_second


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller's stored state."""

    wasm_hash: str
    oracle: str | None
    age_multiplier: int
    """The controller takes prices of up to this many times its oracle's resolution."""
    supported: tuple[str, ...] | None
    """The vaults that it lists; None if it has no list."""
    pauses: tuple[Pause, ...]
    incentive: int
    """What a liquidator gets for a debt of 1, 6 decimals."""
    reward_token: str | None
    """The token of the rewards; None if the controller does not name it."""

    def paused(self, vault: str, time: int) -> frozenset[str]:
        """Which of `PAUSES` are in effect for a vault at a time (unix seconds)."""
        return frozenset(pause.what for pause in self.pauses if pause.vault == vault and pause.is_in_effect(time))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNumbers:
    """The numbers that a vault keeps: base units of its token, unix seconds, factors of 6 decimals."""

    last_update_time: int
    """When the vault last added interest."""
    total_borrowed: int
    borrow_index: int
    """18 decimals."""
    borrow_principal: int | None
    """What the borrow cap is held against; None if that is the debt."""
    total_reserves: int
    total_admin_fees: int
    total_deposited: int
    """What suppliers have in the vault by its own count, which `implied_cash` starts from."""
    managed_cash: int | None
    """The cash that the vault keeps itself; None before the first operation of code that counts it."""
    boost_cached: int
    """What the boosted cash was worth when it was last asked for."""
    boost_cached_at: int
    """When it was last asked for."""
    initial_exchange_rate: int
    """6 decimals: the value of the first receipt token."""
    reserve_factor: int
    """Share of the borrowers' interest that goes to the reserves."""
    admin_fee: int
    """Share of the borrowers' interest that goes to the admin."""
    supply_cap: int
    """0: no cap."""
    borrow_cap: int
    """0: no cap."""
    collateral_factor: int
    """The vault's own, which counts if no controller governs it."""
    fixed_rate: int
    """The annual rate that counts where the model refuses to answer, 6 decimals; -1 without one."""
    receipt_supply: int | None
    """All receipt tokens; None if the instance does not say it."""
    boost_rule: BoostRule
    rates_ready: bool
    """Whether anything can be borrowed at all."""

    @property
    def set_aside(self) -> int:
        """Reserves and admin fees."""
        return self.total_reserves + self.total_admin_fees

    @property
    def implied_cash(self) -> int:
        """The cash of its own that a vault counts: what it keeps, or, before its first operation, what it implies."""
        if self.managed_cash is not None:
            return self.managed_cash
        lent = self.total_borrowed + self.boost_cached
        return max(self.total_deposited + self.set_aside - lent, 0)  # as the contract does it


@dataclass(frozen=True, slots=True)
class Curve:
    """The parameters of a rate model, 6 decimals."""

    base_rate: int
    multiplier: int
    jump_multiplier: int
    kink: int


CURVE_ENTRIES = {
    "base_rate": "BaseRatePerYear",
    "multiplier": "MultiplierPerYear",
    "jump_multiplier": "JumpMultiplierPerYear",
    "kink": "Kink",
}
"""The entry of a rate model that has each field of `Curve`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cash:
    """The cash of a vault, in base units."""

    net_cash: int
    """What it counts as its cash, with what is boosted, less reserves and admin fees."""
    managed_cash: int
    """What it keeps itself."""
    live_cash: int
    """What it has of its token: the rate takes this, and what counts of the boosted."""
    boost_quoted: int
    """What the boosted cash is worth now."""
    payable: int | None
    """What it can pay out, with what is boosted; None if it is not known."""


@dataclass(frozen=True, slots=True)
class Books:
    """What the interest of a vault follows from."""

    numbers: StoredNumbers
    curve: Curve
    cash: Cash


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultState:
    """Everything that the numbers of a vault follow from."""

    books: Books
    receipt_supply: int
    collateral_factor: int
    """6 decimals: the controller's, or without one the vault's own."""
    incentive: int
    """What a liquidator gets for a debt of 1, 6 decimals."""
    governed: bool
    """Whether a controller decides over the vault."""
    listed: bool | None
    """Whether its controller lists it; None if that has no list."""
    paused: frozenset[str]
    """Which of `PAUSES` are in effect at the ledger's close time."""
    reward_token: str | None
    supply_speed: int | None
    """Base units of the reward token a second; None if it is not known."""
    borrow_speed: int | None
    """Base units of the reward token a second; None if it is not known."""


@dataclass(frozen=True, slots=True)
class Vault:
    """A vault's stored state. ``counts_cash``: its code is of the kind that counts the cash it keeps."""

    token: str
    controller: str | None
    model: str | None
    boosted: str | None
    counts_cash: bool
    numbers: StoredNumbers

    @property
    def cash_is_stored(self) -> bool:
        """Whether the entries alone show what cash the vault counts."""
        return self.boosted is None and self.numbers.managed_cash is not None


def entry_keys(contract: str, names: Iterable[str]) -> list[bytes]:
    """The ledger keys of a contract's entries, in the order of their names."""
    return [variant_key(contract, name) for name in names]


def pool_list_key(controller: str) -> bytes:
    """The ledger key of the list of a controller's vaults."""
    return variant_key(controller, "SupportedMarkets")


def controller_keys(controller: str) -> list[bytes]:
    """The ledger keys of all that is read of a controller."""
    return [instance_key(controller), *entry_keys(controller, _CONTROLLER_ENTRIES)]


def vault_keys(vault: str) -> list[bytes]:
    """The ledger keys of all that is read of a vault."""
    return [instance_key(vault), *entry_keys(vault, _VAULT_ENTRIES)]


def collateral_factor_key(controller: str, vault: str) -> bytes:
    """The ledger key of the collateral factor that a controller has for a vault."""
    return variant_key(controller, "MarketCF", address(vault))


def speed_keys(controller: str, vault: str) -> list[bytes]:
    """The ledger keys of what a controller pays the two sides of a vault, in the order of `SPEEDS`."""
    return [variant_key(controller, name, address(vault)) for name in SPEEDS.values()]


def _stored(contract: str, what: str, names: Iterable[str], entries: Entries) -> Fields:
    """The entries of a contract as the fields of a struct, archived or not. Raises `DecodeError`."""
    by_name = ((name, entries.get(variant_key(contract, name))) for name in names)
    return Fields([(symbol(name), entry.value) for name, entry in by_name if entry is not None], what)


def _instance(contract: str, what: str, entries: Entries) -> tuple[Fields, str]:
    """A contract's instance storage, and the hash of its code."""
    entry = entries.get(instance_key(contract))
    if entry is None:
        raise DecodeError(f"{what} instance is missing")
    instance, wasm_hash = coded_instance(entry.contract_data(), f"{what} instance")
    pairs = ((symbol(name), value) for name, value in named(instance.storage).items())
    return Fields(pairs, f"{what} instance"), wasm_hash.hex()


def _by_vault(stored: Fields, name: str) -> list[tuple[str, ScVal]]:
    """The vaults of a stored map with their values; empty if the controller has no such map. Raises `DecodeError`."""
    if name not in stored:
        return []
    pairs = expect(stored.required(name), scval.MAP, name) or ()
    if len(pairs) > MAX_VAULTS:
        raise DecodeError(f"{name}: {len(pairs)} vaults, more than {MAX_VAULTS}")
    return [(expect(vault, scval.ADDRESS, name), value) for vault, value in pairs]


def _marked(stored: Fields, name: str) -> list[str]:
    """The vaults to which a stored map gives true."""
    return [vault for vault, value in _by_vault(stored, name) if expect(value, scval.BOOL, name)]


def _pauses(stored: Fields) -> Iterator[Pause]:
    for what, name in PAUSES.items():
        until = f"{name}Until"
        ends = {vault: int(expect(value, scval.U64, until)) for vault, value in _by_vault(stored, until)}
        for vault in _marked(stored, name):
            yield Pause(what, vault, ends.get(vault))


def decode_controller(controller: str, entries: Entries) -> Controller:
    """Decode a controller's entries. Raises `DecodeError` naming one of another form, and `UnreadError`."""
    _, wasm_hash = _instance(controller, "controller", entries)
    stored = _stored(controller, "controller", _CONTROLLER_ENTRIES, entries)
    supported, reward_token = _marked(stored, "SupportedMarkets"), stored.get(_REWARD_TOKEN)
    multiplier = "OracleMaxAgeMultiplier"
    return Controller(
        wasm_hash=wasm_hash,
        oracle=stored.address("Oracle") if "Oracle" in stored else None,
        age_multiplier=stored.u64(multiplier) if multiplier in stored else USUAL_AGE_MULTIPLIER,
        supported=tuple(supported) if "SupportedMarkets" in stored else None,
        pauses=tuple(_pauses(stored)),
        incentive=stored.number(_INCENTIVE, *_AMOUNT) if _INCENTIVE in stored else _USUAL_INCENTIVE,
        reward_token=reward_token[1] if reward_token is not None and reward_token[0] == scval.ADDRESS else None,
    )


def decode_vault(vault: str, entries: Entries) -> Vault:
    """Decode a vault's entries. Raises `DecodeError` naming one that is missing or another, and `UnreadError`."""
    instance, wasm_hash = _instance(vault, "vault", entries)
    stored = _stored(vault, "vault", _VAULT_ENTRIES, entries)
    controller, model, boosted = (
        stored.contract(name) if name in stored else None
        for name in ("Peridottroller", "InterestModel", "BoostedVault")
    )
    return Vault(
        token=stored.contract("UnderlyingToken"),
        controller=controller,
        model=model,
        boosted=boosted,
        counts_cash="ManagedCash" in stored or "RatesReady" in stored,
        numbers=_numbers_of(stored, instance, wasm_hash, has_model=model is not None),
    )


def _numbers_of(stored: Fields, instance: Fields, wasm_hash: str, *, has_model: bool) -> StoredNumbers:
    def amount(name: str, usual: int = 0) -> int:
        return stored.number(name, *_AMOUNT) if name in stored else usual

    def factor(name: str) -> int:
        return stored.number(name, *_FACTOR) if name in stored else 0

    def amount_or_none(name: str) -> int | None:
        return stored.number(name, *_AMOUNT) if name in stored else None

    cached_at = "BoostedUnderlyingUpdatedAt"
    caching = any(name in stored for name in _OF_CACHING_CODE)
    return StoredNumbers(
        last_update_time=stored.number("LastUpdateTime", *TIME),
        total_borrowed=stored.number("TotalBorrowed", *_AMOUNT),
        borrow_index=stored.number("BorrowIndex", *_AMOUNT),
        borrow_principal=amount_or_none("TotalBorrowPrincipal"),
        total_reserves=amount("TotalReserves"),
        total_admin_fees=amount("TotalAdminFees"),
        total_deposited=amount("TotalDeposited"),
        managed_cash=amount_or_none("ManagedCash"),
        boost_cached=amount("BoostedUnderlyingCached"),
        boost_cached_at=stored.number(cached_at, *TIME) if cached_at in stored else 0,
        initial_exchange_rate=amount("InitialExchangeRate", SCALE),
        reserve_factor=factor("ReserveFactorScaled"),
        admin_fee=factor("AdminFeeScaled"),
        supply_cap=amount("SupplyCap"),
        borrow_cap=amount("BorrowCap"),
        collateral_factor=amount("CollateralFactorScaled", 500_000),
        fixed_rate=amount("BorrowYearlyRateScaled", -1),
        receipt_supply=instance.number("TotalSupply", *AMOUNT) if "TotalSupply" in instance else None,
        boost_rule=BOOST_RULES.get(wasm_hash, BoostRule.CACHED if caching else BoostRule.UNKNOWN),
        rates_ready=stored.boolean("RatesReady") if "RatesReady" in stored else has_model,
    )


def decode_curve(vault: Vault, entries: Entries) -> Curve:
    """The parameters of a vault's rate model; without one the same rate at every utilization. Raises `DecodeError`."""
    if vault.model is not None:
        stored = _stored(vault.model, f"rate model {vault.model}", CURVE_ENTRIES.values(), entries)
        return Curve(
            base_rate=stored.number("BaseRatePerYear", *_AMOUNT),
            multiplier=stored.number("MultiplierPerYear", *_AMOUNT),
            jump_multiplier=stored.number("JumpMultiplierPerYear", *_AMOUNT),
            kink=stored.number("Kink", *_AMOUNT),
        )
    if vault.numbers.fixed_rate < 0:
        raise DecodeError("vault: entries InterestModel and BorrowYearlyRateScaled are missing")
    return Curve(base_rate=vault.numbers.fixed_rate, multiplier=0, jump_multiplier=0, kink=SCALE)


def decode_speed(entry: Entry | None) -> int | None:
    """A speed: 0 without an entry, None for one of another form."""
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


def shown_parameters(vault: VaultState, boosted: str | None) -> tuple[Parameter, ...]:
    """The rate model, the factors and the limits (base units of the token) of a vault."""
    numbers, curve = vault.books.numbers, vault.books.curve
    return (
        Parameter("base_rate", curve.base_rate, 6),
        Parameter("multiplier", curve.multiplier, 6),
        Parameter("jump_multiplier", curve.jump_multiplier, 6),
        Parameter("kink", curve.kink, 6),
        Parameter("reserve_factor", numbers.reserve_factor, 6),
        Parameter("admin_fee", numbers.admin_fee, 6),
        Parameter("collateral_factor", vault.collateral_factor, 6),
        Parameter("liquidation_incentive", vault.incentive, 6),
        Parameter("supply_cap", numbers.supply_cap, 0, no_limit=not numbers.supply_cap),
        Parameter("borrow_cap", numbers.borrow_cap, 0, no_limit=not numbers.borrow_cap),
        Parameter("boosted", int(boosted is not None), 0),
    )


def config_hash(controller: str, vaults: Iterable[str], models: Iterable[str], entries: Entries) -> str:
    """The `config_hash_of` all entries of controller and rate models, and of those of vaults that are not state."""
    keys = entry_keys(controller, _CONTROLLER_CONFIGURATION)
    keys += [key for vault in vaults for key in entry_keys(vault, _CONFIGURATION)]
    keys += [collateral_factor_key(controller, vault) for vault in vaults]
    keys += [key for model in models for key in entry_keys(model, CURVE_ENTRIES.values())]
    pairs = []
    for key in sorted(set(keys)):
        entry = entries.get(key)
        if entry is not None:
            with suppress(DecodeError):  # whoever reads it names it; here it must not cost the other vaults
                pairs.append(((scval.BYTES, key), entry.value))
    return config_hash_of(pairs)


class Change(NamedTuple):
    """A change that can be queued: its kind, what it is of, and the entries of the value and of the time."""

    kind: str
    subject: str
    value: str
    time: str | None


ADMIN = "Admin"
UPGRADE = Change("code", "", "PendingUpgradeHash", "PendingUpgradeEta")
OF_VAULT = (UPGRADE, Change("admin", "admin", "PendingAdmin", None))
OF_CONTROLLER = (
    *OF_VAULT,
    Change("oracle", "", "PendingOracle", "PendingOracleEta"),
    Change("terms", "close factor", "PendingCloseFactorScaled", "PendingCloseFactorEta"),
    Change("terms", "liquidation incentive", "PendingLiqIncentiveScaled", "PendingLiqIncentiveEta"),
)
OF_VAULT_AT_CONTROLLER = (Change("terms", "collateral factor", "PendingMarketCF", "PendingMarketCFEta"),)


def queued_keys(contract: str, changes: Iterable[Change], *values: ScVal) -> Iterator[bytes]:
    """The ledger keys of what a contract has queued; ``values`` is a vault where it is of one at its controller."""
    for change in changes:
        yield variant_key(contract, change.value, *values)
        if change.time is not None:
            yield variant_key(contract, change.time, *values)


def decode_queued(change: Change, entry: Entry, time: Entry | None = None) -> Queued:
    """The queued value, and from when it holds; without an entry of its time the contract refuses it."""
    if change.kind == "admin":
        return proposed(entry.value, change.subject)
    if change.kind == "terms":
        value = in_words(decode_amount(entry.value, change.value), 6)
    elif change.kind == "oracle":
        value = expect(entry.value, scval.ADDRESS, change.value)
    else:
        code: bytes = expect(entry.value, scval.BYTES, change.value)
        if len(code) != 32:
            raise DecodeError(f"{change.value}: a hash has 32 bytes, not {len(code)}")
        value = code.hex()
    shown = f"{change.subject}: {value}" if change.subject else value
    if time is None:
        return f"{shown}; its time is missing", None
    return shown, expect(time.value, scval.U64, change.time or "")
