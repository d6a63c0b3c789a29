"""Exact sums over groups of a frame.

Polars sums an Int128 column in 128 bits, and wraps silently. So each number is cut into three limbs of 13 digits, whose
sums fit, and `joined` puts the sums of the limbs together as an integer of any size.
"""

from __future__ import annotations

from typing import TypedDict

import polars as pl

_LIMB = 10**13


class Limbs(TypedDict):
    """A sum in the parts that `exact_sum` gives. It is high × 10^26 + middle × 10^13 + low."""

    high: int
    middle: int
    low: int


def exact_sum(numbers: pl.Expr, times: pl.Expr | None = None) -> pl.Expr:
    """The limbs of the sum of a group's numbers; null if none of the numbers is known.

    Each number is multiplied by ``times`` first. A number has at most 38 digits, and ``times`` at most 16. The sum is
    exact for a billion rows.
    """
    factor = pl.lit(1, pl.Int128) if times is None else times.cast(pl.Int128)
    wide = numbers.cast(pl.Int128)
    limbs = {"high": wide // _LIMB // _LIMB, "middle": wide // _LIMB % _LIMB, "low": wide % _LIMB}
    sums = [(limb * factor).sum().alias(name) for name, limb in limbs.items()]
    return pl.when(numbers.count() > 0).then(pl.struct(sums))


def joined(limbs: Limbs | None) -> int | None:
    """The sum whose limbs these are; None without a sum."""
    if limbs is None:
        return None
    return (limbs["high"] * _LIMB + limbs["middle"]) * _LIMB + limbs["low"]
