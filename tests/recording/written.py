"""What of the recording is ours: tokens with names and prices, and the states of Slender and Alula.

Slender's deployed code answers from its entries as we compute (tests/host/test_deployed_code.py); Alula's have the
form of the layout in docs/protocols/alula.md, with the live readings of November 2026 where there are any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from exporter.deployments.networks import RECORDED_PASSPHRASE, derived_address, native_asset
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.scval import STELLAR_ASSET, ScVal
from exporter.ledger.codec.scval_encode import (
    VOID,
    address,
    encode_scval,
    i128,
    string,
    struct_map,
    symbol,
    u32,
    u64,
    vec,
)
from exporter.ledger.source import RawEntry
from exporter.localnet.oracle import ORACLE
from exporter.protocols.slender.layout import WASM_HASH as SLENDER_CODE
from tests.protocols.made_ledger import Written, balance_at, entry, instance
from tests.recording.sources import Part, code_of

ADMIN: Final = strkey.encode(strkey.ACCOUNT, code_of("administrator"))


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the written list, with a price in US dollars of 14 decimals."""

    symbol: str
    price: int
    decimals: int = 7

    @property
    def address(self) -> str:
        """The contract's address."""
        if self.symbol == "XLM":
            return native_asset(RECORDED_PASSPHRASE)
        return derived_address(f"recorded network token {self.symbol}")

    def entry(self) -> Written:
        """The contract's instance: of a Stellar asset with 7 decimals, and of a token of the SDK with others."""
        name = "native" if self.symbol == "XLM" else f"{self.symbol}:{ADMIN}"
        fields = {"decimal": u32(self.decimals), "name": string(name), "symbol": string(name.partition(":")[0])}
        metadata = (symbol("METADATA"), struct_map(fields))
        admin = (vec(symbol("Admin")), address(ADMIN))
        if self.decimals != 7:
            return instance(self.address, [metadata, admin], code_of("token"))
        if self.symbol == "XLM":
            info, owned = vec(symbol("Native")), []
        else:
            size = 4 if len(self.symbol) <= 4 else 12
            code = (scval.STRING, self.symbol.encode().ljust(size, b"\0"))
            issuer = (scval.BYTES, strkey.decode(ADMIN)[1])
            info = vec(symbol(f"AlphaNum{size}"), struct_map({"asset_code": code, "issuer": issuer}))
            owned = [admin]
        storage = (metadata, *owned, (vec(symbol("AssetInfo")), info))
        return instance(self.address, storage, executable=STELLAR_ASSET)


TOKENS: Final = {
    token.symbol: token
    for token in (
        Token("XLM", 31 * 10**12),
        Token("USDC", 10**14),
        Token("EURC", 115 * 10**12),
        Token("wETH", 3_180 * 10**14),
        Token("wBTC", 91_400 * 10**14),
        Token("USDT0", 10**14, 6),
        Token("USST", 10**14, 18),
        Token("BLND", 4 * 10**12),
    )
}


SLENDER: Final = derived_address("recorded network slender pool")


def slender(time: int) -> Iterator[Written]:
    """A pool with the configuration of mainnet's, and three reserves."""
    nine = 10**9
    reserves = (
        # token, supply, debt, cash: in units; accrued rate and rate of a year of borrowers, with 9 decimals
        ("XLM", 9_240_000, 5_310_000, 4_020_000, 1_071_400_000, 56_000_000),
        ("USDC", 1_870_000, 1_240_000, 655_000, 1_093_100_000, 94_000_000),
        ("EURC", 402_000, 61_000, 342_000, 1_012_800_000, 25_000_000),
    )
    settings: dict[str, ScVal] = {
        "base_asset_address": address(TOKENS["XLM"].address),
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
        vec(symbol("Reserves")): vec(*(address(TOKENS[name].address) for name, *_ in reserves)),
    }
    for index, (name, supply, debt, cash, accrued, rate) in enumerate(reserves):
        token = TOKENS[name].address
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
        yield entry(SLENDER, vec(symbol("TokenBalance"), address(token), address(shares)), i128(cash * 10**7))
    pairs = sorted(storage.items(), key=lambda pair: encode_scval(pair[0]))
    yield instance(SLENDER, pairs, SLENDER_CODE)


ALULA: Final = derived_address("recorded network alula market")
_MANAGER: Final = derived_address("recorded network alula manager")
ALULA_CODE: Final = code_of("alula market")


def alula(time: int) -> Iterator[Written]:
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
        "DeployerHost": address(_MANAGER),
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
    yield instance(ALULA, pairs, ALULA_CODE)
    yield instance(_MANAGER, [(vec(symbol("Admin")), address(ADMIN))], code_of("alula manager"))
    yield entry(_MANAGER, vec(symbol("DeployedMarket"), address(ALULA)), u64(43_200))
    addresses = [address(TOKENS[name].address) for name, *_ in pools]
    yield entry(ALULA, vec(symbol("AllPools")), vec(*addresses))
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
            "config": alula_configuration(curve, int(name == "EURC")),
            "farm_debt": VOID,
            "farm_supply": VOID,
            "last_accrual_timestamp": u64(time - 420),
            "name": string(f"{name} pool"),
            "pool_address": token,
            "token_address": token,
            "token_decimals": u32(7),
            "token_symbol": string("native" if name == "XLM" else name),
        }
        yield entry(ALULA, vec(symbol("Pool"), token), struct_map(fields))
        yield balance_at(TOKENS[name].address, ALULA, (available + collateral) * 10**7)


def alula_configuration(curve: tuple[int, ...], reactivity: int) -> ScVal:
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


def written(label: str, time: int) -> Part:
    """Slender's or Alula's part, under its own addresses already."""
    make, market, name = {"slender": (slender, SLENDER, "Slender"), "alula": (alula, ALULA, "main")}[label]
    entries = {key: RawEntry(data, 1, None) for key, data in make(time)}
    return Part(label, label, 1, time, entries, {}, {market: ("market", name)})
