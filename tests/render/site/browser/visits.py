"""How the browser tests open pages, and which: one of each kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporter.render.site.templates import MISSING_KEY
from exporter.tree.families import STATUS_KEY

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FRESH = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
"""Between the run of the tree and the next, which is due at 13:00."""

SIZES = {390: 844, 1280: 900}


@contextmanager
def opened(browser: Browser, now: datetime = FRESH, **options: Any) -> Iterator[tuple[Page, list[str]]]:
    """A page, and what goes wrong in it: messages of the console, errors of scripts, requests that fail."""
    context = browser.new_context(**options)
    context.set_default_timeout(15_000)
    page = context.new_page()
    page.clock.set_fixed_time(now)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
    # What is still under way when the page is left (its icon) is aborted by the browser itself.
    page.on(
        "requestfailed",
        lambda request: None if request.failure == "net::ERR_ABORTED" else wrong.append(f"{request.url} failed"),
    )
    page.on("response", lambda answer: wrong.append(f"{answer.url}: {answer.status}") if answer.status >= 400 else None)
    try:
        yield page, wrong
    finally:
        context.close()


def go(page: Page, address: str) -> None:
    """Open an address, and wait until the page has looked how fresh it is."""
    page.goto(address)
    page.wait_for_selector("#fresh[data-fresh]")


def pages_of(tree: Path) -> list[str]:
    return sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*.html") if path.name != MISSING_KEY)


def moment_of(tree: Path) -> datetime:
    """A time at which the newest run of a tree is fresh."""
    status = json.loads((tree / STATUS_KEY).read_bytes())
    return datetime.fromisoformat(status["ledger_close_time"]) + timedelta(minutes=5)


def kinds_of(tree: Path) -> dict[str, str]:
    """One page of each kind: of markets and pools the one of the greatest value."""
    markets = json.loads((tree / "v1/markets.json").read_bytes())["data"]
    market = max(markets, key=lambda entry: int(entry["tvl_usd_cents"] or 0))["market"]
    pools = json.loads((tree / f"v1/markets/{market}.json").read_bytes())["pools"]
    pool = max(pools, key=lambda entry: int(entry["tvl_usd_cents"] or 0))
    named = {
        "market": f"markets/{market}.html",
        "pool": f"pools/{market}/{pool['pool']}.html",
        "token": f"tokens/{pool['token_address']}.html",
    }
    return named | {path.stem: path.name for path in tree.glob("*.html") if path.name != MISSING_KEY}
