"""The independent judge: Blend's math for one reserve in plain Python integers, after blend.md, "Formulas".

It shares no code with the exporter. `//` is the floor; every value that has a name in the contract goes through
`i128`, which raises OverflowError where the contract would fail; products before a division are unbounded.
A division by zero raises ZeroDivisionError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tests.judges import ce, fl, i128

S7 = 10**7
YEAR = 31536000
JSON_INTEGER_MAX = 2**53 - 1

# The scales of the rates (R) and of the modifier (M).
R = {"v1": 10**9, "v2": 10**12}
M = {"v1": 10**9, "v2": 10**7}


# Totals


def supply_total(generation: str, b_supply: int, b_rate: int) -> int:
    return fl(b_supply * b_rate, R[generation])


def liabilities_total(generation: str, d_supply: int, d_rate: int) -> int:
    return ce(d_supply * d_rate, R[generation])


# Utilization


def utilization(generation: str, liabilities: int, supply: int, b_supply: int = 1) -> int:
    if liabilities == 0 or (generation == "v1" and b_supply == 0):
        return 0
    if generation == "v2" and liabilities >= supply:
        return S7
    return ce(liabilities * S7, supply)


# Borrow rate


def borrow_rate(generation: str, u: int, ir_mod: int, t: int, r_base: int, r_one: int, r_two: int, r_three: int) -> int:
    m = M[generation]
    if u <= t:
        part = ce(u * S7, t) if u != 0 else 0
        return ce(i128(ce(part * r_one, S7) + r_base) * ir_mod, m)
    if u <= 9500000:
        part = ce(i128(u - t) * S7, 9500000 - t)
        return ce(i128(ce(part * r_two, S7) + r_one + r_base) * ir_mod, m)
    part = ce(i128(u - 9500000) * S7, 500000)
    if r_two + r_one + r_base >= 2**32:
        raise OverflowError("the contract adds these as u32")
    return i128(ce(part * r_three, S7) + ce(ir_mod * (r_two + r_one + r_base), m))


# Accrual, step by step


def next_modifier(generation: str, ir_mod: int, dt: int, u: int, t: int, reactivity: int) -> int:
    m = M[generation]
    x = dt * i128(u - t) * (m // S7) * reactivity
    step = fl(x, S7) if x >= 0 else ce(x, S7)
    return min(max(i128(ir_mod + step), m // 10), 10 * m)


def loan_accrual(generation: str, ir: int, dt: int) -> int:
    r = R[generation]
    tw = fl(dt * r, YEAR)
    return i128(r + ce(tw * ir, S7))


def distribute_gain(
    generation: str, gain: int, old_supply: int, b_supply: int, b_rate: int, bstop_rate: int
) -> tuple[int, int]:
    """The new b_rate and the credit (step 5)."""
    if gain <= 0:
        return b_rate, 0
    credit = fl(gain * bstop_rate, S7)
    new_supply = i128(old_supply + i128(gain - credit))
    return fl(new_supply * R[generation], b_supply), credit


def accrue(reserve: Mapping[str, Any], close_time: int) -> dict[str, int]:
    """The stored state with the four values that accrual moves brought to the close time."""
    g = reserve["generation"]
    state = {name: reserve[name] for name in ("b_rate", "d_rate", "ir_mod", "backstop_credit")}
    if close_time <= reserve["last_time"]:
        return state
    if reserve["b_supply"] == 0:
        return state
    old_supply = supply_total(g, reserve["b_supply"], reserve["b_rate"])
    old_liabilities = liabilities_total(g, reserve["d_supply"], reserve["d_rate"])
    u = utilization(g, old_liabilities, old_supply)
    if u == 0:
        return state
    dt = close_time - reserve["last_time"]
    ir = borrow_rate(g, u, reserve["ir_mod"], *curve(reserve))
    state["ir_mod"] = next_modifier(g, reserve["ir_mod"], dt, u, reserve["util"], reserve["reactivity"])
    state["d_rate"] = ce(loan_accrual(g, ir, dt) * reserve["d_rate"], R[g])
    gain = i128(liabilities_total(g, reserve["d_supply"], state["d_rate"]) - old_liabilities)
    state["b_rate"], credit = distribute_gain(
        g, gain, old_supply, reserve["b_supply"], reserve["b_rate"], reserve["bstop_rate"]
    )
    state["backstop_credit"] = i128(reserve["backstop_credit"] + credit)
    return state


def curve(reserve: Mapping[str, Any]) -> tuple[int, int, int, int, int]:
    return reserve["util"], reserve["r_base"], reserve["r_one"], reserve["r_two"], reserve["r_three"]


# Supply rate


def supply_rate(ir: int, u: int, bstop_rate: int) -> int:
    rate = ir * ((S7 - bstop_rate) * u // S7) // S7
    return max(1 - 2**127, min(rate, 2**127 - 1))  # not on the chain, so it does not fail there


# APY: the exact rational, rounded down to basis points, at most what every JSON reader keeps


def bounded(value: int) -> int:
    return max(-JSON_INTEGER_MAX, min(value, JSON_INTEGER_MAX))


def annual_yield_bps(rate: int, periods: int, rate_scale: int = S7) -> int:
    one = rate_scale * periods
    return bounded((one + rate) ** periods * 10000 // power(one, periods) - 10000)


@lru_cache  # the same for every reserve; computed again it would take a third of the judge's time
def power(base: int, exponent: int) -> int:
    return int(base**exponent)


# All that is published of a reserve


def project(reserve: Mapping[str, Any], close_time: int) -> dict[str, int]:
    g = reserve["generation"]
    bstop_rate = reserve["bstop_rate"]

    supplied = supply_total(g, reserve["b_supply"], reserve["b_rate"])
    borrowed = liabilities_total(g, reserve["d_supply"], reserve["d_rate"])
    stored_u = utilization(g, borrowed, supplied, reserve["b_supply"])
    stored_ir = borrow_rate(g, stored_u, reserve["ir_mod"], *curve(reserve))
    stored_supply_ir = supply_rate(stored_ir, stored_u, bstop_rate)

    state = accrue(reserve, close_time)
    supplied = supply_total(g, reserve["b_supply"], state["b_rate"])
    borrowed = liabilities_total(g, reserve["d_supply"], state["d_rate"])
    accrued_u = utilization(g, borrowed, supplied, reserve["b_supply"])
    accrued_ir = borrow_rate(g, accrued_u, state["ir_mod"], *curve(reserve))

    return {
        "total_supplied": supplied,
        "total_borrowed": borrowed,
        "utilization_bps": bounded(borrowed * 10000 // supplied) if supplied != 0 else 0,
        "accrued_b_rate": state["b_rate"],
        "accrued_d_rate": state["d_rate"],
        "accrued_ir_mod": state["ir_mod"],
        "accrued_backstop_credit": state["backstop_credit"],
        "stored_utilization": stored_u,
        "stored_borrow_apr": stored_ir,
        "stored_supply_apr": stored_supply_ir,
        "accrued_utilization": accrued_u,
        "accrued_borrow_apr": accrued_ir,
        "accrued_supply_apr": supply_rate(accrued_ir, accrued_u, bstop_rate),
        "borrow_apy_bps": annual_yield_bps(stored_ir, 365),
        "supply_apy_bps": annual_yield_bps(stored_supply_ir, 52),
    }


# What the contract lets one user do who has all the shares that it takes, request by request (actions.rs of both)


def allows(do: Callable[[Mapping[str, Any], int], bool], reserve: Mapping[str, Any], amount: int) -> bool:
    """Whether an operation passes on an accrued reserve; one whose math fails does not."""
    try:
        return do(reserve, amount)
    except (OverflowError, ZeroDivisionError):
        return False


def withdraw(reserve: Mapping[str, Any], amount: int) -> bool:
    g, b_rate, b_supply = reserve["generation"], reserve["b_rate"], reserve["b_supply"]
    to_burn = ce(amount * R[g], b_rate)
    if not 0 < to_burn <= b_supply:
        return False
    supply = supply_total(g, b_supply - to_burn, b_rate)
    return utilization(g, liabilities_total(g, reserve["d_supply"], reserve["d_rate"]), supply) < S7


def borrow(reserve: Mapping[str, Any], amount: int) -> bool:
    g = reserve["generation"]
    d_tokens = i128(reserve["d_supply"] + ce(amount * R[g], reserve["d_rate"]))
    liabilities = liabilities_total(g, d_tokens, reserve["d_rate"])
    used = utilization(g, liabilities, supply_total(g, reserve["b_supply"], reserve["b_rate"]))
    return used <= reserve["max_util"] and (g == "v1" or used < S7)


def supply(reserve: Mapping[str, Any], amount: int) -> bool:
    g, b_rate = reserve["generation"], reserve["b_rate"]
    minted = fl(amount * R[g], b_rate)
    return minted > 0 and supply_total(g, i128(reserve["b_supply"] + minted), b_rate) <= reserve["supply_cap"]
