"""Alula's part of the recording: a market with three pools. It comes from code.

The entries have the form of the layout in docs/protocols/alula.md, with the live readings of November 2026 where there
are any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from exporter.deployments.networks import derived_address
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, string, struct_map, symbol, u32, u64, vec
from exporter.localnet.oracle import ORACLE
from tests.protocols.made_ledger import Written, balance_at, entry, instance
from tools.recording.parts import CLOSE_TIME, RecordedContract, RecordedPart, code_of, made_part
from tools.recording.tokens import ADMIN, token_address

MARKET: Final = derived_address("recorded network alula market")
MANAGER: Final = derived_address("recorded network alula manager")
CODE: Final = code_of("alula market")


def made() -> list[RecordedPart]:
    """The one deployment."""
    contracts = [RecordedContract(role="market", address=MARKET, name="main")]
    return [made_part("alula", written(CLOSE_TIME), contracts)]


def written(time: int) -> Iterator[Written]:
    """A market with three pools, a curve each; a supply share is worth about 0.1, as in the live readings."""
    pools = (
        # token, available, borrowed, collateral, debt shares in units; curve
        ("XLM", 6_120_000, 3_870_000, 910_000, 3_810_000, (1, 3_000, 7_000, 6_000, 8_000, 40_000)),
        ("USDC", 912_000, 1_405_000, 120_000, 1_366_000, (100, 400, 4_000, 1_500, 9_000, 5_000)),
        ("EURC", 288_000, 190_000, 0, 188_500, (0, 600, 8_000, 2_000, 9_000, 10_000)),
    )
    settings: dict[str, ScVal] = {
        "Admin": address(ADMIN),
        "BadDebtLockDuration": u64(43_200),
        "DeployerHost": address(MANAGER),
        "InsolvencyLtvBps": i128(9_850),
        "InsuranceFund": address(ADMIN),
        "IsOwned": (scval.BOOL, True),
        "MarketStatus": vec(symbol("Active")),
        "MaxPositions": u32(10),
        "MinCollateralValueCents": i128(500),
        "Name": string("main"),
        "Oracle": address(ORACLE),
        "UpdateInQueuePeriod": u64(43_200),
    }
    pairs = [(vec(symbol(name)), value) for name, value in settings.items()]
    yield instance(MARKET, pairs, CODE)
    yield instance(MANAGER, [(vec(symbol("Admin")), address(ADMIN))], code_of("alula manager"))
    yield entry(MANAGER, vec(symbol("DeployedMarket"), address(MARKET)), u64(43_200))
    addresses = [address(token_address(name)) for name, *_ in pools]
    yield entry(MARKET, vec(symbol("AllPools")), vec(*addresses))
    for (name, available, borrowed, collateral, debts, curve), token in zip(pools, addresses, strict=True):
        amounts = {
            "borrow_apr_bps": 700,
            "interest_rate_modifier_bps": 10_000,
            "operation_fees_sum": 12 * 10**7,
            "supply_apr_bps": 340,
            "take_rate_fees_sum": 340 * 10**7,
            "total_available": available * 10**7,
            "total_borrowed": borrowed * 10**7,
            "total_collateral": collateral * 10**7,
            "total_d_tokens": debts * 10**7,
            "total_j_tokens": (available + borrowed) * 98 * 10**6,
        }
        fields = {field: i128(value) for field, value in amounts.items()} | {
            "bad_debt_lock_d": u64(0),
            "bad_debt_request_count": u32(0),
            "config": configuration(curve, int(name == "EURC")),
            "farm_debt": VOID,
            "farm_supply": VOID,
            "last_accrual_timestamp": u64(time - 420),
            "name": string(f"{name} pool"),
            "pool_address": token,
            "token_address": token,
            "token_decimals": u32(7),
            "token_symbol": string("native" if name == "XLM" else name),
        }
        yield entry(MARKET, vec(symbol("Pool"), token), struct_map(fields))
        yield balance_at(token_address(name), MARKET, (available + collateral) * 10**7)


def configuration(curve: tuple[int, ...], reactivity: int) -> ScVal:
    """The struct ``PoolConfig`` with a rate curve of two kinks."""
    names = ("base_apr_bps", "kink1_apr_bps", "kink1_ur_bps", "kink2_apr_bps", "kink2_ur_bps", "max_apr_bps")
    free = ("add_collateral", "deposit", "remove_collateral", "repay", "withdraw")
    fees: Mapping[str, int] = {f"{name}_fee_bps": 0 for name in free} | {
        "borrow_fee_bps": 10,
        "flash_loan_fee_bps": 9,
        "take_rate_bps": 1_000,
        "withdraw_max_scarcity_fee_bps": 200,
    }
    nobody = dict.fromkeys(("operation_fee_beneficiaries", "referrers", "take_rate_beneficiaries"), VOID)
    health = {
        "close_ltv_bps": 8_000,
        "liability_factor_bps": 10_000,
        "liquidation_close_factor_bps": 5_000,
        "max_liquidation_incentive_bps": 500,
        "open_ltv_bps": 7_500,
        "supply_limit": 0,
        "utilization_ratio_limit_bps": 9_000,
        "withdraw_scarcity_limit_bps": 500,
    }
    limits = {name: i128(value) for name, value in health.items()} | {"withdraw_scarcity_cooldown_s": u64(3_600)}
    rates = struct_map(dict(zip(names, map(i128, curve), strict=True)))
    return struct_map(
        {
            "accrual_model": vec(symbol("Compounded")),
            "fee_config": struct_map({name: u32(value) for name, value in fees.items()} | nobody),
            "health_config": struct_map(limits),
            "interest_rate_model": vec(symbol("Kinked"), rates),
            "ir_reactivity_constant": u32(reactivity),
            "status": struct_map({"flags": u32(2**32 - 1)}),
            "target_utilization_ratio_bps": i128(6_500),
        }
    )
