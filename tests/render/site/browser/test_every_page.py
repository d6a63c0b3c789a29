"""Rules for every kind of page: for people who see, who listen, who touch, and who have a narrow screen.

The trees are a recording of all protocols, made pages (without prices, and long lists), and mainnet's real state.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exporter.render.site.templates import MISSING_KEY
from tests.render.site.browser.visits import FRESH, SIZES, kinds_of, moment_of, opened
from tests.served_commands import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("playwright") is None, reason="Playwright for Python is not installed"),
    pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed"),
]

AXE = "axe.run({rules: {'target-size': {enabled: true}}})"
"""All rules of axe-core that are on, and that a target has 24 pixels or as much room (WCAG 2.5.8)."""

SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

BLIND_SCROLLING = """() => [...document.querySelectorAll('.scroll')]
  .filter((box) => box.offsetParent && box.scrollWidth > box.clientWidth + 1 && !box.classList.contains('wide')
    && !box.closest('.data'))
  .map((box) => box.getAttribute('aria-label'))"""
"""Tables that scroll sideways and do not show that they do."""

PROPORTIONAL_ADDRESSES = r"""() => {
  const address = /[CG][A-Z2-7]{55}|[A-Za-z0-9-]{4}…[A-Za-z0-9]{4}(?![A-Za-z0-9])/;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const box = texts.currentNode.parentElement;
    if (!box.closest('script, title, desc') && address.test(texts.currentNode.data)
        && !/mono/i.test(getComputedStyle(box).fontFamily)) found.push(texts.currentNode.data.trim());
  }
  return found;
}"""

CUT_TEXTS = """() => [...document.querySelectorAll('main :is(th, td, dt, dd, a, p, li, h1, h2, h3, button, summary)')]
  .filter((box) => box.checkVisibility() && !box.closest('.scroll, pre, .chips, caption')
    && box.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((box) => box.textContent.trim().slice(0, 60))"""
"""Elements that reach over the right edge of the page, outside of what scrolls."""

OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll('.figure :is(dt, dd), .facts :is(dt, dd), .bar :is(a, input, button)')]
    .filter((box) => box.checkVisibility() && box.textContent.trim() && !box.querySelector('details'));
  const range = document.createRange();
  const areas = boxes.map((box) => { range.selectNodeContents(box); return [box, range.getBoundingClientRect()]; });
  return areas.flatMap(([one, a], index) => areas.slice(index + 1)
    .filter(([other, b]) => !one.contains(other) && a.left < b.right - 1 && b.left < a.right - 1
      && a.top < b.bottom - 1 && b.top < a.bottom - 1)
    .map(([other]) => `${one.textContent} over ${other.textContent}`));
}"""
"""Texts that lie over others."""


@contextmanager
def addresses_of(tree: Path) -> Iterator[dict[str, str]]:
    """The address of a page of each kind of a tree, while it is served."""
    kinds = kinds_of(tree) | {"404": MISSING_KEY, "symbol": "tokens/USDC.html"}
    with serving("serve", "--out", str(tree)) as url:
        yield {name: f"{url}/{key}" for name, key in kinds.items()}


@pytest.fixture(scope="module")
def recorded(tree: Path) -> Iterator[tuple[Mapping[str, str], datetime]]:
    with addresses_of(tree) as addresses:
        yield addresses, FRESH


@pytest.fixture(scope="module")
def mainnet(mainnet_tree: Path) -> Iterator[tuple[Mapping[str, str], datetime]]:
    with addresses_of(mainnet_tree) as addresses:
        yield addresses, moment_of(mainnet_tree)


@pytest.fixture(scope="module")
def made(made_url: str) -> tuple[Mapping[str, str], datetime]:
    lists = {name: f"{made_url}/many/{name}.html" for name in ("markets", "pools", "pools-2", "tokens", "index")}
    return lists | {"empty": f"{made_url}/empty/index.html", "days": f"{made_url}/days/index.html"}, FRESH


def layout_faults(page: Page) -> list[str]:
    """The parts of an open page that are cut, hidden or hard to read."""
    wide = page.evaluate(SIDEWAYS)
    found = [f"{wide} pixels too wide"] if wide else []
    for what, script in (
        ("scrolls without a hint", BLIND_SCROLLING),
        ("address in proportional type", PROPORTIONAL_ADDRESSES),
        ("over the edge", CUT_TEXTS),
        ("overlap", OVERLAPS),
    ):
        found += [f"{what}: {text}" for text in page.evaluate(script)]
    return found


def axe_faults(page: Page, axe: str) -> list[str]:
    """The findings of axe-core on an open page."""
    page.evaluate(axe)
    judged = page.evaluate(AXE)
    return [f"{finding['id']}: {node['html'][:160]}" for finding in judged["violations"] for node in finding["nodes"]]


def stay(route: Route) -> None:
    """Answer with a page, without its leading on to another one at once."""
    answer = route.fetch()
    route.fulfill(response=answer, body=re.sub('<meta http-equiv="refresh"[^>]*>', "", answer.text()))


def faults_of(
    browser: Browser, axe: str, pages: tuple[Mapping[str, str], datetime], width: int, scheme: str
) -> list[str]:
    """The faults of each page, as it opens and with everything unfolded."""
    addresses, now = pages
    found = []
    # The policy of the pages forbids to add a script to them, as it should.
    options = {"viewport": {"width": width, "height": SIZES.get(width, 800)}, "color_scheme": scheme}
    with opened(browser, now, bypass_csp=True, **options) as (page, _):
        page.route("**/tokens/USDC.html", stay)
        for name, address in addresses.items():
            page.goto(address)
            page.wait_for_selector(".theme")
            page.wait_for_load_state("networkidle")
            found += [f"{name}: {fault}" for fault in layout_faults(page)]
            for summary in page.locator("summary:visible").all():
                summary.click()
            found += [f"{name}, unfolded: {fault}" for fault in (*layout_faults(page), *axe_faults(page, axe))]
    return found


@pytest.mark.parametrize("width", [320, 360, *SIZES])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["recorded", "made", "mainnet"])
def test_no_kind_of_page_has_a_fault(
    request: pytest.FixtureRequest, name: str, scheme: str, width: int, axe: str
) -> None:
    """On each kind of page, in both themes and at four widths, axe-core finds nothing, and nothing is cut or hidden.

    A target has 24 pixels or as much room, addresses are in monospaced type, and no page scrolls sideways.
    """
    pages = request.getfixturevalue(name)

    assert [] == faults_of(request.getfixturevalue("browser"), axe, pages, width, scheme)
