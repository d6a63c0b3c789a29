"""Tests of what the pages of markets and pools say about safety: what was read, and what is not known."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any, cast

import pytest
from msgspec.structs import replace

from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Pending
from exporter.protocols.numbers import BackstopFrameRow, MarketFrameRow
from exporter.render.site.rows import NamedPool
from exporter.render.site.safety import MarketFacts, SafetyFact, of_market, of_pool
from exporter.render.site.text import THIN
from tests.protocols.world import World
from tests.render.rendering import contract, market_row
from tests.render.site.made import CLOSE_TIME, pool_row, site_of, tables_of

ADMIN = "G" + "A" * 55
TERMS: dict[str, Any] = {"risk_scope": "reserve", "can_be_collateral": True, "collateral_factor_bps": 7500}
OPEN: dict[str, Any] = {"can_withdraw": True, "available_to_withdraw": 10**12, "shortfall": 0}


def named(**changes: object) -> NamedPool:
    """A pool about which everything that matters is known."""
    return cast(NamedPool, pool_row(0, 0, **OPEN | TERMS | changes))


def facts(pool: NamedPool, protocol: str = "blend", **market: object) -> MarketFacts:
    """The facts of the market of this one pool."""
    row = cast(MarketFrameRow, market_row(pool["market"], borrowed_usd_cents=10**6, oracle=contract(1), **market))
    return MarketFacts(row, PROTOCOLS[protocol], [pool], [ADMIN], None, [])


def fact(question: str, pool: NamedPool, own: MarketFacts | None = None, *, has_risk: bool = False) -> SafetyFact:
    """The pool's fact whose question begins like this."""
    own = own or facts(pool)
    return next(item for item in of_pool(pool, own, has_risk=has_risk) if item.question.startswith(question))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_page_answers_the_same_questions(protocol: str) -> None:
    """Each answer on the page of a recorded market, and of its pools, is a sentence."""
    pages = site_of(World(protocol).compute())
    own = [page for key, page in pages.items() if re.match("(markets|pools)/", key)]

    assert own
    for page in own:
        section = page[page.index("Is it safe?</h2>") :].partition("</section>")[0]
        answers = re.findall("<dd[^>]*>(.*?)</dd>", section)
        assert 9 == len(answers)
        assert not [answer for answer in answers if not answer.endswith(".") or "None" in answer]


def test_what_can_leave_is_a_part_of_what_is_supplied() -> None:
    """The amount is in tokens; closed and unknown are told apart from nothing."""
    half = fact("Can lenders leave", named(total_supplied=2 * 10**12, decimals=7))
    closed = fact("Can lenders leave", named(can_withdraw=False, can_reason="no price", available_to_withdraw=0))
    unknown = fact("Can lenders leave", named(can_withdraw=None, can_reason=None, available_to_withdraw=None))
    nothing = fact("Can lenders leave", named(available_to_withdraw=0))

    assert f"100,000 of 200,000 TOK0 can be withdrawn at this ledger (50.0{THIN}%)" in half.answer
    assert ("No: withdrawing is closed at this ledger: no price.", True) == (closed.answer, closed.warns)
    assert ("Not known: the protocol does not say.", False) == (unknown.answer, unknown.is_known)
    assert nothing.warns
    assert "(nothing)" in nothing.answer


@pytest.mark.parametrize(
    ("shortfall", "says", "known", "warns"),
    [
        (None, "Not known", False, False),
        (0, "Yes", True, False),
        (10**12, "No: 100,000 of 1,000,000 TOK0", True, True),
    ],
)
def test_what_lenders_are_owed_is_compared_with_what_there_is(
    shortfall: int | None, says: str, *, known: bool, warns: bool
) -> None:
    """A pool whose tokens are not counted is not said to be solvent."""
    pool = named(shortfall=shortfall, decimals=7)
    own = fact("Is what lenders", pool)
    of_all = next(
        item for item in of_market(facts(pool), has_risk=False) if item.question.startswith("Is what lenders")
    )

    assert own.answer.startswith(says)
    assert (known, warns) == (own.is_known, own.warns) == (of_all.is_known, of_all.warns)


def test_the_price_has_an_owner_and_an_age() -> None:
    """No price is not known, and a price from after the close is not given an age."""
    old = named(price_timestamp=CLOSE_TIME - 3_660)
    later, missing = named(price_timestamp=CLOSE_TIME + 1), named(oracle_price_usd=None, price_reason="it is old")

    assert "1 hour 1 minute old at the ledger's close" in fact("Whose price", old).answer
    assert contract(1) in fact("Whose price", old).answer
    assert "dated after the ledger's close" in fact("Whose price", later).answer
    assert "There is no valid price here: it is old." in fact("Whose price", missing).answer


def test_prices_warn_only_where_a_pool_has_none() -> None:
    """A market all of whose pools have a price gives no warning; one pool without a price does."""
    priced, missing = named(), named(oracle_price_usd=None, price_reason="it is old")

    def warns(*pools: NamedPool) -> bool:
        answers = of_market(replace(facts(priced), pools=list(pools)), has_risk=False)
        return next(item.warns for item in answers if item.question.startswith("Whose prices"))

    assert not warns(priced, priced)
    assert warns(priced, missing)


def test_who_may_change_a_market_is_named_or_said_not_to_be_known() -> None:
    """An account and a contract are told apart; what is queued is counted."""
    own = facts(named())
    several = replace(own, admins=[ADMIN, contract(2)], pending=[Pending(contract(9), None, "admin", ADMIN)] * 2)

    assert f"The admin is the account {ADMIN}. Who signs for it was not read." == fact("Who may", named(), own).answer
    said = fact("Who may", named(), several)
    assert f"The admins are the account {ADMIN}, the contract {contract(2)}." in said.answer
    assert said.answer.endswith("2 changes queued; see above.")
    assert not fact("Who may", named(), replace(own, admins=[])).is_known


def test_the_backstop_is_compared_with_what_is_borrowed() -> None:
    """If USDC has no price, the backstop's tokens are shown without their worth; an empty one covers nothing."""
    row = BackstopFrameRow(
        market=contract(1),
        backstop=contract(2),
        lp_tokens=7,
        blnd=3 * 10**7,
        usdc=10**7,
        queued_part=0,
        value_usd_cents=10**5,
        emission_decimals=0,
        emission_reason="none",
    )
    own = facts(named())

    def said(**changes: object) -> SafetyFact:
        return fact("Who bears", named(), replace(own, backstop=replace(row, **changes)))

    assert (
        f"A backstop, which holds 3 BLND and 1 USDC, worth $1,000, 10.0{THIN}% of what is borrowed in the market."
        == said().answer
    )
    assert "Its worth is not known" in said(value_usd_cents=None).answer
    assert said(lp_tokens=0).warns
    assert not said(lp_tokens=None).is_known
    assert not fact("Who bears", named(), own).is_known


def test_who_owes_is_not_known_for_a_reason_unless_a_census_added_it_up() -> None:
    """The reason is the protocol's, or that nobody took a census; an unlisted market has none."""
    pool = named()
    whole = [item.question for item in of_pool(pool, facts(pool), has_risk=True)]

    assert not [question for question in whole if question.startswith("Who owes")]
    assert "exporter census --out" == fact("Who owes", pool).command
    page = site_of(tables_of([dict(pool)]))[f"pools/{pool['market']}/{pool['pool']}.html"]
    assert 'signed: <code class="command">exporter census --out</code>.</dd>' in page
    assert "listed markets only" in fact("Who owes", pool, facts(pool, listed=False)).answer
    for name, protocol in PROTOCOLS.items():
        assert protocol.no_positions in fact("Who owes", pool, facts(pool, name)).answer
    questions = [[item.question for item in chain(of_market(facts(pool), has_risk=known))] for known in (True, False)]
    assert ["Who owes, and what would a fall of prices do?"] == [
        name for name in questions[1] if name not in questions[0]
    ]
