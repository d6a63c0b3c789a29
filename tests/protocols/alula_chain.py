"""A ledger of Alula markets for tests: entries of the recording, changed as a test needs them.

    ledger = AlulaLedger()
    ledger.add_market("A", ["USDC", "XLM"])
    ledger.replace(pool("A", "XLM", total_borrowed=0))
    tables = ledger.compute([demanded("A")])

Contracts are named by labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, i128, string, symbol, u32, u64, vec
from exporter.protocols.base import Origin
from tests.entries import code_of, name_of, recorded, recorded_instance
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

MARKET = recorded_instance("MarketStatus")
CODE = code_of(MARKET)

CURVE: dict[str, int] = {
    "base_apr_bps": 1,
    "kink1_apr_bps": 3_000,
    "kink1_ur_bps": 7_000,
    "kink2_apr_bps": 6_000,
    "kink2_ur_bps": 8_000,
    "max_apr_bps": 40_000,
}
"""The default curve of the contract's own tests."""

# 1000 tokens supplied and 500 of them lent, 50 of plain collateral; a share of supply is worth 0.1
STATE: dict[str, int] = {
    "borrow_apr_bps": 7,
    "interest_rate_modifier_bps": 10_000,
    "operation_fees_sum": 3,
    "supply_apr_bps": 5,
    "take_rate_fees_sum": 0,
    "total_available": 500 * 10**7,
    "total_borrowed": 500 * 10**7,
    "total_collateral": 50 * 10**7,
    "total_d_tokens": 400 * 10**7,
    "total_j_tokens": 10_000 * 10**7,
}

PRICE_DECIMALS = 14

candidate = partial(candidate_of, "alula")
demanded = partial(candidate_of, "alula", origin=Origin.CONFIGURATION)


def unit(variant: str) -> ScVal:
    """A Rust enum variant without values."""
    return vec(symbol(variant))


def _amounts(changes: Mapping[str, Any]) -> dict[str, Raw]:
    """Changes of a struct, in which an int is an i128."""
    return {name: i128(change) if isinstance(change, int) else change for name, change in changes.items()}


def market_instance(
    market: str, status: str = "Active", *, name: bytes = b"main", storage: Mapping[str, Raw] | None = None
) -> Written:
    """The instance of a market with the twelve keys of its constructor; ``storage`` replaces or removes some."""
    pairs: dict[str, Raw] = {name_of(key): value for key, value in MARKET.storage or ()}
    pairs |= {
        "DeployerHost": address(contract("manager")),
        "MarketStatus": unit(status),
        "Name": (scval.STRING, name),
        "Oracle": address(contract(f"{market} oracle")),
    }
    pairs |= storage or {}
    stored = [(unit(key), value) for key, value in sorted(pairs.items()) if value is not None]
    return instance(contract(market), stored, CODE)


def deployed_market(market: str) -> Written:
    """The manager's record of a market."""
    key = vec(symbol("DeployedMarket"), address(contract(market)))
    return entry(contract("manager"), key, recorded("DeployedMarket"))


def all_pools(market: str, assets: Sequence[str]) -> Written:
    """``AllPools`` of assets given by label."""
    return entry(contract(market), unit("AllPools"), vec(*(address(contract(asset)) for asset in assets)))


def kinked(**changes: Any) -> ScVal:
    """The interest rate model with changes to the default curve."""
    curve = struct_of({name: i128(value) for name, value in CURVE.items()})
    return vec(symbol("Kinked"), changed(curve, _amounts(changes)))


def pool_config(take_rate_bps: Raw | int = 1_000, /, **changes: Raw) -> ScVal:
    """A PoolConfig with a take rate and changes; a take rate of None is left out."""
    config = dict(recorded("Pool")[1])[symbol("config")]
    parts = {str(key[1]): value for key, value in config[1]}
    rate = u32(take_rate_bps) if isinstance(take_rate_bps, int) else take_rate_bps
    ours: dict[str, Raw] = {
        "fee_config": changed(parts["fee_config"], {"take_rate_bps": rate}),
        "health_config": changed(parts["health_config"], {"supply_limit": i128(10**15)}),
        "interest_rate_model": kinked(),
        "ir_reactivity_constant": u32(0),
    }
    return changed(config, ours | changes)


def pool(market: str, asset: str, under: str | None = None, /, **changes: Any) -> Written:
    """A ``Pool`` entry with changes.

    ``under`` is the label of the address under which it is, when that is another than the asset's.
    """
    fields = _amounts(STATE) | {
        "config": pool_config(),
        "last_accrual_timestamp": u64(NOW - 100),
        "name": string("a name"),
        "pool_address": address(contract(asset)),
        "token_address": address(contract(asset)),
        "token_symbol": string("COPY"),
    }
    key = vec(symbol("Pool"), address(contract(under or asset)))
    return entry(contract(market), key, changed(recorded("Pool"), fields | _amounts(changes)))


class AlulaLedger(MadeLedger):
    """A ledger of its markets."""

    protocol = "alula"

    def add_market(self, market: str, assets: Sequence[str] = ("USDC",), status: str = "Active") -> None:
        """A market with pools, tokens, and an oracle of 14 decimals that prices each of them at 2 dollars now."""
        self.replace(market_instance(market, status), all_pools(market, assets), deployed_market(market))
        self.set_decimals(f"{market} oracle", u32(PRICE_DECIMALS))
        for asset in assets:
            self.replace(pool(market, asset), token_instance(asset, asset.encode()))
            self.set_price(f"{market} oracle", asset, 2 * 10**PRICE_DECIMALS)
