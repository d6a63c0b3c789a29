"""K2's price oracle: one price for each of some assets, or an error for all (docs/oracles.md, "K2").

Prices are u128 with the oracle's precision, 14 decimals. The deployed code has functions that no source shows; of
those ``get_asset_prices_vec_fresh`` is answered where a cached price would not count, so that both must be the same.
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
    """The oracle's own error; where it asks a source, another source may come in."""

    def __init__(self, code: int) -> None:
        super().__init__(f"Error(Contract, #{code})")


def recognises(_host: StorageHost, contract: Contract) -> bool:
    """Whether a contract names a Reflector oracle and native XLM, under the variants of an enum."""
    return all(vec(symbol(name)) in contract.storage for name in ("ReflectorContract", "NativeXlmAddress"))


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The prices of some assets, in their order; one that is refused fails the call."""
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
    """An oracle with its settings, and what they default to. Prices are pairs of the price and its time."""

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
        """The adapter that the call asks for many feeds at once: the first that an asset has."""

    def prices(self, assets: tuple[ScVal, ...], *, cached_counts: bool = True) -> ScVal:
        if _optional(self.settings, "Paused", scval.BOOL):
            raise _RefusedError(FAILED)
        if len(set(assets)) != len(assets):
            raise NotFromStorageError("an asset is listed twice, and the second price is compared with the first")
        found = [self.cached(asset, cached_counts=cached_counts) or self.price(asset) for asset in assets]
        return vec(*(struct_map({"price": u128(price), "timestamp": u64(time)}) for price, time in found))

    def stored(self, name: str, asset: ScVal) -> ScVal | None:
        return self.host.data(self.address, vec(symbol(name), asset))

    def price(self, asset: ScVal) -> tuple[int, int]:
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
            override = None  # there nobody looks at it once it has expired
        elif override is not None and self.max_age == 0:
            raise _RefusedError(NO_SOURCE)
        elif override is not None and expiry is None:
            raise _RefusedError(EXPIRED)
        if adapter is not None:
            found = self.from_adapter(adapter, config)
        elif _optional(config, "custom_oracle", scval.ADDRESS) is not None:
            raise NotFromStorageError("the asset has an oracle of its own")
        else:
            found = self.from_reflector(asset)
        self.check_change(asset, found[0], override)
        return found

    def cached(self, asset: ScVal, *, cached_counts: bool) -> tuple[int, int] | None:
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
        """A price must not be 0, nor too far from the last one, which is stored unless it is given."""
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
        answered = self.host.try_call(adapter, "read_price_data", vec(present(config.get("feed_id"))))
        given = () if answered is None else items(answered, "read_price_data()")
        if len(given) != 1:
            raise _RefusedError(FAILED)
        fields = Fields.of(given[0], "price")
        price: int = expect(present(fields.get("price")), scval.U256, "price")
        if price > U128_MAX:
            raise _RefusedError(OVERFLOW)
        time = fields.u64("package_timestamp") // 1000
        own: int | None = _optional(config, "max_age", scval.U64)
        self.check_age(time, self.max_age if own is None else own)
        decimals: int | None = _optional(config, "oracle_decimals", scval.U32)
        return _normalized(price, ADAPTER_DECIMALS if decimals is None else decimals, self.precision), time

    def from_reflector(self, asset: ScVal) -> tuple[int, int]:
        reflector: str = expect(present(self.settings.get("ReflectorContract")), scval.ADDRESS, "ReflectorContract")
        try:
            return self.from_oracle(reflector, asset, self.source_decimals)
        except _RefusedError:
            if self.is_fallback_void:  # the contract reads it as an address
                raise TrapError(PANIC) from None
            if "FallbackOracle" not in self.settings:
                raise
        return self.from_oracle(self.settings.address("FallbackOracle"), asset, None)

    def from_oracle(self, oracle: str, asset: ScVal, decimals: int | None) -> tuple[int, int]:
        found = price_parts(self.host.call(oracle, "lastprice", asset))
        native = vec(symbol("Stellar"), present(self.settings.get("NativeXlmAddress")))
        if (found is None or found[0] < 0) and asset == native:
            found = price_parts(self.host.call(oracle, "lastprice", vec(symbol("Other"), symbol("XLM"))))
        if found is None or found[0] < 0:
            raise _RefusedError(FAILED)
        self.check_age(found[1], self.max_age)
        if decimals is None:
            decimals = expect(self.host.call(oracle, "decimals"), scval.U32, "decimals()")
        return _normalized(found[0], decimals, self.precision), found[1]

    def check_age(self, time: int, most: int) -> None:
        if time > self.host.now or self.host.now - time > most:
            raise _RefusedError(TOO_OLD)


def _normalized(price: int, given: int, wanted: int) -> int:
    if abs(given - wanted) > 38:  # 10^39 does not fit into a u128
        raise _RefusedError(OVERFLOW)
    scaled: int = price // 10 ** (given - wanted) if given > wanted else price * 10 ** (wanted - given)
    if scaled > U128_MAX:
        raise _RefusedError(CALCULATION)
    return scaled


def _optional(fields: Fields, name: str, kind: int) -> Any:
    value = fields.get(name)
    return None if value is None or value == VOID else expect(value, kind, name)
