"""How Peridot's contracts keep their state in the ledger (docs/protocols/peridot.md, "Keys").

Each value is an entry of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from exporter.errors import Barrier, DecodeError
from exporter.exact import INT128_MAX
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import coded_instance, instance_key, variant_key
from exporter.ledger.codec.fields import AMOUNT, TIME, Fields, Number, expect, named
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, symbol
from exporter.ledger.observation import Entry
from exporter.protocols.base import Parameter
from exporter.protocols.collector import config_hash_of

VERSION = "v1"
SCALE = 10**6
MAX_VAULTS = 64
"""The largest number of a controller's vaults that is read."""

USUAL_AGE_MULTIPLIER = 2
"""The ``OracleMaxAgeMultiplier`` of a controller that does not set one."""

_USUAL_INCENTIVE = 1_080_000

PAUSES: dict[str, str] = {
    "deposits": "PauseDeposit",
    "redemptions": "PauseRedeem",
    "borrowing": "PauseBorrow",
    "liquidations": "PauseLiquidation",
}
"""The name of each pause's entry. A second entry, whose name ends with ``Until``, has the pause's end."""

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

_NAMES_OF_CACHING_CODE = ("BoostedAssetCount", "BoostedHealthCache")
_CONFIGURATION = (
    "UnderlyingToken",
    "Peridottroller",
    "InterestModel",
    "BoostedVault",
    *_SETTING_ENTRIES,
)
_VAULT_ENTRIES = (*_CONFIGURATION, "RatesReady", *_NAMES_OF_CACHING_CODE, *_STATE_ENTRIES)


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
"""The rule that each known code follows, by wasm hash (docs/protocols/peridot.md, "Revisions")."""

Entries = Mapping[bytes, Entry | None]


class Pause(NamedTuple):
    """A pause that a controller stores for one vault."""

    what: str
    """What is paused, one of the names in `PAUSES`."""
    vault: str
    """The vault's address."""
    last_second: int | None
    """The last second of the pause, in unix seconds; None if it stays until somebody ends it."""

    def is_in_effect(self, time: int) -> bool:
        """Whether the pause is in effect at a time (unix seconds)."""
        return self.last_second is None or time <= self.last_second


class Controller(Struct, frozen=True):
    """A controller's stored state."""

    wasm_hash: str
    oracle: str | None
    age_multiplier: int
    """The largest age of a price, as a multiple of the oracle's resolution."""
    supported: tuple[str, ...] | None
    """The vaults that the controller lists; None if it has no list."""
    pauses: tuple[Pause, ...]
    """The stored pauses. Some of them may have ended."""
    incentive: int
    """What a liquidator gets for a debt of 1, with 6 decimals."""
    reward_token: str | None
    """The token of the rewards; None if the controller does not name one."""

    def paused(self, vault: str, time: int) -> frozenset[str]:
        """The names in `PAUSES` of what is paused for a vault at a time (unix seconds)."""
        return frozenset(pause.what for pause in self.pauses if pause.vault == vault and pause.is_in_effect(time))


class StoredNumbers(Struct, frozen=True, kw_only=True):
    """The numbers that a vault stores. Amounts are in base units of its token; factors have 6 decimals."""

    last_update_time: int
    """The time at which the vault last added interest, in unix seconds."""
    total_borrowed: int
    """The debt of all borrowers."""
    borrow_index: int
    """The index of debt, with 18 decimals."""
    borrow_principal: int | None
    """What is compared with the borrow cap; None if that is the debt."""
    total_reserves: int
    """The reserves that the vault has set aside."""
    total_admin_fees: int
    """The admin fees that the vault has set aside."""
    total_deposited: int
    """What suppliers have in the vault, by the vault's own count."""
    managed_cash: int | None
    """The cash that the vault keeps itself; None before the first operation of code that counts it."""
    boost_cached: int
    """The worth of the boosted cash when the vault last asked for it."""
    boost_cached_at: int
    """The time at which the vault last asked for it, in unix seconds."""
    initial_exchange_rate: int
    """The worth of the first receipt token, with 6 decimals."""
    reserve_factor: int
    """The share of the borrowers' interest that goes to the reserves."""
    admin_fee: int
    """The share of the borrowers' interest that goes to the admin."""
    supply_cap: int
    """The most that may be supplied; 0 is no cap."""
    borrow_cap: int
    """The most that may be borrowed; 0 is no cap."""
    collateral_factor: int
    """The vault's own collateral factor, which counts if no controller governs it."""
    fixed_rate: int
    """The annual rate that counts if the model refuses to answer, with 6 decimals; -1 if there is none."""
    receipt_supply: int | None
    """All receipt tokens; None if the instance does not have their number."""
    boost_rule: BoostRule
    """Which boosted cash the vault's code counts."""
    rates_ready: bool
    """Whether the vault can be borrowed from at all."""

    @property
    def set_aside(self) -> int:
        """The reserves and the admin fees together."""
        return self.total_reserves + self.total_admin_fees

    @property
    def implied_cash(self) -> int:
        """The cash that the vault counts as its own.

        Before the first operation of code that counts cash, it follows from the other numbers, as in the contract.
        """
        if self.managed_cash is not None:
            return self.managed_cash
        lent = self.total_borrowed + self.boost_cached
        return max(self.total_deposited + self.set_aside - lent, 0)


class Curve(Struct, frozen=True):
    """The parameters of a rate model, with 6 decimals. Rates are annual."""

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
"""The name of the rate model's entry that has each field of `Curve`."""


class Cash(Struct, frozen=True, kw_only=True):
    """The cash of a vault, in base units of its token."""

    net_cash: int
    """The vault's cash with the boosted cash, without reserves and admin fees."""
    managed_cash: int
    """The cash that the vault keeps itself."""
    live_cash: int
    """The vault's balance of its token, from which, with the boosted cash that counts, the rate follows."""
    boost_quoted: int
    """The worth of the boosted cash now."""
    payable: int | None
    """What the vault can pay out, with the boosted cash; None if it is not known."""


class Books(Struct, frozen=True):
    """Everything that the interest of a vault follows from."""

    numbers: StoredNumbers
    curve: Curve
    cash: Cash


class VaultState(Struct, frozen=True, kw_only=True):
    """Everything that the numbers of a vault follow from."""

    books: Books
    receipt_supply: int
    """All receipt tokens."""
    collateral_factor: int
    """The collateral factor of the controller or, without a controller, of the vault, with 6 decimals."""
    incentive: int
    """What a liquidator gets for a debt of 1, with 6 decimals."""
    governed: bool
    """Whether a controller decides over the vault."""
    listed: bool | None
    """Whether the controller lists the vault; None if the controller has no list."""
    paused: frozenset[str]
    """The names in `PAUSES` of what is paused at the ledger's close time."""
    reward_token: str | None
    """The token of the rewards; None if nothing is paid, or if the controller does not name the token."""
    supply_speed: int | None
    """What suppliers are paid, in base units of the reward token a second; None if it is not known."""
    borrow_speed: int | None
    """What borrowers are paid, in base units of the reward token a second; None if it is not known."""


class Vault(Struct, frozen=True):
    """A vault's stored state.

    ``model`` is the rate model's contract, and ``boosted`` the contract that boosts cash; None without such a contract.
    ``counts_cash`` says whether the vault's code counts the cash that it keeps.
    """

    token: str
    controller: str | None
    model: str | None
    boosted: str | None
    counts_cash: bool
    numbers: StoredNumbers

    @property
    def cash_is_stored(self) -> bool:
        """Whether the vault's cash follows from its entries alone."""
        return self.boosted is None and self.numbers.managed_cash is not None


def entry_keys(contract: str, names: Iterable[str]) -> list[bytes]:
    """The ledger keys of a contract's entries with these names, in the same order."""
    return [variant_key(contract, name) for name in names]


def pool_list_key(controller: str) -> bytes:
    """The ledger key of a controller's list of its vaults."""
    return variant_key(controller, "SupportedMarkets")


def controller_keys(controller: str) -> list[bytes]:
    """The ledger keys of all entries of a controller that are read."""
    return [instance_key(controller), *entry_keys(controller, _CONTROLLER_ENTRIES)]


def vault_keys(vault: str) -> list[bytes]:
    """The ledger keys of all entries of a vault that are read."""
    return [instance_key(vault), *entry_keys(vault, _VAULT_ENTRIES)]


def collateral_factor_key(controller: str, vault: str) -> bytes:
    """The ledger key of a vault's collateral factor, which its controller keeps."""
    return variant_key(controller, "MarketCF", address(vault))


def speed_keys(controller: str, vault: str) -> list[bytes]:
    """The ledger keys of the rewards of a vault's two sides, in the order of `SPEEDS`. The controller keeps them."""
    return [variant_key(controller, name, address(vault)) for name in SPEEDS.values()]


def _stored(contract: str, what: str, names: Iterable[str], entries: Entries) -> Fields:
    """The entries of a contract as the fields of a struct. Archived entries count. Raises `DecodeError`."""
    by_name = ((name, entries.get(variant_key(contract, name))) for name in names)
    return Fields([(symbol(name), entry.value) for name, entry in by_name if entry is not None], what)


def _instance(contract: str, what: str, entries: Entries) -> tuple[Fields, str]:
    """The storage of a contract's instance, and the hash of its code. Raises `DecodeError`."""
    entry = entries.get(instance_key(contract))
    if entry is None:
        raise DecodeError(f"{what} instance is missing")
    instance, wasm_hash = coded_instance(entry.contract_data(), f"{what} instance")
    pairs = ((symbol(name), value) for name, value in named(instance.storage).items())
    return Fields(pairs, f"{what} instance"), wasm_hash.hex()


def _by_vault(stored: Fields, name: str) -> list[tuple[str, ScVal]]:
    """The vaults in a stored map, with their values. Empty if the controller has no such map. Raises `DecodeError`."""
    if name not in stored:
        return []
    pairs = expect(stored.required(name), scval.MAP, name) or ()
    if len(pairs) > MAX_VAULTS:
        raise DecodeError(f"{name}: {len(pairs)} vaults, more than {MAX_VAULTS}")
    return [(expect(vault, scval.ADDRESS, name), value) for vault, value in pairs]


def _marked(stored: Fields, name: str) -> list[str]:
    """The vaults whose value in a stored map is true. Raises `DecodeError`."""
    return [vault for vault, value in _by_vault(stored, name) if expect(value, scval.BOOL, name)]


def _pauses(stored: Fields) -> Iterator[Pause]:
    for what, name in PAUSES.items():
        until = f"{name}Until"
        ends = {vault: int(expect(value, scval.U64, until)) for vault, value in _by_vault(stored, until)}
        for vault in _marked(stored, name):
            yield Pause(what, vault, ends.get(vault))


def decode_controller(controller: str, entries: Entries) -> Controller:
    """A controller's state, from its entries. Raises `DecodeError`, which names the entry that is wrong."""
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
    """A vault's state, from its entries. Raises `DecodeError`, which names the entry that is missing or wrong."""
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
    def amount(name: str, default: int = 0) -> int:
        return stored.number(name, *_AMOUNT) if name in stored else default

    def factor(name: str) -> int:
        return stored.number(name, *_FACTOR) if name in stored else 0

    def amount_or_none(name: str) -> int | None:
        return stored.number(name, *_AMOUNT) if name in stored else None

    cached_at = "BoostedUnderlyingUpdatedAt"
    is_caching_code = any(name in stored for name in _NAMES_OF_CACHING_CODE)
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
        boost_rule=BOOST_RULES.get(wasm_hash, BoostRule.CACHED if is_caching_code else BoostRule.UNKNOWN),
        rates_ready=stored.boolean("RatesReady") if "RatesReady" in stored else has_model,
    )


def decode_curve(vault: Vault, entries: Entries) -> Curve:
    """The parameters of a vault's rate model. Without a model the rate is the same at every utilization.

    Raises `DecodeError`.
    """
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
    """The reward in an entry, in base units a second. 0 without an entry; None if it cannot be decoded."""
    with Barrier():
        return 0 if entry is None else decode_amount(entry.value, "speed")
    return None


def decode_amount(value: ScVal, what: str) -> int:
    """An amount from a u128. Raises `DecodeError` if it exceeds signed 128 bits, which no amount of a token does."""
    amount: int = expect(value, scval.U128, what)
    if amount > INT128_MAX:
        raise DecodeError(f"{what} is {amount}, more than any token has")
    return amount


def shown_parameters(vault: VaultState, boosted: str | None) -> tuple[Parameter, ...]:
    """The parameters of a vault's rate model, its factors, and its limits, which are in base units of the token."""
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
    """The `config_hash_of` the configuration of a controller, its vaults, and their rate models."""
    keys = entry_keys(controller, _CONTROLLER_CONFIGURATION)
    keys += [key for vault in vaults for key in entry_keys(vault, _CONFIGURATION)]
    keys += [collateral_factor_key(controller, vault) for vault in vaults]
    keys += [key for model in models for key in entry_keys(model, CURVE_ENTRIES.values())]
    pairs = []
    for key in sorted(set(keys)):
        entry = entries.get(key)
        if entry is not None:
            with Barrier():  # decoding the vault reports it, and here it must not cost the other vaults
                pairs.append(((scval.BYTES, key), entry.value))
    return config_hash_of(pairs)
