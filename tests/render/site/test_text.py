"""What people read: numbers short and exact, and what contracts call themselves, which can do no harm."""

from __future__ import annotations

from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.deployments.networks import NETWORKS
from exporter.render.site import text
from exporter.render.site.rows import with_names
from exporter.render.site.templates import environment
from exporter.render.site.text import cut, harmless, prose

THIN = "\N{NARROW NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("basis_points", "shown", "exact"),
    [
        (0, "0.00 %", "0.00 %"),
        (999, "9.99 %", "9.99 %"),
        (1235, "12.4 %", "12.35 %"),
        (99_949, "999.5 %", "999.49 %"),
        (99_950, "1,000 %", "999.50 %"),
        (123_456, "1,235 %", "1,234.56 %"),
        (10**12, "1.00\N{MULTIPLICATION SIGN}10¹⁰ %", "10,000,000,000.00 %"),
    ],
)
def test_percent(basis_points: int, shown: str, exact: str) -> None:
    """Basis points become a percentage of three digits, and one with both decimals."""
    assert (shown, exact) == tuple(
        text.replace(THIN, " ") for text in (text.percent(basis_points), text.exact_percent(basis_points))
    )


@pytest.mark.parametrize(
    ("cents", "shown", "exact"),
    [
        (None, "no price", "no price"),
        (1234, "$12.34", "$12.34"),
        (999_949, "$9,999", "$9,999.49"),
        (999_950, "$10.0K", "$9,999.50"),
        (1_001_000, "$10.0K", "$10,010.00"),
        (99_994_999, "$1.00M", "$999,949.99"),
        (123_456_789, "$1.23M", "$1,234,567.89"),
        (123_456_789_012, "$1.23B", "$1,234,567,890.12"),
        (10**14, "$1.00T", "$1,000,000,000,000.00"),
        (99_950 * 10**12, "$9.99\N{MULTIPLICATION SIGN}10¹⁴", "$999,500,000,000,000.00"),
    ],
)
def test_dollars(cents: int | None, shown: str, exact: str) -> None:
    """Cents become dollars of three digits, and in full; without a price there is none, and no zero."""
    assert (shown, exact) == (text.dollars(cents), text.exact_dollars(cents))


@pytest.mark.parametrize(
    ("units", "decimals", "shown", "exact"),
    [
        (1, 7, "<0.0001", "0.0000001"),
        (12_345_678, 7, "1.235", "1.2345678"),
        (126_430_667_051_058, 7, "12,643,067", "12,643,066.7051058"),
        (5, 0, "5", "5"),
        (10**38, 0, "1.00\N{MULTIPLICATION SIGN}10³⁸", f"{10**38:,}"),
        (7, 2**32 - 1, "7 units", "7 base units of 10^-4294967295"),
    ],
)
def test_amounts(units: int, decimals: int, shown: str, exact: str) -> None:
    """Base units become whole tokens with separators; absurd decimals are not computed with."""
    assert (shown, exact) == (text.amount(units, decimals), text.exact_amount(units, decimals))


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (None, "no price"),
        ("1.00000000000000", "$1.00"),
        ("0.12345", "$0.1234"),
        ("0.000012345", "$0.00001234"),
        ("7", "$7.00"),
    ],
)
def test_prices(printed: str | None, shown: str) -> None:
    """A price is cut to what people read; without one there is none, and no zero."""
    assert shown == text.price(printed)


@given(st.integers(min_value=-(10**38), max_value=10**38), st.integers(min_value=0, max_value=30))
def test_fixed_point_is_exact(value: int, decimals: int) -> None:
    """A number of fixed decimals is printed in full."""
    assert Fraction(value, 10**decimals) == Fraction(text.fixed_point(value, decimals).replace(",", ""))


def test_sizes_and_times() -> None:
    """Bytes and times as people write them."""
    assert ["999 bytes", "1.00 kB", "12.3 MB"] == [text.size(n).replace(THIN, " ") for n in (999, 1000, 12_345_678)]
    assert "18 Nov 2026, 10:00 UTC" == text.moment(1_794_996_000)


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
    """On a public network `native` is XLM for the native asset's contract alone, whoever else calls itself so."""
    pools = pl.DataFrame(
        {
            "market": "m",
            "pool": [XLM, OTHER, "x"],
            "token_address": [XLM, OTHER, "x"],
            "symbol": ["native", "native", "u"],
        }
    ).with_columns(pl.lit(None, pl.String).alias("pool_label"))
    assert XLM == text.native(MAINNET)
    assert ["XLM", "native", "u"] == with_names(pools, XLM)["symbol"].to_list()
    assert ["XLM", "XLM", "u"] == with_names(pools, text.native(NETWORKS["local"].passphrase))["symbol"].to_list()


def test_prose_escapes_and_marks_code() -> None:
    """What is in backticks is code, and all of it is escaped."""
    assert "a &lt;b&gt; <code>c&lt;d</code>" == str(prose("a <b> `c<d`"))


@pytest.mark.parametrize(
    ("units", "decimals", "shown"),
    [
        (999_999_999 * 10**7, 7, "999,999,999"),
        (10**9 * 10**7, 7, "1.00B"),
        (999_999_883_909 * 10**7, 7, "1.00T"),
        (10**15, 0, f"1.00{text.TIMES}10¹⁵"),
        (5, 99, "5 units"),
    ],
)
def test_large_caps_are_read_at_a_glance(units: int, decimals: int, shown: str) -> None:
    """A cap of a billion tokens and more has three digits; smaller amounts are whole."""
    assert shown == text.round_amount(units, decimals)


def test_a_missing_price_is_explained_to_people() -> None:
    """What the exporter cannot read is its own limit, in plain words; the market's reasons stay."""
    assert "not from storage" not in text.no_price("decimals() failed: not from storage: 0123")
    assert "the price is 3 days old" == text.no_price("the price is 3 days old")
