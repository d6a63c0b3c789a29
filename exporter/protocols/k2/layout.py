"""How K2 (Kinetic) keeps its state in the ledger (docs/protocols/k2.md, "Keys").

A market is a router, a pool is one of its reserves. All amounts but the tokens' totals are unsigned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import coded_instance, data_key, instance_key, instance_of, variant_key
from exporter.ledger.codec.fields import TIME, Fields, Number, contracts, decoded_or_none, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.observation import Entry
from exporter.ledger.oracles import asset_config_key
from exporter.protocols.base import Parameter
from exporter.protocols.collector import MAX_TOKEN_DECIMALS, by_key, config_hash_of

VERSION = "v1"
"""The one form of entries that is known."""

RAY_DECIMALS = 27
PRICE_DECIMALS = 14

MAX_RESERVES = 64
"""The contract's own bound; a longer list is not K2's."""

MAX_AMOUNT = 10**38 - 1
"""The contract computes with unsigned 128 bits; what is published has at most 38 digits."""

MIN_FIRST_SUPPLY = 1_000
"""Base units; the contract's own constant."""

NOT_CONFIGURATION = frozenset({"FLACTIVE", "ORACFG", "PEADMIN", "PPADMIN", "PUPGADM", "REENTRY"})
"""Instance keys of the router that hold state, a cache, or what is only proposed."""

DEFAULT_PRICE_AGE = 3_600
"""Seconds: up to this age a router takes a price where neither PSTALE nor the asset's own limit is set."""

BPS = 10_000

UNSIGNED = Number(scval.U128, 0, MAX_AMOUNT)
INDEX = Number(scval.U128, 1, MAX_AMOUNT)
"""An index of zero is none: shares would be worth nothing."""

OPTIMUM = Number(scval.U128, 0, 10**RAY_DECIMALS)
"""A utilization of at most 1, with 27 decimals."""

BITS = {  # name: (first bit, bits, decimals of the value)
    "ltv": (0, 14, 4),
    "liquidation_threshold": (14, 14, 4),
    "liquidation_bonus": (28, 14, 4),
    "decimals": (42, 8, 0),
    "active": (50, 1, 0),
    "frozen": (51, 1, 0),
    "borrowing_enabled": (52, 1, 0),
    "paused": (53, 1, 0),
    "flashloan_enabled": (56, 1, 0),
    "reserve_factor": (57, 14, 4),
    "min_remaining_debt": (71, 32, 0),
    "borrow_cap": (128, 64, 0),
    "supply_cap": (192, 64, 0),
}
"""The numbers in the bitmap, ``data_low`` and behind it ``data_high``; the last three are in whole tokens."""

SHARE_TOKENS = {
    "supply": ("aToken", "underlying_asset", "total_supply_scaled"),
    "borrow": ("debt token", "borrowed_asset", "total_debt_scaled"),
}
"""The token of each side: what people call it, and the names of its asset and of its total before the index.

The reward contract has a side's place here as its number.
"""

MAX_REWARD_TOKENS = 20
"""The contract's own bound of reward tokens for one of a reserve's tokens."""


class Emission(NamedTuple):
    """An amount in base units of a token a second, until the end (unix seconds; 0: no end)."""

    token: str
    per_second: int
    end: int


Emissions = tuple[Emission, ...] | None
"""All that are switched on, of one side; None where they could not be read."""


@dataclass(frozen=True, slots=True)
class RouterInstance:
    """A router's instance. It takes prices up to these ages in seconds, and has noted their ``price_decimals``.

    ``reserves_with_list`` are the reserves that only accounts on a list may use. ``liquidators_are_listed`` says
    whether only those on another may liquidate. Both are None where the instance says it in an unknown form.
    """

    wasm_hash: str
    paused: bool
    oracle: str | None
    price_decimals: int
    price_age: int
    asset_price_ages: dict[str, int]
    reserves_with_list: frozenset[str] | None
    liquidators_are_listed: bool | None
    storage: tuple[tuple[ScVal, ScVal], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveData:
    """The numbers of an ``RDATA`` entry beside its bitmap. Indexes and annual rates have 27 decimals."""

    liquidity_index: int
    """Base units of supply for one scaled unit."""
    variable_borrow_index: int
    """Base units of debt for one scaled unit."""
    current_liquidity_rate: int
    current_variable_borrow_rate: int
    last_update_timestamp: int
    """Unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The numbers in a reserve's bitmap, as `BITS` places them: basis points, yes (1) or no (0), whole tokens."""

    ltv: int
    """Basis points of the value of collateral that counts when a debt is opened."""
    liquidation_threshold: int
    """Basis points of the value of collateral that counts against liquidation."""
    liquidation_bonus: int
    """Basis points that a liquidator gets above the debt."""
    decimals: int
    active: int
    frozen: int
    borrowing_enabled: int
    paused: int
    flashloan_enabled: int
    reserve_factor: int
    """Basis points of the borrowers' interest that suppliers do not get."""
    min_remaining_debt: int
    """Whole tokens."""
    borrow_cap: int
    """Whole tokens; 0 is no limit."""
    supply_cap: int
    """Whole tokens; 0 is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateParameters:
    """The parameters of a rate model, annual and with 27 decimals."""

    base_variable_borrow_rate: int
    optimal_utilization_rate: int
    variable_rate_slope1: int
    variable_rate_slope2: int


MODEL_FIELDS = tuple(item.name for item in fields(RateParameters))


@dataclass(frozen=True, slots=True)
class ReserveEntry:
    """An ``RDATA`` entry: its numbers, its share tokens by side, and its rate contract.

    ``stored_configuration`` are the three contracts and the bitmap as they are stored.
    """

    data: ReserveData
    configuration: Configuration
    share_tokens: dict[str, str]
    rate_contract: str
    stored_configuration: tuple[ScVal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Everything that a reserve's numbers follow from."""

    data: ReserveData
    configuration: Configuration
    model: RateParameters
    a_token: str
    """The token of shares of the supply."""
    debt_token: str
    """The token of shares of the debt."""
    total_supply_scaled: int
    """All shares of the supply: base units before the index."""
    total_debt_scaled: int
    """All shares of the debt: base units before the index."""
    router_paused: bool
    users_are_listed: bool | None
    """Whether only accounts on a list may use the reserve; None if the router says it in an unknown form."""
    liquidators_are_listed: bool | None
    """Whether only accounts on a list may liquidate; None if the router says it in an unknown form."""
    debt_ceiling: int
    """Whole tokens; 0 is no limit."""
    cash: int | None
    """The aToken's balance, in base units; None if it is not known."""
    supply_emissions: Emissions
    borrow_emissions: Emissions


def price_configuration_keys(oracle: str | None, tokens: Iterable[str]) -> list[bytes]:
    """The ledger keys under which an oracle keeps whom it asks for these tokens; none without a contract."""
    if oracle is None or not oracle.startswith("C"):
        return []
    return [asset_config_key(oracle, token) for token in tokens]


def router_keys(router: str) -> tuple[bytes, bytes, bytes]:
    """The ledger keys of a router's instance, of its list of reserves, and of how many these are."""
    return instance_key(router), data_key(router, symbol("RLIST")), data_key(router, symbol("RCOUNT"))


def reserve_key(router: str, asset: str) -> bytes:
    """The ledger key of a reserve's state and configuration."""
    return variant_key(router, "RDATA", address(asset))


def debt_ceiling_key(router: str, asset: str) -> bytes:
    """The ledger key of a reserve's ceiling of debt."""
    return variant_key(router, "RDEBTCEIL", address(asset))


def rate_model_keys(rate_contract: str, asset: str) -> tuple[bytes, bytes]:
    """The ledger keys of a reserve's own parameters, and of the instance that has those of all other reserves."""
    return variant_key(rate_contract, "APARAMS", address(asset)), instance_key(rate_contract)


def decode_router(entry: Entry) -> RouterInstance:
    """Decode a router's instance entry. Raises `DecodeError` naming the field when it is not one."""
    instance, wasm_hash = coded_instance(entry.contract_data(), "router instance")
    storage = Fields(instance.storage, "router instance")
    storage.address("PADMIN")  # every router has an administrator: without one, it is another contract
    oracle_config = storage.struct("ORACFG") if "ORACFG" in storage else None
    return RouterInstance(
        wasm_hash=wasm_hash.hex(),
        paused=storage.boolean("PAUSED") if "PAUSED" in storage else False,
        oracle=storage.address("ORACLE") if "ORACLE" in storage else None,
        price_decimals=PRICE_DECIMALS if oracle_config is None else oracle_config.u32("price_precision"),
        price_age=storage.u64("PSTALE") if "PSTALE" in storage else DEFAULT_PRICE_AGE,
        asset_price_ages={
            expect(asset, scval.ADDRESS, "ASTALMP: an asset"): expect(age, scval.U64, "ASTALMP: an age")
            for asset, age in expect(storage.get("ASTALMP") or (scval.MAP, ()), scval.MAP, "ASTALMP") or ()
        },
        reserves_with_list=decoded_or_none(_reserves_with_list, storage),
        liquidators_are_listed=decoded_or_none(lambda: "LWLF" in storage and storage.boolean("LWLF")),
        storage=instance.storage or (),
    )


def _reserves_with_list(storage: Fields) -> frozenset[str]:
    """The reserves that have a white list; where the router notes none, it asks for no list."""
    noted = expect(storage.get("RWLMAP") or (scval.MAP, ()), scval.MAP, "RWLMAP") or ()
    listed = [
        (expect(asset, scval.ADDRESS, "RWLMAP: an asset"), expect(flag, scval.BOOL, "RWLMAP: whether it has a list"))
        for asset, flag in noted
    ]
    return frozenset(asset for asset, has_list in listed if has_list)


def decode_reserve_list(entry: Entry, count: Entry | None) -> tuple[str, ...]:
    """A router's reserves, in the order of their making; ``count`` is missing in old ones. Raises `DecodeError`."""
    assets = contracts(entry.value, "RLIST", MAX_RESERVES)
    if count is not None and (counted := expect(count.value, scval.U32, "RCOUNT")) != len(assets):
        raise DecodeError(f"RLIST: {len(assets)} reserves, but RCOUNT counts {counted}")
    return assets


def decode_configuration(configuration: Fields) -> Configuration:
    """The numbers in a reserve's bitmap. Raises `DecodeError`."""
    word = configuration.u128("data_low") | configuration.u128("data_high") << 128
    return Configuration(**{name: word >> first & (1 << width) - 1 for name, (first, width, _) in BITS.items()})


def decode_reserve(entry: Entry) -> ReserveEntry:
    """Decode an ``RDATA`` entry. Raises `DecodeError`, also for a value with which the contract cannot compute."""
    reserve = Fields.of(entry.value, "RDATA")
    configuration = decode_configuration(reserve.struct("configuration"))
    if configuration.decimals > MAX_TOKEN_DECIMALS:
        raise DecodeError(f"RDATA.configuration: {configuration.decimals} decimals, more than {MAX_TOKEN_DECIMALS}")
    if configuration.reserve_factor > BPS:
        raise DecodeError(f"RDATA.configuration: the reserve factor is {configuration.reserve_factor}, above {BPS}")
    names = ("a_token_address", "debt_token_address", "interest_rate_strategy_address", "configuration")
    return ReserveEntry(
        data=decode_reserve_data(reserve),
        configuration=configuration,
        share_tokens={"supply": reserve.contract("a_token_address"), "borrow": reserve.contract("debt_token_address")},
        rate_contract=reserve.contract("interest_rate_strategy_address"),
        stored_configuration=tuple(map(reserve.required, names)),
    )


def decode_reserve_data(reserve: Fields) -> ReserveData:
    """The numbers of a reserve beside its bitmap. Raises `DecodeError`."""
    return ReserveData(
        liquidity_index=reserve.number("liquidity_index", *INDEX),
        variable_borrow_index=reserve.number("variable_borrow_index", *INDEX),
        current_liquidity_rate=reserve.number("current_liquidity_rate", *UNSIGNED),
        current_variable_borrow_rate=reserve.number("current_variable_borrow_rate", *UNSIGNED),
        last_update_timestamp=reserve.number("last_update_timestamp", *TIME),
    )


def decode_share_token(entry: Entry, side: str) -> tuple[str, str, int]:
    """The router, the asset and the total before the index in a share token's instance. Raises `DecodeError`."""
    what, asset, total = SHARE_TOKENS[side]
    state = dict(instance_of(entry.contract_data()).storage or ()).get(vec(symbol("State")))
    if state is None:
        raise DecodeError(f"{what} instance: there is no State")
    fields = Fields.of(state, f"{what} State")
    scaled = fields.number(total, scval.I128, 0, MAX_AMOUNT)
    return fields.address("pool_address"), fields.address(asset), scaled


def router_named_by(entry: Entry) -> str | None:
    """The router that an instance names as a share token's does; None for that of any other contract."""
    try:
        storage = dict(instance_of(entry.contract_data()).storage or ())
        if symbol("PADMIN") in storage or vec(symbol("State")) not in storage:
            return None
        return Fields.of(storage[vec(symbol("State"))], "State").contract("pool_address")
    except DecodeError:
        return None


def decode_rate_model(own: Entry | None, instance: Entry | None) -> RateParameters:
    """A reserve's own parameters, or else those of the rate contract, 0 where not set. Raises `DecodeError`."""
    if own is not None:
        stored = Fields.of(own.value, "APARAMS")
        return RateParameters(
            base_variable_borrow_rate=stored.number("base_variable_borrow_rate", *UNSIGNED),
            optimal_utilization_rate=stored.number("optimal_utilization_rate", *OPTIMUM),
            variable_rate_slope1=stored.number("variable_rate_slope1", *UNSIGNED),
            variable_rate_slope2=stored.number("variable_rate_slope2", *UNSIGNED),
        )
    if instance is None:
        raise DecodeError("the reserve has neither APARAMS nor a rate contract")
    storage = Fields(instance_of(instance.contract_data()).storage, "rate contract instance")
    return RateParameters(
        base_variable_borrow_rate=_number_or_zero(storage, "BVR", UNSIGNED),
        optimal_utilization_rate=_number_or_zero(storage, "OU", OPTIMUM),
        variable_rate_slope1=_number_or_zero(storage, "VS1", UNSIGNED),
        variable_rate_slope2=_number_or_zero(storage, "VS2", UNSIGNED),
    )


def _number_or_zero(storage: Fields, name: str, bounds: Number) -> int:
    return storage.number(name, *bounds) if name in storage else 0


def shown_parameters(configuration: Configuration, model: RateParameters, debt_ceiling: int) -> tuple[Parameter, ...]:
    """The rate model, and what the bitmap says; caps, ceiling and the smallest debt are whole tokens, 0 no limit."""
    curve = (Parameter(name, getattr(model, name), RAY_DECIMALS) for name in MODEL_FIELDS)
    bits = ((name, getattr(configuration, name), decimals) for name, (_, _, decimals) in BITS.items())
    shown = (
        Parameter(name, value, decimals, no_limit=name.endswith("_cap") and not value)
        for name, value, decimals in bits
        if name != "decimals"
    )
    return (*curve, *shown, Parameter("debt_ceiling", debt_ceiling, 0, no_limit=not debt_ceiling))


def config_hash(router: RouterInstance, reserves: Iterable[tuple[str, ScVal]]) -> str:
    """The `config_hash_of` the instance without `NOT_CONFIGURATION`, and of each reserve's configuration."""
    storage = [pair for pair in router.storage if pair[0][0] != scval.SYMBOL or pair[0][1] not in NOT_CONFIGURATION]
    return config_hash_of(by_key(storage), ((address(asset), configured) for asset, configured in reserves))
