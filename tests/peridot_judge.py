"""The independent judge of Peridot: one vault in plain Python integers, after facts/other-protocols.md 3.2.

It shares no code with the exporter nor with the embedded network. Every value that has a name goes through `i128`,
which raises OverflowError where the exporter sets the vault aside; so does a rate above 1000 percent.
"""

from __future__ import annotations

from collections.abc import Mapping

ONE = 10**6
YEAR = 31_536_000


def i128(value: int) -> int:
    if not -(2**127) <= value < 2**127:
        raise OverflowError("does not fit into signed 128 bits")
    return value


def owned(net_cash: int, borrowed: int) -> int:
    return max(i128(net_cash + borrowed), 0)


def utilization(borrowed: int, underlying: int) -> int:
    return min(i128(borrowed * ONE // underlying), ONE) if underlying else 0


def borrow_rate(used: int, base: int, multiplier: int, jump: int, kink: int) -> int:
    rate = i128(base + i128(min(used, kink) * multiplier // ONE))
    if used > kink:
        rate = i128(rate + i128((used - kink) * jump // ONE))
    if rate > 10_000_000:
        raise OverflowError("the contract refuses this rate")
    return rate


def supply_rate(used: int, rate: int, kept: int) -> int:
    return used * (rate * (ONE - kept) // ONE) // ONE


def interest(borrowed: int, rate: int, seconds: int) -> int:
    return i128(i128(borrowed * rate) * seconds) // (YEAR * ONE)


def project(vault: Mapping[str, int], now: int) -> dict[str, int]:
    """All that `exporter.protocols.peridot.math.project` adds."""
    curve = [vault[name] for name in ("base_rate", "multiplier", "jump_multiplier", "kink")]
    kept = min(vault["reserve_factor"] + vault["admin_fee"], ONE)
    b0 = vault["total_borrowed"]
    u0 = utilization(b0, owned(vault["net_cash"], b0))
    r0 = borrow_rate(u0, *curve)
    gained = interest(b0, r0, max(now - vault["last_update_time"], 0))
    aside = i128(gained * vault["reserve_factor"] // ONE) + i128(gained * vault["admin_fee"] // ONE)
    b1 = i128(b0 + gained)
    t1 = owned(i128(vault["net_cash"] - i128(aside)), b1)
    u1 = utilization(b1, t1)
    r1 = borrow_rate(u1, *curve)
    exchange = vault["initial_exchange_rate"]
    if t1 and vault["receipt_supply"]:
        exchange = i128(t1 * ONE // vault["receipt_supply"])
    bps = min(b1 * 10_000 // t1, 2**53 - 1) if t1 else 0
    return {
        "stored_utilization": u0,
        "stored_borrow_apr": r0,
        "stored_supply_apr": supply_rate(u0, r0, kept),
        "accrued_utilization": u1,
        "accrued_borrow_apr": r1,
        "accrued_supply_apr": supply_rate(u1, r1, kept),
        "supplied": t1,
        "borrowed": b1,
        "set_aside": i128(i128(vault["total_reserves"] + vault["total_admin_fees"]) + aside),
        "supply_index": i128(exchange * 10**12),
        "accrued_borrow_index": i128(vault["borrow_index"] + (i128(vault["borrow_index"] * gained // b0) if b0 else 0)),
        "utilization_bps": bps,
        "supply_apy_bps": supply_rate(u0, r0, kept) // 100,
        "borrow_apy_bps": r0 // 100,
    }
