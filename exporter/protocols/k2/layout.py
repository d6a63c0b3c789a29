"""How K2 (Kinetic) keeps its state in the ledger (docs/protocols/k2.md, "Keys").

A market is a router, and a pool is one of its reserves. All amounts are unsigned, except the totals of share tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import coded_instance, data_key, instance_key, instance_of, variant_key
from exporter.ledger.codec.fields import TIME, Fields, Number, contracts, decoded_or_none, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.observation import Entry
from exporter.ledger.oracles import asset_config_key
from exporter.ledger.tokens import MAX_TOKEN_DECIMALS
from exporter.protocols.base import Parameter
from exporter.protocols.collector import by_key, config_hash_of

VERSION = "v1"
"""The version of all markets, because only one form of entries is known."""

RAY_DECIMALS = 27
PRICE_DECIMALS = 14

MAX_RESERVES = 64
"""The largest number of reserves that the contract allows."""

MAX_AMOUNT = 10**38 - 1
"""The largest amount that is read. The contract has unsigned 128 bits, but published numbers have at most 38 digits."""

MIN_FIRST_SUPPLY = 1_000
"""The least that a first supply must have, in base units; a constant of the contract."""

NOT_CONFIGURATION = frozenset({"FLACTIVE", "ORACFG", "PEADMIN", "PPADMIN", "PUPGADM", "REENTRY"})
"""Names in a router's instance that hold state, a cache, or what is only proposed."""

DEFAULT_PRICE_AGE = 3_600
"""The largest age of a price, in seconds, if neither PSTALE nor the asset's own limit is set."""

BPS = 10_000

UNSIGNED = Number(scval.U128, 0, MAX_AMOUNT)
INDEX = Number(scval.U128, 1, MAX_AMOUNT)
"""The range of an index. It cannot be 0, because shares would be worth nothing."""

OPTIMUM = Number(scval.U128, 0, 10**RAY_DECIMALS)
"""The range of an optimal utilization: at most 1, with 27 decimals."""

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
"""The position of each number in the bitmap, whose low half is ``data_low`` and whose high half is ``data_high``.

``min_remaining_debt`` and the two caps are in whole tokens.
"""

SHARE_TOKENS = {
    "supply": ("aToken", "underlying_asset", "total_supply_scaled"),
    "borrow": ("debt token", "borrowed_asset", "total_debt_scaled"),
}
"""The share token of each side: its name for people, and the names of its asset and of its scaled total.

The reward contract numbers the sides in this order.
"""

MAX_REWARD_TOKENS = 20
"""The largest number of reward tokens that the contract allows for a share token."""


class Emission(NamedTuple):
    """What is paid in one reward token: base units a second, up to the end (unix seconds; 0 means no end)."""

    token: str
    per_second: int
    end: int


Emissions = tuple[Emission, ...] | None
"""All active emissions to one side; None if they could not be read."""


class RouterInstance(Struct, frozen=True):
    """A router's instance.

    Attributes:
        wasm_hash: the hash of the router's code.
        paused: whether the router is paused.
        oracle: the oracle's address; None if there is none.
        price_decimals: the decimals that the router has stored for the oracle's prices.
        price_age: the largest age of a price, in seconds.
        asset_price_ages: the largest age of a price, in seconds, for assets that have a limit of their own.
        reserves_with_list: the reserves that only accounts on a list may use; None if it is stored in an unknown form.
        liquidators_are_listed: whether only accounts on a list may liquidate; None if it is stored in an unknown form.
        storage: the storage of the instance.
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


class ReserveData(Struct, frozen=True, kw_only=True):
    """The numbers of an ``RDATA`` entry outside its bitmap. Indexes and annual rates have 27 decimals."""

    liquidity_index: int
    """The supply in base units for one scaled unit."""
    variable_borrow_index: int
    """The debt in base units for one scaled unit."""
    current_liquidity_rate: int
    """The annual rate that suppliers earn."""
    current_variable_borrow_rate: int
    """The annual rate that borrowers pay."""
    last_update_timestamp: int
    """The time of the last accrual, in unix seconds."""


class Configuration(Struct, frozen=True, kw_only=True):
    """The numbers in a reserve's bitmap, at the bits that `BITS` has. A yes is 1, a no is 0."""

    ltv: int
    """The share of the collateral's value that counts when a debt is opened, in basis points."""
    liquidation_threshold: int
    """The share of the collateral's value that counts against liquidation, in basis points."""
    liquidation_bonus: int
    """What a liquidator gets in addition to the debt, in basis points."""
    decimals: int
    """The token's decimals."""
    active: int
    """Whether the reserve is switched on."""
    frozen: int
    """Whether the reserve takes nothing new."""
    borrowing_enabled: int
    """Whether the reserve can be borrowed."""
    paused: int
    """Whether nothing can be done with the reserve."""
    flashloan_enabled: int
    """Whether the reserve makes flash loans."""
    reserve_factor: int
    """The share of the borrowers' interest that suppliers do not get, in basis points."""
    min_remaining_debt: int
    """The smallest debt that may remain, in whole tokens."""
    borrow_cap: int
    """The most that may be borrowed, in whole tokens; 0 is no limit."""
    supply_cap: int
    """The most that may be supplied, in whole tokens; 0 is no limit."""


class RateParameters(Struct, frozen=True, kw_only=True):
    """The parameters of a rate model. Rates are annual, and all numbers have 27 decimals."""

    base_variable_borrow_rate: int
    optimal_utilization_rate: int
    variable_rate_slope1: int
    variable_rate_slope2: int


MODEL_FIELDS = RateParameters.__struct_fields__


class ReserveEntry(Struct, frozen=True):
    """An ``RDATA`` entry: its numbers, its share token of each side, and its rate contract.

    ``stored_configuration`` has the three contracts and the bitmap as ScVals.
    """

    data: ReserveData
    configuration: Configuration
    share_tokens: dict[str, str]
    rate_contract: str
    stored_configuration: tuple[ScVal, ...]


class Reserve(Struct, frozen=True, kw_only=True):
    """Everything that a reserve's numbers follow from."""

    data: ReserveData
    configuration: Configuration
    model: RateParameters
    a_token: str
    """The token whose units are shares of the supply."""
    debt_token: str
    """The token whose units are shares of the debt."""
    total_supply_scaled: int
    """All shares of the supply, in scaled units, which the index makes base units."""
    total_debt_scaled: int
    """All shares of the debt, in scaled units, which the index makes base units."""
    router_paused: bool
    """Whether the whole router is paused."""
    users_are_listed: bool | None
    """Whether only accounts on a list may use the reserve; None if the router stores it in an unknown form."""
    liquidators_are_listed: bool | None
    """Whether only accounts on a list may liquidate; None if the router stores it in an unknown form."""
    debt_ceiling: int
    """The reserve's debt ceiling, a limit beside the borrow cap, in whole tokens; 0 is no limit."""
    cash: int | None
    """The balance of the aToken, in base units; None if it is not known."""
    supply_emissions: Emissions
    """The emissions to suppliers."""
    borrow_emissions: Emissions
    """The emissions to borrowers."""


def price_configuration_keys(oracle: str | None, tokens: Iterable[str]) -> list[bytes]:
    """The ledger keys of an oracle's configurations of these tokens. Empty if the oracle is no contract."""
    if oracle is None or not oracle.startswith("C"):
        return []
    return [asset_config_key(oracle, token) for token in tokens]


def router_keys(router: str) -> tuple[bytes, bytes, bytes]:
    """The ledger keys of a router's instance, of its list of reserves, and of their number."""
    return instance_key(router), data_key(router, symbol("RLIST")), data_key(router, symbol("RCOUNT"))


def reserve_key(router: str, asset: str) -> bytes:
    """The ledger key of a reserve's state and configuration."""
    return variant_key(router, "RDATA", address(asset))


def debt_ceiling_key(router: str, asset: str) -> bytes:
    """The ledger key of a reserve's debt ceiling."""
    return variant_key(router, "RDEBTCEIL", address(asset))


def rate_model_keys(rate_contract: str, asset: str) -> tuple[bytes, bytes]:
    """The ledger keys of a reserve's own rate parameters, and of the instance that has those of all other reserves."""
    return variant_key(rate_contract, "APARAMS", address(asset)), instance_key(rate_contract)


def decode_router(entry: Entry) -> RouterInstance:
    """A router's instance, from its entry. Raises `DecodeError`, which names the field that is wrong."""
    instance, wasm_hash = coded_instance(entry.contract_data(), "router instance")
    storage = Fields(instance.storage, "router instance")
    storage.address("PADMIN")  # every router has an administrator, so a contract without one is another contract
    oracle_config = storage.struct("ORACFG") if "ORACFG" in storage else None
    age_pairs = expect(storage.get("ASTALMP") or (scval.MAP, ()), scval.MAP, "ASTALMP") or ()
    return RouterInstance(
        wasm_hash=wasm_hash.hex(),
        paused=storage.boolean("PAUSED") if "PAUSED" in storage else False,
        oracle=storage.address("ORACLE") if "ORACLE" in storage else None,
        price_decimals=PRICE_DECIMALS if oracle_config is None else oracle_config.u32("price_precision"),
        price_age=storage.u64("PSTALE") if "PSTALE" in storage else DEFAULT_PRICE_AGE,
        asset_price_ages={
            expect(asset, scval.ADDRESS, "ASTALMP: an asset"): expect(age, scval.U64, "ASTALMP: an age")
            for asset, age in age_pairs
        },
        reserves_with_list=decoded_or_none(_reserves_with_list, storage),
        liquidators_are_listed=decoded_or_none(lambda: "LWLF" in storage and storage.boolean("LWLF")),
        storage=instance.storage or (),
    )


def _reserves_with_list(storage: Fields) -> frozenset[str]:
    """The reserves that have a whitelist. A router that stores nothing about them asks for no list."""
    pairs = expect(storage.get("RWLMAP") or (scval.MAP, ()), scval.MAP, "RWLMAP") or ()
    has_list = {
        expect(asset, scval.ADDRESS, "RWLMAP: an asset"): expect(flag, scval.BOOL, "RWLMAP: whether it has a list")
        for asset, flag in pairs
    }
    return frozenset(asset for asset, flag in has_list.items() if flag)


def decode_reserve_list(entry: Entry, count: Entry | None) -> tuple[str, ...]:
    """A router's reserves, in the order in which they were added. Raises `DecodeError`.

    The ``count`` must agree. Old routers have none.
    """
    assets = contracts(entry.value, "RLIST", MAX_RESERVES)
    if count is not None:
        counted = expect(count.value, scval.U32, "RCOUNT")
        if counted != len(assets):
            raise DecodeError(f"RLIST: {len(assets)} reserves, but RCOUNT counts {counted}")
    return assets


def decode_configuration(configuration: Fields) -> Configuration:
    """The numbers in a reserve's bitmap. Raises `DecodeError`."""
    word = configuration.u128("data_low") | configuration.u128("data_high") << 128
    return Configuration(**{name: word >> first & (1 << width) - 1 for name, (first, width, _) in BITS.items()})


def decode_reserve(entry: Entry) -> ReserveEntry:
    """An ``RDATA`` entry. Raises `DecodeError`, also if the contract could not compute with a value."""
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
    """The numbers of a reserve outside its bitmap. Raises `DecodeError`."""
    return ReserveData(
        liquidity_index=reserve.number("liquidity_index", *INDEX),
        variable_borrow_index=reserve.number("variable_borrow_index", *INDEX),
        current_liquidity_rate=reserve.number("current_liquidity_rate", *UNSIGNED),
        current_variable_borrow_rate=reserve.number("current_variable_borrow_rate", *UNSIGNED),
        last_update_timestamp=reserve.number("last_update_timestamp", *TIME),
    )


class ShareTokenState(NamedTuple):
    """What a share token's instance says: its router, the asset of its reserve, and the scaled total of its shares."""

    router: str
    asset: str
    scaled_total: int


def decode_share_token(entry: Entry, side: str) -> ShareTokenState:
    """What the instance of a reserve's share token of a side says. Raises `DecodeError`."""
    what, asset, total = SHARE_TOKENS[side]
    state = dict(instance_of(entry.contract_data()).storage or ()).get(vec(symbol("State")))
    if state is None:
        raise DecodeError(f"{what} instance: there is no State")
    fields = Fields.of(state, f"{what} State")
    scaled = fields.number(total, scval.I128, 0, MAX_AMOUNT)
    return ShareTokenState(fields.address("pool_address"), fields.address(asset), scaled)


def router_named_by(entry: Entry) -> str | None:
    """The router that the instance of a share token names; None if the contract is not a share token."""
    try:
        storage = dict(instance_of(entry.contract_data()).storage or ())
        if symbol("PADMIN") in storage or vec(symbol("State")) not in storage:
            return None
        return Fields.of(storage[vec(symbol("State"))], "State").contract("pool_address")
    except DecodeError:
        return None


def decode_rate_model(own: Entry | None, instance: Entry | None) -> RateParameters:
    """A reserve's own rate parameters or, without such, those of the rate contract, where 0 stands for a missing one.

    Raises `DecodeError`.
    """
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
    """The parameters of the rate model, the numbers of the bitmap, and the debt ceiling.

    Caps, the ceiling and the smallest debt are in whole tokens. A cap or ceiling of 0 is no limit.
    """
    parameters = [Parameter(name, getattr(model, name), RAY_DECIMALS) for name in MODEL_FIELDS]
    for name, (_, _, decimals) in BITS.items():
        if name != "decimals":
            value = getattr(configuration, name)
            parameters.append(Parameter(name, value, decimals, no_limit=name.endswith("_cap") and not value))
    parameters.append(Parameter("debt_ceiling", debt_ceiling, 0, no_limit=not debt_ceiling))
    return tuple(parameters)


def config_hash(router: RouterInstance, reserves: Iterable[tuple[str, ScVal]]) -> str:
    """The `config_hash_of` a router's instance, without `NOT_CONFIGURATION`, and of its reserves' configurations."""
    storage = [pair for pair in router.storage if pair[0][0] != scval.SYMBOL or pair[0][1] not in NOT_CONFIGURATION]
    return config_hash_of(by_key(storage), ((address(asset), configured) for asset, configured in reserves))
