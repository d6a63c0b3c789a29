"""The rule of Reflector's price oracles: releases 4.0 and 4.1, and the Pulse contract of release 6.

Releases 3 and 4 keep the same entries, but release 3 returns times in milliseconds, so the code has to show which
release it is. Times in entries are in milliseconds. Times that functions take and return are in seconds
(docs/oracles.md, "Reflector").
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import TEMPORARY
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, string, u32, u64, vec
from exporter.ledger.storage_rules.host import (
    BUDGET,
    Call,
    Contract,
    NotFromStorageError,
    StorageHost,
    TrapError,
    items,
    present,
    price_data,
    unknown_function,
    unsigned,
)

_DAY_MS: Final = 86_400_000
_TRACKED: Final = 255
"""The age, in periods before the last update, of the oldest update that release 6 can still find."""

MAX_RECORDS: Final = 20
"""The most records that ``prices()`` returns; release 6 has one more without gaps."""


class Release(Enum):
    """The release by whose rule a contract's prices are computed."""

    FOUR = "4"
    SIX_BEFORE = "6, whose entries are still those of release 4"
    SIX = "6"


RELEASES: Final = {"df88820e231ad8f3027871e5dd3cf45491d7b7735e785731466bfc2946008608": Release.FOUR}  # 4.1.0
"""The release of deployed code, by its hash. For other code the version in the wasm decides, if the code is held."""


def recognises(_host: StorageHost, contract: Contract) -> bool:
    """Whether a contract has the settings of a Reflector oracle, whose keys are strings."""
    return contract.strings("base_asset", "decimals", "resolution", "assets")


def release_of(host: StorageHost, contract: Contract) -> Release:
    """The release of a contract. Raises `NotFromStorageError` if neither the code's hash nor the code shows it."""
    listed = RELEASES.get((contract.instance.wasm_hash or b"").hex())
    if listed is not None:
        return listed
    protocol = contract.get(string("protocol"), scval.U32)
    code = host.code(contract)
    if code is None:
        raise NotFromStorageError("Reflector code of an unknown hash, and the code is not held, which has its release")
    if b"4.0.0" in code or b"4.1.0" in code:
        return Release.FOUR
    if b"6.0.0" not in code:
        raise NotFromStorageError("Reflector code of an unknown release")
    if b"invocation_costs" in code:
        raise NotFromStorageError("Reflector's Beam contract takes a fee for a price")
    if protocol == 2:
        return Release.SIX
    update = contract.get(string("protocol_update"), scval.U64)
    assert update is None or isinstance(update, int)
    return Release.SIX if update and update + _DAY_MS < host.now * 1000 else Release.SIX_BEFORE


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The result of a call: of a function of SEP-40, or of ``last_timestamp()``."""
    oracle = _Oracle(host, contract)
    match call:
        case ["decimals"]:
            return present(contract.storage.get(string("decimals")))
        case ["assets"]:
            return contract.storage.get(string("assets"), vec())
        case ["resolution"]:
            return u32(oracle.resolution // 1000)
        case ["last_timestamp"]:
            return u64(oracle.last // 1000)
        case ["lastprice", asset]:
            return oracle.price_data_at(asset, oracle.newest())
        case ["price", asset, time]:
            asked = unsigned(expect(time, scval.U64, "price(): timestamp") * 1000)
            return oracle.price_data_at(asset, asked - asked % oracle.resolution if oracle.resolution else 0)
        case ["prices", asset, records]:
            prices = oracle.records(asset, expect(records, scval.U32, "prices(): records"))
            return vec(*(price_data(price, time // 1000) for price, time in prices)) if prices else VOID
    raise unknown_function(call)


class _Oracle:
    """The settings and the prices of one oracle. All times are in milliseconds."""

    def __init__(self, host: StorageHost, contract: Contract) -> None:
        self.host, self.contract = host, contract
        self.release = release_of(host, contract)
        self.resolution: int = expect(present(contract.storage.get(string("resolution"))), scval.U32, "resolution")
        last = contract.storage.get(string("last_timestamp"))
        self.last: int = 0 if last is None else expect(last, scval.U64, "last_timestamp")

    def index(self, asset: ScVal) -> int | None:
        """The number of an asset, or None if the oracle does not have it."""
        if self.release is not Release.FOUR:
            listed = items(self.contract.storage.get(string("assets"), vec()), "assets")
            return listed.index(asset) if asset in listed else None
        parts = items(asset, "asset")
        if len(parts) != 2 or parts[0] not in ((scval.SYMBOL, "Stellar"), (scval.SYMBOL, "Other")):
            raise NotFromStorageError("the asset is neither Stellar(address) nor Other(symbol)")
        stored = self.contract.storage.get(parts[1])
        return None if stored is None else expect(stored, scval.U32, "index of an asset") % 256

    def newest(self) -> int | None:
        """The time of the last update. None without one, or if it is of the future or at least two periods old."""
        now = unsigned(self.host.now * 1000)
        if self.last == 0 or self.last > now or now - self.last >= 2 * self.resolution:
            return None
        return self.last

    def at(self, index: int, time: int) -> int | None:
        """The price of the asset with a number, at the time of an update. None if there is none."""
        if self.release is not Release.SIX:
            key = (scval.U128, time << 64 | index % 256)
            value = self.host.data(self.contract.address, key, TEMPORARY)
            return None if value is None else expect(value, scval.I128, "price")
        if time > self.last:
            return None
        ago = (self.last - time) // self.resolution if self.last > time else 0
        if ago > _TRACKED or not self._was_updated(index, ago):
            return None
        update = self._update(time)
        if update is None:
            return None
        mask = int.from_bytes(expect(present(update.get("mask")), scval.BYTES, "mask"), "little")
        prices = items(present(update.get("prices")), "prices")
        if not mask >> index & 1:
            return 0
        before = (mask & (1 << index) - 1).bit_count()
        if before >= len(prices):
            raise NotFromStorageError("an update has fewer prices than its mask says")
        return int(expect(prices[before], scval.I128, "price"))

    def _was_updated(self, index: int, ago: int) -> bool:
        """Whether the asset had a price that many periods before the last update. The history has 256 bits an asset."""
        value = self.contract.storage.get(string("history"))
        bits: bytes = b"" if value is None else expect(value, scval.BYTES, "history")
        own = bits[32 * index : 32 * index + 32].ljust(32, b"\0")
        return bool(int.from_bytes(own, "big") >> ago & 1)

    def _update(self, time: int) -> Fields | None:
        """All prices of the update at a time: from the cache in the instance, or else from the update's own entry."""
        for cached in items(self.contract.storage.get(string("cache"), vec()), "cache"):
            at, update = items(cached, "cache")
            if at == u64(time):
                return Fields.of(update, "cached update")
        stored = self.host.data(self.contract.address, u64(time), TEMPORARY)
        return None if stored is None else Fields.of(stored, "update")

    def price_data_at(self, asset: ScVal, time: int | None) -> ScVal:
        """The ``PriceData`` of an asset at the time of an update, or void."""
        index = None if time is None else self.index(asset)
        price = None if time is None or index is None else self.at(index, time)
        return VOID if price is None or time is None else price_data(price, time // 1000)

    def records(self, asset: ScVal, records: int) -> list[tuple[int, int]]:
        """The prices of an asset with their times, newest first, as ``prices()`` returns them for ``records``."""
        index = self.index(asset)
        time = None if index is None else self.newest()
        if index is None or time is None:
            return []
        prices: list[tuple[int, int]] = []
        if self.release is Release.FOUR:
            for _ in range(min(records, MAX_RECORDS)):
                price = self.at(index, time)
                if price is not None:
                    prices.append((price, time))
                if time < self.resolution:
                    break
                time -= self.resolution
            return prices
        if records > MAX_RECORDS:
            return []
        # Release 6 goes on until a record is that many periods older than the newest one, and returns that record, too.
        boundary = unsigned(time - self.resolution * records)
        last = time
        for _ in range(_TRACKED + 1):
            if last <= boundary:
                return prices
            price = self.at(index, time)
            if price is not None:
                prices.append((price, time))
                last = time
            time = unsigned(time - self.resolution)
            if time < self.resolution:
                return prices
        if last <= boundary:
            return prices
        raise TrapError(BUDGET)  # the contract can find no older record, but looks for one back to 1970
