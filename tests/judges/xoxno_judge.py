"""The independent judge of XOXNO Lending: one hub market in plain Python, after the contracts' own source.

Read for it: XOXNO/rs-lending-xlm at 5a27d74f, common/src/rates (curve, compound, index, scaling, simulate) and
contracts/pool/src/views.rs. It shares no code with the exporter, and rounds by fractions
where they round by remainders. Every value that has a name in the contract goes through `i128`, which raises
OverflowError where the contract would fail; `saturated` is where the contract takes the largest number instead. A
division by zero raises ZeroDivisionError.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from tests.judges import i128

RAY = 10**27
BPS = 10_000
YEAR = 31_556_926_000
INDEX_CAP = 10**36

State = Mapping[str, int]


def hu(x: int, y: int, d: int) -> int:
    return i128(math.floor(Fraction(x * y, d) + Fraction(1, 2)))


def fl(x: int, y: int, d: int) -> int:
    return i128(math.floor(Fraction(x * y, d)))


def saturated(x: int, y: int, d: int) -> int:
    return min(math.floor(Fraction(x * y, d)), 2**127 - 1)


def base_units(value: int, decimals: int) -> int:
    return hu(value, 1, 10 ** (27 - decimals))


def utilization(borrow_value: int, supply_value: int) -> int:
    return hu(borrow_value, RAY, supply_value) if supply_value else 0


def curve(u: int, p: State) -> int:
    u = min(u, RAY)
    mid, opt = p["mid_utilization"], p["optimal_utilization"]
    rate = p["base_borrow_rate"]
    if u < mid:
        rate = i128(rate + hu(hu(u, p["slope1"], RAY), RAY, mid))
    elif u < opt:
        rate = i128(rate + p["slope1"] + hu(hu(u - mid, p["slope2"], RAY), RAY, opt - mid))
    else:
        rate = i128(rate + p["slope1"] + p["slope2"] + hu(hu(u - opt, p["slope3"], RAY), RAY, RAY - opt))
    return min(rate, p["max_borrow_rate"])


def supply_rate(u: int, borrow_rate: int, reserve_factor: int) -> int:
    if u == 0 or not 0 <= reserve_factor < BPS:
        return 0
    return hu(hu(u, borrow_rate, RAY), BPS - reserve_factor, BPS)


def per_millisecond(rate: int) -> int:
    return hu(rate, 1, YEAR)


def growth(x: int) -> int:
    total, power = RAY + x, x
    for k in range(2, 9):
        power = hu(power, x, RAY)
        total += hu(power, 1, math.factorial(k))
    return i128(total)


def accrue(pool: State, now: int) -> dict[str, int]:
    """The fields of the pool at `now`, in milliseconds; simulate.rs subtracts times saturating."""
    state = dict(pool)
    while state["last_timestamp"] < now:
        step = min(YEAR, now - state["last_timestamp"])
        state = one_chunk(state, step) | {"last_timestamp": state["last_timestamp"] + step}
    return state


def one_chunk(pool: State, milliseconds: int) -> dict[str, int]:
    supplied, si, borrowed, bi = (pool[name] for name in ("supplied", "supply_index", "borrowed", "borrow_index"))
    supply, debt = hu(supplied, si, RAY), hu(borrowed, bi, RAY)
    rate = curve(utilization(debt, supply), pool)
    bi_next = min(hu(bi, growth(i128(per_millisecond(rate) * milliseconds)), RAY), INDEX_CAP)
    interest = hu(borrowed, bi_next, RAY) - debt
    fee = hu(interest, pool["reserve_factor"], BPS)
    rewards = interest - fee
    si_next = index_with_rewards(supplied, si, rewards)
    distributed = hu(supplied, si_next, RAY) - supply
    if not 0 <= distributed <= rewards:
        raise OverflowError("more or less than the rewards was distributed")  # index.rs: both subtractions are checked
    owed = i128(fee + rewards - distributed)
    shares = min(saturated(owed, RAY, si_next), 2**127 - 1 - supplied)  # index.rs, protocol_fee_shares
    return {
        **pool,
        "borrow_index": bi_next,
        "supply_index": si_next,
        "supplied": i128(supplied + shares),
        "revenue": i128(pool["revenue"] + shares),
    }


def index_with_rewards(supplied: int, si: int, rewards: int) -> int:
    """index.rs, update_supply_index: three cases in which the index stays as it is, before there is any division."""
    if supplied == 0 or rewards == 0:
        return si
    value = hu(supplied, si, RAY)
    if value == 0:
        return si
    return max(min(saturated(i128(value + rewards), RAY, supplied), INDEX_CAP), min(si, INDEX_CAP))


def reserved(supply: int) -> int:
    """The cash that a borrower has to leave, of a supply in base units."""
    return hu(supply, 200, BPS)


def apy(rate: int) -> Fraction:
    """The daily form, exactly."""
    return (1 + Fraction(rate, RAY) * Fraction(86_400_000, YEAR)) ** 365 - 1


def apy_bps(rate: int) -> int:
    """The same in whole basis points, without fractions: they are slow at this size."""
    one = RAY * YEAR
    return min(((one + rate * 86_400_000) ** 365 - one**365) * BPS // one**365, 2**53 - 1)


def views(pool: State) -> dict[str, int]:
    """What the contract's views of a single hub market give: the stored indexes."""
    decimals = pool["asset_decimals"]
    supply, debt = hu(pool["supplied"], pool["supply_index"], RAY), hu(pool["borrowed"], pool["borrow_index"], RAY)
    u = utilization(debt, supply)
    rate = curve(u, pool)
    return {
        "utilization": u,
        "borrow_rate": rate,
        "supply_rate": supply_rate(u, rate, pool["reserve_factor"]),
        "supplied": base_units(supply, decimals),
        "borrowed": base_units(debt, decimals),
        # scaling.rs, unscale_supply_floor: both divisions round down, unlike those of the two amounts above
        "revenue": fl(fl(pool["revenue"], pool["supply_index"], RAY), 1, 10 ** (27 - decimals)),
    }


def project(pool: State, close_time: int) -> dict[str, int]:
    """All that is published of a hub market at a close time in seconds."""
    stored, state = views(pool), accrue(pool, close_time * 1_000)
    now = views(state)
    used = now["borrowed"] * BPS // now["supplied"] if now["supplied"] else 0
    return {
        "total_supplied": now["supplied"],
        "total_borrowed": now["borrowed"],
        "utilization_bps": min(used, 2**53 - 1),
        "accrued_supplied": state["supplied"],
        "accrued_revenue": state["revenue"],
        "accrued_supply_index": state["supply_index"],
        "accrued_borrow_index": state["borrow_index"],
        "stored_utilization": stored["utilization"],
        "stored_borrow_apr": stored["borrow_rate"],
        "stored_supply_apr": stored["supply_rate"],
        "accrued_utilization": now["utilization"],
        "accrued_borrow_apr": now["borrow_rate"],
        "accrued_supply_apr": now["supply_rate"],
        "borrow_apy_bps": apy_bps(stored["borrow_rate"]),
        "supply_apy_bps": apy_bps(stored["supply_rate"]),
    }


def cl(x: int, y: int, d: int) -> int:
    return i128(math.ceil(Fraction(x * y, d)))


def _below_max(pool: State, supplied: int, borrowed: int) -> bool:
    """guards.rs, require_utilization_below_max."""
    if supplied == 0 or pool["max_utilization"] >= RAY:
        return True
    supply, debt = hu(supplied, pool["supply_index"], RAY), hu(borrowed, pool["borrow_index"], RAY)
    return utilization(debt, supply) <= pool["max_utilization"]


def _unit(pool: State) -> int:
    return int(10 ** (27 - pool["asset_decimals"]))


def may_withdraw(pool: State, amount: int) -> bool:
    """ops/withdraw.rs of an accrued pool, for suppliers that have together all but the revenue."""
    burnt = cl(amount * _unit(pool), RAY, pool["supply_index"])
    left = pool["supplied"] - burnt
    if burnt > pool["supplied"] - pool["revenue"] or amount > pool["cash"]:
        return False
    return _below_max(pool, left, pool["borrowed"]) and not (left == 0 and pool["borrowed"])


def may_borrow(pool: State, amount: int) -> bool:
    """ops/borrow.rs and the buffer of guards.rs."""
    if amount > pool["cash"]:
        return False
    supply = fl(fl(pool["supplied"], pool["supply_index"], RAY), 1, _unit(pool))
    if pool["cash"] - amount < reserved(supply):
        return False
    return _below_max(pool, pool["supplied"], pool["borrowed"] + cl(amount * _unit(pool), RAY, pool["borrow_index"]))


def is_backed(pool: State) -> bool:
    """guards.rs, require_backed_market, which a supply asks for."""
    claim = fl(fl(pool["supplied"], pool["supply_index"], RAY), 1, _unit(pool))
    return claim <= pool["cash"] + cl(cl(pool["borrowed"], pool["borrow_index"], RAY), 1, _unit(pool))


def within_cap(pool: State, side: str, cap: int, used: int, amount: int) -> bool:
    """spoke_usage.rs: new shares of supply are rounded down, those of debt up, and so is the cap down."""
    index = pool["supply_index" if side == "supply" else "borrow_index"]
    shares = (fl if side == "supply" else cl)(amount * _unit(pool), RAY, index)
    return used + shares <= saturated(cap * _unit(pool), RAY, index)
