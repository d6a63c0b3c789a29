"""The independent judge of Slender: one reserve in plain Python integers, after the contract's own source.

That is pool/src/methods/utils (get_collat_coeff, get_elapsed_time, rate) and common/src/fixedi128 of the repository
that docs/protocols/slender.md names. It shares no code with the exporter. What goes
through `i128` the contract checks; the exporter sets a reserve aside where that fails.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.judges import i128

ONE = 10**9
YEAR = 31_557_600


def elapsed(last_update: int, window: int, now: int) -> int:
    since = max(now - last_update, 0)
    return since - since % window if window else 0


def times(left: int, right: int) -> int:
    """FixedI128: the product has to fit before it is divided."""
    return i128(left * right) // ONE


def accrued(rate: int, interest: int, seconds: int) -> int:
    return times(rate, i128(times(interest, i128(ONE * seconds) // YEAR) + ONE)) if seconds else rate


def project(reserve: Mapping[str, int], now: int) -> dict[str, int]:
    """All that `exporter.protocols.slender.math.project` adds."""
    seconds = elapsed(reserve["last_update_timestamp"], reserve["window"], now)
    lender = accrued(reserve["lender_ar"], reserve["lender_ir"], seconds)
    debt = accrued(reserve["borrower_ar"], reserve["borrower_ir"], seconds)

    def of_lenders(rate: int) -> tuple[int, int, int]:
        lent = times(rate, reserve["debt_supply"])
        owned = i128(reserve["cash"] + lent)
        if owned == 0:
            return 0, 0, 0
        return owned, i128(lent * ONE // owned), i128(lent * reserve["lender_ir"] // owned)

    _, stored_used, stored_apr = of_lenders(reserve["lender_ar"])
    owned, used, apr = of_lenders(lender)
    coefficient = i128(ONE * owned) // reserve["s_supply"] if reserve["s_supply"] else ONE
    supplied = owned if reserve["s_supply"] else 0  # all shares together: floor(owned * shares / shares)
    borrowed = times(debt, reserve["debt_supply"])
    shown = {
        "utilization_bps": borrowed * 10_000 // supplied if supplied else 0,
        "supply_apy_bps": stored_apr // 100_000,
        "borrow_apy_bps": reserve["borrower_ir"] // 100_000,
    }
    return {
        "collat_coeff": coefficient,
        "debt_coeff": debt,
        "stored_utilization": stored_used,
        "accrued_utilization": used,
        "stored_supply_apr": stored_apr,
        "accrued_supply_apr": apr,
        "supplied": supplied,
        "borrowed": borrowed,
        **{name: min(bps, 2**53 - 1) for name, bps in shown.items()},
    }


def shares_of_debt(amount: int, coefficient: int) -> int:
    """recip_mul_int_ceil, which adds one by the remainder of amount and coefficient, not by that of the quotient."""
    shares = amount * ONE // coefficient
    return max(shares if amount % coefficient == 0 else shares + 1, 1)


def may_borrow(reserve: Mapping[str, int], coefficient: int, amount: int) -> bool:
    """require_util_cap_not_exceeded, and the book of what lies there, which may not become negative."""
    if not reserve["s_supply"]:
        return False  # divided by
    after = reserve["debt_supply"] + shares_of_debt(amount, coefficient)
    used = ONE * after // reserve["s_supply"]
    return used <= ONE * reserve["util_cap"] // 10_000 and amount <= reserve["cash"]


def may_deposit(reserve: Mapping[str, int], amount: int) -> bool:
    """require_liquidity_cap_not_exceeded."""
    return times(reserve["lender_ar"], reserve["debt_supply"]) + amount + reserve["cash"] <= reserve["liquidity_cap"]
