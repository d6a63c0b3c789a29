"""Slender's math of one reserve (docs/protocols/slender.md, "Formulas").

Coefficients and rates a year have 9 decimals. The contract's views bring its two accrued rates from the last update
to now with the interest rates that are stored, in whole windows of time, and so does this. Its products have to fit
into 128 bits before they are divided, as here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from exporter import exact
from exporter.protocols.base import NO_REWARDS, AccrualRule, Step, Transition, changed
from exporter.protocols.slender import layout

ONE, DECIMALS = 10**9, 9
"""Of rates, coefficients and utilization."""

SECONDS_PER_YEAR = 31_557_600
"""The contract's year, 365.25 days."""


def project(pool: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a reserve at its close time, as `ProtocolModule.project` gives them. Raises `ExactError`."""
    cash, s_supply, debt_supply = (pool[name] for name in ("cash", "s_supply", "debt_supply"))
    accrued = accrue(pool)
    debt_coeff = accrued["borrower_ar"]

    def of_lenders(lender_ar: int) -> tuple[int, int, int]:
        """What the lenders own, the lent share of it, and their rate."""
        with exact.naming("lent"):
            lent = times(lender_ar, debt_supply)
        owned = exact.add(cash, lent)
        return owned, share(lent, owned, ONE), share(lent, owned, pool["lender_ir"])

    stored_owned, stored_used, stored_apr = of_lenders(pool["lender_ar"])
    owned, accrued_used, accrued_apr = of_lenders(accrued["lender_ar"])
    supplied = owned if s_supply else 0  # without shares nobody owns what lies there
    borrowed = times(debt_coeff, debt_supply)
    by_shares = borrowable(s_supply, debt_supply, debt_coeff, pool["util_cap"])
    return {
        "total_supplied": supplied,
        "total_borrowed": borrowed,
        "total_collateral": 0,  # collateral is supplied, and is in that total
        "last_accrual_time": pool["last_update_timestamp"],
        "utilization_bps": exact.utilization_bps(borrowed, supplied),
        "supply_apy_bps": stored_apr * 10_000 // ONE,
        "borrow_apy_bps": pool["borrower_ir"] * 10_000 // ONE,
        "supply_index": collateral_coefficient(owned, s_supply),
        "borrow_index": debt_coeff,
        "index_decimals": DECIMALS,
        "stored_supply_apr": stored_apr,
        "stored_borrow_apr": pool["borrower_ir"],
        "accrued_supply_apr": accrued_apr,
        "accrued_borrow_apr": pool["borrower_ir"],
        "apr_decimals": DECIMALS,
        "stored_utilization": stored_used,
        "accrued_utilization": accrued_used,
        "utilization_decimals": DECIMALS,
        "rate_modifier": 1,
        "rate_modifier_decimals": 0,
        "backstop_credit": pool["fees"],
        "share_token": pool["s_token"],
        "share_supply": s_supply,
        "available_to_withdraw": min(cash, supplied),
        "available_to_borrow": min(cash, by_shares),
        "available_to_supply": max(pool["liquidity_cap"] - stored_owned, 0),
        **_terms(pool),
        **NO_REWARDS,
    }


def _terms(pool: Mapping[str, Any]) -> dict[str, Any]:
    active, lends = bool(pool["is_active"]), bool(pool["borrowing_enabled"])
    in_grace = pool["close_time"] < pool["grace_ends_at"]
    is_open = active and not pool["paused"]
    status = "grace" if in_grace else "active" if lends else "borrowing_disabled"
    return {
        "can_supply": is_open,
        "can_withdraw": is_open and not in_grace,
        "can_borrow": is_open and not in_grace and lends,
        "can_repay": is_open,
        "can_liquidate": is_open and not in_grace,
        "pool_status": status if active else "inactive",
        "risk_scope": "reserve",
        "collateral_factor_bps": pool["discount"] * (10_000 - pool["initial_health"]) // 10_000,
        "liquidation_threshold_bps": pool["discount"],
        "liability_factor_bps": 10_000,
        "liquidation_kind": "dynamic",
        "supply_cap": pool["liquidity_cap"],
        "max_utilization_bps": pool["util_cap"],
        "reserve_factor_bps": 10_000 - pool["ir_scaling_coeff"],
        "can_be_collateral": pool["discount"] > 0,
        "can_be_borrowed": lends,
    }


def borrowable(s_supply: int, debt_supply: int, coefficient: int, util_cap: int) -> int:
    """The most that the utilization cap lets be borrowed, of any size.

    With n shares of debt in all the utilization is floor(10^9 × n / supply). An amount takes floor(10^9 × amount /
    coefficient) shares, and one more unless it is a multiple of the coefficient.
    """
    most = exact.ceil_divide((util_cap * (ONE // 10_000) + 1) * s_supply, ONE) - 1
    free = max(most - debt_supply, 0)
    amount = exact.ceil_divide(free * coefficient, ONE)
    return amount if free % ONE == 0 else amount - 1


def accrue(pool: Mapping[str, Any]) -> dict[str, int]:
    """Both accrued rates at the close time, by the interest rates of the state."""
    seconds = elapsed_seconds(pool["last_update_timestamp"], pool["window"], pool["close_time"])
    return {f"{of}_ar": accrued_rate(pool[f"{of}_ar"], pool[f"{of}_ir"], seconds) for of in ("lender", "borrower")}


def elapsed_seconds(last_update: int, window: int, close_time: int) -> int:
    """The whole windows since the last update, in seconds; 0 where that is later, or the window has no length."""
    return max(close_time - last_update, 0) // window * window if window else 0


@exact.naming("accrued rate")
def accrued_rate(accrued: int, rate: int, seconds: int) -> int:
    """The rate accrued × (1 + rate × seconds / year), 9 decimals, each step rounded down; unchanged in no time."""
    if seconds == 0:
        return accrued
    years = exact.multiply(seconds, ONE) // SECONDS_PER_YEAR
    return times(accrued, exact.add(times(rate, years), ONE))


def times(left: int, right: int) -> int:
    """floor(left × right / 10^9), where the product has to fit."""
    return exact.multiply(left, right) // ONE


@exact.naming("collateral coefficient")
def collateral_coefficient(owned: int, s_supply: int) -> int:
    """The value of a share of the supply, 1 without shares."""
    return exact.multiply(owned, ONE) // s_supply if s_supply else ONE


@exact.naming("share")
def share(lent: int, owned: int, of: int) -> int:
    """The part of a number that the lent share of what is owned makes; 0 where nothing is owned."""
    return exact.multiply_divide_floor(lent, of, owned) if owned else 0


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    """The accruals that a change of a pool's instance in a ledger shows."""
    was, is_now = (layout.decode_instance(entry) for entry in changed(key, step))
    for asset in was.reserves:
        old, new = (layout.decode_reserve(pool, asset) for pool in (was, is_now))
        if old and new and old["last_update_timestamp"] < new["last_update_timestamp"] and old["debt_supply"]:
            # An operation grows the accrued rates by the rates that follow from what it did.
            rates = {name: new[name] for name in ("lender_ir", "borrower_ir")}
            after = {name: new[name] for name in ("lender_ar", "borrower_ar")}
            yield Transition(old | rates | {"close_time": step.time}, after)


ACCRUAL = AccrualRule(lambda key: len(key) == 48, _read, accrue)
