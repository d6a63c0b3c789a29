"""Answers calls of XOXNO's price aggregator, and of the oracle of its own that it asks (docs/oracles.md, "XOXNO").

The aggregator's prices have 18 decimals (WAD). A source that cannot be read counts as missing. A source that is broken
makes the price unusable. Sources that ask an Aquarius pool for its reserves have no rule here.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, encode_scval, i128, struct_map, symbol, u32, u64, vec
from exporter.ledger.storage_rules.host import (
    I128_MAX,
    PANIC,
    Call,
    Contract,
    NotFromStorageError,
    StorageHost,
    TrapError,
    items,
    present,
    price_data,
    price_parts,
    unknown_function,
)

WAD: Final = 10**18
WAD_DECIMALS: Final = 18
MAX_DEPTH: Final = 3
MAX_FUTURE_SECONDS: Final = 60
MAX_SPREAD_SECONDS: Final = 3600
MIN_RESOLUTION_SECONDS: Final = 60
MAX_TWAP_RECORDS: Final = 12

NO_TYPE, NO_RECORDS, MANY_RECORDS = 204, 219, 228

ORACLE_DECIMALS: Final = 8
MAX_STALE_SECONDS: Final = 86_400
NO_DATA: Final = "Error(Contract, #7)"
STALE: Final = "Error(Contract, #8)"


class Observation(NamedTuple):
    """A price that a source gave."""

    price: int
    """The price, in WAD."""
    time: int
    """The time of the price, in unix seconds."""


class SourcePrice(NamedTuple):
    """A price that a source gave, and how the aggregator judges it."""

    price: int
    """The price, in WAD."""
    time: int
    """The time of the price, in unix seconds."""
    stale: bool
    """Whether the price is older than the source or the token allows."""
    market: bool
    """Whether it is a market price, and not a fundamental one."""


class PriceStatus(NamedTuple):
    """What the aggregator answers about a key. Everything is zero or false if there is no price."""

    final_wad: int = 0
    """The price that counts, which is the mean of the two sources."""
    primary_wad: int = 0
    """The price of the first source; 0 if it is missing."""
    secondary_wad: int = 0
    """The price of the second source, or of the only one; 0 if it is missing."""
    price_timestamp: int = 0
    """The time of the older source, in unix seconds."""
    stale: bool = False
    """Whether a source is too old, or the times of the two differ too much."""
    deviation: bool = False
    """Whether the sources deviate too much, or one of two is missing."""
    valid: bool = False
    """Whether the price can be used."""

    def encoded(self) -> ScVal:
        """The status as the contract's struct."""

        def of_kind(name: str, value: int) -> ScVal:
            if isinstance(value, bool):
                return (scval.BOOL, value)
            return u64(value) if name == "price_timestamp" else i128(value)

        return struct_map({name: of_kind(name, value) for name, value in self._asdict().items()})


class _SourceError(Exception):
    """A key, or a source of it, is broken in a way that leaves the key without a price."""


def recognises(_host: StorageHost, contract: Contract) -> bool:
    """Whether a contract's instance has an index of oracles, as the aggregator has, or signers and a threshold."""
    names = [name for name in ("OracleKeys", "Signers", "Threshold") if vec(symbol(name)) in contract.storage]
    return "OracleKeys" in names or len(names) == 2


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The answer of the aggregator's ``quotes()``, or of one of the oracle's reading functions.

    Raises `TrapError` or `NotFromStorageError`.
    """
    is_aggregator = vec(symbol("OracleKeys")) in contract.storage
    match [is_aggregator, *call]:
        case [True, "quotes", keys]:
            session = _Session(host, contract)
            statuses = {key: session.status(key).encoded() for key in items(keys, "keys")}
            return (scval.MAP, tuple(sorted(statuses.items(), key=_map_order)))
        case [False, "decimals"]:
            return u32(ORACLE_DECIMALS)
        case [False, "read_price_data_for_feed", feed]:
            return _aggregate(host, contract, feed)
        case [False, "lastprice", asset]:
            feed = host.data(contract.address, vec(symbol("FeedMapping"), asset))
            return VOID if feed is None else _last_price(host, contract, feed)
    raise unknown_function(call)


def _map_order(pair: tuple[ScVal, ScVal]) -> tuple[str, bytes]:
    """The order of keys in the contract's map: by variant, then by content."""
    kind, content = _variant(pair[0])
    return kind, content[1].encode() if content[0] == scval.SYMBOL else encode_scval(content)


class _Session:
    """One call of the aggregator, with the keys whose prices are being resolved."""

    def __init__(self, host: StorageHost, contract: Contract) -> None:
        self.host, self.contract = host, contract
        self.resolving: list[ScVal] = []

    def status(self, key: ScVal) -> PriceStatus:
        """The status of a key. A key that depends on itself has no price."""
        if key in self.resolving:
            return PriceStatus()
        if len(self.resolving) > MAX_DEPTH:
            raise NotFromStorageError(
                f"a price hangs on more than {MAX_DEPTH} others: it depends on what the call found before"
            )
        stored = self.host.data(self.contract.address, vec(symbol("Oracle"), key))
        if stored is None:
            return PriceStatus()
        oracle = Fields.of(stored, "Oracle")
        sources = items(oracle.get("sources") or vec(), "sources")
        self.resolving.append(key)
        try:
            prices = [self.read(source, oracle) for source in sources if len(sources) in (1, 2)]
        except _SourceError:
            return PriceStatus()
        finally:
            self.resolving.pop()
        return _combined(prices, oracle) if prices else PriceStatus()

    def read(self, source: ScVal, oracle: Fields) -> SourcePrice | None:
        """The price of a source; None if it gives none. Raises `_SourceError`."""
        kind, content = _variant(source)
        if kind not in ("Feed", "Scaled"):
            raise _no_rule(kind)
        fields = Fields.of(content, kind)
        feed = fields if kind == "Feed" else fields.struct("factor")
        observation = self.observation(feed)
        if observation is None:
            return None
        price, time = observation
        stale = self.host.now - time > feed.u64("max_stale_seconds")
        if kind == "Scaled":
            if not fields.i128("min_factor_wad") <= price <= fields.i128("max_factor_wad"):
                raise _SourceError
            quote = self.status(present(fields.get("quote")))
            if not quote.valid:
                raise _SourceError
            price, time = (price * quote.final_wad + WAD // 2) // WAD, min(time, quote.price_timestamp)
            if price > I128_MAX:
                raise _SourceError
        stale |= self.host.now - time > oracle.u64("max_price_stale_seconds")
        provider, content = _variant(present(feed.get("provider")))
        nature = Fields.of(content, provider).get("nature")
        return SourcePrice(price, time, stale, provider == "Reflector" or nature == vec(symbol("Market")))

    def observation(self, feed: Fields) -> Observation | None:
        """The price that a feed's provider gives; None if it gives none."""
        provider, content = _variant(present(feed.get("provider")))
        fields, decimals = Fields.of(content, provider), feed.u32("decimals")
        contract = fields.address("contract")
        if provider in ("RedStone", "Xoxno"):
            answer = self.host.try_call(contract, "read_price_data_for_feed", present(fields.get("feed_id")))
            if answer is None:
                return None
            data = Fields.of(answer, "price")
            times = data.u64("package_timestamp") // 1000, data.u64("write_timestamp") // 1000
            price: int = expect(present(data.get("price")), scval.U256, "price")
            return None if price > I128_MAX else self.usable(price, min(times), max(times), decimals)
        if provider != "Reflector":
            raise _no_rule(provider)
        kind, name = _variant(present(fields.get("asset")))
        if kind == "String":
            raise TrapError(f"Error(Contract, #{NO_TYPE})")
        asset = vec(symbol("Other" if kind == "Symbol" else "Stellar"), name)
        mode, records = _variant(present(fields.get("read_mode")))
        if mode == "Spot":
            answer = self.host.try_call(contract, "lastprice", asset)
            spot = None if answer is None else price_parts(answer)
            if spot is None:
                return None
            price, time = spot
            return self.usable(price, time, time, decimals)
        return self.average(contract, asset, expect(records, scval.U32, "Twap"), decimals)

    def average(self, contract: str, asset: ScVal, records: int, decimals: int) -> Observation | None:
        """The mean of an oracle's last records, with the time of the oldest. None if one of them is missing."""
        if not 0 < records <= MAX_TWAP_RECORDS:
            raise TrapError(f"Error(Contract, #{NO_RECORDS if records == 0 else MANY_RECORDS})")
        answer = self.host.try_call(contract, "prices", asset, u32(records))
        if answer is None or answer == VOID:
            return None
        history = [price for price in map(price_parts, items(answer, "prices()")) if price is not None]
        resolution = self.host.try_call(contract, "resolution")
        if len(history) not in (records, records + 1) or resolution is None:
            return None
        step: int = expect(resolution, scval.U32, "resolution()")
        prices, times = zip(*history, strict=True)
        is_even = step >= MIN_RESOLUTION_SECONDS and all(newer - older >= step for newer, older in pairwise(times))
        if not is_even or min(prices) <= 0 or sum(prices) > I128_MAX:
            return None
        return self.usable(sum(prices) // len(prices), times[-1], max(times), decimals)

    def usable(self, price: int, time: int, newest: int, decimals: int) -> Observation | None:
        """The price in WAD with its time. ``newest`` is the time of its newest record.

        None if the price is not above zero, if it does not fit, or if its newest record is of the future.
        """
        if newest > self.host.now + MAX_FUTURE_SECONDS or price <= 0 or decimals > WAD_DECIMALS:
            return None
        scaled = price * 10 ** (WAD_DECIMALS - decimals)
        return None if scaled > I128_MAX else Observation(scaled, time)


def _combined(prices: list[SourcePrice | None], oracle: Fields) -> PriceStatus:
    """The price that follows from one or two sources. If one of two is missing there is a deviation and no price."""
    first, second = prices[0], prices[-1]
    if first is None or second is None:
        only = first or second
        if only is None:
            return PriceStatus()
        return PriceStatus(
            primary_wad=only.price if first else 0,
            secondary_wad=0 if first else only.price,
            price_timestamp=only.time,
            stale=only.stale,
            deviation=True,
        )
    are_apart = first.market and second.market and abs(first.time - second.time) > MAX_SPREAD_SECONDS
    low, high = sorted((first.price, second.price))
    price = (low + high) // 2 if low + high <= I128_MAX or first is second else 0
    stale = first.stale or second.stale or are_apart
    deviation = False
    if first is not second:
        highest_ratio_bps = oracle.struct("tolerance").u32("upper_ratio_bps")
        deviation = low <= 0 or (high * 10_000 + low // 2) // low > highest_ratio_bps
    is_sane = price > 0 and oracle.i128("min_sanity_price_wad") <= price <= oracle.i128("max_sanity_price_wad")
    return PriceStatus(
        final_wad=price,
        primary_wad=first.price,
        secondary_wad=second.price,
        price_timestamp=min(first.time, second.time),
        stale=stale,
        deviation=deviation,
        valid=not stale and not deviation and is_sane,
    )


def _variant(value: ScVal) -> tuple[str, ScVal]:
    """The name and the content of an enum's variant; void if it has no content."""
    parts = items(value, "a variant")
    name: str = expect(parts[0], scval.SYMBOL, "a variant") if parts else ""
    return name, parts[1] if len(parts) > 1 else VOID


def _no_rule(kind: str) -> NotFromStorageError:
    return NotFromStorageError(f"no rule for a source of the kind {kind[:40]}")


def _aggregate(host: StorageHost, contract: Contract, feed: ScVal) -> ScVal:
    """The oracle's stored aggregate of a feed. Raises `TrapError` if there is none, or if it is too old."""
    stored = host.data(contract.address, vec(symbol("CurrentAggregate"), feed))
    if stored is None:
        raise TrapError(NO_DATA)
    written = Fields.of(stored, "aggregate").u64("write_timestamp") // 1000
    limit = contract.storage.get(vec(symbol("MaxStaleSeconds")), u64(MAX_STALE_SECONDS))
    if host.now - written > expect(limit, scval.U64, "MaxStaleSeconds"):
        raise TrapError(STALE)
    return stored


def _last_price(host: StorageHost, contract: Contract, feed: ScVal) -> ScVal:
    """The oracle's answer of ``lastprice``: a feed's price, or void if there is none or it is too old."""
    try:
        data = Fields.of(_aggregate(host, contract, feed), "aggregate")
    except TrapError:
        return VOID
    price: int = expect(present(data.get("price")), scval.U256, "price")
    if price > I128_MAX:
        raise TrapError(PANIC)
    return price_data(price, data.u64("package_timestamp") // 1000)
