"""Tests of the pages: what they say, that they stay small, and that nothing of the chain can harm a reader."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html import unescape
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from markupsafe import escape

from exporter.deployments.identified_tokens import identified_tokens
from exporter.deployments.networks import NETWORKS
from exporter.protocols.base import Parameter
from exporter.render.openapi import openapi_document
from exporter.render.site.pages import MAX_SITE_MAP, site_map
from exporter.render.site.reference import api_reference
from exporter.render.site.templates import (
    EXAMPLE_BASE,
    PLACEHOLDER,
    TOKEN_PLACEHOLDER,
    first_plot,
    snippets,
    static_files,
)
from exporter.render.site.text import NO_PRICE, breakable
from exporter.tables import PoolKey
from exporter.tree.documents import Absent, Bounded, PoolsPage, RunChange, Unread
from exporter.tree.families import API_PAGE, family_of
from exporter.tree.pools import AssetDetail
from exporter.tree.problems import MISSING_PAGE
from exporter.tree.verifier import checker_digests
from tests.render.rendering import contract
from tests.render.site.made import (
    LEDGER,
    Page,
    big_tables,
    pool_row,
    series_of,
    site_files,
    site_of,
    tables_of,
    unpriced,
)

MAINNET = NETWORKS["mainnet"].passphrase
MAX_PAGE_BYTES = 100_000
SITE_MAP_SPACE = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
POOL = f"pools/{contract(100)}/{contract(10_000)}.html"
HOSTILE = '"><script>alert(1)</script><a href="javascript:alert(1)">\u202e' + "x" * 500


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    """A site of three pools in two markets with a day of history, one of them without a price."""
    rows = [
        pool_row(0, 0, symbol="native"),
        pool_row(0, 1, supply_apy_bps=1234, borrow_apy_bps=400, tvl_usd_cents=123_456_789, symbol="USDC"),
        pool_row(1, 2, **unpriced()),
        pool_row(1, 1, supply_apy_bps=900, borrow_apy_bps=350, symbol="USDC"),
        pool_row(1, 3, token_address=contract(10_001), supply_apy_bps=9999, tvl_usd_cents=99_999, symbol="USDC"),
    ]
    unread = [Unread(contract(101), contract(9), "blend", "archived", "the entry is archived")]
    tables = tables_of(rows, unread)
    tables.absent.append(Absent(contract(77), "alula", "the ledger has no contract at this address"))
    tables.notices.append("a notice of this run")
    tables.bounded.append(Bounded(contract(100), contract(10_000), "borrow_apy_bps", str(2**53 - 1)))
    return site_of(tables, series_of(tables, 24))


def test_links_are_relative_and_lead_somewhere(site: dict[str, str]) -> None:
    """Every link of every page leads to a page of the site or to a document of the API, from any prefix."""
    for key, text in site.items():
        if not key.endswith(".html"):
            continue
        page = Page(text)
        links = [element.get("href") or element.get("src") for _, element in page.elements]
        for link in filter(None, links):
            target, _, anchor = link.partition("#")
            assert not re.match(r"[a-z]+:|/", target), (key, link)
            inside = normpath(join(dirname(key), target)) if target else key
            assert inside in site or inside.startswith(("v1/", "history/")) or inside in ("feed.atom", "metrics.txt")
            if anchor and inside in site:
                assert f'id="{anchor}"' in site[inside], (key, link)


@pytest.mark.parametrize(("network", "part"), [("mainnet", "public"), ("testnet", "testnet"), ("local", None)])
def test_contracts_lead_to_the_explorer_and_the_app(network: str, part: str | None) -> None:
    """On public networks contracts lead to an explorer, and the best pools and the page of a pool to the app."""
    site = site_of(tables_of([pool_row(0, 0)]), network=NETWORKS[network].passphrase)
    app = f'href="https://mainnet.blend.capital/dashboard/?poolId={contract(100)}" rel="external">Open in Blend</a>'
    for key, address in (
        (f"markets/{contract(100)}.html", contract(100)),
        (POOL, contract(100)),
        (POOL, contract(1)),
        (POOL, contract(10_000)),
        (f"tokens/{contract(10_000)}.html", contract(10_000)),
    ):
        assert (part is not None) == (f'href="https://stellar.expert/explorer/{part}/contract/{address}"' in site[key])
    assert part is not None or not [text for text in site.values() if "stellar.expert" in text]
    assert [2, 1] == [site[key].count(app) for key in ("index.html", POOL)] or network != "mainnet"
    assert (part is not None) == ("Open in" in "".join(site.values()))


def test_equal_symbols_have_labels() -> None:
    """Two hubs of a token in one market, and two tokens of one symbol, are distinguished wherever they are named."""
    token, other = contract(10_000), contract(10_001)
    hubs = [
        pool_row(0, 0, symbol="USDC", pool_label=label) | {"pool": f"{hub}-{token}"}
        for hub, label in ((1, None), (2, "Hub 2"))
    ]
    shared = pool_row(1, 1, symbol="USDC", **unpriced())
    tables = tables_of([*hubs, shared, pool_row(1, 2, symbol="XLM")])
    site = site_of(tables, series_of(tables, 3, 86_400))
    ids = [f"{address[:4]}…{address[-4:]}" for address in (token, other)]

    for key, labels in {
        "pools.html": [
            f"USDC 1-CA…CHBA {ids[0]} not on the list open",
            f"USDC Hub 2 {ids[0]} not on the list open",
            "XLM not on the list open",
            f"USDC {ids[1]} not on the list open",
        ],
        f"markets/{contract(100)}.html": [
            f"USDC 1-CA…CHBA {ids[0]} not on the list open",
            f"USDC Hub 2 {ids[0]} not on the list open",
        ],
        f"tokens/{token}.html": [
            "Market 0 1-CA…CHBA Blend open",
            "Market 0 Hub 2 Blend open",
        ],
    }.items():
        heads = re.findall(r'<th scope="row"><a.*?</th>', site[key])
        assert labels == [Page(head).text for head in heads], key
    assert f'<dt>Pool</dt><dd><code class="address">2-{token}<' in site[f"pools/{contract(100)}/2-{token}.html"]
    assert (
        f"USDC Hub 2 {ids[0]} in Market 0"
        in re.findall("<title>(.*?)</title>", site[f"pools/{contract(100)}/2-{token}.html"])[0]
    )
    assert f"<bdi>USDC <code>1-CA…CHBA</code> <code>{ids[0]}</code></bdi>" in site[f"markets/{contract(100)}.html"]
    assert "<bdi>Market 0 Hub 2</bdi>" in site[f"tokens/{token}.html"]
    assert f"USDC {ids[1]}" in Page(site["problems.html"]).text
    chips = re.findall(r'<li><a href="tokens/.*?</li>', site["index.html"])
    assert {f"USDC {ids[0]}", f"USDC {ids[1]}", "XLM"} == {Page(chip).text for chip in chips}


def test_pages_have_what_assistive_technology_needs(site: dict[str, str]) -> None:
    """One heading of the first level, a main, a language, a title of its own, a skip link, no id twice, no script.

    Each says of which ledger it is, and when that closed.
    """
    titles = set()
    for key, text in site.items():
        if not key.endswith(".html"):
            continue
        page = Page(text)
        ids = [element["id"] for _, element in page.elements if "id" in element]
        assert 1 == len(list(page.all("h1"))) == len(list(page.all("main"))), key
        assert len(ids) == len(set(ids)), key
        assert "en" == next(page.all("html"))["lang"]
        assert '<a class="skip" href="#main">' in text
        assert [True] == [len(each["content"]) > 40 for each in page.all("meta") if each.get("name") == "description"]
        assert [True] == ["src" in element for element in page.all("script")]
        assert not [element for _, element in page.elements if "style" in element or "onclick" in element]
        assert f"Ledger <b>{LEDGER:,}</b>" in text
        assert '<time datetime="2026-11-18T10:00:00Z">18 Nov 2026, 10:00 UTC</time>' in text
        titles.add(re.findall("<title>(.*?)</title>", text)[0])
    assert "default-src 'none'" in site["index.html"]
    assert len(titles) > 8


def test_numbers_are_short_and_exact_on_hover(site: dict[str, str]) -> None:
    """A cell shows a short number, has the exact one as its title, and the plain one to sort by."""
    text = site[f"markets/{contract(100)}.html"].replace("\N{NARROW NO-BREAK SPACE}", " ")

    assert '<td class="number supply" data-value="1234" title="12.34 %">12.3 %</td>' in text
    assert '<span class="worth" title="$1,000,000.00">$1.00M</span>' in text
    assert '<td class="number" data-value="10000000000000" title="1,000,000.0000000">1,000,000<' in text
    assert ">XLM</bdi>" in text
    assert "native" not in text


def test_what_is_missing_is_named(site: dict[str, str]) -> None:
    """A pool that is unread, without a price or not deployed is named with its reason, and is never a zero."""
    pool, overview = site[f"pools/{contract(101)}/{contract(10_002)}.html"], Page(site["index.html"]).text

    assert "No price: the oracle has no price for this token." in pool
    unread = ["the entry is archived" in site[f"markets/{contract(market)}.html"] for market in (100, 101)]
    assert [False, True] == unread
    assert "$0.00" not in pool
    assert f'title="the oracle has no price for this token">{NO_PRICE}</span></td>' in site["pools.html"]
    for said in (
        *("the entry is archived", "no price for this token", "has no contract at this address", "this run"),
        "is that or more",
    ):
        assert said in Page(site["problems.html"]).text
        assert said not in overview
    counts = "1 not read, 1 without a price, 1 with a number that is too large to show, 1 announced but not deployed"
    assert f"Of listed markets and their pools: {counts}, 1 notice. Which, and why." in overview


def test_best_rates_are_of_open_pools_that_are_worth_something(site: dict[str, str]) -> None:
    """The best yield and the cheapest loan are named with their markets; a pool worth too little does not count."""
    [row] = re.findall(rf'<tr><th scope="row"><a href="tokens/{contract(10_001)}.html">.*?</tr>', site["tokens.html"])
    places = re.findall(r'data-value="(\d+)"><b.*?href="pools/(\w+)/', row)

    assert [("1234", contract(100)), ("350", contract(101))] == places


def test_the_first_table_is_the_best_offer_of_each_token(site: dict[str, str]) -> None:
    """Before anything about the network: each token's best pool with rate, reward, weekly mean, room and status."""
    rewarded = {"total_supply_apy_bps": 450, "supply_reward_apr_bps": 130, "reward_symbol": "BLND"}
    rewarded |= {"comparable_borrow_apy_bps": 765}
    leaving = {"available_to_supply_usd_cents": 12_345_600, "can_withdraw": True, "available_usd_cents": 12_000_000}
    tables = tables_of([pool_row(0, 0, **rewarded, **leaving), pool_row(0, 1)])
    text = site_of(tables)["index.html"].replace("\N{NARROW NO-BREAK SPACE}", " ")
    rows = re.findall(r'<tr><th scope="row".*?</tr>', text[: text.index('id="borrow"')])

    assert [2, 2] == [len(rows), text[: text.index("<table")].count('<li><a href="tokens/')]
    assert '>4.50 %<span class="worth">3.20 % + 1.30 % BLND</span></td>' in rows[0]
    assert ">$123K</td>" in rows[0]
    assert '>$1.00M<span class="worth" title="$120,000.00">$120K can leave</span>' in rows[0]
    assert "how much can leave is not known</span>" in rows[1]
    assert ">no cap</td>" in rows[1]
    assert all('class="status good"' in row and "Market 0" in row for row in rows)
    assert ">7.65 %</td>" in text[text.index('id="borrow"') :]
    assert text.index('id="lend"') < text.index('id="borrow"') < text.index("Total value")


def test_no_page_shows_more_than_somebody_can_take_out_borrow_or_supply() -> None:
    """Amounts that can leave, be borrowed or be supplied are rounded down on every page, in tokens and dollars."""
    room = {"available_to_withdraw": 19_999_999_999, "available_usd_cents": 199_999}
    room |= {"available_to_borrow": 29_999_999_999, "available_to_borrow_usd_cents": 299_999}
    room |= {"available_to_supply": 39_999_999_999, "available_to_supply_usd_cents": 399_999}
    open_pool = pool_row(0, 0, decimals=7, can_withdraw=True, **room)
    unpriced_room = {name: None if name.endswith("cents") else value for name, value in room.items()}
    pages = site_of(
        tables_of([open_pool, pool_row(1, 1, decimals=7, can_withdraw=True, **(unpriced() | unpriced_room))])
    )
    texts = {key: Page(page).text for key, page in pages.items() if key.endswith(".html")}
    said = {key: set(re.findall(r"(?<![\d,.$])\$?[1-4],(?:999|000)(?![\d,.])", text)) for key, text in texts.items()}
    rounded_up = {"$2,000", "$3,000", "$4,000", "2,000", "3,000", "4,000"}

    assert [] == [key for key, numbers in said.items() if numbers & rounded_up]
    in_dollars, in_tokens = {"$1,999", "$2,999", "$3,999"}, {"1,999", "2,999", "3,999"}
    assert in_dollars | in_tokens <= said[f"pools/{contract(100)}/{contract(10_000)}.html"]
    assert in_tokens <= said[f"pools/{contract(101)}/{contract(10_001)}.html"]
    assert in_dollars <= said["index.html"]
    assert {"$1,999", "$2,999"} <= said["tokens.html"]
    assert "$1,999" in said[f"markets/{contract(100)}.html"]


def test_where_nothing_is_priced_the_first_screen_says_so() -> None:
    """No table of nothing: a sentence, with the way to the pools and to the reasons."""
    site = site_of(tables_of([pool_row(0, 0, **unpriced())]))
    text = site["index.html"]
    assert "<figcaption>Total value" not in site[f"markets/{contract(100)}.html"]
    assert "No pool has a valid price at this ledger" in text[: text.index('id="network"')]
    assert 'class="list offers"' not in text
    assert "$0" not in text.replace("$1,000", "")
    assert f'href="pools/{contract(100)}/{contract(10_000)}.html"' in text[: text.index('id="network"')]


@pytest.mark.parametrize("changes", [{}, unpriced()], ids=["priced", "without prices"])
def test_who_stands_behind_a_token_is_next_to_its_symbol_in_every_table(changes: dict[str, Any]) -> None:
    """Two tokens of one symbol cannot be confused: one has who issues it, the other is not on the list."""
    circle = next(token for token in identified_tokens("mainnet").values() if token.who == "Circle")
    rows = [
        pool_row(0, 0, symbol="USDC", token_address=circle.address, **changes),
        pool_row(0, 1, symbol="USDC", token_address=contract(9), **changes),
    ]
    site = site_of(tables_of(rows), network=MAINNET)
    for key in ("index.html", "pools.html", "tokens.html", f"markets/{contract(100)}.html"):
        heads = [Page(head).text for head in re.findall(r'<th scope="row"><a.*?</th>', site[key]) if "USDC" in head]

        assert heads, key
        assert [("Circle" in head, "not on the list" in head) for head in heads] == [
            (True, False) if "Circle" in head else (False, True) for head in heads
        ], key
        assert {True, False} == {"Circle" in head for head in heads}, key


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (unpriced(), "not ranked: no price"),
        ({"tvl_usd_cents": 99_999}, "not ranked: too small"),
        ({"can_supply": None}, "not ranked: lending not known"),
        ({"can_supply": False}, None),
    ],
)
def test_a_token_without_a_best_rate_shows_the_rate_and_what_is_missing(
    changes: dict[str, Any], said: str | None
) -> None:
    """The list of tokens does not seem to contradict a yield that another page shows; what is closed offers nothing."""
    text = site_of(tables_of([pool_row(0, 0, **changes)]))["tokens.html"].replace("\N{NARROW NO-BREAK SPACE}", " ")
    cells = re.findall(r'<td class="(?:none|none place|place)".*?</td>', text)

    assert (said is not None) == ("3.20 %" in cells[0])
    assert (said or "closed") in Page(cells[0]).text


def test_closed_pools_offer_nothing_and_say_why() -> None:
    """A token that has no best rate to lend or to borrow at says why (`exporter.best` has the reasons)."""
    for changes, lend, borrow in (
        ({"can_supply": False, "can_borrow": None}, "closed", "not known"),
        ({"borrowed_usd_cents": 10**8}, None, "all lent out"),
        (unpriced("it is 3 days old"), "no price: it is 3 days old", "no price: it is 3 days old"),
    ):
        text = site_of(tables_of([pool_row(0, 0, **changes)]))["tokens.html"]
        said = re.findall(r'title="No pool of this token counts: (.*?)">', text)

        assert [word for word in (lend, borrow) if word] == said, changes


def test_tables_say_what_is_open_and_grey_what_is_not() -> None:
    """Each row of pools says whether it is open, and the protocol's own words on hover; closed rows have a class.

    It says so once where both sides are alike, and by side where they are not.
    """
    tables = tables_of(
        [
            pool_row(0, 0, market_status="on_ice", pool_status="enabled", can_borrow=False, total_borrowed=1),
            pool_row(0, 1, can_supply=None, can_reason="its code is not known"),
            pool_row(1, 3, can_borrow=None, can_reason="its code is not known"),
            pool_row(1, 2, can_supply=False, can_borrow=False, market_status="frozen"),
            pool_row(2, 4),
        ]
    )
    site = site_of(tables)

    assert '<span class="status" title="lending and borrowing: frozen">closed</span>' in site["pools.html"]
    assert '<span class="status good" title="lending and borrowing: active">open</span>' in site["pools.html"]

    for key in ("pools.html", f"markets/{contract(100)}.html", f"tokens/{contract(10_000)}.html"):
        assert '<span class="status good" title="on ice, enabled">lending open</span>' in site[key]
        assert '<span class="status" title="on ice, enabled">borrowing closed</span>' in site[key]
        assert '<tr class="closed">' not in site[key] or key == "pools.html"
        assert (key != "pools.html") == (">&lt;\N{NARROW NO-BREAK SPACE}0.0001<span" in site[key])
    for side, other in (("lending", "borrowing"), ("borrowing", "lending")):
        assert (
            f'<span class="status unknown" title="active: its code is not known">{side} not known</span>'
            in site["pools.html"]
        )
        assert (
            f'<span class="status good" title="active: its code is not known">{other} open</span>' in site["pools.html"]
        )
    assert 1 == site["pools.html"].count('<tr class="closed">')
    assert 0 == site["markets.html"].count('<tr class="closed">')
    assert 5 == site["pools.html"].count('<span class="quiet minor">Blend</span>')


def test_hostile_names_stay_names() -> None:
    """A market or token that calls itself a script, a link, or a text of 500 letters is shown, and does nothing."""
    tables = tables_of(
        [pool_row(0, 0, market_name=HOSTILE, symbol=HOSTILE, can_reason=HOSTILE, **unpriced(HOSTILE))], name=HOSTILE
    )
    tables.notices.append(HOSTILE)
    tables.unread.append(Unread(contract(5), None, "blend", "undecodable", HOSTILE))
    for key, text in site_of(tables, series_of(tables, 3)).items():
        if key.endswith(".html"):
            page = Page(text)
            assert 1 == len(list(page.all("script"))), key
            assert not [href for href in (a.get("href", "") for a in page.all("a")) if "javascript" in href]
            assert "\u202e" not in unescape(text)
            assert "x" * 450 not in text


@pytest.mark.parametrize(
    ("pools", "pages"), [(202, 3), pytest.param(1_010, 11, marks=pytest.mark.slow, id="a thousand pools")]
)
def test_a_large_tree_has_small_pages(pools: int, pages: int) -> None:
    """However many pools there are, only a page of the API has 100 kB, none 200, and lists go on over pages."""
    tables = big_tables(101, pools)
    site = site_of(tables, series_of(tables, 3))
    large = {key for key, text in site.items() if len(text.encode()) >= MAX_PAGE_BYTES}

    assert all(key.startswith("api-") and len(site[key].encode()) < 2 * MAX_PAGE_BYTES for key in large)
    assert len(site["index.html"].encode()) < 50_000
    for name, files, count in (("markets", 2, 101), ("pools", pages, pools)):
        listed = [key for key in site if re.fullmatch(rf"{name}(-\d+)?\.html", key)]
        assert files == len(listed)
        assert count == sum(len(re.findall(r"<tr><th scope=.row.>", site[key])) for key in listed)
    assert f'href="pools-{pages}.html"' in site["pools.html"]
    own = site_of(big_tables(1, 201))
    assert {f"markets/{contract(100)}{page}.html" for page in ("", "-2", "-3")} <= own.keys()
    assert f'href="{contract(100)}-3.html"' in own[f"markets/{contract(100)}.html"]


def test_the_reference_has_a_response_for_every_operation() -> None:
    """Each operation has an example of a response, with all fields of its document."""
    pages = api_reference().pages
    routes = [route for page in pages for route in page.routes]
    fields = {model.name: {field.name for field in model.fields} for page in pages for model in page.models}
    for route in routes:
        assert fields[route.model] == json.loads(route.response).keys(), route.path
    responses = {route.name: route.response for route in routes}
    assert "blend" == msgspec.json.decode(responses["getAsset"], type=AssetDetail).protocol
    assert msgspec.json.decode(responses["listPools"], type=PoolsPage).data


def test_the_reference_names_the_values_that_a_parameter_takes(site: dict[str, str]) -> None:
    """A parameter with a few values names each, and its default; each operation says first what it is for."""
    operations = {methods["get"]["operationId"]: methods["get"] for methods in openapi_document().paths.values()}
    for route in (route for page in api_reference().pages for route in page.routes):
        for shown, parameter in zip(route.parameters, operations[route.name].get("parameters", ()), strict=True):
            values = parameter["schema"].get("enum", [])
            assert [] == [value for value in values if f"`{value}`" not in shown.note], route.path
            assert ("when it is not given" in shown.note) == (len(values) > 1 and "default" in parameter["schema"])
        assert f"<b>{escape(route.summary)}.</b>" in site[API_PAGE.key(tag=route.tag)]


def test_the_reference_has_a_page_for_each_tag(site: dict[str, str]) -> None:
    """An operation is on the page of its tag, a document on one page; the index leads to all, by the same anchors."""
    reference, index = api_reference(), site["api.html"]
    document = openapi_document()
    own = {page.key: page for page in reference.pages}

    assert [tag["name"] for tag in document.tags] == [page.tag for page in reference.pages]
    assert {key for key in site if key.startswith("api-")} == own.keys()
    assert {API_PAGE} == {family_of(key) for key in own}
    for path, methods in document.paths.items():
        [tag], name = methods["get"]["tags"], methods["get"]["operationId"]
        key = API_PAGE.key(tag=tag)
        assert [key] == [other for other in own if f'<h2 id="{name}">' in site[other]], path
        assert f'<li id="{name}"><a href="{key}#{name}">' in index
        assert f'<li><a href="#{name}">' in site[key]
    for name in document.components["schemas"]:
        if name != "Problem":
            [key] = [other for other in own if f'<div id="{name}">' in site[other]]
            assert f'<li id="{name}"><a href="{key}#{name}">{name}</a>' in index
            assert f'<a href="#{name}">{name}</a>' in site[key]
    assert '<div id="Problem">' in index


def test_a_name_of_the_reference_breaks_only_where_a_reader_expects_it(site: dict[str, str]) -> None:
    """A line of the reference may break after a slash or an underscore of a path or name, and not inside a word."""
    assert "<code>next_<wbr>cursor</code>" in site["api-assets.html"]
    assert "<code>/<wbr>v1/<wbr>assets/<wbr>{market}/<wbr>{pool}</code></h2>" in site["api-assets.html"]
    assert "next_cursor" == Page(breakable("next_cursor")).text
    assert "&lt;a&gt;/<wbr>&lt;b&gt;" == str(breakable("<a>/<b>"))


def test_an_operation_lists_only_failures_of_its_own() -> None:
    """Answers that every operation may give are on the index once, and no operation repeats them."""
    reference = api_reference()
    common = {(failure.status, said) for failure in reference.common for said in failure.details}
    own = [
        (failure.status, said)
        for page in reference.pages
        for route in page.routes
        for failure in route.failures
        for said in failure.details
    ]

    assert {"404", "405", "414", "416", "503"} == {status for status, _ in common}
    assert [] == [failure for failure in own if failure in common]
    assert {"400", "404"} == {status for status, _ in own}


def test_snippets_have_one_placeholder(site: dict[str, str]) -> None:
    """A snippet is plain text with the address of the tree in it; the page shows all of them."""
    text = Page(site["data.html"]).text
    for pieces in snippets().values():
        assert len(pieces) > 1
        assert "{{" not in "".join(pieces)
        assert EXAMPLE_BASE.join(pieces) in text


@pytest.mark.parametrize(
    ("passphrase", "said"),
    [
        (NETWORKS["testnet"].passphrase, "This is testnet"),
        (NETWORKS["local"].passphrase, "Demo data. Recorded from Stellar in 2025 and 2026, then moved at random"),
        ("<b>Somebody's Network</b>", "It is the network “<b>Somebody's Network</b>”."),
        (NETWORKS["mainnet"].passphrase, None),
    ],
)
def test_every_page_of_another_network_says_so(passphrase: str, said: str | None) -> None:
    """A banner and the title of every page name a network that is not mainnet; mainnet has none."""
    site = site_of(tables_of([pool_row(0, 0)]), network=passphrase)
    pages = [text for key, text in site.items() if key.endswith(".html")]

    assert 18 == len(pages)
    for text in pages:
        assert (said is not None) == ('class="elsewhere"' in text)
        assert (said is not None) == bool(
            re.search(r"Soroban lending markets \((testnet|local|custom)\)</title>", text)
        )
        assert said is None or said in Page(text).text
        assert "<b>Somebody" not in text


def test_static_hosts_have_a_page_for_missing_addresses() -> None:
    """The tree has the page that the edge sends; its addresses are those of the public URL, or a script finds them.

    It has the header of every page, and its policy allows that one script and no other.
    """
    unknown, root, below = (
        {file.key: file.data for file in static_files(url)}["404.html"].decode()
        for url in (None, "https://a.example", "https://a.example/b/c")
    )
    [script] = re.findall("<script>(.*?)</script>", unknown)
    digest = b64encode(sha256(script.encode()).digest()).decode()

    assert MISSING_PAGE == root
    assert f"script-src 'self' 'sha256-{digest}'" in unknown
    assert "location.origin+" in script
    for text, prefix in ((unknown, ""), (root, ""), (below, "/b/c")):
        page = Page(text)
        assert {f"{prefix}/", f"{prefix}/about.html"} <= {link["href"] for link in page.all("a")}
        assert [f"{prefix}/"] == [body["data-root"] for body in page.all("body")]
        links = [link["href"] for link in page.all("link")]
        assert [f"{prefix}/static/icon.svg", f"{prefix}/static/site.css"] == links
    assert [{"src": "/b/c/static/site.js"}] == list(Page(below).all("script"))
    places = r'<li><a href="?(?:/b/c/)?([a-z]+\.html)"?(?: aria-current="page")?>(\w+)</a>'
    assert 7 == len(re.findall(places, below))
    assert re.findall(places, below) == re.findall(places, site_of(tables_of([pool_row(0, 0)]))["index.html"])


def test_a_shared_link_says_what_it_is_where_the_address_is_known(site: dict[str, str]) -> None:
    """If there is a public URL, each page has its address, title, description and a picture; otherwise none of it."""
    url = "https://a.example/b"
    files = {file.key: file.data for file in site_files(tables_of([pool_row(0, 0)]), public_url=url)}

    assert [] == [key for key, text in site.items() if "og:" in text or 'rel="canonical"' in text]
    assert files["static/card.png"].startswith(b"\x89PNG")
    for key in (key for key in files if key.endswith(".html") and key != "404.html"):
        page = Page(files[key].decode())
        said = {meta["property"]: meta["content"] for meta in page.all("meta") if "property" in meta}
        [description] = [meta["content"] for meta in page.all("meta") if meta.get("name") == "description"]
        [canonical] = [link["href"] for link in page.all("link") if link["rel"] == "canonical"]
        address = f"{url}/{'' if key == 'index.html' else key}"
        assert (address, address, f"{url}/static/card.png") == (canonical, said["og:url"], said["og:image"])
        assert description == said["og:description"]
        assert said["og:title"].removesuffix(" (local)") in page.text
        assert "website" == said["og:type"]
    assert f'<span class="base">{url}</span>' in files["data.html"].decode()


def test_a_map_of_the_site_lists_each_page_where_the_address_is_known() -> None:
    """With a public URL, `sitemap.xml` has the canonical address of each page once, the overview's first."""
    token = next(token.address for token in identified_tokens("mainnet").values() if token.code == "USDC")
    tables = tables_of([pool_row(0, 0, token_address=token, symbol="USDC")])
    files = {file.key: file.data for file in site_files(tables, network=MAINNET, public_url="https://a.example/b&c")}
    urls = [entry.text for entry in ElementTree.fromstring(files["sitemap.xml"]).iter(f"{SITE_MAP_SPACE}loc")]
    pages = [Page(data.decode()) for key, data in files.items() if key.endswith(".html") and key != "404.html"]
    canonical = {link["href"] for page in pages for link in page.all("link") if link["rel"] == "canonical"}

    assert "tokens/USDC.html" in files
    assert "https://a.example/b&c/" == urls[0]
    assert (len(canonical), canonical) == (len(urls), set(urls))
    assert len(pages) - 1 == len(urls)
    assert "sitemap.xml" not in {file.key for file in site_files(tables, network=MAINNET)}
    many = site_map("https://a.example", [f"{number}.html" for number in range(MAX_SITE_MAP + 1)])
    assert MAX_SITE_MAP == many.data.count(b"<loc>")


def test_the_symbol_of_an_identified_token_leads_to_its_page() -> None:
    """A page named by a symbol leads to the one identified token of it, in any case; there is none for several."""
    identified = {token.address: token.who for token in identified_tokens("mainnet").values() if token.code != "native"}
    first, *_ = others = list(identified)[:5]
    symbols = ["USDC", "EURC", "eurc", "../x", contract(3)]
    rows = [
        *(pool_row(0, at, token_address=token, symbol=symbols[at]) for at, token in enumerate(others)),
        pool_row(0, 5, symbol="USDC"),
        pool_row(0, 6, symbol="NONE"),
    ]
    for url, target in ((None, f"../tokens/{first}.html"), ("https://a.example", None)):
        files = site_of(tables_of(rows), network=MAINNET, public_url=url)
        named = {key for key in files if re.fullmatch(r"tokens/(?!C.{55}\.html).*", key)}
        page = Page(files["tokens/USDC.html"])
        refresh = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "refresh"]

        assert {"tokens/USDC.html"} == named
        assert [f"0; url=../tokens/{first}.html"] == refresh
        [canonical] = [link["href"] for link in page.all("link") if link["rel"] == "canonical"]
        assert canonical == (target or f"https://a.example/tokens/{first}.html")
        assert f"that of {identified[first]}" in page.text


def test_no_cap_is_not_shown_as_a_number() -> None:
    """A parameter that limits nothing is shown as no limit, with the number behind it."""
    tables = tables_of([pool_row(0, 0)])
    place = PoolKey(contract(100), contract(10_000))
    tables.parameters[place] = (Parameter("supply_cap", 2**127 - 1, 7, no_limit=True), Parameter("c_factor", 75, 2))
    text = site_of(tables)[f"pools/{place.market}/{place.pool}.html"]

    assert ">no limit</dd>" in text
    assert 1 == text.count("17,014,118,346,046,923,173,168,730,371,588.4105727")
    assert ">0.75</dd>" in text


def test_a_yield_says_whether_it_is_compounded() -> None:
    """The page of a pool says how its yields follow from the rates, and so does the text about its protocol."""
    site = site_of(tables_of([pool_row(0, 0), pool_row(1, 1, protocol="slender")]))
    blend, slender = (Page(site[f"pools/{contract(100 + at)}/{contract(10_000 + at)}.html"]).text for at in (0, 1))

    assert "3.20\N{NARROW NO-BREAK SPACE}%, compounded 52 times a year" in blend
    assert "5.12\N{NARROW NO-BREAK SPACE}%, compounded 365 times a year" in blend
    assert "3.20\N{NARROW NO-BREAK SPACE}%, not compounded" in slender
    assert "supply: compounded 52 times a year; borrow: compounded 365 times a year" in Page(site["about.html"]).text
    assert "1 markets" not in Page(site["about.html"]).text


def test_the_digests_of_the_verifier_are_shown() -> None:
    """The page says which program and list check a proof, by their digests, and where to take them from."""
    about = site_of(tables_of([pool_row(0, 0)]), network=MAINNET)["about.html"]

    assert ["stellar_proof.py", "trusted/mainnet.json"] == list(checker_digests("mainnet"))
    for digest in checker_digests("mainnet").values():
        assert f"<code>{digest}</code>" in about
    assert "from the release, not with the copies on this site" in about


def test_a_network_without_lists_says_that_nothing_is_ranked() -> None:
    """If no list comes with the exporter and no market is configured, no pool is offered, and the page says why."""
    unlisted = {"listed": False, "listed_reason": "not_listed"}
    site = site_of(tables_of([pool_row(0, 0, **unlisted), pool_row(1, 1, **unlisted)]), network="A network of mine")
    page = Page(site["index.html"]).text

    assert "No market is listed, so none is ranked: no list of this network comes with the exporter" in page
    assert "No number here includes 2 markets that are not listed" in page
    assert 'class="list offers"' not in site["index.html"]
    assert "Not listed: anybody can create such a market" in site[POOL]


def test_unlisted_markets_come_last_and_are_in_no_sum() -> None:
    """Whatever it says it is worth: on the lists it is below every listed one, and marked."""
    own = {"listed": False, "listed_reason": "not_listed", "tvl_usd_cents": 10**15, "symbol": "MINE"}
    site = site_of(tables_of([pool_row(0, 0), pool_row(1, 1, **own)]))

    for name in ("markets", "pools"):
        text = site[f"{name}.html"]
        assert text.index("Market 0") < min(text.index("Market 1"), text.index("anybody can create"))
    assert "$1.00M" in site["index.html"]
    assert "MINE" not in site["index.html"]
    assert "their 1 pool with a price is worth $10.0T" in site["index.html"].replace("\N{NARROW NO-BREAK SPACE}", " ")


def test_a_sum_says_of_how_many_pools_it_is() -> None:
    """If one pool of three could be read, the market's page says that its value is that of one pool."""
    unread = [Unread(contract(100), contract(9 + number), "blend", "archived", "it is") for number in range(2)]
    site = site_of(tables_of([pool_row(0, 0)], unread))

    for key in ("index.html", f"markets/{contract(100)}.html"):
        assert "(1 of 3 pools)" in site[key]
    assert "(1 in the sums; 2 unread)" in site["markets.html"]


def test_a_rate_has_one_value_on_a_page() -> None:
    """Headline, chart, table and mean are compounded daily; the protocol's own yield is there once, by its name."""
    own = {"supply_apy_bps": 2111, "comparable_supply_apy_bps": 2333, "total_supply_apy_bps": 2333}
    tables = tables_of([pool_row(0, 0, **own)])
    series = series_of(tables, 200)
    page = Page(site_of(tables, series)[POOL]).text.replace("\N{NARROW NO-BREAK SPACE}", " ")

    assert 1 == page.count("21.11 %")
    assert "Supply APY as Blend shows it21.11 %" in page
    assert "23.33 %" in page
    assert "21.1 %" not in page


def test_what_was_paid_is_shown_once_it_is_known() -> None:
    """A row for each side has the realized yields of a day, a week and 30 days; before, a sentence stands there."""
    tables = tables_of([pool_row(0, 0, supply_index=10**9, index_decimals=9)])
    none, some = (Page(site_of(tables, series_of(tables, runs))[POOL]).text for runs in (2, 40))

    assert "What a deposit earned and a loan cost appears here" in none
    assert "Suppliers earned" in some
    assert "24 hours: from 17 Nov 2026, 09:00 UTC to 18 Nov 2026, 09:00 UTC." in " ".join(some.split())
    missed = "7 days: not known, because no run saw the pool at their start or in the 42 hours before it"
    assert missed in " ".join(some.split())
    # The head has the longest of the three that is known.
    assert (0, 1) == tuple(page.count("APY paid, 24 hours") for page in (none, some))
    assert "APY paid, 7 days" not in some
    assert "too short to say what a deposit" not in some


def test_the_head_of_a_pool_says_what_it_paid_whose_token_it_is_and_where_the_rest_is() -> None:
    """Nobody scrolls for the yield of the last month or for the issuer, and each link leads to a part of the page."""
    circle = next(token for token in identified_tokens("mainnet").values() if token.who == "Circle")
    rows = [pool_row(0, 0, token_address=circle.address, symbol="USDC"), pool_row(0, 1, symbol="FAKE")]
    site = site_of(tables := tables_of(rows), series_of(tables, 40, 86_400), network=MAINNET)
    known, unknown = (site[f"pools/{row['market']}/{row['pool']}.html"] for row in rows)
    head = Page(known[: known.index('id="now"')]).text

    assert "USDC is the token of Circle, circle.com." in head
    assert "APY paid, 30 days" in head
    assert 1 == head.count("APY paid")
    assert "which is not on the list of identified tokens" in Page(unknown[: unknown.index('id="now"')]).text
    own = [link["href"].removeprefix("#") for link in Page(known).all("a") if link["href"].startswith("#")]
    assert set(own) <= set(re.findall(r' id="([^"]+)"', known))
    assert {"now", "risk", "paid", "over-time", "facts"} <= set(own)
    assert "APY paid, 30 days" not in site_of(tables)[f"pools/{rows[0]['market']}/{rows[0]['pool']}.html"]


def test_the_data_page_begins_with_the_files_to_take(site: dict[str, str], project_root: Path) -> None:
    """First the three URLs, then the lines of the first plot, which docs/history.md has too, then what exists.

    It links to no file that compaction removes.
    """
    text, page = site["data.html"], Page(site["data.html"]).text
    files = ("v1/latest.parquet", "history/daily.parquet", "history/hourly.parquet")
    places = [text.index(f'<dt><a href="{file}"') for file in files]
    docs = (project_root / "docs" / "history.md").read_text("utf-8")

    assert sorted(places) == places
    assert places[-1] < text.index("Five lines to the first plot") < text.index("What exists now")
    for lines in first_plot().values():
        circle = lines.replace(PLACEHOLDER, EXAMPLE_BASE)
        assert circle.replace(TOKEN_PLACEHOLDER, "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75") in docs
        assert circle.replace(TOKEN_PLACEHOLDER, contract(10_001)) in page
    links = [link for link in re.findall(r'href="([^"]+)"', text) if link.endswith(".parquet")]
    assert set(files) == set(links)


def change(kind: str, before: str | None, after: str | None, unit: str | None = None, **other: Any) -> RunChange:
    """A change of the pool of the first market, as the document of changes has it."""
    return RunChange(
        id="urn:uuid:00000000-0000-0000-0000-000000000000",
        kind=kind,
        market=contract(100),
        pool=other.get("pool", contract(10_000)),
        listed=other.get("listed", True),
        title=f"TOK0 in Market 0: {kind}",
        before=before,
        after=after,
        unit=unit,
        takes_effect=None,
        observed_ledger=other.get("ledger", LEDGER),
        ledger_close_time="2026-11-18T10:00:00Z",
        previous_ledger=LEDGER - 1,
    )


def test_changes_are_said_with_both_values() -> None:
    """A change has both values in units for people; the newest five are on the overview and the market's page."""
    changes = [
        change("utilization", "9400", "9523", "basis_points"),
        change("price", None, "1.25", "usd"),
        change("supply_cap", "1000", "none", "base_units"),
        change("code", "ab" * 32, "cd" * 32, pool=None),
        change("status", "on_ice", "active"),
        change("supply_rate", "100", "900", "basis_points"),
        change("new_market", None, "active", listed=False),
        change("configuration", "2" * 16, "3" * 16, pool=None),
        change("configuration", "0" * 16, "1" * 16, pool=None, ledger=LEDGER - 1),
    ]
    site = site_of(tables_of([pool_row(0, 0, decimals=2)]), changes=changes)
    text = Page(site["changes.html"]).text.replace("\N{NARROW NO-BREAK SPACE}", " ")

    for said in (
        "utilization, from 94.00 % to 95.23 %",
        "price, now $1.25",
        "supply_cap, from 10 to no cap",
        "code, from abab…abab to cdcd…cdcd",
        "configuration, in a part that the exporter does not show as a parameter",
    ):
        assert said in text
    assert 1 == text.count("configuration, in a part"), "a status that changed explains the other one"
    digests = f"</summary>its digest: from {'0' * 16} to {'1' * 16}</details>"
    assert digests in site["changes.html"], "digests are there for whoever opens them"
    assert "from on ice to active" not in text, "the title of a new status has both values already"
    assert "new_market" not in text
    for key in ("index.html", f"markets/{contract(100)}.html"):
        own = Page(site[key]).text
        assert [True] * 5 + [False] == [f"Market 0: {kind.kind}" in own for kind in changes[:6]]
    assert f'href="pools/{contract(100)}/{contract(10_000)}.html">TOK0 in Market 0: utilization' in site["changes.html"]
    unchanged = site_of(tables_of([pool_row(0, 0)]))
    assert "no run since the first has found a change" in unchanged["changes.html"]
    pool = f"pools/{contract(100)}/{contract(10_000)}.html"
    for pages, link in ((site, f"markets/{contract(100)}.html#changed"), (unchanged, "changes.html")):
        assert f'<a href="../../{link}">What changed</a></nav>' in pages[pool], "its market's changes, if it has any"


def test_every_page_has_a_description_of_its_own(site: dict[str, str]) -> None:
    """Title and description of no two pages are equal; that of a pool says what it pays and costs."""
    heads = [
        (re.findall("<title>(.*?)</title>", text), re.findall('name="description" content="(.*?)"', text))
        for key, text in site.items()
        if key.endswith(".html")
    ]
    for which in (0, 1):
        said = [part for head in heads for part in head[which]]
        assert len(heads) == len(said) == len(set(said))
    pool = unescape(site[POOL]).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "XLM in Market 0 (Blend): suppliers get 3.20 %, borrowers pay 5.12 % a year; $1.00M in the pool." in pool


def test_an_insolvent_pool_is_marked_wherever_it_is_named_and_is_never_the_best() -> None:
    """An insolvent pool's page, and every table of its market, its token and all pools and markets, have the mark."""
    supplied = {"total_supplied": 10**13, "token_address": contract(9), "symbol": "AAA"}
    sound = pool_row(0, 0, **supplied, total_supply_apy_bps=100, comparable_borrow_apy_bps=900)
    short = pool_row(1, 1, **supplied, total_supply_apy_bps=900, comparable_borrow_apy_bps=100, shortfall=10**9)
    pages = site_of(tables_of([sound, short]))
    market, pool = short["market"], short["pool"]

    marked = {key for key, page in pages.items() if 'class="status insolvent"' in page}
    tables = {"pools.html", "markets.html", "index.html"}
    own = {f"pools/{market}/{pool}.html", f"markets/{market}.html", f"tokens/{contract(9)}.html"}
    assert tables | own == marked
    offers = re.search(r'<section class="first".*?<section aria-labelledby="network">', pages["index.html"], re.DOTALL)
    assert offers is not None
    assert pool not in offers[0]


@pytest.mark.parametrize(
    ("shortfall", "said", "never"),
    [(10**9, "insolvent, short by 100 AAA", "rounding"), (1, "short by 0.0000001 AAA", "insolvent, short")],
)
def test_what_an_insolvent_pool_lacks_is_next_to_the_word(shortfall: int, said: str, never: str) -> None:
    """Wherever the mark is, the amount is; what rounding explains is not called insolvent."""
    short = pool_row(1, 1, symbol="AAA", decimals=7, total_supplied=10**13, shortfall=shortfall)
    pages = site_of(tables_of([pool_row(0, 0), short]))
    marks = {key: re.findall(r'class="status insolvent"[^>]*>([^<]*)<', page) for key, page in pages.items()}
    own = Page(pages[f"pools/{short['market']}/{short['pool']}.html"]).text

    assert {said} == {mark for found in marks.values() for mark in found}
    assert said.rpartition("by ")[2] in own
    assert never not in own
    two = site_of(tables_of([short, pool_row(1, 2, decimals=7, total_supplied=10**13, shortfall=shortfall)]))
    assert ("2 insolvent pools" if shortfall > 1 else "2 pools short by a rounding") in two["markets.html"]


def test_what_is_not_known_of_a_pool_is_not_said_to_be_sound() -> None:
    """Of a pool whose tokens were not counted, no page says that what lenders are owed is there, or that it is not."""
    unknown = pool_row(0, 0, shortfall=None)
    pages = site_of(tables_of([unknown]))
    for key in (f"pools/{unknown['market']}/{unknown['pool']}.html", f"markets/{unknown['market']}.html"):
        [answer] = re.findall(r"Is what lenders are owed there\?</dt><dd[^>]*>(.*?)</dd>", pages[key])
        assert answer.startswith("Not known")
        assert "was not read" in answer
    assert not [key for key, page in pages.items() if "solvent," in page.replace("not known to be insolvent,", "")]


def test_a_token_says_why_a_pool_comes_after_those_that_count() -> None:
    """A higher yield that does not count stands below, with a badge that says why."""
    token = {"token_address": contract(9), "symbol": "AAA"}
    rows = [
        pool_row(0, 0, **token, total_supply_apy_bps=100),
        pool_row(1, 1, **token, total_supply_apy_bps=900, tvl_usd_cents=99_999),
        pool_row(2, 2, **token, total_supply_apy_bps=800, available_to_supply_usd_cents=5),
    ]
    page = site_of(tables_of(rows))[f"tokens/{contract(9)}.html"]
    own = re.findall(r'<tr[^>]*><th scope="row">.*?</tr>', page, re.DOTALL)[:3]

    assert ["Market 0", "Market 1", "Market 2"] == [
        name for row in own for name in re.findall(r"<bdi>(Market \d)", row)
    ]
    assert [False, True, False] == ["under $1,000" in row for row in own]
    assert [False, False, True] == ["no room" in row for row in own]
