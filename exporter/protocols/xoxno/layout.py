"""How XOXNO Lending keeps its state in the ledger (docs/protocols/xoxno.md, "Keys").

One pool contract holds all hub markets. The key of a hub market's entry is a symbol with a `HubAssetKey`, which is the
hub's number and a token.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from exporter.errors import Barrier, DecodeError
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import TEMPORARY, ContractData, coded_instance, variant_key
from exporter.ledger.codec.fields import AMOUNT, TIME, Fields, Number, named
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, struct_map, symbol, u32, vec
from exporter.ledger.observation import Entry
from exporter.protocols.base import Parameter
from exporter.protocols.collector import Queued, config_hash_of, parameters_of, proposed

VERSION = "v1"
"""The version of all markets, because only one form of entries is known. The contracts state no version."""

RAY_DECIMALS = 27
RAY: int = 10**RAY_DECIMALS
BPS = 10_000
HIGHEST_INDEX = 10**36
"""The contract lets no index grow above this number."""

CONFIGURATION = (
    "Accumulator",
    "AppVersion",
    "LastHubId",
    "LastSpokeId",
    "MinBorrowCollateralUsd",
    "Paused",
    "Pool",
    "PositionLimits",
    "PositionNft",
    "PriceAggregator",
    "SwapAggregator",
)
"""The names in a controller's instance that are its configuration: all that its code writes there, except the owner."""

_RAY_FIELDS = (
    "base_borrow_rate",
    "max_borrow_rate",
    "mid_utilization",
    "optimal_utilization",
    "slope1",
    "slope2",
    "slope3",
    "max_utilization",
)

RESERVE_FACTOR = Number(scval.U32, most=BPS)
DECIMALS = Number(scval.U32, most=RAY_DECIMALS)
INDEX = Number(scval.I128, 1, HIGHEST_INDEX)


class Parameters(Struct, frozen=True, kw_only=True):
    """The numbers of a ``Params`` entry. Rates are annual. Rates and utilizations have 27 decimals (RAY)."""

    base_borrow_rate: int
    """The rate at a utilization of 0."""
    max_borrow_rate: int
    """The rate that is never exceeded."""
    mid_utilization: int
    """The utilization at which the first segment of the curve ends."""
    optimal_utilization: int
    """The utilization at which the second segment of the curve ends."""
    slope1: int
    """The rate that the first segment adds."""
    slope2: int
    """The rate that the second segment adds."""
    slope3: int
    """The rate that the third segment adds."""
    max_utilization: int
    """The utilization that no loan may exceed. A number of RAY or more is no limit."""
    reserve_factor: int
    """The share of the borrowers' interest that suppliers do not get, in basis points."""
    asset_decimals: int
    """The token's decimals."""


class State(Struct, frozen=True, kw_only=True):
    """The numbers of a ``State`` entry.

    The value of a scaled amount is amount × index / RAY, in whole tokens with 27 decimals.
    """

    borrow_index: int
    """The value of one scaled unit of debt, in RAY."""
    borrowed: int
    """All debt, as a scaled amount."""
    cash: int
    """What can be paid out, in base units of the token."""
    revenue: int
    """The protocol's own part of the supply, as a scaled amount."""
    supplied: int
    """The whole supply, with the revenue, as a scaled amount."""
    supply_index: int
    """The value of one scaled unit of supply, in RAY."""
    last_timestamp: int
    """The time at which the contract last added interest, in unix milliseconds."""


class HubAsset(NamedTuple):
    """The identity of a hub market. The same token in two hubs is two hub markets."""

    hub: int
    token: str

    @property
    def pool(self) -> str:
        """The pool's id: the hub's number, a hyphen, and the token."""
        return f"{self.hub}-{self.token}"

    def value(self) -> ScVal:
        """The contract's `HubAssetKey`."""
        return struct_map({"asset": address(self.token), "hub_id": u32(self.hub)})


class Controller(NamedTuple):
    """A controller's instance."""

    wasm_hash: str
    pool: str
    """The pool contract, which keeps the hub markets."""
    aggregator: str | None
    """The price aggregator; None if the instance names no contract."""
    status: str
    last_spoke: int | None
    """The number of the last spoke, where the first is 1. None if the instance does not say it."""
    storage: tuple[tuple[str, ScVal], ...]
    """The names and values of `CONFIGURATION` that the instance has."""


class Spoke(Struct, frozen=True, kw_only=True):
    """A spoke's terms for a hub market, and what its accounts have there."""

    spoke: int
    """The spoke's number."""
    deprecated: bool
    """Whether the whole spoke takes nothing new."""
    paused: bool
    """Whether nothing at all can be done."""
    frozen: bool
    """Whether nobody can supply or borrow."""
    can_be_collateral: bool
    """Whether supply of the hub market can secure a debt."""
    can_be_borrowed: bool
    """Whether the hub market can be borrowed."""
    can_be_seized: bool
    """Whether a liquidator can seize the collateral."""
    collateral_factor_bps: int
    """The share of the collateral's value that counts when a debt is opened, in basis points."""
    liquidation_threshold_bps: int
    """The share of the collateral's value that counts against liquidation, in basis points."""
    liquidation_bonus_bps: int
    """What a liquidator gets in addition to the debt, in basis points."""
    supply_cap: int
    """The most that may be supplied, in base units; 0 closes it."""
    borrow_cap: int
    """The most that may be borrowed, in base units; 0 closes it."""
    supplied: int
    """What the spoke's accounts supply, as a scaled amount."""
    borrowed: int
    """What the spoke's accounts owe, as a scaled amount."""


class HubMarket(Struct, frozen=True, kw_only=True):
    """Everything that the numbers of a hub market follow from."""

    state: State
    parameters: Parameters
    pool_contract: str
    """The contract that keeps the hub market's entries."""
    paused: bool
    """Whether the controller is paused."""
    hub_active: bool | None
    """Whether the hub is active; None if that is not known."""
    spokes: tuple[Spoke, ...] | None
    """The spokes that list the hub market; None if they could not be read."""

    @property
    def unit(self) -> int:
        """One base unit of the token, as a number of whole tokens with 27 decimals."""
        return int(10 ** (RAY_DECIMALS - self.parameters.asset_decimals))


def hub_asset(pool: str) -> HubAsset:
    """The hub and the token of a pool's id. Raises `DecodeError` unless the id is spelled in the only valid way."""
    hub, separator, token = pool.partition("-")
    if separator and hub.isascii() and hub.isdigit() and strkey.is_contract(token) and len(hub) <= 10:
        asset = HubAsset(int(hub), token)
        if asset.hub < 1 << 32 and asset.pool == pool:
            return asset
    raise DecodeError(
        f"{pool[:80]!r} is not a pool of XOXNO Lending: expected the hub's number, '-' and the token's strkey"
    )


def pool_key(contract: str, name: str, pool: HubAsset) -> bytes:
    """The ledger key of a hub market's ``State`` or ``Params`` entry, which the pool contract keeps."""
    return variant_key(contract, name, pool.value())


def controller_key(controller: str, name: str, number: int, *pool: HubAsset) -> bytes:
    """The ledger key of a ``Hub`` or ``Spoke``, or of a spoke's ``SpokeAsset`` or ``SpokeUsage`` for a hub market."""
    return variant_key(controller, name, u32(number), *(each.value() for each in pool))


def oracle_key(aggregator: str, token: str) -> bytes:
    """The ledger key of a token's configuration, which the price aggregator keeps."""
    return variant_key(aggregator, "Oracle", price_key(token))


def price_key(token: str) -> ScVal:
    """The contract's `PriceKey` of a token."""
    return vec(symbol("Token"), address(token))


def decode_controller(entry: Entry) -> Controller:
    """A controller's instance, whose keys may be symbols or variants. Raises `DecodeError`, which names the field."""
    instance, wasm_hash = coded_instance(entry.contract_data(), "controller instance")
    storage = named(instance.storage)
    fields = Fields((((scval.SYMBOL, name), value) for name, value in storage.items()), "controller instance")
    kind, payload = storage.get("PriceAggregator", VOID)
    last_spoke = storage.get("LastSpokeId", VOID)
    return Controller(
        wasm_hash=wasm_hash.hex(),
        pool=fields.contract("Pool"),
        aggregator=payload if kind == scval.ADDRESS and strkey.is_contract(payload) else None,
        status="paused" if storage.get("Paused") == (scval.BOOL, True) else "active",
        last_spoke=last_spoke[1] if last_spoke[0] == scval.U32 else None,
        storage=tuple((name, storage[name]) for name in CONFIGURATION if name in storage),
    )


def pool_contract(instance: Entry) -> str:
    """The pool contract that a controller's instance names. Raises `DecodeError`."""
    return decode_controller(instance).pool


def pool_in(entry: ContractData) -> str | None:
    """The id of the hub market whose ``State`` an entry of the pool contract is; None for other entries."""
    if entry.key[0] != scval.VEC or len(entry.key[1] or ()) != 2 or entry.key[1][0] != (scval.SYMBOL, "State"):
        return None
    try:
        fields = Fields.of(entry.key[1][1], "the key of a State")
        return HubAsset(fields.u32("hub_id"), fields.address("asset")).pool
    except DecodeError:  # no known code writes such a key
        return None


def proposed_owner_key(controller: str) -> bytes:
    """The ledger key of a controller's proposed owner. It exists for some time, or until the proposal is accepted."""
    return variant_key(controller, "PendingOwner", durability=TEMPORARY)


def decode_proposed_owner(entry: Entry) -> Queued:
    """The proposed owner of a controller, from an address or a struct that has one. Raises `DecodeError`."""
    value = entry.value
    if value[0] != scval.ADDRESS:
        value = Fields.of(value, "owner").required("address")
    return proposed(value, "owner")


def decode_parameters(entry: Entry) -> tuple[str, Parameters, tuple[Parameter, ...]]:
    """The token that a ``Params`` entry names, its numbers, and its parameters for people. Raises `DecodeError`."""
    fields = Fields.of(entry.value, "Params")
    scales = dict.fromkeys(_RAY_FIELDS, RAY_DECIMALS) | {"reserve_factor": 4, "flashloan_fee": 4, "is_flashloanable": 0}
    parameters = Parameters(
        base_borrow_rate=fields.number("base_borrow_rate", *AMOUNT),
        max_borrow_rate=fields.number("max_borrow_rate", *AMOUNT),
        mid_utilization=fields.number("mid_utilization", *AMOUNT),
        optimal_utilization=fields.number("optimal_utilization", *AMOUNT),
        slope1=fields.number("slope1", *AMOUNT),
        slope2=fields.number("slope2", *AMOUNT),
        slope3=fields.number("slope3", *AMOUNT),
        max_utilization=fields.number("max_utilization", *AMOUNT),
        reserve_factor=fields.number("reserve_factor", *RESERVE_FACTOR),
        asset_decimals=fields.number("asset_decimals", *DECIMALS),
    )
    return fields.address("asset_id"), parameters, tuple(parameters_of(fields, scales))


def decode_state(entry: Entry) -> State:
    """The numbers of a ``State`` entry. Raises `DecodeError`, which names the field."""
    fields = Fields.of(entry.value, "State")
    return State(
        borrow_index=fields.number("borrow_index", *INDEX),
        borrowed=fields.number("borrowed", *AMOUNT),
        cash=fields.number("cash", *AMOUNT),
        revenue=fields.number("revenue", *AMOUNT),
        supplied=fields.number("supplied", *AMOUNT),
        supply_index=fields.number("supply_index", *INDEX),
        last_timestamp=fields.number("last_timestamp", *TIME),
    )


def decode_spoke(number: int, spoke: Entry | None, asset: Entry, usage: Entry | None) -> Spoke:
    """A spoke's terms for a hub market. A spoke without a ``Spoke`` entry takes nothing new. Raises `DecodeError`."""
    fields = Fields.of(asset.value, "SpokeAsset")
    used = None if usage is None else Fields.of(usage.value, "SpokeUsage")
    return Spoke(
        spoke=number,
        deprecated=spoke is None or Fields.of(spoke.value, "Spoke").boolean("is_deprecated"),
        paused=fields.boolean("paused"),
        frozen=fields.boolean("frozen"),
        can_be_collateral=fields.boolean("is_collateralizable"),
        can_be_borrowed=fields.boolean("is_borrowable"),
        can_be_seized=not fields.boolean("no_seize"),
        collateral_factor_bps=fields.u32("loan_to_value"),
        liquidation_threshold_bps=fields.u32("liquidation_threshold"),
        liquidation_bonus_bps=fields.u32("liquidation_bonus"),
        supply_cap=fields.number("supply_cap", *AMOUNT),
        borrow_cap=fields.number("borrow_cap", *AMOUNT),
        supplied=0 if used is None else used.number("supplied_scaled_ray", *AMOUNT),
        borrowed=0 if used is None else used.number("borrowed_scaled_ray", *AMOUNT),
    )


def config_hash(controller: Controller, pools: Iterable[tuple[HubAsset, Entry | None]]) -> str:
    """The `config_hash_of` a controller's `CONFIGURATION` and its pools' ``Params``. Spokes do not count."""
    stored = [((scval.SYMBOL, name), value) for name, value in controller.storage]
    in_order = sorted(pools, key=lambda pair: pair[0])
    return config_hash_of(stored, ((pool.value(), _value_of(entry)) for pool, entry in in_order))


def _value_of(entry: Entry | None) -> ScVal:
    """An entry's value; an empty vector if there is none, or if it cannot be decoded."""
    with Barrier():  # reading the pool reports this, and here it must not cost the other pools
        return vec() if entry is None else entry.value
    return vec()
