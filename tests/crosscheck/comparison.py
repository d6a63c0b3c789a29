"""What must be equal between the exporter's rows and Blend's SDK, what is left out, and why.

The SDK (up to 3.2.2) differs from the contract where docs/protocols/blend.md, "Verified", says so. There it is no
judge, and what it says is left out and counted; everything else is compared, exactly where both sides have whole
numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.crosscheck.blend_sdk import SdkPool, SdkReserve

Row = Mapping[str, Any]
"""A pool's row of a history file, its decimals as integers."""

_S7 = 10_000_000
_STATUSES = ("admin_active", "active", "admin_on_ice", "on_ice", "admin_frozen", "frozen", "setup")

OTHER_DECIMALS = "reserve without 7 decimals: the SDK scales its utilization by the token's decimals"
BEYOND_CAP = "v2 reserve that owes more than it has: the SDK lacks the contract's cap of the utilization at 100%"
NOTHING_LENT = "borrow rate where nothing is lent: the SDK leaves the rate modifier out and the APY at 0"


@dataclass
class Comparison:
    """How many values of each kind were compared, what was left out, and every difference in words."""

    compared: Counter[str] = field(default_factory=Counter)
    reserves: Counter[str] = field(default_factory=Counter)
    """Reserves of which everything was compared, by version."""
    left_out: Counter[str] = field(default_factory=Counter)
    near_boundary: int = 0
    """APYs so close to a whole basis point that the SDK's float cannot tell which side they are on."""
    differences: list[str] = field(default_factory=list)

    def equal(self, where: str, what: str, sdk: object, ours: object) -> None:
        """Count a comparison of two values, and note it when they differ."""
        self.agree(where, what, sdk, ours, sdk == ours)

    def agree(self, where: str, what: str, sdk: object, ours: object, agrees: bool) -> None:
        """Count a comparison that was made, and note the two values unless they agree."""
        self.compared[what] += 1
        if not agrees:
            self.differences.append(f"{where}: {what} is {sdk} in the SDK and {ours} here")

    def __str__(self) -> str:
        """A few lines for people."""
        reserves = ", ".join(f"{count} of {version}" for version, count in sorted(self.reserves.items()))
        values = ", ".join(f"{what} {count}" for what, count in sorted(self.compared.items()))
        left_out = "".join(f"\n  left out: {count} x {reason}" for reason, count in sorted(self.left_out.items()))
        near = f"\n  within a float's error of a whole basis point: {self.near_boundary}" if self.near_boundary else ""
        return f"reserves compared: {reserves or 'none'}\n  values: {values}{left_out}{near}"


def compare_pool(comparison: Comparison, pool: SdkPool, rows: Mapping[str, Row]) -> None:
    """Compare a pool contract with the rows of its market, by token."""
    assets = [reserve.asset for reserve in pool.reserves]
    comparison.equal(pool.address, "reserve list", sorted(assets), sorted(rows))
    for reserve in pool.reserves:
        row = rows.get(reserve.asset)
        if row is not None:
            _compare_market(comparison, pool, row)
            compare_reserve(comparison, pool.version, reserve, row)
            _compare_price(comparison, pool, reserve, row)


def compare_reserve(comparison: Comparison, version: str, reserve: SdkReserve, row: Row) -> None:
    """Compare a reserve with its row."""
    where = f"{row['market']}/{reserve.asset}"
    comparison.equal(where, "decimals", reserve.decimals, row["decimals"])
    comparison.equal(where, "ledger", reserve.ledger, row["observed_ledger"])
    if reserve.decimals != 7:
        comparison.left_out[OTHER_DECIMALS] += 1
        return
    supplied, borrowed = int(reserve.total_supplied), int(reserve.total_borrowed)
    if version == "v2" and borrowed > supplied:
        comparison.left_out[BEYOND_CAP] += 1
        comparison.equal(where, "capped utilization", _S7, row["accrued_utilization"])
        return

    comparison.reserves[version] += 1
    comparison.equal(where, "total supplied", supplied, row["total_supplied"])
    comparison.equal(where, "total borrowed", borrowed, row["total_borrowed"])
    comparison.equal(where, "b_rate", int(reserve.b_rate), row["supply_index"])
    comparison.equal(where, "d_rate", int(reserve.d_rate), row["borrow_index"])
    comparison.equal(where, "backstop credit", int(reserve.backstop_credit), row["backstop_credit"])
    comparison.equal(where, "utilization", int(reserve.utilization), row["accrued_utilization"])
    in_basis_points = borrowed * 10_000 // supplied if supplied else 0
    comparison.equal(where, "utilization in basis points", in_basis_points, row["utilization_bps"])
    # The SDK takes the ceiling of a decrease where the contract truncates, so it may be one lower, never higher.
    ir_mod, modifier = int(reserve.ir_mod), row["rate_modifier"]
    comparison.agree(where, "ir_mod within 1", ir_mod, modifier, 0 <= modifier - ir_mod <= 1)
    # Both are one integer below 2^53 divided by 10^7 once, and so the same double.
    comparison.equal(where, "supply APR", reserve.supply_apr, row["stored_supply_apr"] / _S7)
    _compare_apy(comparison, where, "supply APY", reserve.est_supply_apy, row["supply_apy_bps"])
    if int(reserve.utilization) == 0:
        comparison.left_out[NOTHING_LENT] += 1
        return
    comparison.equal(where, "borrow APR", reserve.borrow_apr, row["stored_borrow_apr"] / _S7)
    _compare_apy(comparison, where, "borrow APY", reserve.est_borrow_apy, row["borrow_apy_bps"])


def _compare_apy(comparison: Comparison, where: str, what: str, sdk: float | None, ours: int) -> None:
    """The floor of the SDK's float in basis points is ours, unless the float is within its error of a boundary."""
    if sdk is None:
        comparison.equal(where, what, "infinite", ours)
        return
    basis_points = sdk * 10_000
    # The rounding of 1 + rate/365, raised to 365, leaves an error of 4e-14 relative to 1 + APY: 4e-10 basis points and
    # more. A yield of exactly 0 has none.
    error = 1e-9 + 1e-12 * basis_points if basis_points else 0.0
    low, high = math.floor(basis_points - error), math.floor(basis_points + error)
    comparison.near_boundary += low != high
    comparison.agree(where, what, f"{basis_points!r} bps", ours, low <= ours <= high)


def _compare_market(comparison: Comparison, pool: SdkPool, row: Row) -> None:
    comparison.equal(pool.address, "name", pool.name, row["market_name"])
    comparison.equal(pool.address, "status", _STATUSES[pool.status], row["market_status"])
    comparison.equal(pool.address, "oracle", pool.oracle, row["oracle"])
    comparison.equal(pool.address, "wasm hash", pool.wasm_hash, row["wasm_hash"])


def _compare_price(comparison: Comparison, pool: SdkPool, reserve: SdkReserve, row: Row) -> None:
    """The SDK takes any price there is (blend.md, "Prices"), so what is no valid price here is not compared."""
    if row["price_reason"] != "valid":
        return
    where = f"{row['market']}/{reserve.asset}"
    price = reserve.oracle_price
    comparison.equal(where, "price", int(price.price) if price else None, row["oracle_price"])
    comparison.equal(where, "price time", price.timestamp if price else None, row["price_timestamp"])
    comparison.equal(where, "oracle decimals", pool.oracle_decimals, row["oracle_decimals"])
