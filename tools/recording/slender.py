"""Slender's part of the recording: a pool with the configuration of mainnet's, and three reserves. It comes from code.

The deployed code answers from these entries as the exporter computes (tests/host/test_deployed_code.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from exporter.deployments.networks import derived_address
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, encode_scval, i128, struct_map, symbol, u32, u64, vec
from exporter.localnet.oracle import ORACLE
from exporter.protocols.slender.layout import WASM_HASH
from tests.protocols.made_ledger import Written, entry, instance
from tools.recording.parts import CLOSE_TIME, RecordedContract, RecordedPart, made_part
from tools.recording.tokens import ADMIN, token_address

MARKET: Final = derived_address("recorded network slender pool")


def made() -> list[RecordedPart]:
    """The one deployment."""
    contracts = [RecordedContract(role="market", address=MARKET, name="Slender")]
    return [made_part("slender", written(CLOSE_TIME), contracts)]


def written(time: int) -> Iterator[Written]:
    """A pool with the configuration of mainnet's, and three reserves."""
    nine = 10**9
    reserves = (
        # token, supply, debt, cash: in units; accrued rate and rate of a year of borrowers, with 9 decimals
        ("XLM", 9_240_000, 5_310_000, 4_020_000, 1_071_400_000, 56_000_000),
        ("USDC", 1_870_000, 1_240_000, 655_000, 1_093_100_000, 94_000_000),
        ("EURC", 402_000, 61_000, 342_000, 1_012_800_000, 25_000_000),
    )
    settings: dict[str, ScVal] = {
        "base_asset_address": address(token_address("XLM")),
        "base_asset_decimals": u32(7),
        "flash_loan_fee": u32(9),
        "grace_period": u64(86_400),
        "initial_health": u32(2_500),
        "ir_alpha": u32(143),
        "ir_initial_rate": u32(200),
        "ir_max_rate": u32(50_000),
        "ir_scaling_coeff": u32(9_000),
        "liquidation_protocol_fee": u32(100),
        "min_collat_amount": i128(10**8),
        "min_debt_amount": i128(10**8),
        "timestamp_window": u64(20),
        "user_assets_limit": u32(3),
    }
    pause = {"grace_period_secs": u64(0), "paused": (scval.BOOL, False), "unpaused_at": u64(0)}
    storage: dict[ScVal, ScVal] = {
        vec(symbol("Admin")): address(ADMIN),
        vec(symbol("Pause")): struct_map(pause),
        vec(symbol("PoolConfig")): struct_map(settings),
        vec(symbol("Reserves")): vec(*(address(token_address(name)) for name, *_ in reserves)),
    }
    for index, (name, supply, debt, cash, accrued, rate) in enumerate(reserves):
        token = token_address(name)
        shares, debts = (derived_address(f"recorded network slender {kind} {name}") for kind in ("sToken", "debtToken"))
        configuration: dict[str, ScVal] = {
            "borrowing_enabled": (scval.BOOL, True),
            "discount": u32((8_000, 9_500, 8_000)[index]),
            "is_active": (scval.BOOL, True),
            "liquidity_cap": i128(10**15),
            "pen_order": u32(index + 1),
            "util_cap": u32(9_000),
        }
        reserve: dict[str, ScVal] = {
            "borrower_ar": i128(accrued),
            "borrower_ir": i128(rate),
            "configuration": struct_map(configuration),
            "id": (scval.BYTES, bytes((index,))),
            "last_update_timestamp": u64(time - 640 * (index + 1)),
            "lender_ar": i128(nine + (accrued - nine) * 9 // 10),
            "lender_ir": i128(rate * 9 // 10),
            "reserve_type": vec(symbol("Fungible"), address(shares), address(debts)),
        }
        feed: dict[str, ScVal] = {
            "feed": address(ORACLE),
            "feed_asset": vec(symbol("Stellar"), address(token)),
            "feed_decimals": u32(14),
            "min_timestamp_delta": u64(660),
            "timestamp_precision": vec(symbol("Sec")),
            "twap_records": u32(3),
        }
        bounds = {"min_sanity_price_in_base": i128(1), "max_sanity_price_in_base": i128(10**18)}
        storage |= {
            vec(symbol("ReserveAssetKey"), address(token)): struct_map(reserve),
            vec(symbol("TokenSupply"), address(shares)): i128(supply * 10**7),
            vec(symbol("TokenSupply"), address(debts)): i128(debt * 10**7),
            vec(symbol("ProtocolFeeVault"), address(token)): i128(310 * 10**7),
            vec(symbol("PriceFeed"), address(token)): struct_map(
                {"asset_decimals": u32(7), "feeds": vec(struct_map(feed)), **bounds}
            ),
        }
        yield entry(MARKET, vec(symbol("TokenBalance"), address(token), address(shares)), i128(cash * 10**7))
    pairs = sorted(storage.items(), key=lambda pair: encode_scval(pair[0]))
    yield instance(MARKET, pairs, WASM_HASH)
