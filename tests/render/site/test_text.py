"""Texts for people: numbers short and exact, and names of contracts that can do no harm."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.deployments.networks import NETWORKS, native_contract
from exporter.render.site import text
from exporter.render.site.rows import with_names
from exporter.render.site.templates import environment
from exporter.render.site.text import cut, harmless, prose

SHOWN: dict[Callable[[Any], str], dict[object, str]] = {
    text.percent: {
        0: "< 0.01 %",
        999: "9.99 %",
        1235: "12.4 %",
        99_949: "999.5 %",
        99_950: "1,000 %",
        123_456: "1,235 %",
        10**12: "1.00x10¹⁰ %",
    },
    text.exact_percent: {0: "< 0.01 %", 99_950: "999.50 %", 10**10 - 1: "99,999,999.99 %", 10**10: "1.00x10⁸ %"},
    text.dollars: {
        None: "no price",
        1234: "$12.34",
        999_949: "$9,999",
        999_950: "$10.0K",
        1_001_000: "$10.0K",
        99_994_999: "$1.00M",
        123_456_789: "$1.23M",
        123_456_789_012: "$1.23B",
        10**14: "$1.00T",
        99_950 * 10**12: "$9.99x10¹⁴",
    },
    text.exact_dollars: {None: "no price", 999_949: "$9,999.49", 10**14: "$1,000,000,000,000.00"},
    text.price: {
        None: "no price",
        "1.00000000000000": "$1.00",
        "0.12345": "$0.1234",
        "0.000012345": "$0.00001234",
        "7": "$7.00",
        "0.0000000123": "$0.0000000123",
        "0.0000000012": "< $0.00000001",
        "0.0000000000": "$0.00",
        "12345678901.5": "$1.23x10¹⁰",
    },
    text.size: {999: "999 bytes", 1000: "1.00 kB", 12_345_678: "12.3 MB"},
    text.moment: {1_794_996_000: "18 Nov 2026, 10:00 UTC"},
}


@pytest.mark.parametrize("write", SHOWN)
def test_numbers_are_short_or_exact(write: Callable[[Any], str]) -> None:
    """Numbers have three digits, or all of them; what has no value says so, and is not zero."""
    assert SHOWN[write] == {value: plain(write(value)) for value in SHOWN[write]}


def plain(shown: str | None) -> str | None:
    return shown and shown.replace("\N{NARROW NO-BREAK SPACE}", " ").replace(text.TIMES, "x")


AMOUNTS: dict[Callable[[int, int], str | None], dict[tuple[int, int], str | None]] = {
    text.amount: {
        (1, 7): "< 0.0001",
        (12_345_678, 7): "1.235",
        (126_430_667_051_058, 7): "12,643,067",
        (5, 0): "5",
        (10**38, 0): "1.00x10³⁸",
        (7, 2**32 - 1): "7 units",
        (10**38, 61): "1.00x10³⁸ units",
    },
    text.worth: {(0, 0): "$0.00", (0, 1): "< $0.01", (1, 1): "$0.01"},
    text.exact_amount: {
        (1, 7): "0.0000001",
        (126_430_667_051_058, 7): "12,643,066.7051058",
        (5, 0): "5",
        (7, 2**32 - 1): "7 base units of 10^-4294967295",
    },
    text.round_amount: {
        (999_999_999 * 10**7, 7): "999,999,999",
        (10**9 * 10**7, 7): "1.00B",
        (999_999_883_909 * 10**7, 7): "1.00T",
        (10**15, 0): "1.00x10¹⁵",
        (5, 99): "5 units",
    },
    text.decimal: {(610, 4): "0.0610", (5, 0): "5", (10**37, 1): f"{10**36}.0", (0, 2): "0.00", (1, 1001): None},
}


@pytest.mark.parametrize("write", AMOUNTS)
def test_amounts_are_whole_tokens(write: Callable[[int, int], str | None]) -> None:
    """Base units become whole tokens; large caps have three digits, and absurd decimals are not computed with."""
    assert AMOUNTS[write] == {given: plain(write(*given)) for given in AMOUNTS[write]}


_SIZES = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def value_of(shown: str) -> Fraction:
    """The number that a short form says; 0 for one that only says that there is less than something."""
    found = re.fullmatch(r"\$?([\d.,]+|<.*?)([KMBT]?)(?:x10([⁰¹²³⁴⁵⁶⁷⁸⁹]+))?(?: %)?", plain(shown) or "")
    assert found is not None, shown
    number, size, power = found.groups()
    if number.startswith("<"):
        return Fraction(0)
    exponent = (power or "⁰").translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789"))
    return Fraction(number.replace(",", "")) * _SIZES[size] * Fraction(10) ** int(exponent)


@given(st.integers(0, 2**70) | st.integers(0, 10**7), st.integers(0, 18))
def test_a_bound_is_on_the_safe_side(units: int, decimals: int) -> None:
    """The most that somebody can do is never shown as more, and the least that is taken never as less.

    Neither is further from the exact number than a part in a hundred, or than the last digit that is shown.
    """
    tokens = Fraction(units, 10**decimals)
    shown: dict[Fraction, list[str]] = {
        tokens: [text.amount_at_most(units, decimals), text.round_amount_at_most(units, decimals)],
        Fraction(units, 100): [
            text.dollars_at_most(units),
            text.worth_at_most(units, units),
            text.percent_at_most(units),
        ],
    }
    for exact, forms in shown.items():
        for form in forms:
            assert value_of(form) <= exact <= value_of(form) * Fraction(101, 100) + Fraction(1, 1_000), form
    if tokens < 10**12:
        least = value_of(text.amount_at_least(units, decimals))
        assert tokens <= least <= tokens * Fraction(101, 100) + Fraction(1, 1_000)


def test_a_short_form_of_a_bound_is_that_of_the_nearest_where_that_is_not_more() -> None:
    """A bound differs from the nearest form only if that would be more."""
    for cents in (0, 5, 9_999, 10_049, 999_900, 1_004_899, 123_000_000, 10**18):
        assert text.dollars(cents) == text.dollars_at_most(cents)
    assert ("$1,999", "$9,999", "$12.9M") == tuple(map(text.dollars_at_most, (199_999, 999_999, 1_299_999_999)))
    assert ("12,643,067", "1.234", "<\N{NARROW NO-BREAK SPACE}0.0001", "0.0001") == (
        *(text.amount_at_most(units, 7) for units in (126_430_679_999_999, 12_349_999, 9)),
        text.amount_at_least(9, 7),
    )


@pytest.mark.parametrize(
    ("value", "decimals", "shown"),
    [
        (7, 1, None),
        (12_345_678, 7, None),
        (123_456_789, 7, "12.345678…"),
        (203_114_300_000_000_000_000_000_001, 27, "0.20311430…"),
        (2, 27, "< 0.00000001"),
        (12_345_678_901, 1, "1,234,567,890…"),
        (10**12 - 1, 0, None),
        (10**12, 0, "1.00x10¹²"),
        (-(2**127), 0, "-1.70x10³⁸"),
        (2**127, 61, "1.70x10³⁸ x 10^-61"),
        (7, 61, None),
    ],
)
def test_long_numbers_show_eight_digits(value: int, decimals: int, shown: str | None) -> None:
    """A number of more digits shows the first eight, and says that there are more; a shorter one is whole."""
    assert shown == plain(text.first_digits(value, decimals))


@given(st.integers(min_value=0, max_value=2**127), st.integers(min_value=0, max_value=100))
def test_no_number_is_longer_than_a_reader_takes_in(value: int, decimals: int) -> None:
    """A shown number has at most twelve digits, whatever a contract holds; leading zeros count."""
    with_decimals = text.decimal(value, decimals)
    shown = {
        text.percent(value),
        text.exact_percent(value),
        text.dollars(value),
        text.worth(value, 1),
        text.amount(value, decimals),
        text.round_amount(value, decimals),
        text.price(with_decimals),
        text.first_digits(value, decimals) or text.fixed_point(value, decimals),
    }

    assert [] == [number for number in shown if len(re.findall("[0-9]", number)) > text.MAX_DIGITS]


@given(st.integers(min_value=-(10**38), max_value=10**38), st.integers(min_value=0, max_value=30))
def test_fixed_point_is_exact(value: int, decimals: int) -> None:
    """A number of fixed decimals is printed in full."""
    assert Fraction(value, 10**decimals) == Fraction(text.fixed_point(value, decimals).replace(",", ""))


XLM = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
OTHER = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"
MAINNET = NETWORKS["mainnet"].passphrase


@given(st.text())
def test_nothing_invisible_stays(text: str) -> None:
    """Whatever a contract gives, every character of what is shown can be seen, and there is at least one."""
    assert harmless(text).isprintable()
    assert harmless(text).strip()
    assert harmless(harmless(text)) == harmless(text)


def test_bidirectional_and_control_characters_are_shown_as_such() -> None:
    """A text cannot turn or hide what surrounds it."""
    assert "USDC\ufffdgnp" == harmless("USDC\u202egnp")
    assert "a b\ufffdc" == harmless("a\nb\u200bc")
    assert "(no name)" == harmless(" \u00a0\u3000")
    assert "Z\u0301\u0301" == harmless("Z" + "\u0301" * 50)


def test_long_names_are_cut_with_the_full_one_on_hover() -> None:
    """A long name is cut at 36 characters, and is shown in full next to that, up to 400."""
    name = environment().get_template("macros.j2").module.name  # type: ignore[attr-defined]

    assert f'<bdi title="{"x" * 400}">{"x" * 35}…</bdi>' == name("x" * 1000)
    assert "<bdi>USDC</bdi>" == name("USDC")
    assert "abc…" == cut("abcdef", 4)


def test_only_the_native_asset_is_xlm() -> None:
    """On a public network only the native asset's contract is XLM, whoever else calls itself `native`."""
    pools = pl.DataFrame(
        {
            "market": "m",
            "pool": [XLM, OTHER, "x"],
            "token_address": [XLM, OTHER, "x"],
            "symbol": ["native", "native", "u"],
        }
    ).with_columns(pl.lit(None, pl.String).alias("pool_label"))
    assert XLM == native_contract(MAINNET)
    assert ["XLM", "native", "u"] == with_names(pools, XLM)["symbol"].to_list()
    assert ["XLM", "XLM", "u"] == with_names(pools, native_contract(NETWORKS["local"].passphrase))["symbol"].to_list()


def test_prose_and_reasons_are_for_people() -> None:
    """Backticks are code, all is escaped, and what the exporter cannot read is in plain words; other reasons stay."""
    assert "a &lt;b&gt; <code>c&lt;d</code>" == str(prose("a <b> `c<d`"))
    assert "not from storage" not in text.no_price("decimals() failed: not from storage: 0123")
    assert "the price is 3 days old" == text.no_price("the price is 3 days old")
