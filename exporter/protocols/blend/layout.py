"""How Blend's pool contract, in both generations, keeps its state in the ledger (docs/protocols/blend.md, "Keys").

Blend calls a market a "pool", and its pools "reserves". Names for the contract's state use Blend's words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from exporter.errors import Barrier, DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import (
    TEMPORARY,
    coded_instance,
    data_key,
    instance_key,
    instance_of,
    variant_key,
)
from exporter.ledger.codec.fields import AMOUNT, TIME, Fields, Number, contracts
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.observation import Entry
from exporter.protocols.base import Parameter, PriceLimits
from exporter.protocols.blend.emissions import NOT_READ, Emission
from exporter.protocols.collector import Queued, by_key, config_hash_of, differences, parameters_of

WASM_HASHES = {
    bytes.fromhex("baf978f10efdbcd85747868bef8832845ea6809f7643b67a4ac0cd669327fc2c"): "v1",
    bytes.fromhex("a41fc53d6753b6c04eb15b021c55052366a4c8e0e21bc72700f461264ec1350e"): "v2",
}
"""The wasm hash of Blend's pool contract, with its generation (docs/protocols/blend.md, "Structure").

v2.1 has the same code as v2.
"""

PRECEPT = "042d41030d396f3607b8750f3cb0c2225a503a6775636d046ca9b4abaa4daab2"
"""The wasm hash of the pool contract of Templar's fork of v2, v0.1.0."""

GENERATIONS = WASM_HASHES | {bytes.fromhex(PRECEPT): "v2"}
"""The wasm hashes of Blend's pools and of forks, with the generation whose entries and rules they have."""

PRICE_LIMITS = {PRECEPT: PriceLimits(decimals=7, refuses_future=True)}
"""The price limits of pools that refuse more prices than Blend's own, by wasm hash.

docs/protocols/blend.md, "Prices", has their source.
"""

SETUP = "setup"

STATUS_NAMES = ("admin_active", "active", "admin_on_ice", "on_ice", "admin_frozen", "frozen", SETUP)
"""The names of the contract's statuses, in the order of their numbers (docs/protocols/blend.md, "Statuses")."""

MAX_RESERVES = 64
"""The largest number of reserves that is read. The contract allows 32 (v1) or 30 (v2)."""

MAX_TOKEN_DECIMALS = 18
"""The contract refuses a token with more decimals."""

RATE_DECIMALS = {"v1": 9, "v2": 12}
"""Decimals of ``b_rate`` and ``d_rate``, by contract generation."""

NO_CAP = 2**127 - 1
"""The ``supply_cap`` that limits nothing in v2. A reserve of v1, which has no such field, gets it, too."""

STATUS = Number(scval.U32)
BACKSTOP_RATE = Number(scval.U32, most=10**7)
"""The range of a pool's ``bstop_rate``. The contract keeps it below 1, so that suppliers' rates are not negative."""

FACTOR = Number(scval.U32)
"""The range of a number in a reserve's configuration. The contract has narrower bounds of its own."""

DECIMALS = Number(scval.U32, most=MAX_TOKEN_DECIMALS)

_FIELDS_OF_7_DECIMALS = (
    "util",
    "r_base",
    "r_one",
    "r_two",
    "r_three",
    "reactivity",
    "max_util",
    "c_factor",
    "l_factor",
)


class PoolInstance(Struct, frozen=True):
    """The instance entry of a Blend pool contract. ``backstop_rate`` has 7 decimals.

    ``backstop`` and ``reward_token`` (BLND) are None if the entry does not name a contract. Then only what depends on
    them is not known.
    """

    generation: str
    wasm_hash: str
    name: str
    status: str
    oracle: str
    backstop_rate: int
    max_positions: int | None
    backstop: str | None
    reward_token: str | None
    storage: tuple[tuple[ScVal, ScVal], ...]


class ReserveConfig(Struct, frozen=True, kw_only=True):
    """A reserve's ``ResConfig`` entry: rates and factors have 7 decimals."""

    index: int
    """The reserve's index in the pool's list."""
    decimals: int
    """The token's decimals."""
    c_factor: int
    """The share of the collateral's value that counts."""
    l_factor: int
    """The number by which the value of a debt is divided."""
    util: int
    """The utilization that the rate modifier aims at, and the first kink of the rate curve."""
    max_util: int
    """The utilization that no borrower may exceed."""
    r_base: int
    """The annual borrow rate at a utilization of 0."""
    r_one: int
    """The rate that the first slope adds, up to ``util``."""
    r_two: int
    """The rate that the second slope adds, from there up to 95 %."""
    r_three: int
    """The rate that the third slope adds, from there up to 100 %."""
    reactivity: int
    """How fast the rate modifier moves, without decimals."""
    enabled: bool
    """Whether the reserve is open. It always is in v1, which has no such field."""
    supply_cap: int
    """The most that may be supplied, in base units of the token. `NO_CAP` limits nothing."""
    generation: str
    """The contract generation whose form the entry has, ``v1`` or ``v2``."""


class ReserveData(Struct, frozen=True, kw_only=True):
    """A reserve's ``ResData`` entry, which operations change. Amounts are in base units of the token."""

    b_rate: int
    """The worth of a share of the supply, in base units, with 9 decimals in v1 and 12 in v2."""
    d_rate: int
    """The worth of a share of the debt, in base units, with 9 decimals in v1 and 12 in v2."""
    b_supply: int
    """All shares of the supply."""
    d_supply: int
    """All shares of the debt."""
    ir_mod: int
    """The reactive factor of the borrow rate, with 9 decimals in v1 and 7 in v2."""
    backstop_credit: int
    """The interest that the backstop has earned and not taken yet, in base units."""
    last_time: int
    """The time of the last accrual, in unix seconds."""


class Reserve(Struct, frozen=True, kw_only=True):
    """Everything that a reserve's numbers follow from, under the contract's own names."""

    config: ReserveConfig
    data: ReserveData
    bstop_rate: int
    """The share of the borrowers' interest that the pool's backstop gets, with 7 decimals."""
    reward_token: str | None = None
    """The token of emissions, which is BLND; None if the pool names no contract."""
    supply_emission: Emission = NOT_READ
    """The emission to suppliers."""
    borrow_emission: Emission = NOT_READ
    """The emission to borrowers."""


def market_keys(market: str) -> tuple[bytes, bytes]:
    """The ledger keys of a pool's instance and of its list of reserves."""
    return instance_key(market), data_key(market, symbol("ResList"))


def reserve_data_key(market: str, asset: str) -> bytes:
    """The ledger key of a reserve's state."""
    return variant_key(market, "ResData", address(asset))


def reserve_config_key(market: str, asset: str) -> bytes:
    """The ledger key of a reserve's configuration."""
    return variant_key(market, "ResConfig", address(asset))


def queued_reserve_key(market: str, asset: str) -> bytes:
    """The ledger key of a reserve's queued configuration. Its entry exists until that is applied or cancelled."""
    return variant_key(market, "ResInit", address(asset), durability=TEMPORARY)


def proposed_admin_key(market: str) -> bytes:
    """The ledger key of a pool's proposed admin. Only v2 has it: for ten days, or until the proposal is accepted."""
    return data_key(market, symbol("PropAdmin"), TEMPORARY)


def reward_zone_key(backstop: str) -> bytes:
    """The ledger key of a backstop's reward zone: the list of the pools that it rewards, which is not all pools."""
    return data_key(backstop, symbol("RZ"))


def storage_of(entry: Entry | None, what: str) -> Fields:
    """The storage of a contract's instance. Raises `DecodeError`, also if there is no instance."""
    if entry is None:
        raise DecodeError(f"{what}: it is missing")
    return Fields(instance_of(entry.contract_data()).storage, what)


def named_contracts(backstop: Entry | None, *names: str) -> list[str]:
    """The contracts that a backstop's instance has under these names. Raises `DecodeError` if one is missing."""
    storage = storage_of(backstop, "backstop instance")
    return [storage.contract(name) for name in names]


def decode_instance(entry: Entry) -> PoolInstance:
    """A pool's instance, from its entry. Raises `DecodeError`, which names the field that is wrong.

    The wasm hash decides the generation. If the code is unknown, it is v2 if a field is there that only v2 has.
    """
    instance, wasm_hash = coded_instance(entry.contract_data(), "pool instance")
    storage = Fields(instance.storage, "pool instance")
    config = storage.struct("Config")
    generation = GENERATIONS.get(wasm_hash) or ("v2" if "min_collateral" in config else "v1")
    status, backstop_rate = config.number("status", *STATUS), config.number("bstop_rate", *BACKSTOP_RATE)
    return PoolInstance(
        generation=generation,
        wasm_hash=wasm_hash.hex(),
        name=storage.string("Name"),
        status=STATUS_NAMES[status] if status < len(STATUS_NAMES) else f"unknown_{status}",
        oracle=config.address("oracle"),
        backstop_rate=backstop_rate,
        max_positions=config.u32("max_positions") if "max_positions" in config else None,
        backstop=_contract(storage, "Backstop"),
        reward_token=_contract(storage, "BLNDTkn"),
        storage=instance.storage or (),
    )


def _contract(storage: Fields, name: str) -> str | None:
    kind, payload = storage.get(name) or (None, "")
    return payload if kind == scval.ADDRESS and payload.startswith("C") else None


def decode_reserve_list(entry: Entry | None) -> tuple[str, ...]:
    """The assets of a pool's reserves, in the contract's order. Empty without an entry: the pool never had a reserve.

    Raises `DecodeError`.
    """
    if entry is None:
        return ()
    assets = contracts(entry.value, "ResList", MAX_RESERVES)
    if not assets:
        raise DecodeError("ResList: it is empty, which the contract never stores")
    return assets


def has_index(config_entry: Entry | None, index: int) -> bool:
    """Whether there is a ResConfig, and it is of the reserve with this index in the list.

    A ResConfig whose index cannot be decoded counts as fitting, because decoding the reserve reports it.
    """
    with Barrier():
        return config_entry is not None and Fields.of(config_entry.value, "ResConfig").u32("index") == index
    return True


def decode_reserve(config_entry: Entry, data_entry: Entry, bstop_rate: int) -> Reserve:
    """A reserve without its rewards, from its two entries and its pool's ``bstop_rate``. Raises `DecodeError`."""
    return Reserve(
        config=decode_config(Fields.of(config_entry.value, "ResConfig")),
        data=decode_data(Fields.of(data_entry.value, "ResData")),
        bstop_rate=bstop_rate,
    )


def decode_config(config: Fields) -> ReserveConfig:
    """A reserve's configuration, in the form of either generation. Raises `DecodeError`."""
    if ("enabled" in config) != ("supply_cap" in config):
        raise DecodeError("ResConfig: of the fields enabled and supply_cap only one is there")
    is_v2 = "enabled" in config
    return ReserveConfig(
        index=config.number("index", *FACTOR),
        decimals=config.number("decimals", *DECIMALS),
        c_factor=config.number("c_factor", *FACTOR),
        l_factor=config.number("l_factor", *FACTOR),
        util=config.number("util", *FACTOR),
        max_util=config.number("max_util", *FACTOR),
        r_base=config.number("r_base", *FACTOR),
        r_one=config.number("r_one", *FACTOR),
        r_two=config.number("r_two", *FACTOR),
        r_three=config.number("r_three", *FACTOR),
        reactivity=config.number("reactivity", *FACTOR),
        enabled=config.boolean("enabled") if is_v2 else True,
        supply_cap=config.i128("supply_cap") if is_v2 else NO_CAP,
        generation="v2" if is_v2 else "v1",
    )


def decode_data(data: Fields) -> ReserveData:
    """A reserve's state. Raises `DecodeError`, also if the contract could not compute with a number."""
    return ReserveData(
        b_rate=data.number("b_rate", *AMOUNT),
        d_rate=data.number("d_rate", *AMOUNT),
        b_supply=data.number("b_supply", *AMOUNT),
        d_supply=data.number("d_supply", *AMOUNT),
        ir_mod=data.number("ir_mod", *AMOUNT),
        backstop_credit=data.number("backstop_credit", *AMOUNT),
        last_time=data.number("last_time", *TIME),
    )


def shown_parameters(instance: PoolInstance, config_entry: Entry) -> tuple[Parameter, ...]:
    """The rates and limits of a reserve for people, with the pool's ``bstop_rate`` and ``max_positions``."""
    config = Fields.of(config_entry.value, "ResConfig")
    parameters = [*_config_parameters(config), Parameter("bstop_rate", instance.backstop_rate, 7)]
    if instance.max_positions is not None:
        parameters.append(Parameter("max_positions", instance.max_positions, 0))
    return tuple(parameters)


def _config_parameters(config: Fields) -> Iterator[Parameter]:
    scales = dict.fromkeys(_FIELDS_OF_7_DECIMALS, 7) | {"enabled": 0, "supply_cap": config.u32("decimals")}
    return parameters_of(config, scales)


def decode_queued_reserve(entry: Entry, now: Entry | None, *, new: str = "") -> Queued:
    """The queued configuration in words, and the time from which it can be applied. Raises `DecodeError`.

    ``now`` is the entry of the present configuration, and ``new`` the token if the reserve is a new one.
    """
    queued = Fields.of(entry.value, "ResInit")
    config = queued.struct("new_config")
    decode_config(config)  # raises if it is no configuration
    before: Iterable[Parameter] = ()
    with Barrier():  # decoding the reserve reports this
        before = () if now is None else tuple(_config_parameters(Fields.of(now.value, "ResConfig")))
    terms = differences(before, _config_parameters(config))
    return f"new reserve {new}: {terms}" if new else terms, queued.u64("unlock_time")


def config_hash(instance: PoolInstance, assets: Iterable[str], configs: Iterable[Entry | None]) -> str:
    """The `config_hash_of` a pool's instance and all its reserves' ResConfig entries."""
    reserves = [(address(asset), _config_value(entry)) for asset, entry in zip(assets, configs, strict=True)]
    return config_hash_of(by_key(instance.storage), reserves)


def _config_value(entry: Entry | None) -> ScVal:
    """A value that changes whenever the entry does: the entry's value or, if it cannot be decoded, its bytes."""
    if entry is None:
        return (scval.VEC, None)
    with Barrier():  # decoding the reserve reports this, and here it must not cost the other reserves
        return vec(entry.value)
    return (scval.BYTES, entry.raw.data)
