"""Answers calls of K2's price oracle from its entries (docs/oracles.md, "K2").

A call gives one price for each asset, or an error for all. Prices are u128 with the oracle's precision, 14 decimals.
The deployed code has functions whose source is not published. One of them, ``get_asset_prices_vec_fresh``, is answered
if no cached price would count, because then it must give the same as ``get_asset_prices_vec``.
"""

from __future__ import annotations

from typing import Any, Final

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect, named
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, struct_map, symbol, u32, u64, u128, vec
from exporter.ledger.storage_rules.host import (
    PANIC,
    Call,
    Contract,
    NotFromStorageError,
    StorageHost,
    TrapError,
    items,
    present,
    price_parts,
    unknown_function,
)

NO_SUCH_FUNCTION: Final = "Error(WasmVm, MissingValue)"
DEFAULT_CONFIG: Final = struct_map(
    {"max_price_change_bps": u32(2000), "price_precision": u32(14), "price_staleness_threshold": u64(3600)}
)
ADAPTER_DECIMALS: Final = 8
U128_MAX: Final = 2**128 - 1

TOO_OLD, NOT_WHITELISTED, DISABLED, FAILED, CALCULATION = 4, 7, 8, 9, 10
MOVED, EXPIRED, OVERFLOW, INVALID, NO_SOURCE = 16, 17, 18, 19, 2


class _RefusedError(TrapError):
    """An error of the oracle itself. If it concerns one source, the oracle may ask another source."""

    def __init__(self, code: int) -> None:
        super().__init__(f"Error(Contract, #{code})")


def recognises(_host: StorageHost, contract: Contract) -> bool:
    """Whether a contract's instance names a Reflector oracle and native XLM, as K2's oracle does."""
    return all(vec(symbol(name)) in contract.storage for name in ("ReflectorContract", "NativeXlmAddress"))


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The prices of some assets, in their order. Raises `TrapError` if one of them is refused."""
    match call:
        case ["get_asset_prices_vec", assets]:
            return _Oracle(host, contract).prices(items(assets, "assets"))
        case ["get_asset_prices_vec_fresh", assets]:
            code = host.code(contract)
            if code is not None and b"get_asset_prices_vec_fresh" not in code:
                raise TrapError(NO_SUCH_FUNCTION)
            return _Oracle(host, contract).prices(items(assets, "assets"), cached_counts=False)
    raise unknown_function(call)


class _Oracle:
    """An oracle with its settings and their defaults. A price is a pair of the price and its time (unix seconds)."""

    def __init__(self, host: StorageHost, contract: Contract) -> None:
        self.host, self.address = host, contract.address
        storage = named(contract.instance.storage).items()
        self.settings = Fields((((scval.SYMBOL, name), value) for name, value in storage if value != VOID), "oracle")
        self.is_fallback_void = contract.storage.get(vec(symbol("FallbackOracle"))) == VOID
        config = Fields.of(self.settings.get("OracleConfig") or DEFAULT_CONFIG, "OracleConfig")
        self.source_decimals: int | None = _optional(self.settings, "ReflectorPrecision", scval.U32)
        configured = config.u32("price_precision")
        self.precision = configured if self.source_decimals is None else self.source_decimals
        self.max_age, self.max_change = config.u64("price_staleness_threshold"), config.u32("max_price_change_bps")
        self.cache_seconds: int = _optional(self.settings, "PriceCacheTtl", scval.U64) or 0
        self.batched: str | None = None
        """The adapter that this call asks for many feeds at once, which is the first that an asset names."""

    def prices(self, assets: tuple[ScVal, ...], *, cached_counts: bool = True) -> ScVal:
        """The prices of the assets. With ``cached_counts`` a price in the oracle's cache is used."""
        if _optional(self.settings, "Paused", scval.BOOL):
            raise _RefusedError(FAILED)
        if len(set(assets)) != len(assets):
            raise NotFromStorageError("an asset is listed twice, and the second price is compared with the first")
        prices = [self.cached(asset, cached_counts=cached_counts) or self.price(asset) for asset in assets]
        return vec(*(struct_map({"price": u128(price), "timestamp": u64(time)}) for price, time in prices))

    def stored(self, name: str, asset: ScVal) -> ScVal | None:
        """The oracle's entry of this name about an asset."""
        return self.host.data(self.address, vec(symbol(name), asset))

    def price(self, asset: ScVal) -> tuple[int, int]:
        """The price of an asset: the manual override, or that of its source. Raises `TrapError`."""
        stored = self.stored("AssetConfig", asset)
        if stored is None:
            raise _RefusedError(NOT_WHITELISTED)
        config = Fields.of(stored, "AssetConfig")
        if not config.boolean("enabled"):
            raise _RefusedError(DISABLED)
        override: int | None = _optional(config, "manual_override_price", scval.U128)
        expiry: int | None = _optional(config, "override_expiry_timestamp", scval.U64)
        if override is not None and expiry is not None and self.host.now < expiry:
            self.check_change(asset, override)
            set_at: int | None = _optional(config, "override_set_timestamp", scval.U64)
            return override, self.host.now if set_at is None else set_at
        has_feed = (config.get("feed_id") or VOID) != VOID
        adapter: str | None = _optional(config, "batch_adapter", scval.ADDRESS) if has_feed else None
        self.batched = self.batched or adapter
        if adapter is not None and adapter == self.batched:
            override = None  # on this path the contract ignores an override that has expired
        elif override is not None and self.max_age == 0:
            raise _RefusedError(NO_SOURCE)
        elif override is not None and expiry is None:
            raise _RefusedError(EXPIRED)
        if adapter is not None:
            price, time = self.from_adapter(adapter, config)
        elif _optional(config, "custom_oracle", scval.ADDRESS) is not None:
            raise NotFromStorageError("the asset has an oracle of its own")
        else:
            price, time = self.from_reflector(asset)
        self.check_change(asset, price, override)
        return price, time

    def cached(self, asset: ScVal, *, cached_counts: bool) -> tuple[int, int] | None:
        """The price in the oracle's cache, if it is young enough. Raises `TrapError`."""
        stored = None if self.cache_seconds == 0 else self.stored("LastPriceData", asset)
        if stored is None:
            return None
        fields = Fields.of(stored, "LastPriceData")
        time = fields.u64("timestamp")
        if self.host.now - fields.u64("cached_at") > self.cache_seconds or self.host.now - time > self.max_age:
            return None
        if not cached_counts:
            raise NotFromStorageError("whether the deployed code takes a cached price here is not known")
        price: int = expect(present(fields.get("price")), scval.U128, "LastPriceData: price")
        self.check_change(asset, price)
        return price, time

    def check_change(self, asset: ScVal, price: int, last: int | None = None) -> None:
        """Raise `TrapError` if a price is 0, or too far from the last one, which is the stored one if omitted."""
        if price == 0:
            raise _RefusedError(INVALID)
        if self.max_change == 0:
            return
        if last is None:
            last = expect(self.stored("LastPrice", asset) or u128(0), scval.U128, "LastPrice")
        if not last:
            return
        moved = abs(price - last) * 10_000
        if moved > U128_MAX or moved // last > 2**32 - 1:
            raise _RefusedError(OVERFLOW)
        if moved // last > self.max_change:
            raise _RefusedError(MOVED)

    def from_adapter(self, adapter: str, config: Fields) -> tuple[int, int]:
        """The price that an adapter has for an asset's feed. Raises `TrapError`."""
        answer = self.host.try_call(adapter, "read_price_data", vec(present(config.get("feed_id"))))
        prices = () if answer is None else items(answer, "read_price_data()")
        if len(prices) != 1:
            raise _RefusedError(FAILED)
        fields = Fields.of(prices[0], "price")
        price: int = expect(present(fields.get("price")), scval.U256, "price")
        if price > U128_MAX:
            raise _RefusedError(OVERFLOW)
        time = fields.u64("package_timestamp") // 1000
        own: int | None = _optional(config, "max_age", scval.U64)
        self.check_age(time, self.max_age if own is None else own)
        decimals: int | None = _optional(config, "oracle_decimals", scval.U32)
        return _rescaled(price, ADAPTER_DECIMALS if decimals is None else decimals, self.precision), time

    def from_reflector(self, asset: ScVal) -> tuple[int, int]:
        """The price of the Reflector oracle or, if that is refused, of the fallback oracle. Raises `TrapError`."""
        reflector: str = expect(present(self.settings.get("ReflectorContract")), scval.ADDRESS, "ReflectorContract")
        try:
            return self.from_oracle(reflector, asset, self.source_decimals)
        except _RefusedError:
            if self.is_fallback_void:  # the contract fails when it reads this as an address
                raise TrapError(PANIC) from None
            if "FallbackOracle" not in self.settings:
                raise
        return self.from_oracle(self.settings.address("FallbackOracle"), asset, None)

    def from_oracle(self, oracle: str, asset: ScVal, decimals: int | None) -> tuple[int, int]:
        """The last price of an oracle, which is asked for its decimals if these are None. Raises `TrapError`."""
        quoted = price_parts(self.host.call(oracle, "lastprice", asset))
        native = vec(symbol("Stellar"), present(self.settings.get("NativeXlmAddress")))
        if (quoted is None or quoted[0] < 0) and asset == native:
            quoted = price_parts(self.host.call(oracle, "lastprice", vec(symbol("Other"), symbol("XLM"))))
        if quoted is None or quoted[0] < 0:
            raise _RefusedError(FAILED)
        price, time = quoted
        self.check_age(time, self.max_age)
        if decimals is None:
            decimals = expect(self.host.call(oracle, "decimals"), scval.U32, "decimals()")
        return _rescaled(price, decimals, self.precision), time

    def check_age(self, time: int, max_age_seconds: int) -> None:
        """Raise `TrapError` if a price is of the future, or too old."""
        if time > self.host.now or self.host.now - time > max_age_seconds:
            raise _RefusedError(TOO_OLD)


def _rescaled(price: int, decimals: int, wanted_decimals: int) -> int:
    if abs(decimals - wanted_decimals) > 38:  # 10^39 does not fit into a u128
        raise _RefusedError(OVERFLOW)
    if decimals > wanted_decimals:
        scaled: int = price // 10 ** (decimals - wanted_decimals)
    else:
        scaled = price * 10 ** (wanted_decimals - decimals)
    if scaled > U128_MAX:
        raise _RefusedError(CALCULATION)
    return scaled


def _optional(fields: Fields, name: str, kind: int) -> Any:
    """The field's content; None if it is missing or void."""
    value = fields.get(name)
    return None if value is None or value == VOID else expect(value, kind, name)
