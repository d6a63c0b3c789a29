"""K2's price oracle: one price for each of some assets, or an error for all (docs/oracles.md, "K2").

Prices are u128 with the oracle's precision, 14 decimals. The deployed code has functions that no source shows; of
those ``get_asset_prices_vec_fresh`` is answered where a cached price would not count, so that both must be the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, struct_map, symbol, u64, vec
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
DEFAULT_PRECISION: Final = 14
DEFAULT_MAX_AGE: Final = 3600
DEFAULT_MAX_CHANGE: Final = 2000
ADAPTER_DECIMALS: Final = 8
U128_MAX: Final = 2**128 - 1

TOO_OLD, NOT_INITIALIZED, NOT_WHITELISTED, DISABLED, FAILED, CALCULATION = 4, 6, 7, 8, 9, 10
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
    oracle = _Oracle(host, contract)
    match call:
        case ["get_asset_prices_vec", assets]:
            return oracle.prices(items(assets, "assets"))
        case ["get_asset_prices_vec_fresh", assets]:
            code = host.code(contract)
            if code is not None and b"get_asset_prices_vec_fresh" not in code:
                raise TrapError(NO_SUCH_FUNCTION)
            return oracle.prices(items(assets, "assets"), cached_counts=False)
    raise unknown_function(call)


class _Oracle:
    """An oracle's settings, with what they default to."""

    def __init__(self, host: StorageHost, contract: Contract) -> None:
        self.host, self.contract = host, contract
        stored = self._setting("OracleConfig")
        config = None if stored is None else Fields.of(stored, "OracleConfig")
        precision = self._setting("ReflectorPrecision")
        self.source_decimals: int | None = None if precision is None else expect(precision, scval.U32, "precision")
        configured = DEFAULT_PRECISION if config is None else config.u32("price_precision")
        self.precision = configured if self.source_decimals is None else self.source_decimals
        self.max_age = DEFAULT_MAX_AGE if config is None else config.u64("price_staleness_threshold")
        self.max_change = DEFAULT_MAX_CHANGE if config is None else config.u32("max_price_change_bps")
        ttl = self._setting("PriceCacheTtl")
        self.cache_seconds: int = 0 if ttl is None else expect(ttl, scval.U64, "PriceCacheTtl")

    def _setting(self, name: str) -> ScVal | None:
        value = self.contract.storage.get(vec(symbol(name)))
        return None if value == VOID else value

    def check_paused(self) -> None:
        paused = self._setting("Paused")
        if paused is not None and expect(paused, scval.BOOL, "Paused"):
            raise _RefusedError(FAILED)

    def prices(self, assets: tuple[ScVal, ...], *, cached_counts: bool = True) -> ScVal:
        """All of them, those of one adapter asked for together: where that fails, all fail."""
        self.check_paused()
        if len(set(assets)) != len(assets):
            raise NotFromStorageError("an asset is listed twice, and the second price is compared with the first")
        found: dict[int, tuple[int, int]] = {}
        adapter: str | None = None
        together: dict[int, tuple[ScVal, Fields]] = {}
        for place, asset in enumerate(assets):
            cached = self.cached(asset, cached_counts=cached_counts)
            if cached is not None:
                found[place] = cached
                continue
            config = self.config(asset)
            override = _optional(config, "manual_override_price", scval.U128)
            expiry = _optional(config, "override_expiry_timestamp", scval.U64)
            if override is not None and expiry is not None and self.host.now < expiry:
                self.check_change(asset, override)
                set_at = _optional(config, "override_set_timestamp", scval.U64)
                found[place] = override, self.host.now if set_at is None else set_at
                continue
            named, feed = _optional(config, "batch_adapter", scval.ADDRESS), config.get("feed_id") or VOID
            if named is not None and feed != VOID and adapter in (None, named):
                adapter = named
                together[place] = feed, config
                continue
            found[place] = self.one(asset, config, override, expiry)
        if adapter is not None:
            found |= self.from_adapter(adapter, together)
            for place in together:
                self.check_change(assets[place], found[place][0])
        return vec(*(_price(*found[place]) for place in range(len(assets))))

    def config(self, asset: ScVal) -> Fields:
        stored = self.host.data(self.contract.address, vec(symbol("AssetConfig"), asset))
        if stored is None:
            raise _RefusedError(NOT_WHITELISTED)
        config = Fields.of(stored, "AssetConfig")
        if not config.boolean("enabled"):
            raise _RefusedError(DISABLED)
        return config

    def one(self, asset: ScVal, config: Fields, override: int | None, expiry: int | None) -> tuple[int, int]:
        """Price and time of the asset's first source; an override that is over is what it must not be too far from."""
        if override is not None:
            if self.max_age == 0:
                raise _RefusedError(NO_SOURCE)
            if expiry is None:
                raise _RefusedError(EXPIRED)
        adapter, feed = _optional(config, "batch_adapter", scval.ADDRESS), config.get("feed_id") or VOID
        if adapter is not None and feed != VOID:
            found = self.from_adapter(adapter, {0: (feed, config)})[0]
        elif _optional(config, "custom_oracle", scval.ADDRESS) is not None:
            raise NotFromStorageError("the asset has an oracle of its own")
        else:
            found = self.from_reflector(asset)
        self.check_change(asset, found[0], override)
        return found

    def cached(self, asset: ScVal, *, cached_counts: bool) -> tuple[int, int] | None:
        """The price of an earlier call, while the oracle's settings let it count."""
        if self.cache_seconds == 0:
            return None
        stored = self.host.data(self.contract.address, vec(symbol("LastPriceData"), asset))
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
            stored = self.host.data(self.contract.address, vec(symbol("LastPrice"), asset))
            last = 0 if stored is None else expect(stored, scval.U128, "LastPrice")
        if not last:
            return
        moved = abs(price - last) * 10_000
        if moved > U128_MAX or moved // last > 2**32 - 1:
            raise _RefusedError(OVERFLOW)
        if moved // last > self.max_change:
            raise _RefusedError(MOVED)

    def from_adapter(self, adapter: str, feeds: Mapping[int, tuple[ScVal, Fields]]) -> dict[int, tuple[int, int]]:
        """Prices and times of a RedStone adapter's feeds, by the place that each is wanted at."""
        if len(feeds) == 1:
            data = self.host.try_call(adapter, "read_price_data_for_feed", next(iter(feeds.values()))[0])
            given: tuple[ScVal, ...] | None = None if data is None else (data,)
        else:
            data = self.host.try_call(adapter, "read_price_data", vec(*(feed for feed, _ in feeds.values())))
            given = None if data is None else items(data, "read_price_data()")
        if given is None or len(given) != len(feeds):
            raise _RefusedError(FAILED)
        found = {}
        for (place, (_, config)), value in zip(feeds.items(), given, strict=True):
            fields = Fields.of(value, "price")
            price: int = expect(present(fields.get("price")), scval.U256, "price")
            if price > U128_MAX:
                raise _RefusedError(OVERFLOW)
            time = fields.u64("package_timestamp") // 1000
            own = _optional(config, "max_age", scval.U64)
            self.check_age(time, self.max_age if own is None else own)
            decimals = _optional(config, "oracle_decimals", scval.U32)
            price = _normalized(price, ADAPTER_DECIMALS if decimals is None else decimals, self.precision)
            if price == 0:
                raise _RefusedError(INVALID)
            found[place] = price, time
        return found

    def from_reflector(self, asset: ScVal) -> tuple[int, int]:
        """Price and time of Reflector, or where it has none that is good of the fallback."""
        reflector: str = expect(present(self._setting("ReflectorContract")), scval.ADDRESS, "ReflectorContract")
        try:
            return self.from_oracle(reflector, asset, self.source_decimals)
        except _RefusedError:
            key = vec(symbol("FallbackOracle"))
            fallback = self.contract.storage.get(key)
            if fallback is None:
                raise
        if fallback == VOID:  # the contract reads it as an address
            raise TrapError(PANIC)
        return self.from_oracle(expect(fallback, scval.ADDRESS, "FallbackOracle"), asset, None)

    def from_oracle(self, oracle: str, asset: ScVal, decimals: int | None) -> tuple[int, int]:
        """An oracle's last price; native XLM is asked for by its symbol, too."""
        found = price_parts(self.host.call(oracle, "lastprice", asset))
        native = vec(symbol("Stellar"), present(self._setting("NativeXlmAddress")))
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
    """A price of this many decimals in other ones, rounded down."""
    if abs(given - wanted) > 38:  # 10^39 does not fit into a u128
        raise _RefusedError(OVERFLOW)
    scaled: int = price // 10 ** (given - wanted) if given > wanted else price * 10 ** (wanted - given)
    if scaled > U128_MAX:
        raise _RefusedError(CALCULATION)
    return scaled


def _optional(fields: Fields, name: str, kind: int) -> Any:
    """A field's payload, or None where it is void or missing."""
    value = fields.get(name)
    return None if value is None or value == VOID else expect(value, kind, name)


def _price(price: int, time: int) -> ScVal:
    return struct_map({"price": (scval.U128, price), "timestamp": u64(time)})
