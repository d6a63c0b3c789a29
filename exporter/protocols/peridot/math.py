"""Peridot's math of one vault (docs/protocols/peridot.md, "Formulas"), and its accruals in the ledger's own changes.

Scales: utilization, rates a year and factors have 6 decimals, the borrow index 18; amounts are token base units. The
contract computes in unsigned 128 bits; here every value that has a name must fit into signed 128.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from exporter import exact
from exporter.errors import ExactDivisionError, ExactOverflowError
from exporter.ledger.codec import strkey
from exporter.protocols.balances import balance_key, decode_balance
from exporter.protocols.base import AccrualRule, RateModel, Step, Transition, UntriedError, is_variant
from exporter.protocols.peridot.layout import (
    CURVE,
    PAUSES,
    SCALE,
    SPEEDS,
    BoostRule,
    decode_curve,
    decode_vault,
    entry_keys,
    vault_keys,
)
from exporter.tree.values import RewardReason

SECONDS_PER_YEAR = 31_536_000
MAX_YEARLY_RATE = 10_000_000
BOOST_CACHE_SECONDS = 3_600
BOOST_TOLERANCE_BPS = 500

_BPS = SCALE // 10_000

Vault = Mapping[str, Any]
"""The raw state of a vault.

``net_cash`` is what it counts as its cash, with what is boosted, less reserves and admin fees. The rate takes other
cash: ``live_cash``, what the vault has of the token, and what counts of the boosted. Of that, ``boost_quoted`` is worth
now, ``boost_cached`` was at ``boost_cached_at``, and ``boost_rule`` is a `BoostRule`. ``fixed_rate`` counts where the
model refuses to answer, -1 where there is none. ``payable`` is what the vault has of its token, with what is boosted,
None where that is not known; speeds are rewards a second.
"""


class Accrued(NamedTuple):
    """The utilization and the rate before an accrual, and after it the debt, its index, and what is set aside."""

    used: int
    rate: int
    borrowed: int
    borrow_index: int
    reserves: int
    admin_fees: int
    boost_cached: int


def project(pool: Vault) -> dict[str, Any]:
    """What is published of a vault at its close time.

    Raises ExactError where the contract refuses: without a rate, or with one above 1000 percent, and with only one of
    receipt tokens and what is owned; and for `BoostRule.UNKNOWN` where its two rules differ.
    """
    if pool["boost_rule"] != BoostRule.UNKNOWN:
        return _projected(pool)
    quoted, cached = (_projected({**pool, "boost_rule": rule}) for rule in (BoostRule.QUOTED, BoostRule.CACHED))
    if quoted != cached:
        what = "one rate: its code is not known, and may count boosted cash in two ways that differ"
        raise ExactOverflowError(f"{what}: the result does not fit")
    return quoted


def _projected(vault: Vault) -> dict[str, Any]:
    accrued = accrue(vault)
    kept = min(vault["reserve_factor"] + vault["admin_fee"], SCALE)
    aside = exact.add(accrued.reserves, accrued.admin_fees)
    owned = total_underlying(vault["net_cash"], vault["total_borrowed"])
    net_cash = exact.subtract(vault["net_cash"], exact.subtract(aside, _set_aside(vault)))
    supplied = total_underlying(net_cash, accrued.borrowed)
    accrued_used, accrued_rate, _ = _rate(vault, accrued.borrowed, aside, accrued.boost_cached)
    earned = supply_rate(accrued.rate, vault["total_borrowed"], owned, kept)
    free, payable = exact.subtract(supplied, accrued.borrowed), vault["payable"]
    principal = accrued.borrowed if vault["borrow_principal"] is None else vault["borrow_principal"]
    supply_cap, borrow_cap = vault["supply_cap"] or None, vault["borrow_cap"] or None
    lendable = None if borrow_cap is None else borrow_cap - principal
    factor_bps = vault["collateral_factor"] // _BPS
    return dict(
        total_supplied=supplied,
        total_borrowed=accrued.borrowed,
        total_collateral=0,  # receipt tokens are the collateral, and supplied
        last_accrual_time=vault["last_update_time"],
        utilization_bps=exact.utilization_bps(accrued.borrowed, supplied),
        supply_apy_bps=earned // _BPS,
        borrow_apy_bps=accrued.rate // _BPS,
        supply_index=exact.multiply(exchange_rate(supplied, vault), 10**12),
        borrow_index=accrued.borrow_index,
        index_decimals=18,
        stored_supply_apr=earned,
        stored_borrow_apr=accrued.rate,
        accrued_supply_apr=supply_rate(accrued_rate, accrued.borrowed, supplied, kept),
        accrued_borrow_apr=accrued_rate,
        apr_decimals=6,
        stored_utilization=accrued.used,
        accrued_utilization=accrued_used,
        utilization_decimals=6,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit=aside,
        share_token=vault["pool"],
        share_supply=vault["receipt_supply"],
        **_gates(vault),
        available_to_withdraw=None if payable is None else exact.within(payable, free),
        available_to_borrow=None if payable is None else exact.within(payable, free, lendable),
        available_to_supply=None if supply_cap is None else max(supply_cap - supplied, 0),
        risk_scope="reserve",
        collateral_factor_bps=factor_bps,
        liquidation_threshold_bps=factor_bps,
        liability_factor_bps=10_000,
        liquidation_bonus_bps=vault["incentive"] // _BPS - 10_000,
        liquidation_kind="fixed",
        supply_cap=supply_cap,
        borrow_cap=borrow_cap,
        reserve_factor_bps=kept // _BPS,
        can_be_collateral=factor_bps > 0,
        **_rewards(vault),
    )


def _gates(vault: Vault) -> dict[str, Any]:
    """Who may do what (docs/protocols/peridot.md, "Statuses"); ``listed`` is None where the controller has no list."""
    is_open = {what: what not in vault["paused"] for what in PAUSES}
    listed, ready = vault["listed"], bool(vault["rates_ready"])
    can_borrow, can_liquidate, reason = True if listed else None, listed, None
    if not vault["governed"]:
        can_borrow, can_liquidate = True, False
    elif listed is None:
        reason = "the controller has no list of the vaults it supports"
    elif not listed:
        reason = "the controller does not list the vault: nothing says whether it still lets anybody borrow"
    pool_status = "partly_paused" if is_open["deposits"] or is_open["borrowing"] else "paused"
    return {
        "can_supply": is_open["deposits"],
        "can_withdraw": is_open["redemptions"],
        "can_borrow": can_borrow if is_open["borrowing"] and ready else False,
        "can_repay": True,
        "can_liquidate": can_liquidate if is_open["liquidations"] else False,
        "can_reason": reason,
        "pool_status": "active" if all(is_open.values()) else pool_status,
        "can_be_borrowed": ready,
    }


def _rewards(vault: Vault) -> dict[str, Any]:
    """A speed that is not known, or of a token that is not, is None."""
    row: dict[str, Any] = {"reward_token": vault["reward_token"], "reward_decimals": 0}
    for side in SPEEDS:
        speed = vault[f"{side}_speed"]
        if speed and vault["reward_token"] is None:
            speed = None
        reason = RewardReason.VALID if speed else RewardReason.NO_EMISSIONS
        row[f"{side}_reward_per_second"] = speed
        row[f"{side}_reward_reason"] = RewardReason.UNREAD if speed is None else reason
    return row


def accrue(vault: Vault) -> Accrued:
    """Bring a vault to its `close_time`, as its next operation would."""
    borrowed, index = vault["total_borrowed"], vault["borrow_index"]
    used, rate, cached = _rate(vault, borrowed, _set_aside(vault), vault["boost_cached"])
    with exact.naming("interest"):
        product = exact.multiply(exact.multiply(borrowed, rate), elapsed_seconds(vault["last_update_time"], vault))
        interest = product // (SECONDS_PER_YEAR * SCALE)
    with exact.naming("borrow index"):
        growth = exact.multiply_divide_floor(interest, index, borrowed) if borrowed else 0
        index = exact.add(index, growth)
    return Accrued(
        used,
        rate,
        exact.add(borrowed, interest),
        index,
        exact.add(vault["total_reserves"], exact.multiply_divide_floor(interest, vault["reserve_factor"], SCALE)),
        exact.add(vault["total_admin_fees"], exact.multiply_divide_floor(interest, vault["admin_fee"], SCALE)),
        cached,
    )


def elapsed_seconds(since: int, vault: Vault) -> int:
    """The seconds up to the close time; 0 where that is earlier."""
    return max(int(vault["close_time"]) - since, 0)


def _set_aside(vault: Vault) -> int:
    return exact.add(vault["total_reserves"], vault["total_admin_fees"])


def _rate(vault: Vault, borrowed: int, aside: int, cached: int) -> tuple[int, int, int]:
    """The utilization, the rate a year, and the cached boosted cash. No rate, or above 1000 percent, is refused."""
    boosted, cached = boosted_cash(vault, borrowed, aside, cached)
    used, refused = utilization(borrowed, exact.add(vault["live_cash"], boosted), aside)
    rate = vault["fixed_rate"] if refused else borrow_rate(used, *(vault[name] for name in CURVE))
    if rate < 0:
        what = "a rate: its model refuses to answer, because more is set aside than there is, and there is no other"
        raise ExactOverflowError(f"{what}: the result does not fit")
    if rate > MAX_YEARLY_RATE:
        raise ExactOverflowError("a rate of at most 1000 percent a year: the result does not fit")
    return used, rate, cached


@exact.naming("boosted cash")
def boosted_cash(vault: Vault, borrowed: int, aside: int, cached: int) -> tuple[int, int]:
    """The boosted cash that counts for the rate where anything is borrowed, and the cached value after that."""
    deposited = exact.add(vault["total_deposited"], aside)
    implied = max(exact.subtract(exact.subtract(deposited, borrowed), vault["managed_cash"]), 0)
    known = max(cached, implied)
    most = exact.add(known, exact.multiply_divide_floor(known, BOOST_TOLERANCE_BPS, 10_000))
    if vault["boost_rule"] == BoostRule.QUOTED:
        return min(vault["boost_quoted"], most), vault["boost_quoted"]
    is_fresh = elapsed_seconds(vault["boost_cached_at"], vault) <= BOOST_CACHE_SECONDS
    return min(cached if is_fresh else implied, most), cached


@exact.naming("total underlying")
def total_underlying(net_cash: int, borrowed: int) -> int:
    """What suppliers own, not below 0."""
    return max(exact.add(net_cash, borrowed), 0)


@exact.naming("utilization")
def utilization(borrowed: int, cash: int, aside: int) -> tuple[int, bool]:
    """The rate model's utilization, and whether it refuses to answer because more is set aside than there is.

    Where the model refuses, everything counts as lent.
    """
    divisor = exact.subtract(exact.add(cash, borrowed), aside)
    if divisor > 0:
        return min(exact.multiply_divide_floor(borrowed, SCALE, divisor), SCALE), False
    refused = divisor < 0 and borrowed != 0
    return SCALE if refused else 0, refused


@exact.naming("borrow rate")
def borrow_rate(used: int, base: int, multiplier: int, jump_multiplier: int, kink: int) -> int:
    """The jump rate model: another slope above the kink."""
    below = min(used, kink)
    slope = exact.add(base, exact.multiply_divide_floor(below, multiplier, SCALE))
    return exact.add(slope, exact.multiply_divide_floor(used - below, jump_multiplier, SCALE))


RATE_MODEL = RateModel(tuple(CURVE), SCALE, lambda own: (own["kink"],), borrow_rate)


@exact.naming("supply rate")
def supply_rate(rate: int, borrowed: int, owned: int, kept: int) -> int:
    """The suppliers' annual rate; ``kept`` is the reserve factor and the admin fee together."""
    lent = min(exact.multiply_divide_floor(borrowed, SCALE, owned), SCALE) if owned else 0
    return lent * (rate * (SCALE - kept) // SCALE) // SCALE


@exact.naming("exchange rate")
def exchange_rate(owned: int, vault: Vault) -> int:
    """The value of a receipt token, 6 decimals; the initial one where there are none and nothing is owned."""
    receipt_supply = vault["receipt_supply"]
    if (owned == 0) != (receipt_supply == 0):
        what = "the contract refuses receipt tokens without anything that is owned, and the other way round"
        raise ExactDivisionError(f"{what}: division by zero")
    return exact.multiply_divide_floor(owned, SCALE, receipt_supply) if owned else vault["initial_exchange_rate"]


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    contract = strkey.encode_contract(key[8:40])
    keys = vault_keys(contract)
    old, new = (decode_vault(contract, {each: look(each) for each in keys}) for look in (step.before, step.first))
    numbers, found = old.numbers, new.numbers
    if not numbers["last_update_time"] < found["last_update_time"] == step.time or not numbers["total_borrowed"]:
        return
    cash = old.implied_cash
    implied = numbers["total_deposited"] + old.set_aside - numbers["total_borrowed"] - cash
    if numbers["boost_rule"] != BoostRule.CACHED and (old.boosted is not None or implied > 0):
        raise UntriedError  # no entry says what boosted cash counted
    balance = None if old.model is None else step.before(balance_key(old.token, contract))
    if old.model is not None and balance is None and cash:
        raise UntriedError  # a token that keeps its balances in its own way
    curve_keys = [] if old.model is None else entry_keys(old.model, CURVE.values())
    before: dict[str, int | str] = {**numbers, "boost_quoted": 0}
    before |= decode_curve(old, {each: step.before(each) for each in curve_keys})
    before |= {"live_cash": decode_balance(balance), "managed_cash": cash, "close_time": step.time}
    names = ["borrow_index"]
    if found["total_admin_fees"] >= numbers["total_admin_fees"]:  # or they were paid out
        names.append("total_admin_fees")
    if numbers["receipt_supply"] != found["receipt_supply"]:  # a deposit or a redemption, which changes neither
        names += ["total_borrowed", "total_reserves"]
    yield Transition(before, {name: found[name] for name in names})


def _after(before: Vault) -> dict[str, int]:
    accrued = accrue(before)
    return {
        "borrow_index": accrued.borrow_index,
        "total_admin_fees": accrued.admin_fees,
        "total_borrowed": accrued.borrowed,
        "total_reserves": accrued.reserves,
    }


RULE = AccrualRule(is_variant("LastUpdateTime", 0), _read, _after)
