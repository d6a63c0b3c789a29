"""A ledger of Alula markets for tests, written entry by entry, as `tests.blend_chain` has one of Blend's.

    ledger = AlulaLedger()
    ledger.add_market("A", ["USDC", "XLM"])
    ledger.replace(pool("A", "XLM", total_borrowed=0))
    tables = ledger.compute([demanded("A")])

Contracts are named by labels. The shapes are those of alula.md, "Keys", written with nothing but the codec.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from exporter.deployments import Deployment
from exporter.ledger import scval
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import VOID, address, i128, string, symbol, u32, u64, vec
from exporter.ledger.view import Reading, read_at_one_ledger
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from tests.blend_chain import (
    NOW,
    BlendLedger,
    BlendSource,
    Raw,
    Written,
    account,
    contract,
    entry,
    instance,
    struct_of,
    token_instance,
)

CODE = hashlib.sha256(b"the code of an Alula market").digest()

# docs/protocols/alula.md, "Vectors": the default curve
CURVE: dict[str, int] = {
    "base_apr_bps": 1, "kink1_apr_bps": 3_000, "kink1_ur_bps": 7_000, "kink2_apr_bps": 6_000, "kink2_ur_bps": 8_000,
    "max_apr_bps": 40_000,
}  # fmt: skip

# 1000 tokens supplied and 500 of them lent, 50 of plain collateral; a share is worth 0.1 (alula.md, "Formulas")
STATE: dict[str, int] = {
    "borrow_apr_bps": 7, "interest_rate_modifier_bps": 10_000, "operation_fees_sum": 3, "supply_apr_bps": 5,
    "take_rate_fees_sum": 0, "total_available": 500 * 10**7, "total_borrowed": 500 * 10**7,
    "total_collateral": 50 * 10**7, "total_d_tokens": 400 * 10**7, "total_j_tokens": 10_000 * 10**7,
}  # fmt: skip

PRICE_DECIMALS = 14


def candidate(label: str) -> Candidate:
    """A published address."""
    return Candidate("alula", contract(label))


def demanded(label: str) -> Candidate:
    """An address that the operator named."""
    return Candidate("alula", contract(label), Origin.CONFIGURATION)


def unit(variant: str) -> ScVal:
    """A Rust enum variant without values."""
    return vec(symbol(variant))


def market_instance(
    market: str, status: str = "Active", *, name: bytes = b"main", storage: Mapping[str, Raw] | None = None
) -> Written:
    """The instance of a market with the twelve keys of its constructor; ``storage`` replaces or removes some."""
    stored: dict[str, Raw] = {
        "Admin": address(account("admin")),
        "BadDebtLockDuration": u64(43_200),
        "DeployerHost": address(contract("manager")),
        "InsolvencyLtvBps": i128(9_850),
        "InsuranceFund": address(contract("insurance")),
        "IsOwned": (scval.BOOL, True),
        "MarketStatus": unit(status),
        "MaxPositions": u32(10),
        "MinCollateralValueCents": i128(500),
        "Name": (scval.STRING, name),
        "Oracle": address(contract(f"{market} oracle")),
        "UpdateInQueuePeriod": u64(43_200),
    }
    stored |= storage or {}
    pairs = [(unit(key), value) for key, value in sorted(stored.items()) if value is not None]
    return instance(contract(market), pairs, CODE)


def deployed_market(market: str) -> Written:
    """The manager's record of a market: the delay of its upgrades (docs/protocols/alula.md, "Discovery")."""
    return entry(contract("manager"), vec(symbol("DeployedMarket"), address(contract(market))), u64(43_200))


def all_pools(market: str, assets: Sequence[str]) -> Written:
    """``AllPools`` of assets given by label."""
    return entry(contract(market), unit("AllPools"), vec(*(address(contract(asset)) for asset in assets)))


def kinked(**changes: Any) -> ScVal:
    """The interest rate model with changes to the default curve; None leaves a field out."""
    fields = CURVE | changes
    curve = struct_of({name: i128(value) if isinstance(value, int) else value for name, value in fields.items()})
    return vec(symbol("Kinked"), curve)


def pool_config(take_rate_bps: Raw | int = 1_000, /, **changes: Raw) -> ScVal:
    """A PoolConfig; changes are values of any kind, or None to leave a field out."""
    rates = ("add_collateral", "borrow", "deposit", "flash_loan", "remove_collateral", "repay", "withdraw")
    fees: dict[str, Raw] = {f"{name}_fee_bps": u32(10) for name in rates}
    fees |= dict.fromkeys(("operation_fee_beneficiaries", "referrers", "take_rate_beneficiaries"), VOID)
    fees["withdraw_max_scarcity_fee_bps"] = u32(100)
    fees["take_rate_bps"] = u32(take_rate_bps) if isinstance(take_rate_bps, int) else take_rate_bps
    health: dict[str, Raw] = {
        "open_ltv_bps": i128(7_500),
        "supply_limit": i128(10**15),
        "withdraw_scarcity_cooldown_s": u64(60),
    }
    fields: dict[str, Raw] = {
        "accrual_model": unit("Compounded"),
        "fee_config": struct_of(fees),
        "health_config": struct_of(health),
        "interest_rate_model": kinked(),
        "ir_reactivity_constant": u32(0),
        "status": struct_of({"flags": u32(2**32 - 1)}),
        "target_utilization_ratio_bps": i128(6_500),
    }
    return struct_of(fields | changes)


def pool(market: str, asset: str, under: str | None = None, /, **changes: Any) -> Written:
    """A ``Pool`` entry; a change is an amount, a value of any kind, or None to leave the field out.

    ``under`` is the label of the address under which it stands, when that is another than the asset's.
    """
    fields: dict[str, Raw] = {name: i128(value) for name, value in STATE.items()}
    fields |= {
        "bad_debt_lock_d": u64(0),
        "bad_debt_request_count": u32(0),
        "config": pool_config(),
        "farm_debt": VOID,
        "farm_supply": VOID,
        "last_accrual_timestamp": u64(NOW - 100),
        "name": string("a name"),
        "pool_address": address(contract(asset)),
        "token_address": address(contract(asset)),
        "token_decimals": u32(7),
        "token_symbol": string("COPY"),
    }
    for name, value in changes.items():
        fields[name] = i128(value) if isinstance(value, int) else value
    return entry(contract(market), vec(symbol("Pool"), address(contract(under or asset))), struct_of(fields))


class AlulaLedger(BlendLedger):
    """Entries and call results of one ledger. Every method that takes a contract takes its label."""

    def add_market(self, market: str, assets: Sequence[str] = ("USDC",), status: str = "Active") -> None:  # type: ignore[override]
        """A market with pools, tokens, and an oracle of 14 decimals that prices each of them at 2 dollars now."""
        self.replace(market_instance(market, status), all_pools(market, assets), deployed_market(market))
        self.set_decimals(f"{market} oracle", u32(PRICE_DECIMALS))
        for asset in assets:
            self.replace(pool(market, asset), token_instance(asset, asset.encode()))
            self.set_price(f"{market} oracle", asset, 2 * 10**PRICE_DECIMALS)

    def read(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment] = ()) -> Reading[ProtocolReading]:
        """Read through the one-ledger view; the source with its log stays in ``source``."""
        source = self.source = BlendSource(self.chain(), self.results)
        return asyncio.run(
            read_at_one_ledger(source, lambda view: PROTOCOLS["alula"].read(view, candidates, deployments))
        )
