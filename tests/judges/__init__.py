"""The independent judges: each protocol's math in plain Python integers. These are the roundings that all share."""

from __future__ import annotations


def i128(value: int) -> int:
    """A value that the contract keeps, in signed 128 bits."""
    if not -(2**127) <= value < 2**127:
        raise OverflowError("does not fit into signed 128 bits")
    return value


def fl(numerator: int, denominator: int) -> int:
    """Rounded down."""
    return i128(numerator // denominator)


def ce(numerator: int, denominator: int) -> int:
    """Rounded up."""
    return i128(-(-numerator // denominator))
