"""Tests which getters each protocol asks for, and which part of an answer is compared with which of our numbers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from exporter.errors import DecodeError
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import i128, struct_map, u128, vec
from exporter.ledger.source import ContractCall
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import ComputedPool
from exporter.protocols.numbers import PoolFrameRow
from exporter.protocols.peridot.getters import GETTERS as PERIDOT
from exporter.protocols.protocol import GetterCall, NoGetter
from exporter.protocols.xoxno.getters import GETTERS as XOXNO
from tests.protocols.judged import plain, with_numbers
from tests.protocols.places import MARKET
from tests.protocols.protocol_facts import all_facts
from tests.protocols.world import World


@pytest.mark.parametrize("name", all_facts())
def test_every_view_of_every_pool_is_asked_for(name: str) -> None:
    """Each pool is compared by all of its protocol's getters, in their order, and a market without one is named."""
    reading, getters = World(name).read().result, PROTOCOLS[name].getters
    asked = [] if getters is None else list(getters.calls(reading))
    calls = [
        (item.market, item.pool, item.call.contract, item.call.function, item.call.arguments)
        for item in asked
        if isinstance(item, GetterCall)
    ]

    getters_of = all_facts()[name].getters
    assert [(pool.market.address, pool.pool, *call) for pool in reading.pools for call in getters_of(pool)] == calls
    without = {market.address for market in reading.markets} - {call[0] for call in calls}
    assert (set() if getters is None else without) == {item.market for item in asked if isinstance(item, NoGetter)}


def test_a_market_of_xoxno_without_pools_is_named() -> None:
    """If no pool of a market could be read, nothing is asked, and the result says so."""
    reading = World("xoxno").read().result
    reading.pools.clear()

    assert [NoGetter(MARKET["xoxno"], "none of its pools could be read")] == list(XOXNO.calls(reading))


RATE = 7_000_000
"""The exchange rate before there are any shares: 7 of the token for one share."""


@pytest.mark.parametrize(
    ("net_cash", "borrowed", "supply", "liquidity", "rate"),
    [
        (60, 40, 50, 60, 2 * 10**6),
        (0, 0, 50, 0, RATE),  # nothing is owned
        (60, 40, 0, 60, RATE),  # nobody has shares
        (0, 0, 0, 0, RATE),
        (-5, 40, 7, 0, 5 * 10**6),  # more is set aside than there is
        (-50, 40, 7, 0, RATE),
        (50, 50, 99, 50, 1_010_101),  # rounded down
    ],
)
def test_what_peridots_views_give(net_cash: int, borrowed: int, supply: int, liquidity: int, rate: int) -> None:
    """The rate is what is owned by the shares, or the first one where either is 0; a lack is nothing to pay out."""
    numbers = {
        "net_cash": net_cash,
        "total_borrowed": borrowed,
        "total_reserves": 3,
        "receipt_supply": supply,
        "initial_exchange_rate": RATE,
    }
    computed = ComputedPool(with_numbers(plain("peridot"), numbers), cast(PoolFrameRow, {}))
    ours = {
        name: pair[0]
        for function in ("get_available_liquidity", "get_total_borrowed", "get_total_reserves", "get_exchange_rate")
        for name, pair in PERIDOT.fields(
            GetterCall("C", "V", ContractCall("V", function)), u128(1), computed, 0
        ).items()
    }

    assert {
        "get_available_liquidity": liquidity,
        "get_total_borrowed": borrowed,
        "get_total_reserves": 3,
        "get_exchange_rate": rate,
    } == ours


def indexes(borrow: int, supply: int) -> ScVal:
    return struct_map({"borrow_index": i128(borrow), "supply_index": i128(supply)})


def test_the_indexes_in_a_bulk_answer_of_xoxno() -> None:
    """Both indexes of the one pool that was asked for are compared; an answer of another length is not understood."""
    asked = GetterCall("C", "1-A", ContractCall("C", "get_bulk_indexes"))
    computed = ComputedPool(plain("xoxno"), cast(PoolFrameRow, {"borrow_index": 5, "supply_index": 6}))
    answers: list[Any] = [vec(), vec(indexes(7, 8), indexes(7, 8))]

    assert {"borrow_index": (5, 7), "supply_index": (6, 8)} == XOXNO.fields(asked, vec(indexes(7, 8)), computed, 0)
    for answer in answers:
        with pytest.raises(DecodeError, match=f"{len(answer[1])} results for a pool"):
            XOXNO.fields(asked, answer, computed, 0)
