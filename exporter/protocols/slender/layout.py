"""How Slender's pool keeps its state in the ledger (docs/protocols/slender.md, "Keys").

Everything except balances and positions is in the storage of the pool's instance. A reserve's cash is the balance of
its sToken, which is a persistent entry of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import coded_instance, variant_key
from exporter.ledger.codec.fields import AMOUNT, TIME, Fields, contracts, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, encode_scval, symbol, vec
from exporter.ledger.observation import Entry
from exporter.ledger.oracles import by_address, by_symbol
from exporter.protocols.base import Parameter
from exporter.protocols.collector import by_key, config_hash_of, parameters_of

VERSION = "v1"
WASM_HASH = bytes.fromhex("1d704331dda9871c03acd8b33cc27ea846e723d661fc27126b7e88e7fb924888")
"""The wasm hash of mainnet's pool, from the record of its deployment (docs/protocols/slender.md, "Structure")."""

MAX_RESERVES = 64
"""The largest number of reserves that is read. The only known pool has three."""

_STATE = [symbol(name) for name in ("TokenSupply", "ProtocolFeeVault", "Pause")]
_PARAMETER_DECIMALS = {"is_active": 0, "borrowing_enabled": 0, "liquidity_cap": 0, "util_cap": 4, "discount": 4}


class PoolSettings(Struct, frozen=True):
    """The settings that all reserves of a pool contract share."""

    window: int
    """The length of a window, in seconds. Interest is added in whole windows."""
    initial_health: int
    """The share of discounted collateral that a new debt must leave free, in basis points."""
    ir_scaling_coeff: int
    """The share of the borrowers' interest that lenders get, in basis points."""
    paused: bool = False
    """Whether the pool is paused."""
    grace_ends_at: int = 0
    """The time, in unix seconds, up to which only supplies and repayments are possible after a pause."""


class PoolInstance(Struct, frozen=True):
    """A pool contract's instance entry."""

    wasm_hash: str
    reserves: tuple[str, ...]
    storage: dict[ScVal, ScVal]
    settings: PoolSettings

    def get(self, variant: str, contract: str) -> ScVal | None:
        """The value under ``[variant, contract]`` in the storage; None if there is none."""
        return self.storage.get(vec(symbol(variant), address(contract)))


class Feed(NamedTuple):
    """A price feed: its contract, the asset to ask for, and the largest age, in seconds, at which the pool takes it."""

    contract: str
    asset: ScVal
    max_age: int


class Reserve(Struct, frozen=True, kw_only=True):
    """The state that a pool contract keeps of one reserve, and the cash of its sToken. Rates have 9 decimals."""

    lender_ar: int
    """The accrued rate of lenders: the factor of their interest since the reserve began."""
    lender_ir: int
    """The annual interest rate of lenders since the last update."""
    borrower_ar: int
    """The accrued rate of borrowers: the factor of their interest since the reserve began."""
    borrower_ir: int
    """The annual interest rate of borrowers since the last update."""
    last_update_timestamp: int
    """The time of the last update, in unix seconds."""
    util_cap: int
    """The utilization that no loan may exceed, in basis points."""
    discount: int
    """The share of the value that counts as collateral, in basis points."""
    liquidity_cap: int
    """The most that may be supplied, in base units."""
    is_active: bool
    """Whether the reserve is switched on."""
    borrowing_enabled: bool
    """Whether the reserve can be borrowed."""
    s_token: str
    """The token whose units are shares of the supply."""
    debt_token: str
    """The token whose units are shares of the debt."""
    s_supply: int
    """All shares of the supply."""
    debt_supply: int
    """All shares of the debt."""
    fees: int
    """What the protocol has earned and not taken out yet, in base units."""
    feed_decimals: int | None
    """The token's decimals, as its price feeds have them; None without a feed."""
    feed: Feed | None
    """The first price feed; None if there is none."""
    settings: PoolSettings
    cash: int = 0
    """What is supplied and not lent, in base units: the balance of the sToken, which the reader adds."""


def decode_instance(entry: Entry) -> PoolInstance:
    """A pool's instance, from its entry. Raises `DecodeError`, which names the field that is wrong."""
    instance, wasm_hash = coded_instance(entry.contract_data(), "pool instance")
    storage = dict(instance.storage or ())
    config, pause, listed = (storage.get(vec(symbol(name))) for name in ("PoolConfig", "Pause", "Reserves"))
    if config is None or listed is None:
        raise DecodeError(f"pool instance: field {'PoolConfig' if config is None else 'Reserves'} is missing")
    numbers = Fields.of(config, "PoolConfig")
    settings = PoolSettings(
        window=numbers.u64("timestamp_window"),
        initial_health=numbers.u32("initial_health"),
        ir_scaling_coeff=numbers.u32("ir_scaling_coeff"),
    )
    if pause is not None:
        info = Fields.of(pause, "Pause")
        settings = replace(
            settings,
            paused=info.boolean("paused"),
            grace_ends_at=info.u64("unpaused_at") + info.u64("grace_period_secs"),
        )
    return PoolInstance(wasm_hash.hex(), contracts(listed, "Reserves", MAX_RESERVES), storage, settings)


def decode_reserve(pool: PoolInstance, asset: str) -> Reserve | None:
    """A reserve without its cash, from the pool's instance. None if it is of real-world assets, which have no tokens.

    Raises `DecodeError`, which names the field that is wrong.
    """
    stored = pool.get("ReserveAssetKey", asset)
    if stored is None:
        raise DecodeError("the reserve is listed, but ReserveAssetKey has none of it")
    reserve = Fields.of(stored, "ReserveData")
    tokens = _tokens(reserve)
    if tokens is None:
        return None
    s_token, debt_token = tokens
    configuration = reserve.struct("configuration")
    feed_decimals, feed = _feed(pool.get("PriceFeed", asset))
    return Reserve(
        lender_ar=reserve.number("lender_ar", *AMOUNT),
        lender_ir=reserve.number("lender_ir", *AMOUNT),
        borrower_ar=reserve.number("borrower_ar", *AMOUNT),
        borrower_ir=reserve.number("borrower_ir", *AMOUNT),
        last_update_timestamp=reserve.number("last_update_timestamp", *TIME),
        util_cap=configuration.u32("util_cap"),
        discount=configuration.u32("discount"),
        liquidity_cap=configuration.number("liquidity_cap", *AMOUNT),
        is_active=configuration.boolean("is_active"),
        borrowing_enabled=configuration.boolean("borrowing_enabled"),
        s_token=s_token,
        debt_token=debt_token,
        s_supply=amount_of(pool.get("TokenSupply", s_token), f"TokenSupply of {s_token}"),
        debt_supply=amount_of(pool.get("TokenSupply", debt_token), f"TokenSupply of {debt_token}"),
        fees=amount_of(pool.get("ProtocolFeeVault", asset), f"ProtocolFeeVault of {asset}"),
        feed_decimals=feed_decimals,
        feed=feed,
        settings=pool.settings,
    )


def shown_parameters(pool: PoolInstance, asset: str) -> tuple[Parameter, ...]:
    """The configuration of a reserve, for people. The reserve must be one that can be decoded."""
    reserve = Fields.of(pool.get("ReserveAssetKey", asset) or VOID, "ReserveData")
    return tuple(parameters_of(reserve.struct("configuration"), _PARAMETER_DECIMALS))


def cash_key(market: str, asset: str, s_token: str) -> bytes:
    """The ledger key of a reserve's cash, which is the balance of its sToken."""
    return variant_key(market, "TokenBalance", address(asset), address(s_token))


def config_hash(pool: PoolInstance) -> str:
    """The `config_hash_of` the instance's storage, without its state. Of a reserve only ``configuration`` counts."""
    pairs: list[tuple[ScVal, ScVal]] = []
    for key, value in by_key(pool.storage.items()):
        kind, parts = key
        name = parts[0] if kind == scval.VEC and parts else None
        if name == symbol("ReserveAssetKey"):
            reserve = dict((value[1] or ()) if value[0] == scval.MAP else ())
            if symbol("configuration") in reserve:
                pairs.append(((scval.BYTES, encode_scval(key)), reserve[symbol("configuration")]))
        elif name not in _STATE:
            pairs.append(((scval.BYTES, encode_scval(key)), value))
    return config_hash_of(pairs)


def amount_of(value: ScVal | None, what: str) -> int:
    """A number of shares or of base units; 0 if there is no value. Raises `DecodeError` if it is negative."""
    number: int = 0 if value is None else expect(value, scval.I128, what)
    if number < 0:
        raise DecodeError(f"{what} is negative")
    return number


class _ReserveTokens(NamedTuple):
    """The tokens of a reserve's shares of supply and of debt."""

    s_token: str
    debt_token: str


def _tokens(reserve: Fields) -> _ReserveTokens | None:
    """The two tokens in a reserve's ``reserve_type``, which is [Fungible, sToken, debtToken]; None if it is [RWA].

    Raises `DecodeError`.
    """
    parts = expect(reserve.required("reserve_type"), scval.VEC, "ReserveData: field reserve_type")
    kind = expect(parts[0], scval.SYMBOL, "ReserveData: field reserve_type") if parts else "empty"
    if kind == "RWA":
        return None
    if kind != "Fungible":
        raise DecodeError(f"ReserveData: field reserve_type is {kind}, neither Fungible nor RWA")
    if len(parts) != 3:
        raise DecodeError("ReserveData: field reserve_type has not two tokens")
    s_token, debt_token = (str(expect(part, scval.ADDRESS, "ReserveData: field reserve_type")) for part in parts[1:])
    return _ReserveTokens(s_token, debt_token)


def _feed(value: ScVal | None) -> tuple[int | None, Feed | None]:
    """The token's decimals and the first feed in a ``PriceFeed`` value. Raises `DecodeError`."""
    if value is None:
        return None, None
    config = Fields.of(value, "PriceFeed")
    decimals = config.u32("asset_decimals")
    listed = config.get("feeds")
    feeds = None if listed is None else expect(listed, scval.VEC, "PriceFeed: field feeds")
    if not feeds:
        return decimals, None
    feed = Fields.of(feeds[0], "PriceFeed.feeds[0]")
    contract, max_age = feed.address("feed"), feed.u64("min_timestamp_delta")
    match feed.get("feed_asset"):
        case (scval.VEC, ((scval.SYMBOL, "Stellar"), (scval.ADDRESS, str(token)))):
            return decimals, Feed(contract, by_address(token), max_age)
        case (scval.VEC, ((scval.SYMBOL, "Other"), (scval.SYMBOL, str(name)))):
            return decimals, Feed(contract, by_symbol(name), max_age)
    raise DecodeError("PriceFeed: field feed_asset is neither Stellar nor Other")
