"""A ledger of Slender pools for tests, written entry by entry, as `tests.blend_chain` has one of Blend's.

    ledger = SlenderLedger()
    ledger.add_market("S", ["XLM", "USDC"])
    ledger.change("S", {variant("Pause"): (scval.BOOL, True)})
    tables = ledger.compute([demanded("S")])

Contracts are named by labels. The shapes are those of docs/protocols/slender.md, "Keys", written with the codec alone.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from exporter.compute import Tables, compute
from exporter.deployments import Deployment
from exporter.ledger import scval
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import address, encode_scval, i128, symbol, u32, u64, vec
from exporter.ledger.view import Reading, read_at_one_ledger
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from exporter.protocols.slender import Slender
from tests.blend_chain import (
    NOW,
    BlendLedger,
    BlendSource,
    Raw,
    Written,
    contract,
    entry,
    instance,
    struct_of,
    token_instance,
)

CODE = hashlib.sha256(b"the code of a Slender pool").digest()
PRICE_DECIMALS = 14


def candidate(label: str) -> Candidate:
    """A published address."""
    return Candidate("slender", contract(label))


def demanded(label: str) -> Candidate:
    """An address that the operator named."""
    return Candidate("slender", contract(label), Origin.CONFIGURATION)


def variant(name: str, label: str | None = None) -> ScVal:
    """A key of the instance storage: of the whole pool, or of the asset or token with a label."""
    return vec(symbol(name)) if label is None else vec(symbol(name), address(contract(label)))


def reserve_data(asset: str, **changes: Any) -> ScVal:
    """ReserveData of an asset; a change is a number, a value of any kind, or None to leave the field out."""
    kind = vec(symbol("Fungible"), address(contract(f"{asset} s")), address(contract(f"{asset} debt")))
    configuration: dict[str, Raw] = {
        "borrowing_enabled": (scval.BOOL, True), "discount": u32(6_000), "is_active": (scval.BOOL, True),
        "liquidity_cap": i128(10**18), "util_cap": u32(9_000),
    }  # fmt: skip
    fields: dict[str, Raw] = {
        "borrower_ar": i128(1_100_000_000), "borrower_ir": i128(100_000_000), "lender_ar": i128(1_090_000_000),
        "lender_ir": i128(90_000_000), "configuration": struct_of(configuration), "id": (scval.BYTES, b"\0"),
        "last_update_timestamp": u64(NOW - 1_000), "reserve_type": kind,
    }  # fmt: skip
    fields |= {name: i128(value) if isinstance(value, int) else value for name, value in changes.items()}
    return struct_of(fields)


def price_feed(market: str, asset: ScVal, decimals: int = 7) -> ScVal:
    """PriceFeedConfig with one feed, of the market's oracle."""
    feed = struct_of(
        {
            "feed": address(contract(f"{market} oracle")), "feed_asset": asset, "feed_decimals": u32(PRICE_DECIMALS),
            "min_timestamp_delta": u64(660), "timestamp_precision": vec(symbol("Sec")), "twap_records": u32(3),
        }
    )  # fmt: skip
    return struct_of({"asset_decimals": u32(decimals), "feeds": vec(feed)})


def cash(market: str, asset: str, amount: ScVal | None = None) -> Written:
    """What lies in a reserve: TokenBalance of its sToken."""
    key = vec(symbol("TokenBalance"), address(contract(asset)), address(contract(f"{asset} s")))
    return entry(contract(market), key, amount or i128(600 * 10**7))


class SlenderLedger(BlendLedger):
    """Entries and call results of one ledger. Every method that takes a contract takes its label."""

    def __init__(self) -> None:
        super().__init__()
        self.storage: dict[str, dict[ScVal, ScVal]] = {}

    def add_market(self, market: str, assets: Sequence[str] = ("XLM",)) -> None:  # type: ignore[override]
        """A pool with reserves, and an oracle of 14 decimals that prices each of them at 2 dollars now."""
        storage = self.storage[market] = {
            variant("Admin"): address(contract("admin")),
            variant("Reserves"): vec(*(address(contract(asset)) for asset in assets)),
            variant("PoolConfig"): struct_of({"timestamp_window": u64(20)}),
            variant("Pause"): struct_of({"paused": (scval.BOOL, False)}),
        }
        self.set_decimals(f"{market} oracle", u32(PRICE_DECIMALS))
        for asset in assets:
            storage[variant("ReserveAssetKey", asset)] = reserve_data(asset)
            storage[variant("TokenSupply", f"{asset} s")] = i128(1000 * 10**7)
            storage[variant("TokenSupply", f"{asset} debt")] = i128(400 * 10**7)
            self.replace(cash(market, asset))
            stellar = vec(symbol("Stellar"), address(contract(asset)))
            storage[variant("PriceFeed", asset)] = price_feed(market, stellar)
            self.replace(token_instance(asset, asset.encode()))
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

    def read(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment] = ()) -> Reading[ProtocolReading]:
        """Read through the one-ledger view; the source with its log stays in ``source``."""
        source = self.source = BlendSource(self.chain(), self.results)
        return asyncio.run(read_at_one_ledger(source, lambda view: Slender().read(view, candidates, deployments)))

    def compute(
        self, candidates: Sequence[Candidate], deployments: Sequence[Deployment] = (), close_time: int = NOW
    ) -> Tables:
        """Read, and compute the tables; the reading stays in ``reading``."""
        reading = self.read(candidates, deployments)
        self.reading = reading.result
        return compute([reading.result], {"slender": Slender()}, reading.certificate.ledger, close_time)
