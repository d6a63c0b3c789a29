"""The web site in Chromium, as people meet it: with a mouse, with a keyboard, on a phone, without JavaScript."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from exporter.render.site.templates import MISSING_KEY
from exporter.tree.families import STATUS_KEY
from tests.render.site.browser.visits import SIZES, go, kinds_of, opened, pages_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("playwright") is None, reason="Playwright for Python is not installed"),
    pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed"),
]

LATE = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)


def column(page: Page, table: str, number: int) -> list[str]:
    rows: list[str] = page.eval_on_selector_all(
        f"{table} tbody tr:not([hidden])",
        "(rows, n) => rows.map((row) => row.cells[n].dataset.value ?? row.cells[n].textContent.trim())",
        number,
    )
    return rows


def test_every_page_loads_without_a_complaint(browser: Browser, tree: Path, url: str) -> None:
    """No page logs to the console, fails a request, or breaks a rule of its own content security policy."""
    with opened(browser) as (page, wrong):
        for key in pages_of(tree):
            go(page, f"{url}/{key}")
            assert 1 == page.locator("h1").count()

        assert [] == wrong


def test_pages_work_from_a_file(browser: Browser, tree: Path) -> None:
    """The very files of the tree, opened without any server, have their style and complain about nothing."""
    with opened(browser) as (page, wrong):
        page.goto((tree / "index.html").as_uri())
        with page.expect_navigation():
            page.click("table.offers tbody th a")

        assert "none" == page.eval_on_selector(".bar ul", "(list) => getComputedStyle(list).listStyleType")
        assert [] == wrong


def test_the_data_page_leads_to_files_that_stay(browser: Browser, url: str) -> None:
    """Every Parquet file that the page of downloads leads to is there, and none is one that compaction removes."""
    with opened(browser) as (page, wrong):
        page.goto(f"{url}/data.html")
        links = page.eval_on_selector_all("a[href$='.parquet']", "(links) => links.map((link) => link.href)")

        assert f"{url}/v1/latest.parquet" in links
        assert [] == [link for link in links if "/history/pools/" in link]
        assert {200} == {httpx.get(link).status_code for link in links}
        assert {url} == set(page.eval_on_selector_all(".base", "(places) => places.map((place) => place.textContent)"))
        assert [] == wrong


def test_tables_sort_by_exact_values_with_the_keyboard(browser: Browser, made_url: str) -> None:
    """A head is a button: it sorts from the greatest, then from the least, by the exact value, and says so."""
    with opened(browser) as (page, _):
        page.goto(f"{made_url}/many/pools.html")
        before = [int(value) for value in column(page, "table.list", 2)]
        button = page.get_by_role("button", name="Supply APY")
        button.focus()
        page.keyboard.press("Enter")
        falling = [int(value) for value in column(page, "table.list", 2)]
        first = page.locator("th[aria-sort]").get_attribute("aria-sort")
        page.keyboard.press("Space")
        rising = [int(value) for value in column(page, "table.list", 2)]

        assert (sorted(before, reverse=True), sorted(before)) == (falling, rising)
        assert before not in (falling, rising)
        assert ("descending", "ascending") == (first, page.locator("th[aria-sort]").get_attribute("aria-sort"))


def test_what_has_no_value_sorts_last(browser: Browser, url: str) -> None:
    """Pools without a price are last, whichever way the table is sorted."""
    with opened(browser) as (page, _):
        page.goto(f"{url}/pools.html")
        for _ in range(2):
            page.get_by_role("button", name="Supplied").click()
            values = column(page, "table.list", 5)
            known = [value for value in values if value]
            assert values == known + [""] * (len(values) - len(known))
            assert 0 < len(known) < len(values)


def test_tables_filter_by_name_and_address(browser: Browser, made_url: str) -> None:
    """The field hides the rows that do not have all words, counts what is left, and finds addresses, too."""
    with opened(browser) as (page, _):
        page.goto(f"{made_url}/many/pools.html")
        field = page.locator(".tools input")
        field.fill("tok7 market")
        names = set(column(page, "table.list", 0))
        assert "#pools=tok7+market" == page.evaluate("location.hash")
        page.reload()
        assert names == set(column(page, "table.list", 0))
        tally = page.locator(".tools [role=status]").text_content()
        address = page.eval_on_selector("table.list tbody a", "(link) => link.href.split('/').pop().split('.')[0]")
        field.fill(address)

        assert {True} == {name.startswith("TOK7 not on the list") for name in names}
        assert (tally or "").endswith(" of 100")
        assert 1 == len(column(page, "table.list", 0))


@pytest.mark.parametrize("width", SIZES)
def test_one_search_finds_markets_tokens_and_pools(browser: Browser, url: str, width: int) -> None:
    """The search looks in all lists at once, by name, protocol or address; a hit leads to its page."""
    with opened(browser, viewport={"width": width, "height": SIZES[width]}) as (page, wrong):
        page.goto(f"{url}/about.html")
        field = page.get_by_role("searchbox", name="Search markets, tokens, pools and the API")
        field.fill("usdc")
        page.wait_for_selector(".found li")
        kinds = {text.split()[1] for text in page.locator(".found li").all_inner_texts()}
        field.fill("Pool usdc blend")
        page.wait_for_selector(".found:not(:has(:text('token')))")
        hits = page.locator(".found li").all_inner_texts()
        page.locator(".found a").first.click()
        page.wait_for_selector("h1 .of")

        page.goto(f"{url}/about.html")
        field.fill("pool usdc")
        page.wait_for_selector(".found li:nth-child(2)")
        page.wait_for_load_state("networkidle")
        hrefs = page.eval_on_selector_all(".found a", "(links) => links.map((link) => link.href)")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowUp")
        assert hrefs[0] == page.evaluate("document.activeElement.href")
        field.press("Enter")
        page.wait_for_url(hrefs[0])
        assert kinds >= {"token", "pool"}
        assert "USDC pool in " in hits[0]
        assert hits[0].replace(" pool in ", " in ") == page.locator("h1").inner_text()
        assert [] == wrong


def test_a_mistyped_address_is_searched_for(browser: Browser, tree: Path, url: str) -> None:
    """A symbol in another case leads to its token in one tap; where nothing is found, nothing is shown."""
    [symbol, *_] = json.loads((tree / "v1/tokens.json").read_bytes())["data"]
    with opened(browser) as (page, _):
        page.goto(f"{url}/tokens/{symbol['symbol'].lower()}.html")
        page.wait_for_selector(f"main .found a[href='/tokens/{symbol['address']}.html']")
        page.goto(f"{url}/tokens/nothing-of-this-name.html")
        page.wait_for_load_state("networkidle")
        assert page.locator(".found").is_hidden()
        page.get_by_role("searchbox").press("End")
        page.get_by_role("searchbox").type("x")
        page.wait_for_selector("main .found:has-text('0 found')")


def test_the_search_reads_every_page_of_pools(browser: Browser, tree: Path, url: str) -> None:
    """If the list of pools has several pages, the search finds a pool of the last one."""
    first = json.loads((tree / "v1/pools/index.json").read_bytes())
    *others, last = first["data"]
    cursor = "a" * 32
    documents = {
        f"{url}/v1/pools/index.json": first | {"data": others, "next_cursor": cursor},
        f"{url}/v1/pool-pages/{cursor}.json": first | {"data": [last]},
    }
    with opened(browser) as (page, wrong):
        for address in documents:
            page.route(address, lambda route: route.fulfill(json=documents[route.request.url]))
        page.goto(f"{url}/about.html")
        page.get_by_role("searchbox").fill(last["pool"])
        page.wait_for_selector(f".found a[href='pools/{last['market']}/{last['pool']}.html']")
        assert [] == wrong


def test_the_search_finds_operations_and_says_a_protocol_once(browser: Browser, url: str) -> None:
    """An operation of the API is found by what it gives; a market with its protocol's name says that once."""
    with opened(browser) as (page, wrong):
        page.goto(f"{url}/about.html")
        field = page.get_by_role("searchbox")
        field.fill("operation history pool")
        page.wait_for_selector(".found a[href^='api-assets.html#']")
        assert "/v1/assets/{market}/{pool}/history operation The history of one pool in buckets" in {
            " ".join(text.split()) for text in page.locator(".found li").all_inner_texts()
        }
        page.locator(".found a").first.click()
        page.wait_for_url("**/api-assets.html#*")
        page.goto(f"{url}/about.html")
        field.fill("market")
        page.wait_for_selector(".found li:has-text('peridot')")
        shown = [" ".join(text.split()) for text in page.locator(".found li").all_inner_texts()]
        assert "Peridot market" in shown
        assert "Fixed XLM-USDC market of Blend" in shown
        assert [] == wrong


def test_charts_show_what_is_pointed_at_and_a_range(browser: Browser, made_url: str) -> None:
    """Pointing at a chart shows the date and the values of its table there; ranges fit both axes to what is shown."""
    with opened(browser, viewport={"width": 1280, "height": 900}) as (page, wrong):
        page.goto(f"{made_url}/days/index.html")
        plot, line = page.locator(".charts svg.plot").first, page.locator(".charts .line").first
        whole = line.get_attribute("d")
        legend = page.locator(".charts .legend").first
        now = legend.inner_text()
        plot.hover(position={"x": 60, "y": 60})
        when, shown = plot.locator(".when").text_content(), legend.locator("b").all_inner_texts()
        rows = page.locator(".charts .data tbody tr").all_text_contents()
        page.mouse.move(0, 0)

        assert [True] == [all(text in row for text in shown) for row in rows if row.startswith(when or "none")]
        assert now == legend.inner_text()
        page.get_by_role("button", name="7 d").click()
        assert whole != line.get_attribute("d")
        cells = ".charts .data td:nth-child(2)"
        page.eval_on_selector_all(cells, "(cells) => cells.forEach((cell) => { cell.textContent = '$4.00'; })")
        page.get_by_role("button", name="7 d").click()
        ticks = page.locator("svg.plot").first.locator(".ticks.y text")
        assert ["$0", "$1", "$2", "$3", "$4"] == ticks.all_text_contents()
        page.get_by_role("button", name="all").click()
        assert whole == line.get_attribute("d")
        assert [] == wrong


def test_the_order_of_a_table_is_in_the_address(browser: Browser, made_url: str) -> None:
    """A sorted table has the same order after a reload, next to its filter; another fragment names no order."""
    with opened(browser) as (page, wrong):
        page.goto(f"{made_url}/many/pools.html")
        before = column(page, "table.list", 2)
        page.locator(".tools input").fill("market 7")
        for _ in range(2):
            page.get_by_role("button", name="Supply APY").click()
        rising = column(page, "table.list", 2)
        assert "#pools=market+7&sort-pools=2.ascending" == page.evaluate("location.hash")
        page.reload()

        assert rising == column(page, "table.list", 2) == sorted(rising, key=int)
        assert "ascending" == page.locator("th[aria-sort]").get_attribute("aria-sort")
        for fragment in ("sort-pools=9.ascending", "sort-pools=2.sideways", "sort-tokens=2.ascending"):
            page.goto("about:blank")
            page.goto(f"{made_url}/many/pools.html#{fragment}")
            page.wait_for_selector("button.sort")
            assert before == column(page, "table.list", 2), fragment
        assert [] == wrong


def test_a_tapped_value_stays_until_a_tap_elsewhere(browser: Browser, made_url: str) -> None:
    """A finger shows the values at a date when it is lifted, too; a tap beside the chart brings the last ones back."""
    with opened(browser, viewport={"width": 390, "height": 844}, has_touch=True) as (page, wrong):
        page.goto(f"{made_url}/days/index.html")
        plot = page.locator(".charts svg.plot").first
        figure = page.locator(".charts .chart").first
        now = figure.locator(".legend").inner_text()
        plot.tap(position={"x": 60, "y": 60})
        page.wait_for_timeout(100)
        shown = figure.locator(".legend").inner_text()

        assert shown != now
        assert plot.locator(".when").is_visible()
        first = plot.locator(".when").text_content()
        plot.tap(position={"x": 200, "y": 60})
        assert first != plot.locator(".when").text_content()
        page.locator("h1").tap()
        assert now == figure.locator(".legend").inner_text()
        assert not plot.locator(".when").is_visible()
        assert [] == wrong


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_labels_of_charts_have_one_size(browser: Browser, tree: Path, url: str, width: int) -> None:
    """Labels of all charts are 11 to 14 pixels high, however wide a chart is, and none is outside of the page."""
    kinds = kinds_of(tree)
    sizes: set[float] = set()
    with opened(browser, viewport={"width": width, "height": 900}) as (page, _):
        for name in ("index", "market", "pool", "token"):
            page.goto(f"{url}/{kinds[name]}")
            sizes |= set(
                page.eval_on_selector_all(
                    "svg.plot .ticks text",
                    "(texts) => texts.map((text) => parseFloat(getComputedStyle(text).fontSize)"
                    " * text.ownerSVGElement.getBoundingClientRect().width / 720)",
                )
            )
            assert 0 == page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert 11 <= min(sizes) <= max(sizes) <= 14, sorted(sizes)


@pytest.mark.parametrize("width", [320, 390])
def test_the_menu_is_one_row_and_the_search_says_what_it_is(browser: Browser, url: str, width: int) -> None:
    """On the narrowest phones, too, the menu is one row and the placeholder of the search is not cut."""
    with opened(browser, viewport={"width": width, "height": 700}) as (page, _):
        page.goto(f"{url}/index.html")
        tops = page.eval_on_selector_all(".bar li", "(items) => items.map((item) => item.getBoundingClientRect().top)")
        room, needed = page.eval_on_selector(
            ".find input",
            "(field) => { const style = getComputedStyle(field); const pen = document.createElement('canvas')"
            ".getContext('2d'); pen.font = style.font; return [field.clientWidth - parseFloat(style.paddingLeft)"
            " - parseFloat(style.paddingRight), pen.measureText(field.placeholder).width]; }",
        )

        assert 7 == len(tops)
        assert 1 == len(set(tops))
        assert needed <= room


def test_a_link_into_the_reference_opens_what_it_leads_to(browser: Browser, url: str) -> None:
    """A document of the reference is folded; its anchor opens it, from the index, from the page and from outside."""
    with opened(browser) as (page, wrong):
        page.goto(f"{url}/api-assets.html")
        assert not page.locator("#PoolRow").is_visible()
        page.locator('nav a[href="#PoolRow"]').click()
        page.locator("#PoolRow").wait_for(state="visible")
        page.goto(f"{url}/api.html")
        page.locator('a[href="api-markets.html#TotalsBucket"]').click()
        page.locator("#TotalsBucket").wait_for(state="visible")
        assert [] == wrong


def test_a_printed_page_is_black_on_white(browser: Browser, tree: Path, url: str) -> None:
    """In any theme a page is printed with dark text, a banner that can be read, visible links, and no controls."""
    colour = "(element, name) => getComputedStyle(element)[name]"
    with opened(browser, color_scheme="dark") as (page, _):
        for chosen in (None, "dark"):
            page.goto(f"{url}/{kinds_of(tree)['pool']}")
            if chosen:
                page.evaluate("document.documentElement.dataset.theme = 'dark'")
            page.emulate_media(media="print", color_scheme="dark")
            assert "rgb(255, 255, 255)" == page.eval_on_selector("body", colour, "backgroundColor")
            for selector in ("body", ".elsewhere", "h1"):
                assert "rgb(0, 0, 0)" == page.eval_on_selector(selector, colour, "color")
            assert "underline" in page.eval_on_selector(".crumbs a", colour, "textDecorationLine")
            assert 0 == page.locator(".theme:visible, .find:visible, .ranges:visible, .copy:visible").count()
            page.emulate_media(media="screen", color_scheme="dark")


def test_the_theme_can_be_switched_and_stays(browser: Browser, url: str) -> None:
    """The button switches the theme, and the next page has it from the start."""
    with opened(browser, color_scheme="light") as (page, _):
        page.goto(f"{url}/index.html")
        light = page.eval_on_selector("body", "(body) => getComputedStyle(body).backgroundColor")
        page.get_by_role("button", name="Dark").click()
        dark = page.eval_on_selector("body", "(body) => getComputedStyle(body).backgroundColor")
        page.goto(f"{url}/about.html")

        assert light != dark
        assert dark == page.eval_on_selector("body", "(body) => getComputedStyle(body).backgroundColor")
        assert page.get_by_role("button", name="Light").is_visible()


def test_freshness_follows_the_clock(browser: Browser, url: str) -> None:
    """Before the next run is due the age is shown; after it a banner says since when the numbers are stale."""
    with opened(browser) as (page, _):
        go(page, f"{url}/index.html")
        assert "ago" in (page.locator(".age").text_content() or "")
        assert 0 == page.locator("#stale").count()

        page.clock.set_fixed_time(LATE)
        go(page, f"{url}/index.html")
        assert "stale: the next run was due 2 hours ago" in (page.locator("#stale").text_content() or "")


def test_the_banner_is_below_everything(browser: Browser, url: str) -> None:
    """It ends a short page at the foot of the window, and never covers what the keyboard has reached."""
    with opened(browser, LATE, reduced_motion="reduce") as (page, _):
        go(page, f"{url}/tokens/USDC.html")
        assert page.evaluate("innerHeight === document.getElementById('stale').getBoundingClientRect().bottom")

        go(page, f"{url}/data.html")
        for _ in range(40):
            page.keyboard.press("Tab")
            covered = page.evaluate(
                """() => {
                    const at = document.activeElement.getBoundingClientRect();
                    const banner = document.getElementById("stale").getBoundingClientRect();
                    return at.height < banner.top && at.bottom > banner.top && at.top < banner.bottom;
                }"""
            )
            assert not covered, page.evaluate("document.activeElement.outerHTML")


def test_without_a_promise_a_day_is_the_limit(browser: Browser, url: str) -> None:
    """If the status does not say when the next run is due, numbers older than a day are stale."""
    with opened(browser) as (page, _):
        go(page, f"{url}/index.html")
        closed = datetime.fromisoformat(page.locator("time").first.get_attribute("datetime") or "")
        page.route("**/v1/system/status.json", lambda route: route.abort())
        page.clock.set_fixed_time(closed + timedelta(hours=2))
        go(page, f"{url}/index.html")
        assert 0 == page.locator("#stale").count()

        page.clock.set_fixed_time(closed + timedelta(days=679))
        go(page, f"{url}/index.html")
        assert "stale: they are 679 days old" in (page.locator("#stale").text_content() or "")


@pytest.mark.parametrize(("later", "offered"), [(300, False), (301, True)])
def test_a_much_newer_run_is_offered(browser: Browser, tree: Path, url: str, later: int, offered: bool) -> None:
    """A page that a cache kept offers the newer one; runs may keep pages of up to 300 ledgers before on purpose."""
    status = json.loads((tree / STATUS_KEY).read_bytes())
    newer = json.dumps(status | {"observed_ledger": status["observed_ledger"] + later})
    with opened(browser) as (page, _):
        page.route(f"**/{STATUS_KEY}", lambda route: route.fulfill(body=newer, content_type="application/json"))
        go(page, f"{url}/index.html")

        assert offered is (1 == page.get_by_text("A newer run is there.").count())


def test_without_javascript_everything_is_there(browser: Browser, tree: Path, url: str) -> None:
    """Numbers, charts, tables and times need no script, and there is no control that would do nothing."""
    kinds = kinds_of(tree)
    with opened(browser, java_script_enabled=False) as (page, wrong):
        page.goto(f"{url}/index.html")
        assert page.locator("table.offers tbody tr").count() > 5
        assert (
            "21 Nov 2026" in (page.locator("#fresh time").text_content() or "") or page.locator("#fresh time").count()
        )
        assert 0 == page.locator("button, input").count()
        page.goto(f"{url}/{kinds['pool']}")
        assert 3 == page.locator(".charts svg.plot").count()
        page.locator("details.data summary").click()
        assert page.locator("details.data tbody tr").first.is_visible()
        assert [] == wrong


@pytest.mark.parametrize(
    ("missing", "root"), [("pools/C/usdc.html", ""), ("no/markets/C.html", "/no"), ("no.html", "")]
)
def test_a_missing_page_leads_home_from_any_prefix(
    browser: Browser, axe: str, tree: Path, url: str, missing: str, root: str
) -> None:
    """A static host sends 404.html with any address: links, style, icon and search are those of the prefix.

    Its policy allows all of it, and axe finds nothing.
    """
    text = (tree / MISSING_KEY).read_text("utf-8")

    def answer(route: Route) -> None:
        own = route.request.url.removeprefix(f"{url}{root}/")
        if route.request.url == f"{url}/{missing}":
            route.fulfill(body=text, content_type="text/html")
        elif route.request.url.startswith(f"{url}{root}/") and (tree / own).is_file():
            route.fulfill(path=tree / own)
        else:
            route.fulfill(status=404)

    with opened(browser, color_scheme="dark") as (page, wrong):
        page.route(f"{url}/**", answer)
        page.goto(f"{url}/{missing}")
        page.get_by_role("searchbox").fill("usdc")
        page.wait_for_selector(".found li")
        links = page.eval_on_selector_all("nav a, main a:not(.found a)", "(links) => links.map((link) => link.href)")
        found = page.eval_on_selector_all(".found a", "(links) => links.map((link) => link.href)")

        assert f"{url}{root}/" == links[-1]
        assert f"{url}{root}/pools.html" in links
        assert found
        assert all(link.startswith(f"{url}{root}/") for link in found)
        assert "none" == page.eval_on_selector(".bar ul", "(list) => getComputedStyle(list).listStyleType")
        assert [] == wrong
    with opened(browser, color_scheme="dark", bypass_csp=True) as (page, _):
        page.route(f"{url}/**", answer)
        page.goto(f"{url}/{missing}")
        page.get_by_role("searchbox").wait_for()
        page.evaluate(axe)
        assert [] == page.evaluate("axe.run()")["violations"]
