"""Tests of exporter.render.site.text: what contracts call themselves can do no harm."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporter.deployments.networks import NETWORKS
from exporter.render.site.text import Symbols, cut, harmless, named, native_asset, prose

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
    """A text cannot turn or hide what stands around it."""
    assert "USDC\ufffdgnp" == harmless("USDC\u202egnp")
    assert "a b\ufffdc" == harmless("a\nb\u200bc")
    assert "(no name)" == harmless(" \u00a0\u3000")
    assert "Z\u0301\u0301" == harmless("Z" + "\u0301" * 50)


def test_long_names_are_cut_with_the_full_one_beside() -> None:
    """A long name is cut at 36 characters, and stands in full beside, up to 400."""
    shown, full = named("x" * 1000)

    assert ("x" * 35 + "…", "x" * 400) == (shown, full)
    assert ("USDC", None) == named("USDC")
    assert "abc…" == cut("abcdef", 4)


def test_only_the_native_asset_is_xlm() -> None:
    """On a public network `native` is XLM for the native asset's contract alone, whoever else calls itself so."""
    assert XLM == native_asset(MAINNET)
    assert ["XLM", "native", "USDC"] == [
        Symbols(MAINNET).of(symbol, token) for symbol, token in (("native", XLM), ("native", OTHER), ("USDC", OTHER))
    ]
    assert "XLM" == Symbols(NETWORKS["local"].passphrase).of("native", OTHER)


def test_prose_escapes_and_marks_code() -> None:
    """What stands in backticks is code, and all of it is escaped."""
    assert "a &lt;b&gt; <code>c&lt;d</code>" == str(prose("a <b> `c<d`"))
