"""Numbers for people, from exact integers: short where they are read, exact where they are asked for.

Short forms are rounded to the nearest, halves up, in integer arithmetic. A bound of what somebody can do is rounded to
the safe side instead: what can leave, be borrowed or be supplied is never shown as more (`..._at_most`), and the least
that the contract takes is never shown as less (`amount_at_least`). A value that is not known never shows as 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from xml.sax import saxutils

from markupsafe import Markup, escape

from exporter.deployments.networks import network_of
from exporter.exact import decimal_text
from exporter.ledger.contract_storage import NOT_FROM_STORAGE

NO_PRICE = "no price"

NOTHING = "\N{EN DASH}"

TIMES = "\N{MULTIPLICATION SIGN}"

MAX_DECIMALS = 60
"""Decimals of a token beyond which an amount is shown in base units, so that no huge 10^decimals is computed."""

MAX_DIGITS = 12
"""Largest number of digits of a number outside of what a reader opens or hovers over. Longer ones have three."""

THIN = "\N{NARROW NO-BREAK SPACE}"
_SIZES = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K"))
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


_TINY = f"<{THIN}0.01{THIN}%"
"""The text for 0 basis points. They are rounded down, so 0 stands for any rate below one basis point."""

_TINY_AMOUNT = f"<{THIN}0.0001"
"""The text for an amount above 0 that has only zeros in the digits that are shown."""


def rate_percent(basis_points: int, exact: int) -> str:
    """Basis points as `percent`.

    ``exact`` is the number that they were rounded from; if it is 0, the text is ``0 %``.
    """
    return percent(basis_points) if exact else f"0{THIN}%"


@lru_cache(maxsize=1 << 12)
def percent(basis_points: int) -> str:
    """Basis points in three digits: 320 is ``3.20 %``, 1234 is ``12.3 %``, 123456 is ``1,235 %``, 0 ``< 0.01 %``."""
    if basis_points < 0:
        return f"-{percent(-basis_points)}"
    if basis_points == 0:
        return _TINY
    if basis_points >= 10**9:
        return f"{_scientific(basis_points // 100)}{THIN}%"
    if basis_points >= 99_950:
        return f"{(basis_points + 50) // 100:,}{THIN}%"
    if basis_points >= 1_000:
        tenths = (basis_points + 5) // 10
        return f"{tenths // 10}.{tenths % 10}{THIN}%"
    return f"{basis_points // 100}.{basis_points % 100:02d}{THIN}%"


@lru_cache(maxsize=1 << 12)
def exact_percent(basis_points: int) -> str:
    """Basis points with both decimals: 123456 is ``1,234.56 %``; those of more than ten digits as `percent`."""
    if basis_points < 0:
        return f"-{exact_percent(-basis_points)}"
    if basis_points == 0 or basis_points >= 10**10:
        return percent(basis_points)
    return f"{basis_points // 100:,}.{basis_points % 100:02d}{THIN}%"


def factor_percent(basis_points: int) -> str:
    """A factor of a contract in basis points, without zeros at its end: 9,500 is ``95 %``, and 10,527 ``105.27 %``."""
    return percent(basis_points) if basis_points >= 10**10 else f"{fixed_point(basis_points, 2)}{THIN}%"


@lru_cache(maxsize=1 << 12)
def dollars(cents: int | None) -> str:
    """US cents in three or four digits: ``$0.05``, ``$987``, ``$1,234``, ``$12.3K``, ``$1.23M``. None is no price."""
    if cents is None:
        return NO_PRICE
    if cents < 10_000:
        return f"${cents // 100}.{cents % 100:02d}"
    if cents < 999_950:
        return f"${(cents + 50) // 100:,}"
    if cents >= 99_950 * 10**12:
        return f"${_scientific(cents // 100)}"
    return f"${_sized((cents + 50) // 100)}"


def dollars_at_most(cents: int | None) -> str:
    """US cents as `dollars`, but never more than there is: 199,999 is ``$1,999``."""
    if cents is None or cents < 10_000:
        return dollars(cents)
    return dollars(cents - cents % 100 if cents < 1_000_000 else _first_three_digits(cents // 100) * 100)


def worth(cents: int | None, units: int) -> str:
    """US cents as `dollars`, rounded down from what ``units`` of a token are worth. If there are units, it is not 0."""
    return f"<{THIN}$0.01" if cents == 0 and units else dollars(cents)


def worth_at_most(cents: int | None, units: int) -> str:
    """US cents as `worth`, but never more than there is."""
    return worth(cents, units) if not cents else dollars_at_most(cents)


def percent_at_most(basis_points: int) -> str:
    """Basis points from 0 on as `percent`, but never more than there is: 9,996 is ``99.9 %``."""
    return percent(
        basis_points - basis_points % (100 if basis_points >= 99_950 else 10 if basis_points >= 1_000 else 1)
    )


def exact_dollars(cents: int | None) -> str:
    """US cents in full: ``$1,234.56``."""
    return NO_PRICE if cents is None else f"${cents // 100:,}.{cents % 100:02d}"


def amount(units: int, decimals: int) -> str:
    """An amount of base units in whole tokens: ``1,234,567``; below a thousand with decimals, in four digits."""
    if not 0 <= decimals <= MAX_DECIMALS:
        return f"{units:,} units" if units < 10**MAX_DIGITS else f"{_scientific(units)} units"
    one = 10**decimals
    whole, part = divmod(units, one)
    if whole >= 10**MAX_DIGITS:
        return _scientific(whole)
    if whole >= 1000 or not part:
        return f"{(units + one // 2) // one:,}"
    places = _places(whole)
    scaled = (units * 10**places + one // 2) // one
    if not scaled:
        return _TINY_AMOUNT
    digits = str(scaled).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}".rstrip("0").rstrip(".")


def amount_at_most(units: int, decimals: int) -> str:
    """An amount as `amount`, but never more than there is: ``12,643,067`` for 12,643,067.9."""
    lower = units - units % _step(units, decimals)
    return _TINY_AMOUNT if units and not lower else amount(lower, decimals)


def amount_at_least(units: int, decimals: int) -> str:
    """An amount of less than a trillion tokens as `amount`, but never less than there is: ``0.0001`` for 0.00003."""
    return amount(units + -units % _step(units, decimals), decimals)


def _places(whole: int) -> int:
    """The decimals with which `amount` shows an amount below a thousand tokens, of which ``whole`` are whole."""
    return 4 - len(str(whole)) if whole else 4


def _step(units: int, decimals: int) -> int:
    """The base units between an amount that `amount` shows and the next one."""
    if not 0 <= decimals <= MAX_DECIMALS:
        return 1
    one: int = 10**decimals
    whole, part = divmod(units, one)
    if whole >= 1000 or not part:
        return one
    step: int = 10 ** max(decimals - _places(whole), 0)
    return step


def round_amount(units: int, decimals: int) -> str:
    """An amount as `amount` has it, but from a billion tokens on in three digits: ``1.00T``."""
    whole = units // 10**decimals if 0 <= decimals <= MAX_DECIMALS else 0
    return _sized(whole) if 10**9 <= whole < 10**15 else amount(units, decimals)


def round_amount_at_most(units: int, decimals: int) -> str:
    """An amount as `round_amount`, but never more than there is."""
    whole = units // 10**decimals if 0 <= decimals <= MAX_DECIMALS else 0
    return _sized(_first_three_digits(whole)) if 10**9 <= whole < 10**15 else amount_at_most(units, decimals)


def no_price(reason: str) -> str:
    """Why there is no price, for people. If the exporter could not read it, its technical reason is left out."""
    if NOT_FROM_STORAGE.strip(": ") in reason:
        return "this site cannot compute the prices of the market's oracle; the market itself may have a price"
    return cut(reason, 300)


def reward_price_source_words(source: str, forms: Mapping[str, str]) -> str:
    """How a reward token's price is computed, in words.

    ``source`` is ``ORACLE``, or ``FORM CONTRACT * ORACLE`` with one of the forms for which the protocol has words.
    """
    first, _, oracle = source.rpartition(" * ")
    by_oracle = f"the market's oracle {short_address(oracle)}"
    if not first:
        return f"by {by_oracle}"
    form, _, contract = first.partition(" ")
    words_of_form = forms.get(form, "by contract {contract} and {oracle}")
    return words_of_form.format(contract=short_address(contract), oracle=by_oracle)


def why(reason: str) -> str:
    """Why something is closed or not known, for people. If the exporter could not read it, its reason is left out."""
    return cut(reason.partition(": ")[0] if NOT_FROM_STORAGE.strip(": ") in reason else reason, 200)


def exact_amount(units: int, decimals: int) -> str:
    """An amount in whole tokens with every decimal: ``1,234.5000000``."""
    if not 0 <= decimals <= MAX_DECIMALS:
        return f"{units:,} base units of 10^-{decimals}"
    if not decimals:
        return f"{units:,}"
    whole, part = divmod(units, 10**decimals)
    return f"{whole:,}.{part:0{decimals}d}"


def price(printed: str | None) -> str:
    """A price in a few decimals, cut off: ``$1,234.56``, ``$0.1234``. ``printed`` is it with all of its decimals.

    A price of less than a hundred-millionth is ``<$0.00000001``.
    """
    if printed is None:
        return NO_PRICE
    whole, _, part = printed.partition(".")
    if len(whole) > MAX_DIGITS - 2:
        return f"${_scientific(int(whole))}"
    if whole != "0":
        return f"${int(whole):,}.{(part + '00')[:2]}"
    leading = len(part) - len(part.lstrip("0"))
    if MAX_SHOWN_DIGITS <= leading < len(part):
        return f"<{THIN}$0.{'0' * (MAX_SHOWN_DIGITS - 1)}1"
    return f"$0.{part[: leading + 4]}" if leading < len(part) else "$0.00"


def fixed_point(value: int, decimals: int) -> str:
    """An integer in units of 10^-decimals, in full, without zeros at its end."""
    if not 0 <= decimals <= MAX_DECIMALS:
        return f"{value:,} {TIMES} 10^-{decimals}"
    sign, digits = ("-" if value < 0 else ""), str(abs(value)).rjust(decimals + 1, "0")
    whole, part = (digits[:-decimals], digits[-decimals:].rstrip("0")) if decimals else (digits, "")
    return f"{sign}{int(whole):,}{'.' + part if part else ''}"


MAX_SHOWN_DIGITS = 8


def first_digits(value: int, decimals: int) -> str | None:
    """The first `MAX_SHOWN_DIGITS` digits of an integer in units of 10^-decimals; None if it has no more than these.

    With the zeros at its beginning it has at most `MAX_DIGITS`. A number with more than these before the point has
    three, and a power of ten.
    """
    exact = fixed_point(value, decimals)
    unit = f" {TIMES} 10^-{decimals}" if TIMES in exact else ""
    whole, _, part = exact.removesuffix(unit).partition(".")
    if (digits := abs(int(whole.replace(",", "")))) >= 10 ** (MAX_SHOWN_DIGITS if unit else MAX_DIGITS):
        return f"{'-' if value < 0 else ''}{_scientific(digits)}{unit}"
    if not part:
        return None
    leading = (
        len(part) - len(part.lstrip("0")) if whole.lstrip("-") == "0" else -len(whole.lstrip("-").replace(",", ""))
    )
    places = min(max(MAX_SHOWN_DIGITS + leading, 0), MAX_DIGITS - 1)
    if len(part) <= places and leading < MAX_SHOWN_DIGITS:
        return None
    if leading >= MAX_SHOWN_DIGITS:
        return f"<{THIN}0.{'0' * (MAX_SHOWN_DIGITS - 1)}1" if not exact.startswith("-") else None
    return f"{whole}.{part[:places]}…" if places else f"{whole}…"


def small_amount(units: int, decimals: int) -> str:
    """An amount as `round_amount`, but below one token with its first eight digits: ``0.0000001``."""
    if 0 <= decimals <= MAX_DECIMALS and units < 10**decimals:
        return first_digits(units, decimals) or fixed_point(units, decimals)
    return round_amount(units, decimals)


_ROUNDED_PART = 10_000
"""A pool that lacks less than one part in this many is not called insolvent: so little can come from rounding."""


def is_serious(shortfall: int, supplied: int) -> bool:
    """Whether a shortfall is more than rounding explains."""
    return shortfall * _ROUNDED_PART >= supplied


def insolvency(shortfall: int, supplied: int, decimals: int, symbol: str) -> str:
    """What a pool owes beyond what it has: ``insolvent, short by 12.3 XLM``, or alone ``short by 0.0000001 XLM``."""
    named = "insolvent, " if is_serious(shortfall, supplied) else ""
    return f"{named}short by {small_amount(shortfall, decimals)} {cut(symbol, SYMBOL_LENGTH)}"


def decimal(value: int | None, decimals: int) -> str | None:
    """An integer in units of 10^-decimals, with all of its digits; None beyond 1,000 decimals."""
    if value is None or decimals > 1_000:
        return None
    return decimal_text(value, decimals)


def count(number: int) -> str:
    """A count, with separators."""
    return f"{number:,}"


def compounded(compounding: str) -> str:
    """How a yield is computed from a rate (`exporter.tree.values.Compounding`): ``compounded 52 times a year``."""
    return "not compounded" if compounding == "simple" else f"compounded {int(compounding):,} times a year"


def yields(supply: str, borrow: str) -> str:
    """How both yields of a protocol are computed from its rates."""
    both = compounded(supply), compounded(borrow)
    return both[0] if supply == borrow else f"supply: {both[0]}; borrow: {both[1]}"


def size(number: int) -> str:
    """Bytes in three digits: ``12.3 kB``."""
    for least, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if number >= least:
            return f"{_three_digits(number, least)}{THIN}{unit}"
    return f"{number}{THIN}bytes"


@lru_cache(maxsize=1 << 12)
def moment(seconds: int) -> str:
    """A time as people write it: ``21 Nov 2026, 12:00 UTC``."""
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at.day} {MONTHS[at.month - 1]} {at.year}, {at:%H:%M} UTC"


def day(seconds: int) -> str:
    """The day of a time, in UTC: ``21 Nov 2026``."""
    return moment(seconds).partition(",")[0]


def moment_of(written: str) -> str:
    """The time of a document, such as ``2026-11-21T12:00:00Z``, as people write it."""
    return moment(int(datetime.fromisoformat(written).timestamp()))


def _first_three_digits(number: int) -> int:
    """The number with zeros after its first three digits."""
    unit: int = 10 ** max(len(str(number)) - 3, 0)
    return number - number % unit


def _sized(number: int) -> str:
    for least, unit in _SIZES:
        if 2 * number >= 2 * least - least // 1000:
            return f"{_three_digits(number, least)}{unit}"
    return str(number)


def _three_digits(number: int, least: int) -> str:
    hundredths = (number * 100 + least // 2) // least
    if hundredths < 1_000:
        return f"{hundredths // 100}.{hundredths % 100:02d}"
    tenths = (number * 10 + least // 2) // least
    return f"{tenths // 10}.{tenths % 10}" if tenths < 1_000 else f"{(number + least // 2) // least:,}"


def _scientific(number: int) -> str:
    digits = str(number)
    return f"{digits[0]}.{digits[1:3]}{TIMES}10{str(len(digits) - 1).translate(_SUPERSCRIPTS)}"


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


# Text of the chain for people. Any contract may call itself anything, so none of it is trusted.
#
# The templates escape it (autoescape). These functions handle what escaping leaves as it is: invisible characters,
# characters that reverse the text around them, and names that are too long for a table.

NAME_LENGTH = 36
"""Largest number of characters of a name in a table."""

SYMBOL_LENGTH = 14

TITLE_LENGTH = 400
"""Largest number of characters of a name in full, which is shown on hover."""

_COMBINING = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_MARKS = re.compile(f"([{_COMBINING}]{{2}})[{_COMBINING}]+")
_NAMELESS = "(no name)"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@lru_cache(maxsize=1 << 12)
def harmless(text: str) -> str:
    """The text without anything invisible.

    Control, bidirectional and unassigned characters become U+FFFD. At most two marks combine with a letter. Each run of
    spaces of any kind becomes one plain space. An empty text becomes ``(no name)``.
    """
    if not (text.isascii() and text.isprintable()):
        shown = "".join(
            " " if character.isspace() else character if character.isprintable() else "\ufffd" for character in text
        )
        text = _MARKS.sub(r"\1", shown)
    return " ".join(text.split()) or _NAMELESS


@lru_cache(maxsize=1 << 12)
def cut(text: str, length: int = NAME_LENGTH) -> str:
    """The `harmless` text in at most ``length`` characters. A text that is cut ends in an ellipsis."""
    text = harmless(text)
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def xml(text: str) -> Markup:
    """A text for inside an XML element. Characters of contracts that XML does not allow are replaced."""
    return Markup(saxutils.escape(_NOT_XML.sub("\ufffd", text)))


def page_url(public_url: str, key: str) -> str:
    """The URL of a page below the URL of the tree. That of the overview is the tree's own."""
    return f"{public_url}/{'' if key == 'index.html' else key}"


def short_address(address: str) -> str:
    """The beginning and end of an address or a pool's id: ``CAS3…OWMA``."""
    return address if len(address) <= 12 else f"{address[:4]}…{address[-4:]}"


@lru_cache(maxsize=1 << 12)
def words(name: str) -> str:
    """A name in the protocols' own spelling as words: ``admin_on_ice`` is ``admin on ice``."""
    return harmless(name).replace("_", " ")


def not_mainnet(passphrase: str) -> str | None:
    """The banner of a network other than mainnet; None for mainnet."""
    network = network_of(passphrase).name
    if network == "mainnet":
        return None
    shown = f"“{cut(passphrase, TITLE_LENGTH)}”"
    if network == "testnet":
        return f"This is testnet ({shown}), not mainnet: its tokens are worth nothing."
    if network == "local":
        return "Demo data. Recorded from Stellar in 2025 and 2026, then moved at random; names and prices are ours."
    return f"This is not mainnet. It is the network {shown}."


def prose(text: str) -> Markup:
    """A text of the documentation, in which text in backticks becomes code."""
    parts = str(escape(text)).split("`")
    return Markup("".join(f"<code>{part}</code>" if position % 2 else part for position, part in enumerate(parts)))


def breakable(name: str) -> Markup:
    """A path or a field's name in which lines may break after slashes and underscores, and nowhere else."""
    return Markup(re.sub(r"[/_](?!\Z)", r"\g<0><wbr>", str(escape(name))))


_ADDRESS = re.compile("([CG][A-Z2-7]{55}|[A-Za-z0-9-]{4}…[A-Za-z0-9]{4}(?![A-Za-z0-9])|[CG][A-Z2-7]{7,}[.]{3})")


def with_addresses(text: str) -> Markup:
    """A text of the exporter or of the chain, in which addresses, in full or cut, become code."""
    return Markup(_ADDRESS.sub(r"<code>\1</code>", str(escape(text))))
