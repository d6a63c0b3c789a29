"""Why a pool pays what it pays, in one sentence, and what it would pay after one more deposit.

The numbers in the sentence multiply out. Like the yields of the page, they follow from the stored rates, which the
contract charges until the next operation. The yield after a deposit follows from the state at the ledger's close, to
which an operation brings the pool first.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Final

from msgspec import Struct

from exporter.exact import annual_yield_bps
from exporter.protocols.base import Parameter
from exporter.protocols.numbers import PoolFrameRow
from exporter.protocols.protocol import Protocol
from exporter.render.site.text import MAX_DIGITS, THIN, percent

DEPOSIT_USD = 10_000
"""Value of the deposit that the page computes with, in US dollars."""

_MIN_DIGITS, _MAX_DIGITS = 3, 7
_ROUNDING = Fraction(1, 10_000)
"""How far above 1 the lenders' part of the interest may seem to be, because contracts round."""


_RATES: Final = ("stored_borrow_apr", "stored_supply_apr")


class Factors(Struct, frozen=True):
    """The percentages of the sentence, as text: ``lent`` times ``paid`` times ``share`` is ``earned``."""

    lent: str
    paid: str
    share: str
    earned: str


def factors(row: PoolFrameRow) -> Factors | None:
    """Three numbers whose product is the pool's supply rate, with as few digits as multiply out.

    If they multiply out as the rest of the page shows them, they have these digits: a number has one value on a page.

    Returns None if nothing is earned, if a number is so small that it would have more than `MAX_DIGITS` digits, or if
    the numbers do not multiply out even with `_MAX_DIGITS`. In that case the contract's rates are of different moments.
    """
    rates = 10 ** row["apr_decimals"]
    lent = 100 * Fraction(row["stored_utilization"], 10 ** row["utilization_decimals"])
    paid, earned = (100 * Fraction(row[name], rates) for name in _RATES)
    if not (lent > 0 and paid > 0 and earned > 0):
        return None
    share = 100 * earned / (lent / 100 * paid)
    if share > 100 * (1 + _ROUNDING):
        return None
    reserve = row["reserve_factor_bps"]
    shares = [Fraction(10_000 - reserve, 100)] if reserve is not None and reserve < 10_000 else []
    shown = _shown(earned)
    for digits, own in product((None, *range(_MIN_DIGITS, _MAX_DIGITS + 1)), (*shares, min(share, Fraction(100)))):
        parts = (
            [_as_elsewhere(lent), _as_elsewhere(paid), _rounded(own, _MIN_DIGITS)]
            if digits is None
            else [_rounded(number, digits) for number in (lent, paid, own)]
        )
        if _shown(Fraction(parts[0]) * Fraction(parts[1]) * Fraction(parts[2]) / 10_000) == shown:
            if max(map(len, parts)) > MAX_DIGITS:
                return None
            lent_text, paid_text, share_text = (f"{part}{THIN}%" for part in parts)
            return Factors(lent_text, paid_text, share_text, shown)
    return None


def _shown(number: Fraction) -> str:
    """A percentage above 0 as the page shows yields: rounded down to basis points."""
    return percent(int(number * 100))


def _as_elsewhere(number: Fraction) -> str:
    """A percentage with the digits that the rest of the page has for it; with three if that has no plain number."""
    plain = _shown(number).removesuffix(f"{THIN}%")
    return plain if plain.replace(".", "").isdigit() else _rounded(number, _MIN_DIGITS)


def why(row: PoolFrameRow) -> str | None:
    """The sentence; None if there is nothing to explain, or if the numbers do not multiply out."""
    if not row["total_borrowed"]:
        return f"Suppliers earn no interest because nothing is lent{_reward_alone(row)}."
    parts = factors(row)
    if parts is None:
        return None
    return (
        f"{percent(row['comparable_supply_apy_bps'])} because {parts.lent} is lent, borrowers pay {parts.paid} a year, "
        f"and lenders get {parts.share} of that: {parts.earned} a year, compounded daily{_reward_alone(row)}."
    )


def _reward_alone(row: PoolFrameRow) -> str:
    reward = row["supply_reward_apr_bps"]
    return f"; the reward adds {percent(reward)}" if reward else ""


def yield_after_deposit(row: PoolFrameRow, parameters: Sequence[Parameter], protocol: Protocol) -> int | None:
    """The yield with the reward, in basis points, after somebody deposits tokens worth `DEPOSIT_USD`.

    Returns None without a price or a known curve, and if the deposit is not possible or a cap leaves room for less.
    """
    model, values = protocol.rate_model, {item.name: item.value for item in parameters}
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
    rate = model.rate_at(used, row, values)
    before = row["accrued_borrow_apr"] * used_now
    if rate is None or before <= 0 or row["accrued_supply_apr"] <= 0:
        return None
    earned: int = row["accrued_supply_apr"] * rate * used // before
    reward: int = (row["supply_reward_apr_bps"] or 0) * row["total_supplied"] // supplied
    return annual_yield_bps(earned, 365, 10 ** row["apr_decimals"]) + reward


def _rounded(number: Fraction, digits: int) -> str:
    """A number above 0 with ``digits`` significant digits, or more if it has more before the point."""
    places = digits - 1
    mantissa = number
    while mantissa >= 10:
        mantissa, places = mantissa / 10, places - 1
    while mantissa < 1:
        mantissa, places = mantissa * 10, places + 1
    places = max(places, 0)
    scaled = int(number * 10**places + Fraction(1, 2))
    text = str(scaled).rjust(places + 1, "0")
    return f"{text[:-places]}.{text[-places:]}".rstrip("0").rstrip(".") if places else text
