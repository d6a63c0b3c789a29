"""The small parts that tables are made of, as HTML: short for people, exact on hover and for sorting.

Functions and not macros, because a site has a million of them. All text that comes from the chain is escaped here. They
give plain strings, which the templates' environment marks as HTML: a mark on each would cost more than the part itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from markupsafe import escape

from exporter.render.site.text import (
    NAME_LENGTH,
    SYMBOL_LENGTH,
    TITLE_LENGTH,
    amount,
    cut,
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


@lru_cache(maxsize=1 << 12)
def name(text: str, length: int = NAME_LENGTH) -> str:
    """A name that the chain gives: cut, isolated from the text around it, and in full on hover."""
    shown, full = named(text, length)
    title = "" if full is None else f' title="{escape(full)}"'
    return f"<bdi{title}>{escape(shown)}</bdi>"


@lru_cache(maxsize=1 << 12)
def use(basis_points: int) -> str:
    """A cell with a utilization, and a bar as long as it."""
    return (
        f'<td class="number minor" data-value="{basis_points}" title="{exact_percent(basis_points)}">'
        f'{percent(basis_points)}<svg class="gauge" viewBox="0 0 100 4" aria-hidden="true"><path d="M0 2H100"/>'
        f'<path class="full" d="M0 2H{min(basis_points // 100, 100)}"/></svg></td>'
    )


def money(cents: int | None, kind: str = "") -> str:
    """A cell with an amount of money, or that there is no price; ``kind`` is more classes, after a space."""
    if cents is None:
        return f'<td class="number none{kind}" data-value="">{dollars(None)}</td>'
    return f'<td class="number{kind}" data-value="{cents}" title="{exact_dollars(cents)}">{dollars(cents)}</td>'


def lend(pool: Mapping[str, Any]) -> str:
    """A cell with what lending earns, compounded daily: the sum, and below it the part that is a reward."""
    return _yield_cell("supply", pool["total_supply_apy_bps"], pool)


def debt(pool: Mapping[str, Any]) -> str:
    """A cell with what a loan costs, compounded daily, and below it the reward that borrowers get."""
    return _yield_cell("borrow", pool["comparable_borrow_apy_bps"], pool)


def _yield_cell(side: str, bps: int, pool: Mapping[str, Any]) -> str:
    return (
        f'<td class="number {side}" data-value="{bps}" title="{exact_percent(bps)}; the protocol shows '
        f'{exact_percent(pool[f"{side}_apy_bps"])}">{percent(bps)}{reward(pool, side)}</td>'
    )


def reward(pool: Mapping[str, Any], side: str) -> str:
    """Below a yield, how much of it is a reward (lending) or comes back as one (borrowing); nothing without one."""
    part = pool[f"{side}_reward_apr_bps"]
    if not part:
        return ""
    before = "less" if side == "borrow" else f"{percent(pool['total_supply_apy_bps'] - part)} +"
    symbol = escape(cut(pool["reward_symbol"] or "reward", SYMBOL_LENGTH))
    return f'<span class="worth">{before} {percent(part)} {symbol}</span>'


def _amount(pool: Mapping[str, Any], side: str, by: str, kind: str = "") -> str:
    """An amount of a pool's token and its worth; in a table of all tokens the worth alone, if there is a price."""
    units, decimals, cents = pool[f"total_{side}"], pool["decimals"], pool[f"{side}_usd_cents"]
    if by == "pool" and cents is not None:
        return money(cents, kind)
    value = "" if by == "pool" else units
    title = harmless(pool["price_reason"])[:TITLE_LENGTH] if cents is None else exact_dollars(cents)
    return (
        f'<td class="number{kind}" data-value="{value}" title="{exact_amount(units, decimals)}">'
        f'{amount(units, decimals)}<span class="worth" title="{escape(title)}">{dollars(cents)}</span></td>'
    )


def status(text: str) -> str:
    """A market's status in the protocol's own words."""
    return f'<span class="status{" good" if text in _GOOD else ""}">{escape(words(text))}</span>'


_OPEN_FOR = {
    (True, True): "open",
    (True, False): "lending only",
    (False, True): "borrowing only",
    (False, False): "closed",
}


@lru_cache(maxsize=1 << 12)
def gates(supply: bool | None, borrow: bool | None, said: str) -> str:
    """Whether a pool can be lent to and borrowed from now; on hover what its protocol says."""
    known = supply is not None and borrow is not None
    shown = _OPEN_FOR[supply, borrow] if known else "not known"  # type: ignore[index]
    return f'<span class="status{" good" if shown == "open" else ""}" title="{escape(said)}">{shown}</span>'


def pool_gates(pool: Mapping[str, Any]) -> str:
    """Whether a pool is open, of a row of the pools frame."""
    statuses = [words(status) for status in (pool["market_status"], pool["pool_status"]) if status]
    said = ", ".join(statuses) + (f": {harmless(pool['can_reason'])}" if pool["can_reason"] else "")
    return gates(pool["can_supply"], pool["can_borrow"], said[:TITLE_LENGTH])


def label(text: str) -> str:
    """The label after a name that distinguishes a pool or token from others of that name; empty without one."""
    return text and f' <span class="id">{escape(text)}</span>'


def pool_row(pool: Mapping[str, Any], root: str, by: str) -> str:
    """A row of a table of pools: of all (``by`` is ``pool``), of a market or of a token."""
    state = pool_gates(pool)
    own = label(pool["pool_label"])
    protocol = f' <span class="quiet minor">{escape(words(pool["protocol"]))}</span>'
    link = f'<a href="{root}pools/{pool["market"]}/{pool["pool"]}.html">'
    if by == "token":
        head = f"{link}{name(pool['market_name'])}</a>{own}{protocol} {state}"
    else:
        head = f"{link}{name(pool['symbol'], SYMBOL_LENGTH)}</a>{own}{label(pool['token_label'])} {state}"
    market = ""
    if by == "pool":
        market = f'<td><a href="{root}markets/{pool["market"]}.html">{name(pool["market_name"], 24)}</a>{protocol}</td>'
    amounts = _amount(pool, "supplied", by) + _amount(pool, "borrowed", by, " minor")
    closed = ' class="closed"' if pool["can_supply"] is False and pool["can_borrow"] is False else ""
    return (
        f'<tr{closed}><th scope="row">{head}</th>{market}{lend(pool)}'
        f"{debt(pool)}{use(pool['utilization_bps'])}{amounts}</tr>"
    )


def fact(label: str, shown: str, exact: str = "") -> str:
    """One line of a list of facts; the value is escaped unless it is HTML already."""
    title = f' title="{escape(exact)}"' if exact else ""
    return f"<div><dt>{label}</dt><dd{title}>{escape(shown)}</dd></div>"


def code(text: str) -> str:
    """A name of a contract's own, as code."""
    return f"<code>{escape(named(text)[0])}</code>"
