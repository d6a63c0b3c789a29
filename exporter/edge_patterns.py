"""Regular expressions for the nginx rule, which sees queries as they were sent and cannot compare numbers.

Every expression is of PCRE and anchored by whoever uses it. Parameter names, digits and the names of buckets match
in their percent-encoded forms too, because what follows from them is a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exporter.api.routes import BUCKET_NAMES, MAX_LIMIT

_DIGIT_PREFIX = "(?:%3)?"
"""``%30`` to ``%39`` are the digits."""


ENCODED_CURSOR = "(?:[A-Za-z0-9_-]|%(?:2[Dd]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9Aa])){1,128}"
"""A cursor with any of its characters percent-encoded."""


def either_form(text: str) -> str:
    """Matches a word of ASCII as it stands or with any of its characters percent-encoded."""
    return "".join(f"(?:{character}|%{_hexadecimal(character)})" for character in text)


def _hexadecimal(character: str) -> str:
    digits = f"{ord(character):02x}"
    return "".join(digit if digit.isdigit() else f"[{digit.upper()}{digit}]" for digit in digits)


def first_value(name: str) -> str:
    """Captures the first value of a parameter in a query; matches nothing where that is absent or empty.

    Pairs of other names are passed over without ever going back (``*+``), so a long query costs its length.
    """
    own = either_form(name)
    return f"^(?:(?!{own}(?:=|&|$))[^&]*&)*+{own}=([^&]+)"


def integers(low: int, high: int) -> str:
    """Matches the whole numbers from ``low`` to ``high``, with any leading zeros, digits encoded or not."""
    return f"(?:{_DIGIT_PREFIX}0)*+(?:{'|'.join(_ranges(low, high))})"


def _ranges(low: int, high: int) -> Iterator[str]:
    """One expression for each run of numbers that share their first digits and end in free ones."""
    while low <= high:
        # The largest block 10^k that begins at low and does not go beyond high.
        free = 0
        while low % 10 ** (free + 1) == 0 and low + 10 ** (free + 1) - 1 <= high:
            free += 1
        # Blocks of that size one after another differ in one digit.
        block = 10**free
        fixed, first = divmod(low // block, 10)
        count = min(10 - first, (high - low + 1) // block)
        digits = [str(digit) for digit in str(fixed)] if fixed else []
        shared = "".join(f"{_DIGIT_PREFIX}{digit}" for digit in digits)
        rest = f"(?:{_DIGIT_PREFIX}[0-9]){{{free}}}" if free else ""
        yield f"{shared}{_DIGIT_PREFIX}{_digits(first, first + count - 1)}{rest}"
        low += count * block


def _digits(first: int, last: int) -> str:
    return str(first) if first == last else f"[{first}-{last}]"


def limits(sizes: Sequence[int]) -> list[tuple[int, str]]:
    """(page size, expression of the limits that it answers), ascending; the first is the page without rows."""
    bounds = [*sizes[1:], MAX_LIMIT + 1]
    pages = [(size, integers(size, above - 1)) for size, above in zip(sizes, bounds, strict=True)]
    return [(0, f"(?:{_DIGIT_PREFIX}0)++"), *pages]


def buckets() -> list[tuple[str, str]]:
    """(name of a bucket, expression that matches it)."""
    return [(name, either_form(name)) for name in BUCKET_NAMES]
