"""A ledger of Alula markets for tests, written entry by entry, as `tests.protocols.blend_chain` has one of Blend's.

    ledger = AlulaLedger()
    ledger.add_market("A", ["USDC", "XLM"])
    ledger.replace(pool("A", "XLM", total_borrowed=0))
    tables = ledger.compute([demanded("A")])

Contracts are named by labels. The entries are those of the stand-in, with fields changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import decode_contract_data
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, i128, symbol, u32, vec
from exporter.localnet import alula
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

CODE = alula.MARKET_WASM_HASH

CURVE: dict[str, int] = asdict(alula.Curve())
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


def market_of(label: str) -> alula.Market:
    """The stand-in's market of a label, active and without pools."""
    names = (f"{label} oracle", "manager", "insurance")
    oracle, manager, insurance = map(contract, names)
    return alula.Market(contract(label), "main", 0, oracle, manager, account("admin"), insurance)


def market_instance(
    market: str, status: str = "Active", *, name: bytes = b"main", storage: Mapping[str, Raw] | None = None
) -> Written:
    """The instance of a market with the twelve keys of its constructor; ``storage`` replaces or removes some."""
    _, data = alula.market_instance(market_of(market))
    pairs = {key[1][0][1]: value for key, value in decode_contract_data(data).value[1].storage}
    pairs |= {"MarketStatus": unit(status), "Name": (scval.STRING, name)} | dict(storage or {})
    stored = [(unit(key), value) for key, value in sorted(pairs.items()) if value is not None]
    return instance(contract(market), stored, CODE)


def deployed_market(market: str) -> Written:
    """The manager's record of a market."""
    return alula.manager_entries(contract("manager"), account("admin"), [market_of(market)])[1]


def all_pools(market: str, assets: Sequence[str]) -> Written:
    """``AllPools`` of assets given by label."""
    return entry(contract(market), unit("AllPools"), vec(*(address(contract(asset)) for asset in assets)))


def kinked(**changes: Any) -> ScVal:
    """The interest rate model with changes to the default curve."""
    curve = struct_of({name: i128(value) for name, value in CURVE.items()})
    return vec(symbol("Kinked"), changed(curve, _amounts(changes)))


def pool_config(take_rate_bps: Raw | int = 1_000, /, **changes: Raw) -> ScVal:
    """A PoolConfig with a take rate and changes; a take rate of None is left out."""
    config = alula.config_value(alula.PoolConfig(supply_limit=10**15))
    rate = u32(take_rate_bps) if isinstance(take_rate_bps, int) else take_rate_bps
    fees = {field: value for (_, field), value in config[1]}["fee_config"]
    return changed(config, {"fee_config": changed(fees, {"take_rate_bps": rate})} | changes)


def pool(market: str, asset: str, under: str | None = None, /, **changes: Any) -> Written:
    """A ``Pool`` entry with changes.

    ``under`` is the label of the address under which it stands, when that is another than the asset's.
    """
    made = alula.Pool(contract(asset), "COPY", "a name", 7, alula.PoolConfig(supply_limit=10**15), NOW - 100, **STATE)
    return entry(
        contract(market), alula.pool_key(contract(under or asset)), changed(alula.pool_value(made), _amounts(changes))
    )


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
