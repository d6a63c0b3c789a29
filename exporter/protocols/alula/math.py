"""Alula's math of one pool, function by function as the contract has it (docs/protocols/alula.md).

Utilizations, annual rates, the rate modifier, the take rate and the worth of a share are in basis points. The growth of
a debt has 18 decimals. Totals and fees are in base units of the token. A value that has a name in the contract must fit
into signed 128 bits here, as it must there; a product that is then divided may be larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from msgspec import Struct

from exporter import exact
from exporter.errors import ExactOverflowError
from exporter.ledger.codec.fields import Fields
from exporter.protocols.accrual import AccrualRule, Step, Transition, changed, is_variant
from exporter.protocols.alula.layout import CURVE, FROZEN, STATUS_NAMES, Limits, Pool, decode_pool
from exporter.protocols.base import PoolReading
from exporter.protocols.numbers import Amounts, Operations, PoolNumbers, Rewards, Risk
from exporter.protocols.protocol import RateModel, RateRow
from exporter.tree.values import RewardReason

BPS = 10_000
SCALED_ONE = 10**18
SECONDS_PER_YEAR = 31_556_926
"""The contract's year, which has 365.2422 days."""

LOWEST_MODIFIER, HIGHEST_MODIFIER = 1_000, 100_000
MODIFIER_SECONDS = 900
"""The most time for which the newest contract moves the modifier at once."""

POOL_STATUSES = {
    "enabled": "depositing, borrowing, adding collateral and flash loans are open, as far as the market is",
    "partly_disabled": "some of depositing, borrowing, adding collateral and flash loans is closed",
    "disabled": "depositing, borrowing, adding collateral and flash loans are closed",
    "bad_debt_locked": "no depositing, withdrawing or borrowing, because bad debt waits for the insurance fund",
}

_DEPOSIT, _BORROW, _EVERYTHING = 1, 2, 15
"""The flags of a pool."""

_REVISION = "whether one can leave a frozen market depends on the contract's revision, and which one runs is not known"


def project(pool: PoolReading[Pool], close_time: int) -> PoolNumbers:
    """The numbers of a pool. No interest is added, as in the contract's own getters. Raises `ExactError`."""
    state = pool.state
    borrowed, take_rate = state.total_borrowed, state.rates.take_rate_bps
    available, supplied = supply_of(state)
    used = utilization(borrowed, supplied)
    rate = borrow_apr_of(state, used)
    earned = supply_apr(rate, used, take_rate)
    return PoolNumbers(
        total_supplied=supplied,
        total_borrowed=borrowed,
        total_collateral=state.total_collateral,
        utilization_bps=exact.utilization_bps(borrowed, supplied),
        supply_apy_bps=apy_bps(earned),
        borrow_apy_bps=apy_bps(rate),
        last_accrual_time=state.last_accrual_timestamp,
        supply_index=supplied * BPS // state.total_j_tokens if state.total_j_tokens else 0,
        borrow_index=exact.ceil_divide(borrowed * BPS, state.total_d_tokens) if state.total_d_tokens else 0,
        index_decimals=4,
        stored_supply_apr=earned,
        stored_borrow_apr=rate,
        accrued_supply_apr=earned,
        accrued_borrow_apr=rate,
        apr_decimals=4,
        stored_utilization=used,
        accrued_utilization=used,
        utilization_decimals=4,
        rate_modifier=state.interest_rate_modifier_bps,
        rate_modifier_decimals=4,
        backstop_credit=state.take_rate_fees_sum,
        operations=operations_of(pool.market.status, state.limits, close_time),
        amounts=amounts_of(state.limits, available, supplied, used),
        risk=risk_of(state.limits, take_rate),
        rewards=Rewards(
            reward_decimals=0,
            supply_reward_per_second=_per_second(state.supply_reward_reason),
            borrow_reward_per_second=_per_second(state.borrow_reward_reason),
            supply_reward_reason=state.supply_reward_reason,
            borrow_reward_reason=state.borrow_reward_reason,
        ),
    )


def _per_second(reason: RewardReason) -> int | None:
    """The reward a second: 0 without a farm, else None, because what a farm pays is not known."""
    return 0 if reason == RewardReason.NO_EMISSIONS else None


def amounts_of(limits: Limits, available: int, supplied: int, used: int) -> Amounts:
    """The most that can be withdrawn, borrowed and supplied, in base units. ``used`` is the utilization."""
    to_borrow = to_supply = None
    if limits.utilization_ratio_limit_bps is not None:
        left = supplied * (limits.utilization_ratio_limit_bps - used) // BPS
        to_borrow = exact.within(left, available)
    if limits.supply_limit:  # 0 is no limit
        to_supply = max(limits.supply_limit - supplied, 0)
    return Amounts(
        available_to_withdraw=available,
        available_to_borrow=to_borrow,
        available_to_supply=to_supply,
        shortfall=0,  # what suppliers own is the cash and what is lent
    )


def risk_of(limits: Limits, take_rate: int) -> Risk:
    """The terms of collateral, debt and limits in the pool's configuration."""
    return Risk(
        risk_scope="reserve",
        collateral_factor_bps=limits.open_ltv_bps,
        liquidation_threshold_bps=limits.close_ltv_bps,
        liability_factor_bps=limits.liability_factor_bps,
        liquidation_bonus_bps=limits.max_liquidation_incentive_bps,
        liquidation_kind="range",
        supply_cap=limits.supply_limit or None,
        max_utilization_bps=limits.utilization_ratio_limit_bps,
        reserve_factor_bps=take_rate,
        can_be_collateral=None if limits.open_ltv_bps is None else limits.open_ltv_bps > 0,
        can_be_borrowed=_flag(limits.flags, _BORROW),
    )


def _flag(flags: int | None, bit: int) -> bool | None:
    """Whether a flag is set; None if the flags are not known."""
    return None if flags is None else flags & bit != 0


def operations_of(status: str, limits: Limits, close_time: int) -> Operations:
    """The operations that a market's status and a pool's terms allow; None if the entries do not say it."""
    flags, requests, lock = limits.flags, limits.bad_debt_request_count, limits.bad_debt_lock_d
    is_known, is_frozen = status in STATUS_NAMES.values(), status in (FROZEN, "frozen_by_admin")
    unlocked = _all(None if requests is None else requests == 0, None if lock is None else lock <= close_time)
    deposit, borrow = _flag(flags, _DEPOSIT), _flag(flags, _BORROW)
    reason = pool_status = None
    if not is_known:
        reason = "the market's status is not known"
    elif is_frozen:
        reason = _REVISION
    elif flags is None or unlocked is None:
        reason = "the pool's entry does not have all that its operations hang on"
    if flags is not None and unlocked is not None:
        by_flags = {_EVERYTHING: "enabled", 0: "disabled"}.get(flags & _EVERYTHING, "partly_disabled")
        pool_status = by_flags if unlocked else "bad_debt_locked"
    leaving = True if is_known and not is_frozen else None
    return Operations(
        can_supply=_all(status in ("active", "borrow_frozen"), deposit, unlocked) if is_known else None,
        can_withdraw=leaving and unlocked,
        can_borrow=_all(status == "active", borrow, unlocked) if is_known else None,
        can_repay=leaving,
        can_liquidate=leaving,
        can_reason=reason,
        pool_status=pool_status,
    )


def _all(*conditions: bool | None) -> bool | None:
    """Whether all conditions hold: False if one does not, else None if one is not known."""
    if False in conditions:
        return False
    return None if None in conditions else True


def supply_of(pool: Pool) -> tuple[int, int]:
    """What can be lent or withdrawn, which does not include fees, and what suppliers own in all. Base units."""
    available = max(pool.total_available - pool.take_rate_fees_sum, 0)
    with exact.naming("total supply"):
        return available, exact.add(available, pool.total_borrowed)


@exact.naming("utilization")
def utilization(total_borrowed: int, supplied: int) -> int:
    """The utilization from which the rates follow, rounded up; 0 if nothing is supplied."""
    return exact.multiply_divide_ceil(total_borrowed, BPS, supplied) if supplied else 0


@exact.naming("kinked APR")
def kinked_apr(
    utilization: int, base_apr: int, kink1_apr: int, kink1_ur: int, kink2_apr: int, kink2_ur: int, max_apr: int
) -> int:
    """The annual borrow rate before the modifier. Each kink belongs to the upper slope.

    Raises `ExactError` if the second kink is at 10000 and the utilization reaches it, because that divides by zero.
    """
    if utilization < kink1_ur:
        start, end, start_ur, end_ur = base_apr, kink1_apr, 0, kink1_ur
    elif utilization < kink2_ur:
        start, end, start_ur, end_ur = kink1_apr, kink2_apr, kink1_ur, kink2_ur
    else:
        start, end, start_ur, end_ur = kink2_apr, max_apr, kink2_ur, BPS
    return exact.add(start, exact.multiply_divide_floor(end - start, utilization - start_ur, end_ur - start_ur))


@exact.naming("borrow APR")
def borrow_apr(kinked: int, modifier: int) -> int:
    """The annual rate that borrowers pay: the rate before the modifier times the modifier, rounded up."""
    return exact.multiply_divide_ceil(kinked, modifier, BPS)


def borrow_apr_of(pool: Pool, used: int) -> int:
    """The annual rate that a pool's borrowers pay at a utilization."""
    curve = pool.rates
    kinked = kinked_apr(
        used,
        curve.base_apr_bps,
        curve.kink1_apr_bps,
        curve.kink1_ur_bps,
        curve.kink2_apr_bps,
        curve.kink2_ur_bps,
        curve.max_apr_bps,
    )
    return borrow_apr(kinked, pool.interest_rate_modifier_bps)


def _rate_at(used: int, own: Mapping[str, int], row: RateRow) -> int:
    first_kink, second_kink = (own["kink1_apr_bps"], own["kink1_ur_bps"]), (own["kink2_apr_bps"], own["kink2_ur_bps"])
    kinked = kinked_apr(used, own["base_apr_bps"], *first_kink, *second_kink, own["max_apr_bps"])
    return borrow_apr(kinked, row["rate_modifier"])


RATE_MODEL = RateModel(
    CURVE,
    BPS,
    lambda own: (own["kink1_ur_bps"], own["kink2_ur_bps"]),
    _rate_at,
)


@exact.naming("supply APR")
def supply_apr(borrow_apr: int, utilization: int, take_rate: int) -> int:
    """The annual rate that suppliers earn."""
    return exact.multiply_divide_floor(exact.multiply_divide_floor(borrow_apr, utilization, BPS), BPS - take_rate, BPS)


def multiplier(apr: int, seconds: int) -> int:
    """The factor, with 18 decimals, by which a debt grows in some seconds: the growth of one second to their power."""
    growth_per_second = exact.multiply(apr, SCALED_ONE // BPS) // SECONDS_PER_YEAR
    return exact.power_floor(growth_per_second + SCALED_ONE, seconds, SCALED_ONE)


def apy_bps(apr: int) -> int:
    """The yield of a rate that is compounded every second for a year, in basis points.

    The contract's own getter fails if the yield has more than 32 bits; here it is then the largest integer of JSON.
    """
    try:
        return multiplier(apr, SECONDS_PER_YEAR) // (SCALED_ONE // BPS) - BPS
    except ExactOverflowError:
        return exact.JSON_INTEGER_MAX


class Steering(Struct, frozen=True):
    """The parameters that move the rate modifier."""

    target_utilization_ratio_bps: int
    """The utilization at which the modifier stays as it is, in basis points."""
    ir_reactivity_constant: int
    """How fast the modifier moves, without decimals."""


class Accrued(Struct, frozen=True):
    """A pool after an accrual, and before the operation that follows.

    Older contracts round the fees up (``fees_up``), and move the modifier for all the time that has passed
    (``modifier_wholly``).
    """

    borrow_apr: int
    supply_apr: int
    total_borrowed: int
    fees: int
    fees_up: int
    modifier: int
    modifier_wholly: int


def accrue(pool: Pool, steering: Steering, seconds: int) -> Accrued:
    """The pool with the interest of some seconds (at least 0) since its last accrual. Raises `ExactError`."""
    borrowed, fees, take_rate = pool.total_borrowed, pool.take_rate_fees_sum, pool.rates.take_rate_bps
    used = utilization(borrowed, supply_of(pool)[1])
    apr = borrow_apr_of(pool, used)
    with exact.naming("accrued debt"):
        owed = exact.multiply_divide_ceil(borrowed, multiplier(apr, seconds), SCALED_ONE)
    modifier = pool.interest_rate_modifier_bps
    return Accrued(
        borrow_apr=apr,
        supply_apr=supply_apr(apr, used, take_rate),
        total_borrowed=owed,
        fees=exact.add(fees, exact.multiply_divide_floor(owed - borrowed, take_rate, BPS)),
        fees_up=exact.add(fees, exact.multiply_divide_ceil(owed - borrowed, take_rate, BPS)),
        modifier=next_modifier(modifier, steering, used, min(seconds, MODIFIER_SECONDS)),
        modifier_wholly=next_modifier(modifier, steering, used, seconds),
    )


def next_modifier(modifier: int, steering: Steering, used: int, seconds: int) -> int:
    """The modifier after some seconds. It falls above the target and rises below it, and stays between 0.1 and 10."""
    difference = exact.subtract(used, steering.target_utilization_ratio_bps)
    moved = exact.multiply(seconds, abs(difference))
    moved = exact.multiply_divide_floor(moved, steering.ir_reactivity_constant, BPS)
    after = exact.subtract(modifier, moved) if difference >= 0 else exact.add(modifier, moved)
    return exact.clamp(after, LOWEST_MODIFIER, HIGHEST_MODIFIER)


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    """The accrual that a ledger's change of a pool's entry shows, if it shows one."""
    was, is_now = changed(key, step)
    old, new = decode_pool(was).pool, decode_pool(is_now).pool
    last = old.last_accrual_timestamp
    if not last < new.last_accrual_timestamp == step.time or not old.total_borrowed:
        return
    config, after = Fields.of(was.value, "Pool").struct("config"), Fields.of(is_now.value, "Pool")
    steering = Steering(config.i128("target_utilization_ratio_bps"), config.u32("ir_reactivity_constant"))
    written = {
        "borrow_apr_bps": after.i128("borrow_apr_bps"),
        "supply_apr_bps": after.i128("supply_apr_bps"),
        "interest_rate_modifier_bps": new.interest_rate_modifier_bps,
    }
    if new.take_rate_fees_sum >= old.take_rate_fees_sum:  # lower fees mean that they were paid out
        written["take_rate_fees_sum"] = new.take_rate_fees_sum
    if new.total_d_tokens == old.total_d_tokens:  # the operation neither lent nor took back
        written["total_borrowed"] = new.total_borrowed
    yield Transition(partial(accrued_fields, old, steering, step.time - last, new), written)


def accrued_fields(pool: Pool, steering: Steering, seconds: int, after: Pool) -> dict[str, int]:
    """The fields that an accrual writes, under their names in the entry.

    The revisions of the contract differ in the fees and in the rate modifier. Those that the pool has ``after`` the
    accrual decide which revision wrote it.
    """
    accrued = accrue(pool, steering, seconds)
    fees, modifier = after.take_rate_fees_sum, after.interest_rate_modifier_bps
    return {
        "borrow_apr_bps": accrued.borrow_apr,
        "supply_apr_bps": accrued.supply_apr,
        "total_borrowed": accrued.total_borrowed,
        "take_rate_fees_sum": fees if fees == accrued.fees_up else accrued.fees,
        "interest_rate_modifier_bps": modifier if modifier == accrued.modifier_wholly else accrued.modifier,
    }


RULE = AccrualRule(is_variant("Pool"), _read)
