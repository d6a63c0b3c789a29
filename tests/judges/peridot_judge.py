"""The independent judge of Peridot: one vault in plain Python integers, after docs/protocols/peridot.md.

It shares no code with the exporter. Every value that has a name goes through `i128`,
which raises OverflowError where the exporter sets the vault aside; so does a rate above 1000 percent.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.judges import i128

ONE = 10**6
YEAR = 31_536_000
RATES = ("stored_utilization", "stored_borrow_apr", "accrued_utilization", "accrued_borrow_apr", "borrowed")


def boosted(vault: Mapping[str, int], borrowed: int, aside: int, cached: int, now: int) -> tuple[int, int]:
    """What counts of the boosted cash, and what the contract has cached when it has counted."""
    estimate = max(i128(i128(i128(vault["total_deposited"] + aside) - borrowed) - vault["managed_cash"]), 0)
    if vault["boost_rule"] == 0:
        reported = vault["boost_quoted"]
    else:
        reported = cached if i128(now - vault["boost_cached_at"]) <= 3_600 else estimate
    baseline = max(cached, estimate)
    cap = i128(baseline + baseline * 500 // 10_000)
    if baseline == 0:
        cap = 0 if borrowed else reported
    return min(reported, cap), reported if vault["boost_rule"] == 0 else cached


def model_rate(cash: int, borrowed: int, aside: int, curve: list[int], fixed: int) -> tuple[int, int]:
    """The utilization of the rate model and the rate that the vault takes."""
    divisor = i128(i128(cash + borrowed) - aside)
    if borrowed and divisor < 0:
        borrow_rate(0, *curve)
        used, rate = ONE, fixed
    else:
        used = min(i128(borrowed * ONE // divisor), ONE) if divisor > 0 else 0
        rate = borrow_rate(used, *curve)
    if not 0 <= rate <= 10_000_000:
        raise OverflowError("the contract refuses this rate")
    return used, rate


def owned(net_cash: int, borrowed: int) -> int:
    return max(i128(net_cash + borrowed), 0)


def utilization(borrowed: int, underlying: int) -> int:
    return min(i128(borrowed * ONE // underlying), ONE) if underlying else 0


def borrow_rate(used: int, base: int, multiplier: int, jump: int, kink: int) -> int:
    rate = i128(base + i128(min(used, kink) * multiplier // ONE))
    if used > kink:
        rate = i128(rate + i128((used - kink) * jump // ONE))
    return rate


def supply_rate(used: int, rate: int, kept: int) -> int:
    return used * (rate * (ONE - kept) // ONE) // ONE


def interest(borrowed: int, rate: int, seconds: int) -> int:
    return i128(i128(borrowed * rate) * seconds) // (YEAR * ONE)


def project(vault: Mapping[str, int], now: int) -> dict[str, int]:
    """All that `exporter.protocols.peridot.math.project` adds."""
    if vault["boost_rule"] == 2:
        one, other = (project({**vault, "boost_rule": rule}, now) for rule in (0, 1))
        if any(one[name] != other[name] for name in RATES):
            raise OverflowError("which rate is not known")
        return one
    curve = [vault[name] for name in ("base_rate", "multiplier", "jump_multiplier", "kink")]
    kept = min(vault["reserve_factor"] + vault["admin_fee"], ONE)
    b0, s0 = vault["total_borrowed"], i128(vault["total_reserves"] + vault["total_admin_fees"])
    fixed = vault["fixed_rate"]
    cash, cached = boosted(vault, b0, s0, vault["boost_cached"], now)
    u0, r0 = model_rate(i128(vault["live_cash"] + cash), b0, s0, curve, fixed)
    e0 = supply_rate(utilization(b0, owned(vault["net_cash"], b0)), r0, kept)
    gained = interest(b0, r0, max(now - vault["last_update_time"], 0))
    aside = i128(i128(gained * vault["reserve_factor"] // ONE) + i128(gained * vault["admin_fee"] // ONE))
    b1, s1 = i128(b0 + gained), i128(s0 + aside)
    t1 = owned(i128(vault["net_cash"] - aside), b1)
    cash, _ = boosted(vault, b1, s1, cached, now)
    u1, r1 = model_rate(i128(vault["live_cash"] + cash), b1, s1, curve, fixed)
    e1 = supply_rate(utilization(b1, t1), r1, kept)
    if bool(t1) != bool(vault["receipt_supply"]):
        raise ZeroDivisionError("the contract has no exchange rate")
    exchange = vault["initial_exchange_rate"]
    if t1 and vault["receipt_supply"]:
        exchange = i128(t1 * ONE // vault["receipt_supply"])
    bps = min(b1 * 10_000 // t1, 2**53 - 1) if t1 else 0
    return {
        "stored_utilization": u0,
        "stored_borrow_apr": r0,
        "stored_supply_apr": e0,
        "accrued_utilization": u1,
        "accrued_borrow_apr": r1,
        "accrued_supply_apr": e1,
        "supplied": t1,
        "borrowed": b1,
        "set_aside": s1,
        "supply_index": i128(exchange * 10**12),
        "accrued_borrow_index": i128(vault["borrow_index"] + (i128(vault["borrow_index"] * gained // b0) if b0 else 0)),
        "utilization_bps": bps,
        "supply_apy_bps": e0 // 100,
        "borrow_apy_bps": r0 // 100,
    }


def may_deposit(vault: Mapping[str, int], owned: int, amount: int) -> bool:
    """The cap is held against what suppliers own after the deposit."""
    return vault["supply_cap"] == 0 or owned + amount <= vault["supply_cap"]


def may_take(vault: Mapping[str, int], owned: int, borrowed: int, amount: int) -> bool:
    """What a withdrawal and a loan have in common: get_available_liquidity, and what there is to pay with."""
    return max(owned - borrowed, 0) >= amount and vault["payable"] >= amount


def may_borrow(vault: Mapping[str, int], owned: int, borrowed: int, amount: int) -> bool:
    """The same, and the borrow cap, which is held against the principal where the vault keeps that."""
    principal = vault.get("borrow_principal", borrowed)
    capped = vault["borrow_cap"] == 0 or principal + amount <= vault["borrow_cap"]
    return capped and may_take(vault, owned, borrowed, amount)
