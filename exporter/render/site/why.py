"""Why a pool pays what it pays: one sentence, of numbers that multiply out, and the yield after one more deposit.

The sentence takes the stored rates, which the contract charges until the next operation, as the yields of the page do.
The yield after a deposit takes the state at the ledger's close: an operation brings the pool up to it first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Final

from exporter.exact import annual_yield_bps
from exporter.protocols.base import Parameter
from exporter.protocols.numbers import PoolRow
from exporter.protocols.protocol import Protocol
from exporter.render.site.text import THIN, percent

DEPOSIT_USD = 10_000
"""Value of the deposit that the page computes with, in US dollars."""

_FEWEST_DIGITS, _MOST_DIGITS = 3, 7
_ROUNDING = Fraction(1, 10_000)
"""Contracts round: how far above 100 % the lenders' part of the interest may seem to be."""


_RATES: Final = ("stored_borrow_apr", "stored_supply_apr")


@dataclass(frozen=True, slots=True)
class Factors:
    """Percentages as the sentence prints them: ``lent`` of ``paid`` of ``share`` is ``earned``, all in percent."""

    lent: str
    paid: str
    share: str
    earned: str


def factors(row: PoolRow) -> Factors | None:
    """The three numbers that a pool's supply rate is the product of, with as few digits as multiply out.

    None if nothing is earned, or if no number of digits up to `_MOST_DIGITS` multiplies out: then the contract's rates
    are not of one moment.
    """
    rates = 10 ** row["apr_decimals"]
    lent = 100 * Fraction(row["stored_utilization"], 10 ** row["utilization_decimals"])
    paid, earned = (100 * Fraction(row[name], rates) for name in _RATES)
    if not (lent > 0 and paid > 0 and earned > 0):
        return None
    share = 100 * earned / (lent / 100 * paid)
    if share > 100 * (1 + _ROUNDING):
        return None
    kept = row["reserve_factor_bps"]
    shares = [Fraction(10_000 - kept, 100)] if kept is not None and kept < 10_000 else []
    shown = _shown(earned)
    for digits, own in product(range(_FEWEST_DIGITS, _MOST_DIGITS + 1), (*shares, min(share, Fraction(100)))):
        parts = [_rounded(number, digits) for number in (lent, paid, own)]
        if _shown(Fraction(parts[0]) * Fraction(parts[1]) * Fraction(parts[2]) / 10_000) == shown:
            lent_text, paid_text, share_text = (f"{part}{THIN}%" for part in parts)
            return Factors(lent_text, paid_text, share_text, shown)
    return None


def _shown(number: Fraction) -> str:
    """A percentage above 0 as the page shows yields: rounded down to basis points."""
    return percent(int(number * 100))


def why(row: PoolRow) -> str | None:
    """The sentence; None where there is nothing to explain or the numbers do not multiply out."""
    if not row["total_borrowed"]:
        return f"Suppliers earn no interest because nothing is lent{_reward_alone(row)}."
    found = factors(row)
    if found is None:
        return None
    return (
        f"{percent(row['comparable_supply_apy_bps'])} because {found.lent} is lent, borrowers pay {found.paid} a year, "
        f"and lenders get {found.share} of that: {found.earned} a year, compounded daily{_reward_alone(row)}."
    )


def _reward_alone(row: PoolRow) -> str:
    reward = row["supply_reward_apr_bps"]
    return f"; the reward adds {percent(reward)}" if reward else ""


def yield_after_deposit(row: PoolRow, parameters: Sequence[Parameter], protocol: Protocol) -> int | None:
    """The yield with the reward, in basis points, after somebody deposits tokens worth `DEPOSIT_USD`.

    None without a price or a known curve, where the deposit is not possible, or where a cap leaves room for less.
    """
    model, given = protocol.rate_model, {item.name: item.value for item in parameters}
    price, price_decimals = row["oracle_price"], row["oracle_decimals"]
    if model is None or price is None or price_decimals is None:
        return None
    if row["can_supply"] is False or not row["total_borrowed"]:
        return None
    units = -(-DEPOSIT_USD * 10 ** (price_decimals + row["decimals"]) // price)
    room = row["available_to_supply"]
    if room is not None and room < units:
        return None
    used_now, supplied = row["accrued_utilization"], row["total_supplied"] + units
    by_totals = model.full * row["total_borrowed"] // max(row["total_supplied"], 1)
    if abs(by_totals - used_now) * 10_000 > model.full:
        return None  # the contract's rates follow from something else than the totals
    used = min(model.full * row["total_borrowed"] // supplied, model.full)
    rate = model.rate_at(used, row, given)
    before = row["accrued_borrow_apr"] * used_now
    if rate is None or before <= 0 or row["accrued_supply_apr"] <= 0:
        return None
    earned: int = row["accrued_supply_apr"] * rate * used // before
    reward: int = (row["supply_reward_apr_bps"] or 0) * row["total_supplied"] // supplied
    return annual_yield_bps(earned, 365, 10 ** row["apr_decimals"]) + reward


def _rounded(number: Fraction, digits: int) -> str:
    """A number above 0 with so many significant digits, and all of those before the point."""
    places = digits - 1
    whole = number
    while whole >= 10:
        whole, places = whole / 10, places - 1
    while whole < 1:
        whole, places = whole * 10, places + 1
    places = max(places, 0)
    scaled = int(number * 10**places + Fraction(1, 2))
    text = str(scaled).rjust(places + 1, "0")
    return f"{text[:-places]}.{text[-places:]}".rstrip("0").rstrip(".") if places else text
