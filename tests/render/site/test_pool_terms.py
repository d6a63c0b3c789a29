"""Tests of the terms of pools in words."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

from exporter.ledger.contract_storage import NOT_FROM_STORAGE
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Parameter, Pending
from exporter.render.site.templates import environment, reward_price_words
from exporter.tables import BACKSTOPS_SCHEMA, PoolKey
from tests.protocols.test_prices import SPOKE
from tests.render.rendering import contract
from tests.render.site.made import CLOSE_TIME, Page, pool_row, site_of, tables_of

TERMS_OF_BLEND: dict[str, Any] = {
    "can_withdraw": True,
    "can_repay": True,
    "can_liquidate": True,
    "available_to_withdraw": 5 * 10**7,
    "available_usd_cents": 512,
    "available_to_borrow": 0,
    "available_to_borrow_usd_cents": 0,
    "risk_scope": "reserve",
    "collateral_factor_bps": 5000,
    "liquidation_threshold_bps": 5000,
    "liability_factor_bps": 13334,
    "liquidation_kind": "auction",
    "max_utilization_bps": 9750,
    "reserve_factor_bps": 2000,
    "can_be_collateral": True,
    "can_be_borrowed": True,
    "supply_reward_reason": "no_emissions",
    "borrow_reward_reason": "no_emissions",
}


BLEND = PROTOCOLS["blend"]


def said(macro: str, *values: object) -> dict[str, str]:
    """The lines of the list of facts that a macro of the template makes."""
    html = str(getattr(environment().get_template("terms.j2").module, macro)(*values))
    lines = [Page(line).text for line in html.replace("</dt>", "</dt>\t").strip().split("\n")]
    return {label: value.replace("\N{NARROW NO-BREAK SPACE}", " ") for label, value in (x.split("\t") for x in lines)}


def test_what_can_be_done_is_said_with_how_much_or_why_not() -> None:
    """A gate is open with what is left, closed, or not known with the reason; statuses come with their meanings."""
    row = pool_row(0, 0, **TERMS_OF_BLEND, market_status="on_ice", pool_status="enabled", min_first_supply=10**7)

    assert {
        "Supply": "open, no cap",
        "Withdraw": "open, up to 5 TOK0 ($5.12)",
        "Borrow": "open, but nothing is left: 0 TOK0",
        "Repay": "open",
        "Liquidate a debt": "open",
        "First supply of an account": "at least 1 TOK0",
        "The market is": "on ice: no borrowing, because too little is in the backstop or too much of it is queued",
        "The pool is": "enabled: the reserve is open, as far as its market is",
    } == said("operations", row, BLEND.words)
    shut = said("operations", row | {"can_supply": False, "can_borrow": False, "can_be_borrowed": False}, BLEND.words)
    assert ("closed", "closed: nothing is lent out of this pool") == (shut["Supply"], shut["Borrow"])
    unpriced = said("operations", row | {"can_borrow": False, "can_reason": "no price"}, BLEND.words)
    assert ("closed", "no price") == (unpriced["Borrow"], unpriced["Closed because"])
    own_words = f"a price is not known: decimals() failed: {NOT_FROM_STORAGE}the entry is not held"
    unread = said("operations", row | {"can_borrow": None, "can_reason": own_words}, BLEND.words)
    assert "not known: a price is not known" == unread["Borrow"]
    unknown = said("operations", row | {"can_repay": None, "can_reason": "its code <b>"}, BLEND.words)
    assert "not known: its code <b>" == unknown["Repay"]


def test_parameters_are_said_in_words() -> None:
    """A factor is a percentage, a missing cap is named, one of nothing is closed, and an auction has no bonus."""
    row = pool_row(0, 0, **TERMS_OF_BLEND)

    assert {
        "Collateral factor": "50 %",
        "Liquidation threshold": "50 %",
        "Weight of a debt": "133.34 % of its value",
        "Liquidation": "auction",
        "Supply cap": "no cap",
        "Borrow cap": "no cap",
        "Borrowing stops at a utilization of": "97.5 %",
        "Reserve factor": "20 % of the interest",
        "These terms apply to": "this pool",
    } == said("risk", row)
    capped = {"supply_cap": 0, "borrow_cap": 10**10, "borrow_cap_usd_cents": 123_400, "max_utilization_bps": None}
    fixed = {"can_be_collateral": False, "liquidation_kind": "fixed", "liquidation_bonus_bps": 550}
    other = said("risk", row | capped | fixed)
    assert ("closed", "1,000 TOK0 ($1,234)", "no limit") == (
        other["Supply cap"],
        other["Borrow cap"],
        other["Borrowing stops at a utilization of"],
    )
    assert "none: it is not accepted as collateral" == other["Collateral factor"]
    assert "bonus of 5.5 %" == other["Liquidation"]
    assert {"Terms": "not known"} == said("risk", pool_row(0, 0))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"supply_reward_apr_bps": 123, "supply_reward_reason": "valid"}, "1.23 % a year in BLND"),
        (
            {"supply_reward_apr_bps": None, "supply_reward_reason": "no_reward_price"},
            "paid, but the reward token has no price, so there is no rate",
        ),
        ({"supply_reward_apr_bps": 0, "supply_reward_reason": "none"}, "none: this protocol pays no rewards"),
    ],
)
def test_rewards_are_said_with_their_token_or_why_not(changes: dict[str, Any], expected: str) -> None:
    """A reward is a yield in its token; without one the reason is there."""
    row = pool_row(0, 0, **TERMS_OF_BLEND) | {"reward_symbol": "BLND", "reward_price_source": None} | changes

    assert expected == said("rewards", row)["To suppliers"]


@pytest.mark.parametrize(("end", "until"), [(1_737_354_589, ", until 20 Jan 2025, 06:29 UTC"), (2**40, "")])
def test_rewards_have_amounts_an_end_and_a_price(end: int, until: str) -> None:
    """The page has the yearly reward, its end, and the price behind the yield; an end far off is not shown."""
    paid = {
        "reward_symbol": "BLND",
        "reward_token_decimals": 7,
        "supply_reward_per_year": 10**12,
        "borrow_reward_per_year": None,
    }
    price = {
        "reward_price": 12_345,
        "reward_price_decimals": 7,
        "reward_price_source": "comet_spot CDJYABCDEFGHI * CDAVABCDEFGHI",
    }
    facts = said("rewards", pool_row(0, 0) | paid | price | {"supply_reward_expiration": end})

    assert f"100,000 BLND a year{until}" == facts["Paid to all together"]
    source = "by the Comet pool CDJY…FGHI in USDC, and USDC's price by the market's oracle CDAV…FGHI"
    assert f"0.0012345 USD, {source}" == facts["Price of BLND"]
    assert "by the market's oracle CDAV…FGHI" == reward_price_words("CDAVABCDEFGHI", "blend")
    unknown = reward_price_words("comet_spot CDJYABCDEFGHI * CDAVABCDEFGHI", "of a later version")
    assert "by contract CDJY…FGHI and the market's oracle CDAV…FGHI" == unknown


def test_a_backstop_is_shown_on_the_page_of_its_market() -> None:
    """A backstop's size, its queue, whether it is enough, and what it earns; an unread one says so."""
    row: dict[str, Any] = dict.fromkeys(BACKSTOPS_SCHEMA) | {"market": contract(100), "backstop": contract(3)}
    known = {
        "lp_tokens": 5 * 10**7,
        "blnd": 10**9,
        "usdc": 10**8,
        "queued_part": 80_364,
        "value_usd_cents": 123_456,
        "threshold_product_bps": 5000,
        "threshold_met": False,
        "status_after_update": "on_ice",
        "emission_apr_bps": 8727,
        "emission_reason": "valid",
        "emission_expiration": 1_737_354_589,
    }

    assert {"Size": "not known: it could not be read"} == said("backstop_facts", row)
    assert {
        "Worth": "$1,235",
        "Deposited": "5 tokens",
        "These tokens hold": "100 BLND and 10 USDC",
        "Queued for withdrawal": "0.80 %",
        "Minimum of the contract": "not met, 50.0 % of it",
        "Status after the next update": "on ice",
        "Paid to depositors in BLND": "87.3 % a year",
        "Emission ends": "20 Jan 2025, 06:29 UTC",
    } == said("backstop_facts", row | known)
    unfunded = {"emission_apr_bps": None, "emission_reason": "not_funded", "backfill_remaining": 5 * 10**13}
    assert {
        "Paid to depositors in BLND": "promised, but not claimable yet: the backstop has no BLND for it",
        "Left in the backfill": "5,000,000 BLND",
    }.items() <= said("backstop_facts", row | known | unfunded).items()
    enough = {"threshold_met": True, "threshold_product_bps": 110_196_200}
    assert "met, 11,019 times over" == said("backstop_facts", row | known | enough)["Minimum of the contract"]
    tables = tables_of([pool_row(0, 0), pool_row(1, 1)])
    tables.backstops = pl.DataFrame([row | known], schema=BACKSTOPS_SCHEMA, orient="row")
    site = site_of(tables)
    assert "$1,235</dd>" in site[f"markets/{contract(100)}.html"]
    assert 'id="backstop"' not in site[f"markets/{contract(101)}.html"]


def test_a_pool_of_blend_has_its_curve_with_the_point_of_now() -> None:
    """Each kink says what borrowing costs there, and a last stretch that is too steep is only described."""
    row = pool_row(
        0,
        0,
        accrued_utilization=5_000_000,
        accrued_borrow_apr=350_000,
        utilization_decimals=7,
        apr_decimals=7,
        rate_modifier=10**7,
        rate_modifier_decimals=7,
    )
    tables = tables_of([row])
    place = PoolKey(contract(100), contract(10_000))
    key = f"pools/{place.market}/{place.pool}.html"
    values = {"util": 7_500_000, "r_base": 50_000, "r_one": 450_000, "r_two": 5_000_000, "r_three": 50_000_000}
    tables.parameters[place] = tuple(Parameter(name, value, 7) for name, value in values.items())
    text = site_of(tables)[key].replace("\N{NARROW NO-BREAK SPACE}", " ")

    assert "<title>at a utilization of 50.00 % borrowing costs 3.50 % a year</title>" in text
    assert "<title>at a utilization of 75.00 % borrowing costs 5.00 % a year</title>" in text
    assert "<li>At 100 % <b>555.0 %</b></li>" in text
    assert "<dt>Borrow, accrued</dt><dd>3.5 %</dd>" in text
    assert "borrowing costs 555" not in text
    tables.parameters[place] = ()
    assert "Borrow rate by utilization" not in site_of(tables)[key]


def test_spokes_one_by_one() -> None:
    """Each spoke has its factors and gates, also one that is not known; a paused one is that alone."""
    open_one = replace(SPOKE, collateral_factor_bps=7_500, liquidation_threshold_bps=8_000, can_borrow=None)
    spokes = (open_one, replace(open_one, spoke=2, paused=True))

    assert {
        "Spoke 1": "collateral factor 75 %, threshold 80 %; supply open, borrow not known",
        "Spoke 2": "paused",
    } == said("spoke_list", spokes)
    tables = tables_of([pool_row(0, 0)])
    place = PoolKey(contract(100), contract(10_000))
    tables.spokes[place] = spokes
    assert "<dt>Spoke 2</dt><dd>paused</dd>" in site_of(tables)[f"pools/{place.market}/{place.pool}.html"]


def test_what_is_queued_is_on_the_pages_that_it_is_of() -> None:
    """A pool's change is on its page and its market's; a market's change is on the pages of all its pools."""
    tables = tables_of([pool_row(0, 0), pool_row(0, 1)])
    market, one, other = contract(100), contract(10_000), contract(10_001)
    tables.pending += [
        Pending(market, None, "admin", "an admin", CLOSE_TIME + 60),
        Pending(market, one, "terms", "50 %", 1),
    ]
    site = site_of(tables)
    listed = Page(site[f"markets/{market}.html"]).text

    assert "New admin, possible from 18 Nov 2026, 10:01 UTC: an admin" in listed
    assert f"New terms for pool {one[:4]}…{one[-4:]}, possible since 1 Jan 1970, 00:00 UTC: 50 %" in listed

    assert [True, True] == ["an admin" in site[f"pools/{market}/{name}.html"] for name in (one, other)]
    assert [True, False] == ["50 %" in site[f"pools/{market}/{name}.html"] for name in (one, other)]
