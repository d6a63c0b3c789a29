"""Curves of the borrow rate, on the pools of the recording."""

from __future__ import annotations

from itertools import pairwise

import pytest

from exporter.localnet.player import RecordedNetwork
from exporter.protocols import PROTOCOLS
from exporter.protocols.compute import Tables
from exporter.protocols.numbers import PoolFrameRow
from exporter.protocols.xoxno.layout import RAY
from exporter.protocols.xoxno.math import RATE_MODEL
from exporter.tables import PoolKey, rows_as
from tests.localnet.test_player import tables_of
from tests.protocols.protocol_facts import all_facts

BENDING = sorted(name for name, module in PROTOCOLS.items() if module.rate_model)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return tables_of(RecordedNetwork())


@pytest.mark.parametrize("protocol", BENDING)
def test_a_curve_goes_through_the_rate_now_and_is_straight_between_its_knots(protocol: str, tables: Tables) -> None:
    """Each pool has one, from no utilization to all; halfway between kinks the contract's math is on the line."""
    model = PROTOCOLS[protocol].rate_model
    pools = tables.pools.filter(tables.pools["protocol"] == protocol)
    assert model is not None
    for row in rows_as(PoolFrameRow, pools):
        own = {item.name: item.value for item in tables.parameters[PoolKey.of(row)]}
        curve = model.curve(row, own)
        assert (row["accrued_utilization"], row["accrued_borrow_apr"]) in curve
        assert (0, model.full) == (curve[0][0], curve[-1][0])
        for (start, low), (end, high) in pairwise(curve):
            middle = (start + end) // 2
            on_line = low + (high - low) * (middle - start) // (end - start)
            assert abs(model.rate(middle, own, row) - on_line) <= max(2, model.full // 10**6)


def test_protocols_without_a_curve() -> None:
    """Every protocol has a curve but those whose rate has no straight lines."""
    assert BENDING == [name for name, facts in all_facts().items() if facts.has_curve]


def test_a_curve_bends_where_the_highest_rate_is_reached() -> None:
    """XOXNO's rate ends at a highest one, which is reached between the kinks of its slopes."""
    own = dict.fromkeys(RATE_MODEL.parameters, RAY // 10) | {
        "mid_utilization": RAY // 2,
        "optimal_utilization": RAY * 3 // 4,
        "slope2": RAY // 5,
        "max_borrow_rate": RAY * 3 // 10,
    }

    assert [RAY // 2, RAY * 5 // 8, RAY * 3 // 4, RAY] == list(RATE_MODEL.kinks(own))
