"""Numbers for people, from exact integers: short where they are read, exact where they are asked for.

Short forms are rounded to the nearest, halves up, in integer arithmetic. What has no value is never a zero.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

NO_PRICE = "no price"

NOTHING = "\N{EN DASH}"
"""Stands where there is no value at all."""

TIMES = "\N{MULTIPLICATION SIGN}"

MAX_DECIMALS = 60
"""Decimals of a token beyond which an amount is shown in base units: 10^decimals would have to be computed."""

_THIN = "\N{NARROW NO-BREAK SPACE}"
_SIZES = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K"))
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@lru_cache(maxsize=1 << 15)
def percent(basis_points: int) -> str:
    """Basis points in three digits: 320 is ``3.20 %``, 1234 is ``12.3 %``, 123456 is ``1,235 %``."""
    if basis_points >= 10**9:
        return f"{_scientific(basis_points // 100)}{_THIN}%"
    if basis_points >= 99_950:
        return f"{(basis_points + 50) // 100:,}{_THIN}%"
    if basis_points >= 1_000:
        tenths = (basis_points + 5) // 10
        return f"{tenths // 10}.{tenths % 10}{_THIN}%"
    return f"{basis_points // 100}.{basis_points % 100:02d}{_THIN}%"


@lru_cache(maxsize=1 << 15)
def exact_percent(basis_points: int) -> str:
    """Basis points with both decimals: 123456 is ``1,234.56 %``."""
    return f"{basis_points // 100:,}.{basis_points % 100:02d}{_THIN}%"


@lru_cache(maxsize=1 << 15)
def dollars(cents: int | None) -> str:
    """US cents in three digits or four: ``$0.05``, ``$987``, ``$1,234``, ``$12.3K``, ``$1.23M``; or no price."""
    if cents is None:
        return NO_PRICE
    if cents < 10_000:
        return f"${cents // 100}.{cents % 100:02d}"
    if cents < 999_950:
        return f"${(cents + 50) // 100:,}"
    if cents >= 99_950 * 10**12:
        return f"${_scientific(cents // 100)}"
    return f"${_sized((cents + 50) // 100)}"


def exact_dollars(cents: int | None) -> str:
    """US cents in full: ``$1,234.56``."""
    return NO_PRICE if cents is None else f"${cents // 100:,}.{cents % 100:02d}"


def amount(units: int, decimals: int) -> str:
    """An amount of base units in whole tokens: ``1,234,567``; below a thousand with decimals, in four digits."""
    if not 0 <= decimals <= MAX_DECIMALS:
        return f"{units:,} units"
    one = 10**decimals
    whole, part = divmod(units, one)
    if whole >= 10**15:
        return _scientific(whole)
    if whole >= 1000 or not part:
        return f"{(units + one // 2) // one:,}"
    places = 4 - len(str(whole)) if whole else 4
    scaled = (units * 10**places + one // 2) // one
    if not scaled:
        return "<0.0001"
    digits = str(scaled).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}".rstrip("0").rstrip(".")


def exact_amount(units: int, decimals: int) -> str:
    """An amount in whole tokens with every decimal: ``1,234.5000000``."""
    if not 0 <= decimals <= MAX_DECIMALS:
        return f"{units:,} base units of 10^-{decimals}"
    if not decimals:
        return f"{units:,}"
    whole, part = divmod(units, 10**decimals)
    return f"{whole:,}.{part:0{decimals}d}"


def price(printed: str | None) -> str:
    """A price, printed with all of its decimals, in a few: ``$1,234.56``, ``$0.1234``; the rest is cut off."""
    if printed is None:
        return NO_PRICE
    whole, _, part = printed.partition(".")
    if len(whole) > 15:
        return f"${_scientific(int(whole))}"
    if whole != "0":
        return f"${int(whole):,}.{(part + '00')[:2]}"
    leading = len(part) - len(part.lstrip("0"))
    return f"$0.{part[: leading + 4] or '00'}"


def fixed_point(value: int, decimals: int) -> str:
    """An integer in units of 10^-decimals, in full, without zeros at its end."""
    if not 0 <= decimals <= MAX_DECIMALS:
        return f"{value:,} {TIMES} 10^-{decimals}"
    sign, digits = ("-" if value < 0 else ""), str(abs(value)).rjust(decimals + 1, "0")
    whole, part = (digits[:-decimals], digits[-decimals:].rstrip("0")) if decimals else (digits, "")
    return f"{sign}{int(whole):,}{'.' + part if part else ''}"


def count(number: int) -> str:
    """A count, with separators."""
    return f"{number:,}"


def compounded(compounding: str) -> str:
    """How a yield follows from a rate (`exporter.api.fields.Compounding`): ``compounded 52 times a year``."""
    return "not compounded" if compounding == "simple" else f"compounded {int(compounding):,} times a year"


def yields(supply: str, borrow: str) -> str:
    """How both yields of a protocol follow from the rates."""
    both = compounded(supply), compounded(borrow)
    return both[0] if supply == borrow else f"supply: {both[0]}; borrow: {both[1]}"


def size(number: int) -> str:
    """Bytes in three digits: ``12.3 kB``."""
    for least, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if number >= least:
            return f"{_three_digits(number, least)}{_THIN}{unit}"
    return f"{number}{_THIN}bytes"


@lru_cache(maxsize=1 << 12)
def moment(seconds: int) -> str:
    """A time as people write it: ``21 Nov 2026, 12:00 UTC``."""
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year}, {at:%H:%M} UTC"


def _sized(number: int) -> str:
    for least, unit in _SIZES:
        if 2 * number >= 2 * least - least // 1000:
            return f"{_three_digits(number, least)}{unit}"
    return str(number)


def _three_digits(number: int, least: int) -> str:
    """A number in units of ``least``, which it is not below, in three digits."""
    hundredths = (number * 100 + least // 2) // least
    if hundredths < 1_000:
        return f"{hundredths // 100}.{hundredths % 100:02d}"
    tenths = (number * 10 + least // 2) // least
    return f"{tenths // 10}.{tenths % 10}" if tenths < 1_000 else f"{(number + least // 2) // least:,}"


def _scientific(number: int) -> str:
    digits = str(number)
    return f"{digits[0]}.{digits[1:3]}{TIMES}10{str(len(digits) - 1).translate(_SUPERSCRIPTS)}"


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
