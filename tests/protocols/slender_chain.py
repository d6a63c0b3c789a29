"""A ledger of Slender pools for tests: the entries of the embedded network's stand-in, changed as a test needs them.

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
from exporter.ledger.codec.entries import decode_contract_data
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, encode_scval, i128, symbol, u32, u64, vec
from exporter.localnet import slender
from exporter.protocols.base import Origin
from tests.protocols.made_ledger import (
    NOW,
    MadeLedger,
    Raw,
    Written,
    account,
    candidate_of,
    changed,
    contract,
    entry,
    instance,
    struct_of,
    token_instance,
)

CODE = slender.POOL_WASM_HASH
PRICE_DECIMALS = 14

candidate = partial(candidate_of, "slender")
demanded = partial(candidate_of, "slender", origin=Origin.CONFIGURATION)


def variant(name: str, label: str | None = None) -> ScVal:
    """A key of the instance storage: of the whole pool, or of the asset or token with a label."""
    return vec(symbol(name)) if label is None else vec(symbol(name), address(contract(label)))


def _reserve(asset: str) -> slender.Reserve:
    """1000 tokens of shares, 400 of them lent, a thousand seconds ago."""
    return slender.Reserve(
        token=contract(asset),
        s_token=contract(f"{asset} s"),
        debt_token=contract(f"{asset} debt"),
        decimals=7,
        last_update=NOW - 1_000,
        lender_ar=1_090_000_000,
        lender_ir=90_000_000,
        borrower_ar=1_100_000_000,
        borrower_ir=100_000_000,
        s_supply=1000 * 10**7,
        debt_supply=400 * 10**7,
        cash=600 * 10**7,
    )


def _market(market: str, assets: Sequence[str], feeds: Mapping[str, ScVal]) -> slender.Market:
    oracle = contract(f"{market} oracle")
    return slender.Market(
        contract(market), oracle, account("admin"), [_reserve(asset) for asset in assets], dict(feeds)
    )


def reserve_data(asset: str, **changes: Any) -> ScVal:
    """ReserveData of an asset; a change is a number, a value of any kind, or None to leave the field out."""
    values = {name: i128(value) if isinstance(value, int) else value for name, value in changes.items()}
    return changed(slender.reserve_value(_reserve(asset), 0), values)


def price_feed(market: str, asset: ScVal, decimals: int = 7) -> ScVal:
    """PriceFeedConfig with one feed, of the market's oracle."""
    feeds = slender.price_feed(_market(market, ["XLM"], {contract("XLM"): asset}), _reserve("XLM"))
    return changed(feeds, {"asset_decimals": u32(decimals)})


def pause(paused: bool, unpaused_at: int = 0, grace: int = 0) -> ScVal:
    """PauseInfo: a grace of so many seconds begins when a pause ends."""
    times = {"unpaused_at": u64(unpaused_at), "grace_period_secs": u64(grace)}
    return struct_of({"paused": (scval.BOOL, paused), **times})


def pool_config(ledger: SlenderLedger, market: str, **changes: Raw) -> ScVal:
    """PoolConfig of a market with changes; None leaves a field out."""
    return changed(ledger.storage[market][variant("PoolConfig")], changes)


def configuration(asset: str, **changes: Raw) -> ScVal:
    """ReserveData of an asset with changes to its configuration."""
    kept = dict(reserve_data(asset)[1])[symbol("configuration")]
    return reserve_data(asset, configuration=changed(kept, changes))


def cash(market: str, asset: str, amount: ScVal | None = None) -> Written:
    """What lies in a reserve, or in its place another value."""
    key, data = slender.cash_entry(_market(market, [], {}), _reserve(asset))
    return (key, data) if amount is None else entry(contract(market), decode_contract_data(data).key, amount)


class SlenderLedger(MadeLedger):
    """A ledger of its markets."""

    protocol = "slender"

    def __init__(self) -> None:
        super().__init__()
        self.storage: dict[str, dict[ScVal, ScVal]] = {}

    def add_market(self, market: str, assets: Sequence[str] = ("XLM",)) -> None:
        """A pool with reserves, and an oracle of 14 decimals that prices each of them at 2 dollars now."""
        feeds = {contract(asset): vec(symbol("Stellar"), address(contract(asset))) for asset in assets}
        _, data = slender.pool_instance(_market(market, assets, feeds))
        self.storage[market] = dict(decode_contract_data(data).value[1].storage)
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
