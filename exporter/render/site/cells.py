"""The small parts that tables are made of, as HTML: short for people, exact on hover and for sorting.

They are functions and not macros of the templates because a site has a million of them, most of them alike. All text
that comes from the chain is escaped here, as the templates escape theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape

from exporter.render.site.text import (
    NAME_LENGTH,
    SYMBOL_LENGTH,
    TITLE_LENGTH,
    amount,
    dollars,
    exact_amount,
    exact_dollars,
    exact_percent,
    harmless,
    named,
    percent,
    words,
)

_GOOD = ("active", "admin_active")


@lru_cache(maxsize=1 << 14)
def name(text: str, length: int = NAME_LENGTH) -> Markup:
    """A name that the chain gives: cut, isolated from the text around it, and in full on hover."""
    shown, full = named(text, length)
    title = "" if full is None else f' title="{escape(full)}"'
    return Markup(f"<bdi{title}>{escape(shown)}</bdi>")


@lru_cache(maxsize=1 << 14)
def rate(basis_points: int, kind: str) -> Markup:
    """A cell with a rate; ``kind`` is ``supply`` or ``borrow``."""
    return Markup(
        f'<td class="number {kind}" data-value="{basis_points}" title="{exact_percent(basis_points)}">'
        f"{percent(basis_points)}</td>"
    )


@lru_cache(maxsize=1 << 14)
def use(basis_points: int) -> Markup:
    """A cell with a utilization, and a bar as long as it."""
    return Markup(
        f'<td class="number minor" data-value="{basis_points}" title="{exact_percent(basis_points)}">'
        f'{percent(basis_points)}<svg class="gauge" viewBox="0 0 100 4" aria-hidden="true"><path d="M0 2H100"/>'
        f'<path class="full" d="M0 2H{min(basis_points // 100, 100)}"/></svg></td>'
    )


def money(cents: int | None, reason: str = "", kind: str = "") -> Markup:
    """A cell with an amount of money, or that there is no price, with the reason on hover."""
    kind = kind and f" {kind}"
    if cents is None:
        title = f' title="{escape(harmless(reason)[:TITLE_LENGTH])}"' if reason else ""
        return Markup(f'<td class="number none{kind}" data-value=""{title}>{dollars(None)}</td>')
    return Markup(f'<td class="number{kind}" data-value="{cents}" title="{exact_dollars(cents)}">{dollars(cents)}</td>')


def tokens(units: int, decimals: int, cents: int | None) -> Markup:
    """A cell with an amount of a token, and below it what it is worth."""
    worth = "" if cents is None else f'<span class="worth" title="{exact_dollars(cents)}">{dollars(cents)}</span>'
    return Markup(
        f'<td class="number minor" data-value="{units}" title="{exact_amount(units, decimals)}">'
        f"{amount(units, decimals)}{worth}</td>"
    )


@lru_cache(maxsize=1 << 10)
def status(text: str) -> Markup:
    """A market's status in the protocol's own words."""
    return Markup(f'<span class="status{" good" if text in _GOOD else ""}">{escape(words(text))}</span>')


_OPEN_FOR = {
    (True, True): "open",
    (True, False): "lending only",
    (False, True): "borrowing only",
    (False, False): "closed",
}


@lru_cache(maxsize=1 << 12)
def gates(supply: bool | None, borrow: bool | None, said: str) -> Markup:
    """Whether a pool can be lent to and borrowed from now; on hover what its protocol says."""
    known = supply is not None and borrow is not None
    shown = _OPEN_FOR[supply, borrow] if known else "not known"  # type: ignore[index]
    return Markup(f'<span class="status{" good" if shown == "open" else ""}" title="{escape(said)}">{shown}</span>')


def pool_gates(pool: Mapping[str, Any]) -> Markup:
    """Whether a pool is open, of a row of the pools frame."""
    statuses = [words(status) for status in (pool["market_status"], pool["pool_status"]) if status]
    said = ", ".join(statuses) + (f": {harmless(pool['can_reason'])}" if pool["can_reason"] else "")
    return gates(pool["can_supply"], pool["can_borrow"], said[:TITLE_LENGTH])


def pool_row(pool: Mapping[str, Any], root: str, by: str) -> Markup:
    """A row of a table of pools: of all (``by`` is ``pool``), of a market or of a token, which it then leaves out."""
    state = pool_gates(pool)
    protocol = f' <span class="quiet minor">{escape(words(pool["protocol"]))}</span>'
    link = f'<a href="{root}pools/{pool["market"]}/{pool["pool"]}.html">'
    if by == "token":
        head = f"{link}{name(pool['market_name'])}</a>{protocol} {state}"
    else:
        head = f"{link}{name(pool['symbol'], SYMBOL_LENGTH)}</a> {state}"
    market = ""
    if by == "pool":
        market = f'<td><a href="{root}markets/{pool["market"]}.html">{name(pool["market_name"], 24)}</a>{protocol}</td>'
    parts = [
        rate(pool["supply_apy_bps"], "supply"),
        rate(pool["borrow_apy_bps"], "borrow"),
        use(pool["utilization_bps"]),
    ]
    for side in ("supplied", "borrowed"):
        worth = pool[f"{side}_usd_cents"]
        if by == "pool":
            parts.append(money(worth, pool["price_reason"], "minor"))
        else:
            parts.append(tokens(pool[f"total_{side}"], pool["decimals"], worth))
    parts.append(money(pool["tvl_usd_cents"], pool["price_reason"]))
    closed = ' class="closed"' if pool["can_supply"] is False and pool["can_borrow"] is False else ""
    return Markup(f'<tr{closed}><th scope="row">{head}</th>{market}{"".join(parts)}</tr>')


def address(text: str, explorer: str | None = None) -> Markup:
    """An address or id in full; a contract's with a link to where an explorer has it, if one has."""
    link = f' <a class="out" href="{explorer}{escape(text)}" rel="external">explorer</a>' if explorer else ""
    return Markup(f'<code class="address">{escape(text)}</code>{link}')


def figure(label: str, shown: str, exact: str = "", kind: str = "") -> Markup:
    """One of the large figures that pages begin with, a pair of a list of terms."""
    title = f' title="{escape(exact)}"' if exact else ""
    return Markup(f'<div class="figure {kind}"><dt>{label}</dt><dd{title}>{escape(shown)}</dd></div>')


def fact(label: str, shown: str | Markup, exact: str = "") -> Markup:
    """One line of a list of facts; the value is escaped unless it is HTML already."""
    title = f' title="{escape(exact)}"' if exact else ""
    return Markup(f"<div><dt>{label}</dt><dd{title}>{escape(shown)}</dd></div>")


@lru_cache(maxsize=1 << 10)
def code(text: str) -> Markup:
    """A name of a contract's own, as code."""
    return Markup(f"<code>{escape(named(text)[0])}</code>")
