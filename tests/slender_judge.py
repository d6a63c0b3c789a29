"""The independent judge of Slender: one reserve in plain Python integers, after facts/other-protocols.md 3.3.

It shares no code with the exporter nor with the embedded network. Every value that has a name goes through `i128`,
which raises OverflowError where the exporter sets the reserve aside.
"""

from __future__ import annotations

from collections.abc import Mapping

ONE = 10**9
YEAR = 31_557_600


def i128(value: int) -> int:
    if not -(2**127) <= value < 2**127:
        raise OverflowError("does not fit into signed 128 bits")
    return value


def elapsed(last_update: int, window: int, now: int) -> int:
    since = max(now - last_update, 0)
    return since - since % window if window else 0


def accrued(rate: int, interest: int, seconds: int) -> int:
    years = i128(seconds * ONE // YEAR)
    return i128(rate * i128(i128(interest * years // ONE) + ONE) // ONE)


def project(reserve: Mapping[str, int], now: int) -> dict[str, int]:
    """All that `exporter.protocols.slender.math.project` adds."""
    seconds = elapsed(reserve["last_update_timestamp"], reserve["window"], now)
    lender = accrued(reserve["lender_ar"], reserve["lender_ir"], seconds)
    debt = accrued(reserve["borrower_ar"], reserve["borrower_ir"], seconds)

    def of_lenders(rate: int) -> tuple[int, int, int]:
        lent = i128(rate * reserve["debt_supply"] // ONE)
        owned = i128(reserve["balance"] + lent)
        if owned == 0:
            return 0, 0, 0
        return owned, i128(lent * ONE // owned), i128(lent * reserve["lender_ir"] // owned)

    _, stored_used, stored_apr = of_lenders(reserve["lender_ar"])
    owned, used, apr = of_lenders(lender)
    coefficient = i128(owned * ONE // reserve["s_supply"]) if reserve["s_supply"] else ONE
    supplied = i128(reserve["s_supply"] * coefficient // ONE)
    borrowed = i128(reserve["debt_supply"] * debt // ONE)
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
