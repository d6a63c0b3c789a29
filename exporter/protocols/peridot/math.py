"""Peridot's math of one vault (docs/protocols/peridot.md, "Formulas"), and its accruals in the ledger's own changes.

Utilizations, annual rates and factors have 6 decimals, and the borrow index has 18. Amounts are in base units of the
token. The contract computes with unsigned 128 bits. Here every value that has a name must fit into signed 128 bits;
otherwise an `ExactError` is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from exporter import exact
from exporter.errors import ExactDivisionError, ExactOverflowError
from exporter.ledger.codec import strkey
from exporter.protocols.accrual import AccrualRule, Step, Transition, UntriedError, is_variant
from exporter.protocols.balances import balance_key, decode_balance
from exporter.protocols.base import PoolReading
from exporter.protocols.numbers import Amounts, Operations, PoolNumbers, Rewards, Risk
from exporter.protocols.peridot.layout import (
    CURVE_ENTRIES,
    PAUSES,
    SCALE,
    Books,
    BoostRule,
    Cash,
    StoredNumbers,
    VaultState,
    decode_curve,
    decode_vault,
    entry_keys,
    vault_keys,
)
from exporter.protocols.protocol import RateModel, RateRow
from exporter.tree.values import RewardReason

SECONDS_PER_YEAR = 31_536_000
MAX_YEARLY_RATE = 10_000_000
BOOST_CACHE_SECONDS = 3_600
BOOST_TOLERANCE_BPS = 500

_BPS = SCALE // 10_000


class Accrued(NamedTuple):
    """A vault after an accrual: its debt, the index, and what is set aside.

    ``used`` and ``rate`` are the utilization before the accrual and the annual rate at it.
    """

    used: int
    rate: int
    borrowed: int
    borrow_index: int
    reserves: int
    admin_fees: int
    boost_cached: int


def project(pool: PoolReading[VaultState], close_time: int) -> PoolNumbers:
    """The numbers of a vault at the ledger's close time.

    Raises `ExactError` if the contract would refuse: there is no rate, the rate is above 1000 percent, or there are
    receipt tokens but nothing is owned, or the other way round. It is also raised for `BoostRule.UNKNOWN`, if the two
    rules give different numbers.
    """
    vault = pool.state
    if vault.books.numbers.boost_rule != BoostRule.UNKNOWN:
        return _projected(pool.pool, vault, close_time)
    quoted, cached = (
        _projected(pool.pool, _with_boost_rule(vault, rule), close_time)
        for rule in (BoostRule.QUOTED, BoostRule.CACHED)
    )
    if quoted != cached:
        raise ExactOverflowError(
            "its code is not known, and the two ways in which it may count boosted cash give different numbers"
        )
    return quoted


def _with_boost_rule(vault: VaultState, rule: BoostRule) -> VaultState:
    books = replace(vault.books, numbers=replace(vault.books.numbers, boost_rule=rule))
    return replace(vault, books=books)


def _projected(address: str, vault: VaultState, close_time: int) -> PoolNumbers:
    books = vault.books
    numbers, cash = books.numbers, books.cash
    accrued = accrue(books, close_time)
    both_factors = min(numbers.reserve_factor + numbers.admin_fee, SCALE)
    aside = exact.add(accrued.reserves, accrued.admin_fees)
    owned = total_underlying(cash.net_cash, numbers.total_borrowed)
    net_cash = exact.subtract(cash.net_cash, exact.subtract(aside, _set_aside(numbers)))
    supplied = total_underlying(net_cash, accrued.borrowed)
    now = _rate(books, accrued.borrowed, aside, accrued.boost_cached, close_time)
    earned = supply_rate(accrued.rate, numbers.total_borrowed, owned, both_factors)
    return PoolNumbers(
        total_supplied=supplied,
        total_borrowed=accrued.borrowed,
        total_collateral=0,  # receipt tokens are the collateral, so total_supplied has it
        last_accrual_time=numbers.last_update_time,
        utilization_bps=exact.utilization_bps(accrued.borrowed, supplied),
        supply_apy_bps=earned // _BPS,
        borrow_apy_bps=accrued.rate // _BPS,
        supply_index=exact.multiply(exchange_rate(supplied, vault), 10**12),
        borrow_index=accrued.borrow_index,
        index_decimals=18,
        stored_supply_apr=earned,
        stored_borrow_apr=accrued.rate,
        accrued_supply_apr=supply_rate(now.rate, accrued.borrowed, supplied, both_factors),
        accrued_borrow_apr=now.rate,
        apr_decimals=6,
        stored_utilization=accrued.used,
        accrued_utilization=now.used,
        utilization_decimals=6,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit=aside,
        share_token=address,
        share_supply=vault.receipt_supply,
        operations=operations_of(vault),
        amounts=amounts_of(vault, supplied, accrued.borrowed),
        risk=risk_of(vault, both_factors),
        rewards=rewards_of(vault),
    )


def amounts_of(vault: VaultState, supplied: int, borrowed: int) -> Amounts:
    """The most that can be withdrawn, borrowed and supplied. None without a cap, or if it is not known."""
    numbers, payable = vault.books.numbers, vault.books.cash.payable
    not_lent = exact.subtract(supplied, borrowed)
    principal = borrowed if numbers.borrow_principal is None else numbers.borrow_principal
    left_by_cap = numbers.borrow_cap - principal if numbers.borrow_cap else None
    return Amounts(
        available_to_withdraw=None if payable is None else exact.within(payable, not_lent),
        available_to_borrow=None if payable is None else exact.within(payable, not_lent, left_by_cap),
        available_to_supply=max(numbers.supply_cap - supplied, 0) if numbers.supply_cap else None,
        shortfall=None if payable is None else max(exact.subtract(not_lent, payable), 0),
    )


def risk_of(vault: VaultState, both_factors: int) -> Risk:
    """The terms of collateral, debt and limits of a vault.

    ``both_factors`` is the sum of the reserve factor and the admin fee.
    """
    numbers = vault.books.numbers
    factor_bps = vault.collateral_factor // _BPS
    return Risk(
        risk_scope="reserve",
        collateral_factor_bps=factor_bps,
        liquidation_threshold_bps=factor_bps,
        liability_factor_bps=10_000,
        liquidation_bonus_bps=vault.incentive // _BPS - 10_000,
        liquidation_kind="fixed",
        supply_cap=numbers.supply_cap or None,
        borrow_cap=numbers.borrow_cap or None,
        reserve_factor_bps=both_factors // _BPS,
        can_be_collateral=factor_bps > 0,
        can_be_borrowed=numbers.rates_ready,
    )


def operations_of(vault: VaultState) -> Operations:
    """The operations that the controller's pauses and its list allow (docs/protocols/peridot.md, "Statuses")."""
    is_open = {what: what not in vault.paused for what in PAUSES}
    listed, ready = vault.listed, vault.books.numbers.rates_ready
    can_borrow, can_liquidate, reason = True if listed else None, listed, None
    if not vault.governed:
        can_borrow, can_liquidate = True, False
    elif listed is None:
        reason = "the controller has no list of the vaults it supports"
    elif not listed:
        reason = "the controller does not list the vault: nothing says whether it still lets anybody borrow"
    status = "partly_paused" if is_open["deposits"] or is_open["borrowing"] else "paused"
    return Operations(
        can_supply=is_open["deposits"],
        can_withdraw=is_open["redemptions"],
        can_borrow=can_borrow if is_open["borrowing"] and ready else False,
        can_repay=True,
        can_liquidate=can_liquidate if is_open["liquidations"] else False,
        can_reason=reason,
        pool_status="active" if all(is_open.values()) else status,
    )


def rewards_of(vault: VaultState) -> Rewards:
    """The rewards of both sides. None if a speed, or the token in which it is paid, could not be read."""
    supply, borrow = (
        None if speed and vault.reward_token is None else speed for speed in (vault.supply_speed, vault.borrow_speed)
    )
    return Rewards(
        reward_token=vault.reward_token,
        reward_decimals=0,
        supply_reward_per_second=supply,
        supply_reward_reason=_reward_reason(supply),
        borrow_reward_per_second=borrow,
        borrow_reward_reason=_reward_reason(borrow),
    )


def _reward_reason(speed: int | None) -> RewardReason:
    if speed is None:
        return RewardReason.UNREAD
    return RewardReason.VALID if speed else RewardReason.NO_EMISSIONS


def accrue(books: Books, close_time: int) -> Accrued:
    """The vault with interest up to the close time (unix seconds), as its next operation would add it.

    Raises `ExactError`.
    """
    numbers = books.numbers
    borrowed, index = numbers.total_borrowed, numbers.borrow_index
    before = _rate(books, borrowed, _set_aside(numbers), numbers.boost_cached, close_time)
    with exact.naming("interest"):
        seconds = elapsed_seconds(numbers.last_update_time, close_time)
        product = exact.multiply(exact.multiply(borrowed, before.rate), seconds)
        interest = product // (SECONDS_PER_YEAR * SCALE)
    with exact.naming("borrow index"):
        growth = exact.multiply_divide_floor(interest, index, borrowed) if borrowed else 0
        index = exact.add(index, growth)
    return Accrued(
        used=before.used,
        rate=before.rate,
        borrowed=exact.add(borrowed, interest),
        borrow_index=index,
        reserves=exact.add(
            numbers.total_reserves, exact.multiply_divide_floor(interest, numbers.reserve_factor, SCALE)
        ),
        admin_fees=exact.add(numbers.total_admin_fees, exact.multiply_divide_floor(interest, numbers.admin_fee, SCALE)),
        boost_cached=before.boost_cached,
    )


def elapsed_seconds(since: int, close_time: int) -> int:
    """The seconds from a time up to the close time; 0 if the close time is earlier."""
    return max(close_time - since, 0)


def _set_aside(numbers: StoredNumbers) -> int:
    return exact.add(numbers.total_reserves, numbers.total_admin_fees)


class Rate(NamedTuple):
    """The utilization, the annual rate at it, and the vault's cached worth of boosted cash afterwards."""

    used: int
    rate: int
    boost_cached: int


def _rate(books: Books, borrowed: int, aside: int, cached: int, close_time: int) -> Rate:
    """The rate of a vault with this debt. Raises `ExactError` if there is none, or if it is above 1000 percent."""
    curve = books.curve
    boosted, cached = boosted_cash(books, borrowed, aside, cached, close_time)
    used, is_refused = utilization(borrowed, exact.add(books.cash.live_cash, boosted), aside)
    if is_refused:
        rate = books.numbers.fixed_rate
    else:
        rate = borrow_rate(used, curve.base_rate, curve.multiplier, curve.jump_multiplier, curve.kink)
    if rate < 0:
        raise ExactOverflowError(
            "the vault has no rate: more is set aside than there is, so its model refuses, and it keeps no other rate"
        )
    if rate > MAX_YEARLY_RATE:
        raise ExactOverflowError("the vault refuses a rate above 1000 percent a year")
    return Rate(used, rate, cached)


@exact.naming("boosted cash")
def boosted_cash(books: Books, borrowed: int, aside: int, cached: int, close_time: int) -> tuple[int, int]:
    """The boosted cash that counts for the rate, and the cached worth afterwards.

    It cannot exceed the larger of the cached worth and the worth that the vault's numbers imply by more than
    `BOOST_TOLERANCE_BPS`.
    """
    numbers, cash = books.numbers, books.cash
    deposited = exact.add(numbers.total_deposited, aside)
    implied = max(exact.subtract(exact.subtract(deposited, borrowed), cash.managed_cash), 0)
    larger = max(cached, implied)
    bound = exact.add(larger, exact.multiply_divide_floor(larger, BOOST_TOLERANCE_BPS, 10_000))
    if numbers.boost_rule == BoostRule.QUOTED:
        return min(cash.boost_quoted, bound), cash.boost_quoted
    is_fresh = elapsed_seconds(numbers.boost_cached_at, close_time) <= BOOST_CACHE_SECONDS
    return min(cached if is_fresh else implied, bound), cached


@exact.naming("total underlying")
def total_underlying(net_cash: int, borrowed: int) -> int:
    """What suppliers own, at least 0."""
    return max(exact.add(net_cash, borrowed), 0)


@exact.naming("utilization")
def utilization(borrowed: int, cash: int, aside: int) -> tuple[int, bool]:
    """The rate model's utilization, and whether the model refuses to answer.

    It refuses if more is set aside than there is. Then everything counts as lent.
    """
    divisor = exact.subtract(exact.add(cash, borrowed), aside)
    if divisor > 0:
        return min(exact.multiply_divide_floor(borrowed, SCALE, divisor), SCALE), False
    is_refused = divisor < 0 and borrowed != 0
    return SCALE if is_refused else 0, is_refused


@exact.naming("borrow rate")
def borrow_rate(used: int, base: int, multiplier: int, jump_multiplier: int, kink: int) -> int:
    """The annual rate of the jump rate model, which has a steeper slope above the kink."""
    below = min(used, kink)
    slope = exact.add(base, exact.multiply_divide_floor(below, multiplier, SCALE))
    return exact.add(slope, exact.multiply_divide_floor(used - below, jump_multiplier, SCALE))


def _rate_at(used: int, own: Mapping[str, int], row: RateRow) -> int:  # noqa: ARG001
    curve = own["base_rate"], own["multiplier"], own["jump_multiplier"], own["kink"]
    return borrow_rate(used, *curve)


RATE_MODEL = RateModel(tuple(CURVE_ENTRIES), SCALE, lambda own: (own["kink"],), _rate_at)


@exact.naming("supply rate")
def supply_rate(rate: int, borrowed: int, owned: int, both_factors: int) -> int:
    """The suppliers' annual rate. ``both_factors`` is the sum of the reserve factor and the admin fee."""
    lent_share = min(exact.multiply_divide_floor(borrowed, SCALE, owned), SCALE) if owned else 0
    return lent_share * (rate * (SCALE - both_factors) // SCALE) // SCALE


@exact.naming("exchange rate")
def exchange_rate(owned: int, vault: VaultState) -> int:
    """The worth of a receipt token, with 6 decimals. It is the initial one if there are none and nothing is owned.

    Raises `ExactDivisionError` if there are receipt tokens but nothing is owned, or the other way round.
    """
    if (owned == 0) != (vault.receipt_supply == 0):
        raise ExactDivisionError(
            "the contract refuses every operation: it has receipt tokens without anything that is owned, or the reverse"
        )
    if not owned:
        return vault.books.numbers.initial_exchange_rate
    return exact.multiply_divide_floor(owned, SCALE, vault.receipt_supply)


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    """The accrual that a ledger's change of a vault shows, if it shows one. Raises `UntriedError`."""
    contract = strkey.encode_contract(key[8:40])
    keys = vault_keys(contract)
    old, new = (decode_vault(contract, {each: look(each) for each in keys}) for look in (step.before, step.first))
    was, now = old.numbers, new.numbers
    if not was.last_update_time < now.last_update_time == step.time or not was.total_borrowed:
        return
    cash = was.implied_cash
    implied = was.total_deposited + was.set_aside - was.total_borrowed - cash
    if was.boost_rule != BoostRule.CACHED and (old.boosted is not None or implied > 0):
        raise UntriedError  # no entry says which boosted cash counted
    balance = None if old.model is None else step.before(balance_key(old.token, contract))
    if old.model is not None and balance is None and cash:
        raise UntriedError  # the token keeps its balances in a way of its own
    curve_keys = [] if old.model is None else entry_keys(old.model, CURVE_ENTRIES.values())
    curve = decode_curve(old, {each: step.before(each) for each in curve_keys})
    counted = Cash(
        net_cash=cash - was.set_aside,
        managed_cash=cash,
        live_cash=decode_balance(balance),
        boost_quoted=0,
        payable=None,
    )
    after = {"borrow_index": now.borrow_index}
    if now.total_admin_fees >= was.total_admin_fees:  # lower fees mean that they were paid out
        after["total_admin_fees"] = now.total_admin_fees
    if was.receipt_supply != now.receipt_supply:  # a deposit or a redemption, which changes neither debt nor reserves
        after["total_borrowed"] = now.total_borrowed
        after["total_reserves"] = now.total_reserves
    yield Transition(partial(accrued_fields, Books(was, curve, counted), step.time), after)


def accrued_fields(books: Books, close_time: int) -> dict[str, int]:
    """The numbers of a vault that an accrual changes, as they are after it."""
    accrued = accrue(books, close_time)
    return {
        "borrow_index": accrued.borrow_index,
        "total_admin_fees": accrued.admin_fees,
        "total_borrowed": accrued.borrowed,
        "total_reserves": accrued.reserves,
    }


RULE = AccrualRule(is_variant("LastUpdateTime", 0), _read)
