"""The independent judge of K2: one reserve in plain Python integers, after the published source.

It shares no code with the exporter nor with the embedded network. `//` is the floor; every value that has a name
goes through `i128`, which raises OverflowError where the exporter has no result; products before a division are
unbounded. A time before the last update raises OverflowError, too: the contract's MathOverflow.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.judges import i128

RAY = 10**27
BPS = 10_000
YEAR = 31_536_000


def ray_mul(a: int, b: int) -> int:
    return i128((a * b + RAY // 2) // RAY)


def ray_div(a: int, b: int) -> int:
    return i128((a * RAY + b // 2) // b)


def linear(rate: int, seconds: int) -> int:
    return i128(RAY + i128(rate * seconds) // YEAR)


def compound(rate: int, n: int) -> int:
    b2 = ray_mul(rate, rate) // (YEAR * YEAR)
    b3 = ray_mul(b2, rate) // YEAR
    first = i128(rate * n // YEAR)
    second = i128(n * (n - 1) * b2 // 2)
    third = i128(n * (n - 1) * (n - 2) * b3 // 6)
    return i128(RAY + first + second + third)


def utilization(supplied: int, borrowed: int) -> int:
    available = max(0, supplied - borrowed)
    return 0 if available + borrowed == 0 else ray_div(borrowed, i128(available + borrowed))


def borrow_rate(u: int, base: int, optimal: int, slope1: int, slope2: int) -> int:
    if u <= optimal:
        return i128(base + ray_mul(slope1, ray_div(u, optimal) if optimal else 0))
    return i128(base + slope1 + ray_mul(slope2, ray_div(u - optimal, RAY - optimal)))


def supply_rate(borrow: int, u: int, reserve_factor: int) -> int:
    return ray_mul(ray_mul(borrow, u), RAY - reserve_factor * RAY // BPS)


def supply_apy_bps(rate: int) -> int:
    return rate * BPS // RAY


def borrow_apy_bps(rate: int) -> int:
    try:
        return (compound(rate, YEAR) - RAY) * BPS // RAY
    except OverflowError:  # published as the bound
        return 2**53 - 1


def project(reserve: Mapping[str, int], now: int) -> dict[str, int]:
    """All that is published of a reserve."""
    seconds = now - reserve["last_update_timestamp"]
    if seconds < 0:
        raise OverflowError("a time before the last update")
    liquidity = ray_mul(reserve["liquidity_index"], linear(reserve["current_liquidity_rate"], seconds))
    borrow = ray_mul(reserve["variable_borrow_index"], compound(reserve["current_variable_borrow_rate"], seconds))
    scaled_supply, scaled_debt = reserve["total_supply_scaled"], reserve["total_debt_scaled"]
    stored = utilization(
        ray_mul(scaled_supply, reserve["liquidity_index"]), ray_mul(scaled_debt, reserve["variable_borrow_index"])
    )
    supplied, borrowed = ray_mul(scaled_supply, liquidity), ray_mul(scaled_debt, borrow)
    u = utilization(supplied, borrowed)
    rate = borrow_rate(
        u,
        reserve["base_variable_borrow_rate"],
        reserve["optimal_utilization_rate"],
        reserve["variable_rate_slope1"],
        reserve["variable_rate_slope2"],
    )
    result = {
        "accrued_liquidity_index": liquidity,
        "accrued_variable_borrow_index": borrow,
        "total_supplied": supplied,
        "total_borrowed": borrowed,
        "utilization_bps": borrowed * BPS // supplied if supplied else 0,
        "stored_utilization": stored,
        "accrued_utilization": u,
        "accrued_liquidity_rate": supply_rate(rate, u, reserve["reserve_factor"]),
        "accrued_variable_borrow_rate": rate,
        "supply_apy_bps": supply_apy_bps(reserve["current_liquidity_rate"]),
        "borrow_apy_bps": borrow_apy_bps(reserve["current_variable_borrow_rate"]),
    }
    for name in ("utilization_bps", "supply_apy_bps", "borrow_apy_bps"):
        result[name] = min(result[name], 2**53 - 1)
    return result


def may_supply(reserve: Mapping[str, int], supplied: int, amount: int) -> bool:
    """validate_supply_cap_after_interest, of totals that are grown to now."""
    cap = reserve["supply_cap"]
    return cap == 0 or supplied + amount <= cap * 10 ** reserve["decimals"]


def may_withdraw(reserve: Mapping[str, int], supplied: int, amount: int) -> bool:
    """What operations.rs asks of the reserve, whoever withdraws."""
    return supplied >= amount and reserve["cash"] >= amount


def may_borrow(reserve: Mapping[str, int], borrowed: int, amount: int) -> bool:
    """validate_borrow_cap_after_interest, and what lies in the aToken."""
    limits = [reserve[name] for name in ("borrow_cap", "debt_ceiling") if reserve[name]]
    debt = borrowed + amount
    return all(debt <= limit * 10 ** reserve["decimals"] for limit in limits) and reserve["cash"] >= amount
