"""XOXNO's price aggregator: a key's price from one or two sources, with its verdict (docs/oracles.md, "XOXNO").

Prices are in WAD, 18 decimals. A source that cannot be read is missing; one that is broken makes the price unusable.
The sources that ask an Aquarius pool for its reserves have no rule here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, encode_scval, i128, struct_map, symbol, u32, u64, vec
from exporter.ledger.storage_rules.host import (
    I128_MAX,
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

WAD: Final = 10**18
WAD_DECIMALS: Final = 18
MAX_DEPTH: Final = 3
MAX_FUTURE_SECONDS: Final = 60
MAX_SPREAD_SECONDS: Final = 3600
MIN_RESOLUTION_SECONDS: Final = 60
MAX_TWAP_RECORDS: Final = 12

NO_TYPE, NO_RECORDS, MANY_RECORDS = 204, 219, 228


@dataclass(frozen=True, slots=True)
class Reading:
    """The quote of a source: ``price`` in WAD, ``market`` whether it is a market's price and not a fundamental one."""

    price: int
    time: int
    stale: bool
    market: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """A key's price from its sources; all zeros where there is none."""

    price: int = 0
    time: int = 0
    first: int = 0
    second: int = 0
    stale: bool = False
    deviation: bool = False
    valid: bool = False


class _SourceError(Exception):
    """A key or a source of it is broken in a way that leaves the key without a price."""


def recognises(_host: StorageHost, contract: Contract) -> bool:
    """Whether a contract has an index of oracles, under the variant of an enum."""
    return vec(symbol("OracleKeys")) in contract.storage


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The answer of ``quotes()``."""
    match call:
        case ["quotes", keys]:
            session = _Session(host, contract)
            return _map_of({key: session.status(key) for key in items(keys, "keys")})
    raise unknown_function(call)


def _map_of(pairs: dict[ScVal, ScVal]) -> ScVal:
    """A map in the host's order: by the kind of the key, then by its address or symbol."""

    def order(pair: tuple[ScVal, ScVal]) -> tuple[str, bytes]:
        kind, content = _variant(pair[0])
        return kind, content[1].encode() if content[0] == scval.SYMBOL else encode_scval(content)

    return (scval.MAP, tuple(sorted(pairs.items(), key=order)))


@dataclass(slots=True)
class _Session:
    """One call: what was found of a key stays so until its end."""

    host: StorageHost
    contract: Contract
    resolving: list[ScVal] = field(default_factory=list)
    known: dict[ScVal, Outcome] = field(default_factory=dict)
    """Of keys that others' prices are multiples of."""

    def status(self, key: ScVal) -> ScVal:
        """The key's ``PriceStatus``."""
        outcome = self.found(key, 0)
        return struct_map(
            {
                "final_wad": i128(outcome.price),
                "primary_wad": i128(outcome.first),
                "secondary_wad": i128(outcome.second),
                "price_timestamp": u64(outcome.time),
                "stale": (scval.BOOL, outcome.stale),
                "deviation": (scval.BOOL, outcome.deviation),
                "valid": (scval.BOOL, outcome.valid),
            }
        )

    def oracle(self, key: ScVal) -> Fields:
        stored = self.host.data(self.contract.address, vec(symbol("Oracle"), key))
        if stored is None:
            raise _SourceError
        return Fields.of(stored, "Oracle")

    def nested(self, key: ScVal, depth: int) -> Outcome:
        """The usable price of a key that another one's price is a multiple of."""
        if key not in self.known:
            self.known[key] = self.found(key, depth)
        elif self.known[key].valid:
            self.check_path(key, depth)
        if not self.known[key].valid:
            raise _SourceError
        return self.known[key]

    def check_path(self, key: ScVal, depth: int) -> None:
        """What is known already must not be too deep, or lead back, from here either."""
        with self.resolved(key, depth) as oracle:
            for source in items(oracle.get("sources") or vec(), "sources"):
                kind, content = _variant(source)
                if kind == "Scaled":
                    self.check_path(present(Fields.of(content, kind).get("quote")), depth + 1)
                elif kind != "Feed":
                    raise _no_rule(kind)

    @contextmanager
    def resolved(self, key: ScVal, depth: int) -> Iterator[Fields]:
        """A key's settings, while the sources that they name are looked at."""
        if depth > MAX_DEPTH or key in self.resolving:
            raise _SourceError
        oracle = self.oracle(key)
        self.resolving.append(key)
        try:
            yield oracle
        finally:
            self.resolving.pop()

    def found(self, key: ScVal, depth: int) -> Outcome:
        try:
            with self.resolved(key, depth) as oracle:
                sources = items(oracle.get("sources") or vec(), "sources")
                if len(sources) not in (1, 2):
                    return Outcome()
                return _combined([self.read(source, oracle, depth) for source in sources], oracle)
        except _SourceError:
            return Outcome()

    def read(self, source: ScVal, oracle: Fields, depth: int) -> Reading | None:
        """The quote of one source, or None where it cannot be read."""
        kind, content = _variant(source)
        fields = Fields.of(content, kind)
        if kind == "Feed":
            found = self.observation(fields)
            if found is None:
                return None
            price, time = found
            stale, market = self.is_old(time, fields.u64("max_stale_seconds")), _is_market(fields)
        elif kind == "Scaled":
            factor = fields.struct("factor")
            found = self.observation(factor)
            if found is None:
                return None
            if not fields.i128("min_factor_wad") <= found[0] <= fields.i128("max_factor_wad"):
                raise _SourceError
            stale, market = self.is_old(found[1], factor.u64("max_stale_seconds")), _is_market(factor)
            quote = self.nested(present(fields.get("quote")), depth + 1)
            price, time = (found[0] * quote.price + WAD // 2) // WAD, min(found[1], quote.time)
            if price > I128_MAX:
                raise _SourceError
        else:
            raise _no_rule(kind)
        stale = stale or self.is_old(time, oracle.u64("max_price_stale_seconds"))
        return Reading(price, time, stale, market)

    def is_old(self, time: int, most: int) -> bool:
        return self.host.now - time > most

    def observation(self, feed: Fields) -> tuple[int, int] | None:
        """Price and time of a feed, or None where it gives none that is usable."""
        provider, content = _variant(present(feed.get("provider")))
        fields, decimals = Fields.of(content, provider), feed.u32("decimals")
        contract = fields.address("contract")
        if provider in ("RedStone", "Xoxno"):
            answered = self.host.try_call(contract, "read_price_data_for_feed", present(fields.get("feed_id")))
            if answered is None:
                return None
            data = Fields.of(answered, "price")
            times = data.u64("package_timestamp") // 1000, data.u64("write_timestamp") // 1000
            price: int = expect(present(data.get("price")), scval.U256, "price")
            return None if price > I128_MAX else self.usable(price, min(times), max(times), decimals)
        if provider != "Reflector":
            raise _no_rule(provider)
        asset = _reflector_asset(present(fields.get("asset")))
        mode, records = _variant(present(fields.get("read_mode")))
        if mode == "Spot":
            answered = self.host.try_call(contract, "lastprice", asset)
            found = None if answered is None else price_parts(answered)
            return None if found is None else self.usable(*found, found[1], decimals)
        return self.average(contract, asset, expect(records, scval.U32, "Twap"), decimals)

    def average(self, contract: str, asset: ScVal, records: int, decimals: int) -> tuple[int, int] | None:
        """The mean of an oracle's last records, none of which may be missing, with the time of the oldest."""
        if not 0 < records <= MAX_TWAP_RECORDS:
            raise TrapError(f"Error(Contract, #{NO_RECORDS if records == 0 else MANY_RECORDS})")
        answered = self.host.try_call(contract, "prices", asset, u32(records))
        if answered is None or answered == VOID:
            return None
        parts = [price_parts(item) for item in items(answered, "prices()")]
        history = [part for part in parts if part is not None]
        if len(history) not in (records, records + 1):
            return None
        answered = self.host.try_call(contract, "resolution")
        if answered is None:
            return None
        step: int = expect(answered, scval.U32, "resolution()")
        if step < MIN_RESOLUTION_SECONDS:
            return None
        times = [time for _, time in history]
        if any(newer - older < step for newer, older in pairwise(times)):
            return None
        total = sum(price for price, _ in history)
        if min(price for price, _ in history) <= 0 or total > I128_MAX:
            return None
        return self.usable(total // len(history), times[-1], max(times), decimals)

    def usable(self, price: int, time: int, newest: int, decimals: int) -> tuple[int, int] | None:
        """A price above zero in WAD, unless it is of the future."""
        if newest > self.host.now + MAX_FUTURE_SECONDS or price <= 0 or decimals > WAD_DECIMALS:
            return None
        scaled = price * 10 ** (WAD_DECIMALS - decimals)
        return None if scaled > I128_MAX else (scaled, time)


def _combined(readings: list[Reading | None], oracle: Fields) -> Outcome:
    """One price of one or two sources; if one of two is missing there is none, but a deviation."""
    first, second = readings[0], readings[-1]
    if first is None or second is None:
        found = first or second
        if found is None:
            return Outcome()
        prices = (found.price, 0) if first else (0, found.price)
        return Outcome(0, found.time, *prices, stale=found.stale, deviation=True)
    apart = first.market and second.market and abs(first.time - second.time) > MAX_SPREAD_SECONDS
    total = first.price + second.price
    price = total // 2 if total <= I128_MAX or first is second else 0
    stale = first.stale or second.stale or apart
    deviation = first is not second and not _within(
        first.price, second.price, oracle.struct("tolerance").u32("upper_ratio_bps")
    )
    return Outcome(
        price,
        min(first.time, second.time),
        first.price,
        second.price,
        stale=stale,
        deviation=deviation,
        valid=not stale
        and not deviation
        and price > 0
        and oracle.i128("min_sanity_price_wad") <= price <= oracle.i128("max_sanity_price_wad"),
    )


def _within(first: int, second: int, most: int) -> bool:
    """Whether the larger is at most this many basis points of the smaller, rounded half up."""
    high, low = max(first, second), min(first, second)
    if low <= 0:
        return False
    return (high * 10_000 + low // 2) // low <= most


def _is_market(feed: Fields) -> bool:
    provider, content = _variant(present(feed.get("provider")))
    return provider == "Reflector" or Fields.of(content, provider).get("nature") == vec(symbol("Market"))


def _reflector_asset(asset: ScVal) -> ScVal:
    kind, content = _variant(asset)
    if kind == "String":
        raise TrapError(f"Error(Contract, #{NO_TYPE})")
    return vec(symbol("Other" if kind == "Symbol" else "Stellar"), content)


def _variant(value: ScVal) -> tuple[str, ScVal]:
    """An enum's variant with its one value, void where it has none."""
    parts = items(value, "a variant")
    name: str = expect(parts[0], scval.SYMBOL, "a variant") if parts else ""
    return name, parts[1] if len(parts) > 1 else VOID


def _no_rule(kind: str) -> NotFromStorageError:
    return NotFromStorageError(f"no rule for a source of the kind {kind[:40]}")
