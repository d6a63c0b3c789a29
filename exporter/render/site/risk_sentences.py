"""The risk of a market's borrowers to its lenders, in two sentences and a chart (docs/risk.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup
from msgspec import Struct

from exporter.render.site.charts import fall_chart
from exporter.render.site.text import dollars, harmless, moment_of, percent
from exporter.tree.risk_documents import MIN_HOLDERS, MarketRisk, RiskFall, RiskLargest

HEADLINE_FALL_BPS = 3_000
"""Fall of prices, in basis points, in the sentence."""


class RiskWords(Struct, frozen=True):
    """The sentences, and the chart of what can be liquidated. With too few borrowers the chart is None."""

    sentences: tuple[str, ...]
    chart: Markup | None
    key: str


def risk_words(risk: MarketRisk | None, symbols: Mapping[str, str], token: str | None = None) -> RiskWords | None:
    """The words about a market's risk, or about one of its pools if ``token`` is given. None without a risk document.

    ``symbols`` are those that the site shows, by the token's address.
    """
    if risk is None:
        return None
    figures = risk.figures
    explained = all(item.supply_shares_unexplained == item.debt_shares_unexplained == "0" for item in figures.pools)
    but = "" if explained else ", and positions do not add up to all that the pools say they lend"
    as_of = f"That is as of {moment_of(risk.checkpoint_close_time)}, and no prediction{but}."
    if figures.now is None:
        few = f"Fewer than {MIN_HOLDERS} borrowers here can be judged ({figures.borrower_count} owe anything)"
        return RiskWords((f"{few}, so nothing is said of what they owe and hold.", as_of), None, risk.key)
    name, falls = _falling(figures.falls, [pool.token_address for pool in figures.pools if not pool.stable], token)
    label = "every token that is not stable" if name is None else symbols.get(name, "the token")
    headline = next(fall for fall in falls if fall.fall_bps == HEADLINE_FALL_BPS)
    owed, liquidatable = int(figures.now.debt_usd_cents), int(headline.liquidatable_usd_cents)
    sold = f"the collateral of {dollars(liquidatable)} of the {dollars(owed)} that borrowers owe may be sold"
    if liquidatable == 0:
        sold = f"no collateral may be sold of the {dollars(owed)} that borrowers owe"
    uncovered = int(headline.uncovered_usd_cents)
    loss = f", and {dollars(uncovered)} of it would not be covered" if uncovered else ""
    pool = next((item for item in figures.pools if item.token_address == token), None)
    largest = figures.largest_borrowers if pool is None else pool.largest_borrowers
    first = f"If {harmless(label)} falls {percent(HEADLINE_FALL_BPS)}, {sold} to repay them{loss}{_largest(largest)}."
    share = [(0, _part(int(figures.now.liquidatable_usd_cents), owed))]
    share += [(fall.fall_bps, _part(int(fall.liquidatable_usd_cents), owed)) for fall in falls]
    return RiskWords((first, as_of), fall_chart(share, harmless(label)), risk.key)


def _falling(
    falls: Sequence[RiskFall], not_stable: Sequence[str], token: str | None
) -> tuple[str | None, list[RiskFall]]:
    """The token that the sentence is about, or None for all that are not stable; and the falls of its price."""
    name = token if token in not_stable else not_stable[0] if len(not_stable) == 1 else None
    own = [fall for fall in falls if fall.token_address == name]
    return (name, own) if own else (None, [fall for fall in falls if fall.token_address is None])


def _largest(largest: RiskLargest | None) -> str:
    return "" if largest is None else f"; the ten largest borrowers owe {percent(largest.largest_10_bps)}"


def _part(worth: int, total: int) -> int:
    """A part in basis points, at most all: a debt grows with its token's price, and could exceed today's total."""
    return min(worth * 10_000 // total, 10_000) if total else 0
