"""A ledger of Slender pools for tests: the entries of the recording, changed as a test needs them.

    ledger = SlenderLedger()
    ledger.add_market("S", ["XLM", "USDC"])
    ledger.change("S", {variant("Reserves"): None})
    tables = ledger.compute([demanded("S")])

Contracts are named by labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, encode_scval, i128, symbol, u32, u64, vec
from exporter.protocols.base import Origin
from tests.entries import code_of, name_of, recorded_instance
from tests.protocols.made_ledger import (
    NOW,
    MadeLedger,
    Raw,
    Written,
    candidate_of,
    changed,
    contract,
    entry,
    instance,
    struct_of,
    token_instance,
)

POOL = recorded_instance("ReserveAssetKey")
CODE = code_of(POOL)
CASH = i128(600 * 10**7)
PRICE_DECIMALS = 14

candidate = partial(candidate_of, "slender")
demanded = partial(candidate_of, "slender", origin=Origin.CONFIGURATION)


def _stored(name: str) -> ScVal:
    """The first value of the recorded pool's instance under a key of a name."""
    return next(value for key, value in POOL.storage or () if name_of(key) == name)


def variant(name: str, label: str | None = None) -> ScVal:
    """A key of the instance storage: of the whole pool, or of the asset or token with a label."""
    return vec(symbol(name)) if label is None else vec(symbol(name), address(contract(label)))


def reserve_data(asset: str, **changes: Any) -> ScVal:
    """ReserveData of an asset, a thousand seconds ago: rates of 9 and 10 percent, which have accrued a year.

    A change is a number, a value of any kind, or None to leave the field out.
    """
    rates = {
        "borrower_ar": 1_100_000_000,
        "borrower_ir": 100_000_000,
        "lender_ar": 1_090_000_000,
        "lender_ir": 90_000_000,
    }
    fields: dict[str, Raw] = {
        "id": (scval.BYTES, b"\0"),
        "last_update_timestamp": u64(NOW - 1_000),
        "reserve_type": vec(symbol("Fungible"), *(address(contract(f"{asset} {kind}")) for kind in ("s", "debt"))),
    }
    values = {name: i128(value) if isinstance(value, int) else value for name, value in (rates | changes).items()}
    return changed(_stored("ReserveAssetKey"), fields | values)


def price_feed(market: str, asset: ScVal, decimals: int = 7) -> ScVal:
    """PriceFeedConfig with one feed, of the market's oracle."""
    template = _stored("PriceFeed")
    (feed,) = dict(template[1])[symbol("feeds")][1]
    feed = changed(feed, {"feed": address(contract(f"{market} oracle")), "feed_asset": asset})
    return changed(template, {"asset_decimals": u32(decimals), "feeds": vec(feed)})


def pause(paused: bool, unpaused_at: int = 0, grace: int = 0) -> ScVal:
    """PauseInfo: a grace of this many seconds begins when a pause ends."""
    times = {"unpaused_at": u64(unpaused_at), "grace_period_secs": u64(grace)}
    return struct_of({"paused": (scval.BOOL, paused), **times})


def pool_config(ledger: SlenderLedger, market: str, **changes: Raw) -> ScVal:
    """PoolConfig of a market with changes; None leaves a field out."""
    return changed(ledger.storage[market][variant("PoolConfig")], changes)


def configuration(asset: str, **changes: Raw) -> ScVal:
    """ReserveData of an asset with changes to its configuration."""
    kept = dict(reserve_data(asset)[1])[symbol("configuration")]
    return reserve_data(asset, configuration=changed(kept, changes))


def cash(market: str, asset: str, amount: ScVal = CASH) -> Written:
    """What lies in a reserve, or in its place another value."""
    key = vec(symbol("TokenBalance"), *(address(contract(label)) for label in (asset, f"{asset} s")))
    return entry(contract(market), key, amount)


class SlenderLedger(MadeLedger):
    """A ledger of its markets."""

    protocol = "slender"

    def __init__(self) -> None:
        super().__init__()
        self.storage: dict[str, dict[ScVal, ScVal]] = {}

    def add_market(self, market: str, assets: Sequence[str] = ("XLM",)) -> None:
        """A pool with reserves, and an oracle of 14 decimals that prices each of them at 2 dollars now."""
        storage = {variant(name): _stored(name) for name in ("Admin", "Pause", "PoolConfig")}
        storage[variant("Reserves")] = vec(*(address(contract(asset)) for asset in assets))
        for asset in assets:
            storage |= {
                variant("ReserveAssetKey", asset): reserve_data(asset),
                variant("TokenSupply", f"{asset} s"): i128(1000 * 10**7),
                variant("TokenSupply", f"{asset} debt"): i128(400 * 10**7),
                variant("ProtocolFeeVault", asset): i128(0),
                variant("PriceFeed", asset): price_feed(market, vec(symbol("Stellar"), address(contract(asset)))),
            }
        self.storage[market] = storage
        self.set_decimals(f"{market} oracle", u32(PRICE_DECIMALS))
        for asset in assets:
            self.replace(cash(market, asset), token_instance(asset, asset.encode()))
            self.set_price(f"{market} oracle", asset, 2 * 10**PRICE_DECIMALS)
        self.change(market, {})

    def change(self, market: str, changes: Mapping[ScVal, Raw]) -> None:
        """Write a market's instance with changes to its storage; None takes a key away."""
        for key, value in changes.items():
            if value is None:
                del self.storage[market][key]
            else:
                self.storage[market][key] = value
        self.replace(self.instance(market))

    def instance(self, market: str) -> Written:
        """A market's instance entry."""
        pairs = sorted(self.storage[market].items(), key=lambda pair: encode_scval(pair[0]))
        return instance(contract(market), pairs, CODE)
