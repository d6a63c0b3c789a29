"""The independent judge of Alula: one pool in plain Python integers, after docs/protocols/alula.md, "Formulas".

It shares no code with the exporter. `//` is the floor; every value that has a name in
the contract goes through `i128`, which raises OverflowError where the contract would fail; products before a division
are unbounded. A division by zero raises ZeroDivisionError, a negative rate ValueError.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

BPS = 10_000
S = 10**18
YEAR = 31_556_926


def i128(value: int) -> int:
    """A value that the contract keeps, in signed 128 bits."""
    if not -(2**127) <= value < 2**127:
        raise OverflowError("does not fit into signed 128 bits")
    return value


def fl(numerator: int, denominator: int) -> int:
    """Rounded down."""
    return i128(numerator // denominator)


def ce(numerator: int, denominator: int) -> int:
    """Rounded up."""
    return i128(-(-numerator // denominator))


# Utilization


def available(total_available: int, take_rate_fees_sum: int) -> int:
    return max(i128(total_available - take_rate_fees_sum), 0)


def total_supply(pool: Mapping[str, int]) -> int:
    return i128(available(pool["total_available"], pool["take_rate_fees_sum"]) + pool["total_borrowed"])


def utilization(total_borrowed: int, supply: int) -> int:
    return 0 if supply == 0 else ce(total_borrowed * BPS, supply)


def utilization_floor(total_borrowed: int, supply: int) -> int:
    return 0 if supply == 0 else fl(total_borrowed * BPS, supply)


# Rate curve


def kinked(u: int, base: int, k1a: int, k1u: int, k2a: int, k2u: int, top: int) -> int:
    if u < k1u:
        return i128(base + fl(i128(k1a - base) * u, k1u))
    if u < k2u:
        return i128(k1a + fl(i128(k2a - k1a) * i128(u - k1u), i128(k2u - k1u)))
    return i128(k2a + fl(i128(top - k2a) * i128(u - k2u), i128(BPS - k2u)))


def curve(pool: Mapping[str, int]) -> tuple[int, int, int, int, int, int]:
    return (
        pool["base_apr_bps"],
        pool["kink1_apr_bps"],
        pool["kink1_ur_bps"],
        pool["kink2_apr_bps"],
        pool["kink2_ur_bps"],
        pool["max_apr_bps"],
    )


# Rates, growth and yields


def borrow_apr(kinked_apr: int, modifier: int) -> int:
    return ce(kinked_apr * modifier, BPS)


def supply_apr(borrow: int, u: int, take_rate: int) -> int:
    return fl(fl(borrow * u, BPS) * (BPS - take_rate), BPS)


def bin_pow(base: int, exponent: int, denominator: int) -> int:
    result = denominator
    while exponent > 0:
        if exponent % 2 == 1:
            result = result * base // denominator
        base = base * base // denominator
        exponent //= 2
    return result


@cache  # the hypothesis tests ask for the same rates again and again
def multiplier(apr: int, seconds: int) -> int:
    if apr < 0:
        raise ValueError("a negative rate is an error")
    if apr * seconds > 10**9 * YEAR:  # e^100000: certainly too large, and far too long to compute
        raise OverflowError("does not fit into signed 128 bits")
    growth = S + -(-apr * S // BPS) // YEAR
    return i128(bin_pow(growth, seconds, S))


def apy_bps(apr: int) -> int:
    try:
        return min(max(0, multiplier(apr, YEAR) // 10**14 - BPS), 2**53 - 1)
    except OverflowError:  # published as the bound
        return 2**53 - 1


# Accrual and the modifier


def accrue(pool: Mapping[str, int], now: int, *, cap: int | None = 900, take_rate_ceil: bool = False) -> dict[str, int]:
    """The pool's fields after accrual; `cap` and `take_rate_ceil` are what the contract's two sources differ in."""
    elapsed = now - pool["last_accrual_timestamp"]
    if elapsed == 0:
        return dict(pool)
    u = utilization(pool["total_borrowed"], total_supply(pool))
    borrow = borrow_apr(kinked(u, *curve(pool)), pool["interest_rate_modifier_bps"])
    grown = ce(pool["total_borrowed"] * multiplier(borrow, elapsed), S)
    gain = (grown - pool["total_borrowed"]) * pool["take_rate_bps"]
    return {
        **pool,
        "total_borrowed": grown,
        "take_rate_fees_sum": pool["take_rate_fees_sum"] + (ce(gain, BPS) if take_rate_ceil else fl(gain, BPS)),
        "borrow_apr_bps": borrow,
        "supply_apr_bps": supply_apr(borrow, u, pool["take_rate_bps"]),
        "last_accrual_timestamp": now,
        "interest_rate_modifier_bps": next_modifier(
            pool["interest_rate_modifier_bps"],
            u,
            pool["target_utilization_ratio_bps"],
            pool["ir_reactivity_constant"],
            elapsed if cap is None else min(elapsed, cap),
        ),
    }


def next_modifier(modifier: int, u: int, target: int, reactivity: int, seconds: int) -> int:
    difference = u - target
    step = abs(seconds * difference) * reactivity // BPS
    return max(1000, modifier - step) if difference >= 0 else min(100_000, modifier + step)


# Share rates


def j_token_rate(supply: int, shares: int) -> int:
    return 0 if shares == 0 else min(supply * BPS // shares, 2**127 - 1)


def d_token_rate(total_borrowed: int, shares: int) -> int:
    return 0 if shares == 0 else min(-(-total_borrowed * BPS // shares), 2**127 - 1)


# All that is published of a pool


def project(pool: Mapping[str, int]) -> dict[str, int]:
    supply = total_supply(pool)
    u = utilization(pool["total_borrowed"], supply)
    borrow = borrow_apr(kinked(u, *curve(pool)), pool["interest_rate_modifier_bps"])
    supply_rate = supply_apr(borrow, u, pool["take_rate_bps"])
    return {
        "total_supplied": supply,
        "utilization_bps": utilization_floor(pool["total_borrowed"], supply),
        "utilization_ceil_bps": u,
        "borrow_apr_bps": borrow,
        "supply_apr_bps": supply_rate,
        "borrow_apy_bps": apy_bps(borrow),
        "supply_apy_bps": apy_bps(supply_rate),
        "j_token_rate_bps": j_token_rate(supply, pool["total_j_tokens"]),
        "d_token_rate_bps": d_token_rate(pool["total_borrowed"], pool["total_d_tokens"]),
    }


# What may be taken out of a pool, after Pool::total_available and the cap on borrowing


def withdrawable(pool: Mapping[str, int]) -> int:
    return max(0, pool["total_available"] - pool["take_rate_fees_sum"])


def borrowable(pool: Mapping[str, int], limit_bps: int) -> int:
    available, borrowed = withdrawable(pool), pool["total_borrowed"]
    supply = available + borrowed
    used = -(-borrowed * 10_000 // supply) if supply else 0
    return min(available, supply * (limit_bps - used) // 10_000) if used <= limit_bps else 0
