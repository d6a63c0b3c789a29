"""Tests of the sentence that says why a pool pays what it pays, and of the yield after a deposit."""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import chain
from typing import Any, cast

from exporter.exact import annual_yield_bps
from exporter.protocols import PROTOCOLS
from exporter.protocols.numbers import PoolFrameRow
from exporter.render.site.text import THIN
from exporter.render.site.why import DEPOSIT_USD, why, yield_after_deposit
from exporter.tables import PoolKey, rows_as
from tests.protocols.world import World
from tests.render.rendering import contract
from tests.render.site.made import Page, pool_row, site_of, tables_of

RATES: dict[str, Any] = {
    "apr_decimals": 7,
    "utilization_decimals": 7,
    "stored_utilization": 5_611_234,
    "stored_borrow_apr": 3_671_234,
    "stored_supply_apr": 2_031_143,
    "comparable_supply_apy_bps": 2251,
    "reserve_factor_bps": 140,
}


def why_of(**changes: object) -> str | None:
    """The sentence of a made pool."""
    return why(cast(PoolFrameRow, pool_row(0, 0, **changes)))


def numbers_of(sentence: str) -> list[Decimal]:
    """The percentages of a sentence, in their order."""
    return [Decimal(part.replace(",", "")) for part in re.findall(rf"([\d.,]+){THIN}%", sentence)]


def test_the_numbers_of_the_sentence_multiply_out() -> None:
    """The lent part, the borrowers' rate and the lenders' part of it multiply to the rate, which leads to the yield."""
    said = why_of(**RATES)

    assert said is not None
    assert (
        "22.5 % because 56.1 % is lent, borrowers pay 36.7 % a year, and lenders get 98.6 % of that: 20.3 % a year, "
        "compounded daily."
    ) == said.replace(THIN, " ")


def test_small_numbers_have_the_digits_of_the_page() -> None:
    """A utilization of 0.931 % and a rate of 0.109 % are 0.93 % and 0.10 % in the sentence, as in the figures above."""
    small = {"stored_utilization": 93_108, "stored_borrow_apr": 10_932, "stored_supply_apr": 81}
    said = why_of(**RATES | small | {"comparable_supply_apy_bps": 0, "reserve_factor_bps": 2000})

    assert said is not None
    assert (
        "< 0.01 % because 0.93 % is lent, borrowers pay 0.10 % a year, and lenders get 80 % of that: < 0.01 % a year, "
        "compounded daily."
    ) == said.replace(THIN, " ")


def test_it_multiplies_out_for_every_protocol() -> None:
    """The three numbers of every pool's sentence make its rate, and that compounded daily is the headline."""
    sentences = 0
    for row in chain.from_iterable(rows_as(PoolFrameRow, World(name).compute().pools) for name in PROTOCOLS):
        said = why(row)
        if said is None or "because nothing is lent" in said or "<" in said:
            continue
        headline, lent, paid, share, earned, *_ = numbers_of(said)
        step = Decimal("0.01") if earned < 10 else Decimal("0.1")
        assert abs(lent * paid * share / 10_000 - earned) < step, said
        compounded = 100 * ((1 + earned / 36_500) ** 365 - 1)
        assert abs(compounded - headline) < 2 * step, said
        sentences += 1
    assert sentences > 5


def test_what_does_not_multiply_out_is_not_explained() -> None:
    """There is no sentence if lenders would get more than borrowers pay; nothing lent and the reward have one."""
    assert why_of(**RATES | {"stored_supply_apr": 9_000_000}) is None
    assert why_of(**RATES | {"stored_supply_apr": 0}) is None
    assert "Suppliers earn no interest because nothing is lent." == why_of(total_borrowed=0)
    rewarded = why_of(**RATES, supply_reward_apr_bps=130)
    assert rewarded is not None
    assert rewarded.endswith(f"; the reward adds 1.30{THIN}%.")


def test_the_yield_after_a_deposit_follows_from_the_curve() -> None:
    """Utilization falls to debt over the larger supply; the rate there is the contract's own."""
    tables, protocol = World("blend").compute(), PROTOCOLS["blend"]
    model = protocol.rate_model
    assert model is not None
    computed = 0
    for row in rows_as(PoolFrameRow, tables.pools):
        parameters = tables.parameters[PoolKey.of(row)]
        after = yield_after_deposit(row, parameters, protocol)
        if after is None:
            continue
        computed += 1
        assert row["oracle_price"] is not None
        assert row["oracle_decimals"] is not None
        units = DEPOSIT_USD * 10 ** (row["decimals"] + row["oracle_decimals"]) / row["oracle_price"]
        used = int(10**7 * row["total_borrowed"] / (row["total_supplied"] + units))
        rate = model.rate_at(used, row, {item.name: item.value for item in parameters})
        assert rate is not None
        share = row["accrued_supply_apr"] / (row["accrued_borrow_apr"] * row["accrued_utilization"])
        expected = annual_yield_bps(int(share * rate * used), 365, 10**7) + (row["supply_reward_apr_bps"] or 0)
        assert abs(after - expected) <= 1 + (row["supply_reward_apr_bps"] or 0)
        full: PoolFrameRow = {**row, "available_to_supply": int(units)}
        assert yield_after_deposit(full, parameters, protocol) in (after, None)
        changed: list[PoolFrameRow] = [
            {**row, "available_to_supply": int(units) - 1},
            {**row, "oracle_price": None},
            {**row, "can_supply": False},
            {**row, "accrued_utilization": row["accrued_utilization"] // 2},
        ]
        for other in changed:
            assert yield_after_deposit(other, parameters, protocol) is None
        assert yield_after_deposit(row, (), protocol) is None
    assert computed > 0


def test_the_page_of_a_pool_says_why() -> None:
    """The sentence stands on the page; a pool without one has no heading for it."""
    [high, none] = [
        site_of(tables_of([pool_row(0, 0, **RATES | changes, total_supply_apy_bps=2251)]))[
            f"pools/{contract(100)}/{contract(10_000)}.html"
        ]
        for changes in ({}, {"stored_supply_apr": 0})
    ]
    assert "Why so high?" in Page(high).text
    assert "because 56.1" in Page(high).text
    assert "Why" not in Page(none).text
