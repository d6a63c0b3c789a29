"""What a reader meets on any page of whole trees: numbers that people take in, words in place of formulas, small files.

The trees are a recording of all protocols, and mainnet at ledger 55,261,759.
"""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from exporter.protocols import PROTOCOLS
from exporter.render.site.text import MAX_DIGITS
from tests.render.site.made import pool_row, series_of, site_of, tables_of

MAX_PAGE_BYTES = 200_000

_FOR_MACHINES = {"head", "script", "code", "pre", "time"}
"""Elements whose text is for machines, or is a time of the chain."""

_VOID = {"meta", "link", "br", "wbr", "img", "input"}

TITLES = [protocol.words.coverage.title.partition(" (")[0].casefold() for protocol in PROTOCOLS.values()]

NUMBER = re.compile(r"\d[\d,.]*")
ZERO_PERCENT = re.compile(r"(?<![\d.,])0\.0+\s?%")
FORMULA = re.compile(r"comet_spot|[A-Z0-9…]{4,} \* [A-Z0-9…]{4,}")


class _Shown(HTMLParser):
    """The pieces of a page's text that are there before anything is opened: nothing of a machine's, nothing folded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        folded = "details" in self._open and "summary" not in self._open
        if not folded and not _FOR_MACHINES & set(self._open):
            self.pieces.append(data)


def faults(text: str) -> list[str]:
    """The faults of a page that no reader should meet: a nonzero zero, too many digits, or a formula."""
    return [
        piece
        for piece in _Shown(text).pieces
        if ZERO_PERCENT.search(piece)
        or FORMULA.search(piece)
        or any(len(re.sub(r"\D", "", number)) > MAX_DIGITS for number in NUMBER.findall(piece))
    ]


def said_twice(text: str) -> list[str]:
    """The cells of tables, and the page's head, that name a protocol more than once."""
    pieces = re.findall(r"<t[hd]\b.*?</t[hd]>|<h1>.*?</h1>\s*<p class=\"lede\">.*?<", text, re.DOTALL)
    shown = [unescape(re.sub("<[^>]*>", " ", piece)).casefold() for piece in pieces]
    return [piece for piece in shown if any(piece.count(title) > 1 for title in TITLES)]


def faults_of(tree: Path) -> dict[str, list[str]]:
    """The faults of each page of a tree that has some, by key."""
    pages = {path.relative_to(tree).as_posix(): path.read_text("utf-8") for path in tree.rglob("*.html")}
    assert len(pages) > 20
    return {key: found for key, text in pages.items() if (found := faults(text) + said_twice(text))}


def large(tree: Path) -> list[str]:
    """The pages of a tree that are larger than `MAX_PAGE_BYTES`."""
    return [path.name for path in tree.rglob("*.html") if path.stat().st_size > MAX_PAGE_BYTES]


@pytest.mark.parametrize(
    "text",
    [
        "<p>0.00 %</p>",
        "<p>0.00\u202f%</p>",
        "<p>1.0021918273645 tokens</p>",
        "<b>12,345,678,901,234</b>",
        "<p>by comet_spot CDJY…AAAA</p>",
        "<p>CDJY…AAAA * CDAV…BBBB</p>",
    ],
)
def test_the_rule_finds_each_fault(text: str) -> None:
    """A page with one of the faults is found, unless it is folded; what is opened or for machines may have it."""
    assert 1 == len(faults(f"<main>{text}</main>"))
    assert [] == faults(f"<details><summary>1.23</summary>{text}</details>")
    assert 1 == len(said_twice('<td title="Peridot">Peridot <i>peridot</i></td><td>Peridot</td><td>Blend</td>'))
    assert 1 == len(said_twice('<h1>USDC in <i>Peridot</i></h1>\n<p class="lede">Peridot v1 <b>open</b></p>'))
    assert [] == faults("<p>10.00 % of 123,456,789,012, <code>54053682307957001234</code></p>")


def test_a_recording_of_all_protocols_has_numbers_for_people(tree: Path) -> None:
    """No page shows 0.00 % for what is more than nothing, a number of more than twelve digits, or a formula.

    No cell of a table, and no head of a page, says a protocol's title twice.
    """
    assert {} == faults_of(tree)
    assert [] == large(tree)


@pytest.mark.slow
def test_mainnet_has_numbers_for_people(mainnet_tree: Path) -> None:
    """Mainnet's real state keeps to the rules for numbers."""
    assert {} == faults_of(mainnet_tree)
    assert [] == large(mainnet_tree)


def test_absurd_state_has_numbers_for_people() -> None:
    """The rules hold for a contract's greatest numbers, for the least, and for a token of absurd decimals."""
    amounts = ("total_supplied", "total_borrowed", "total_collateral", "supply_index", "accrued_borrow_apr")
    most = dict.fromkeys(amounts, 2**127 - 1)
    nothing = dict.fromkeys(("tvl_usd_cents", "supplied_usd_cents", "borrowed_usd_cents"), 0)
    rows = [
        pool_row(0, 0, **most, supply_apy_bps=2**53 - 1, borrow_apy_bps=2**53 - 1, tvl_usd_cents=2**100),
        pool_row(0, 1, **most, decimals=77, oracle_price_usd=f"{2**120}.0000001"),
        pool_row(0, 2, **dict.fromkeys(amounts, 1), **nothing, supply_apy_bps=0, oracle_price_usd=f"0.{1:030}"),
    ]
    site = site_of(tables := tables_of(rows), series_of(tables, 3))

    assert {} == {key: found for key, text in site.items() if key.endswith(".html") and (found := faults(text))}
    assert "<\N{NARROW NO-BREAK SPACE}$0.01" in site["pools.html"].replace("&lt;", "<")
