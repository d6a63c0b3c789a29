"""XOXNO's math at its kinks and bounds; test_judged_rows and test_contract_states have what other code computed.

Next to a vector is its mark: pub (the digits are XOXNO's own), tol (within its tests' tolerance), calc. Source lines
are those of XOXNO/rs-lending-xlm at 5a27d74f.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from exporter.protocols.numbers import SpokeTerms
from exporter.protocols.xoxno import math
from exporter.protocols.xoxno.layout import HubMarket, Spoke, State
from tests.protocols.judged import closed, plain, published, with_numbers

Pool = dict[str, int]

RAY, NOW = 10**27, 1_800_000_000
YEAR = 31_556_926_000


def permille(value: float) -> int:
    """RAY of a thousandth."""
    return round(value * 10) * 10**23


def percent(*rates: float, reserve_factor: int) -> Pool:
    """Parameters given in percent, in the order of the curve's."""
    given = dict(zip(math.CURVE, (permille(rate * 10) for rate in rates), strict=True))
    return EMPTY | given | {"reserve_factor": reserve_factor * 100}


EMPTY: Pool = {
    **dict.fromkeys(("supplied", "borrowed", "revenue", "cash"), 0),
    **dict.fromkeys(("supply_index", "borrow_index"), RAY),
    "last_timestamp": NOW * 1_000,
    "max_utilization": permille(950),
    "asset_decimals": 7,
}
# P1, P2 and the pool of the getters are those of XOXNO's tests
P1 = percent(0.5, 3, 9.5, 100, 60, 85, 125, reserve_factor=15)
P2 = percent(1, 4, 10, 300, 50, 80, 100, reserve_factor=10)
VIEWED = percent(1, 10, 20, 50, 50, 80, 200, reserve_factor=10)


FULL = {"supplied": 10**28, "borrowed": 10**36, "supply_index": 10**24, "reserve_factor": 10_000}


class TestVectors:
    """XOXNO's published vectors."""

    @pytest.mark.parametrize(
        ("pool", "u", "expected"),
        [
            pytest.param(P1, 0, 5000000000000000000000000, id="1 pub"),
            pytest.param(P1, permille(300), 20000000000000000000000000, id="2 pub"),
            pytest.param(P1, permille(600), 35000000000000000000000000, id="3 pub, the kink is of segment 2"),
            pytest.param(P1, permille(650), 54000000000000000000000000, id="4 pub"),
            pytest.param(P1, permille(850), 130000000000000000000000000, id="5 pub, the kink is of segment 3"),
            pytest.param(P1, permille(900), 463333333333333333333333333, id="6 pub, digits calc"),
            pytest.param(P1, RAY, 1130000000000000000000000000, id="7 pub"),
            pytest.param(P2, permille(900), 10**27, id="P2 .90 tol, the cap"),
            pytest.param(P1, 7 * RAY, 1130000000000000000000000000, id="above 1 counts as 1"),
        ],
    )
    def test_the_rate_over_the_utilization_is_the_contracts(self, pool: Pool, u: int, expected: int) -> None:
        """The rate over the utilization, vectors A 1 to 7 and the row of P2."""
        assert expected == math.borrow_rate(u, *(pool[name] for name in math.CURVE))

    def test_stored_rates_and_amounts_are_those_of_the_views(self) -> None:
        """Vectors B 10 to 13, pub: utilization, rates and amounts of stored state; time has not passed."""
        amounts = {"supplied": 10 * RAY, "borrowed": 5 * RAY, "borrow_index": 3 * RAY, "supply_index": 2 * RAY}
        row = row_of(VIEWED | amounts, ())

        assert 750000000000000000000000000 == row["stored_utilization"]
        assert 276666666666666666666666667 == row["stored_borrow_apr"]
        assert 186750000000000000000000000 == row["stored_supply_apr"]
        assert (200000000, 150000000) == (row["total_supplied"], row["total_borrowed"])

    def test_an_index_that_stays(self) -> None:
        """Without rewards the supply index stays; a half rounded up in the value of what is supplied cannot raise it.

        common/src/rates/index.rs:29. Three shares at index 0.5 are worth 1.5, that is 2, so that the quotient of value
        and shares is above the index.
        """
        nothing_lent = {"supplied": 3, "supply_index": RAY // 2}
        to_the_protocol = {"supplied": 10**28 + 3, "borrowed": RAY, "supply_index": RAY // 2, "reserve_factor": 10_000}
        worthless = {"supplied": 1, "supply_index": RAY // 3, "borrowed": RAY}
        for state in (nothing_lent, to_the_protocol, worthless):
            assert state["supply_index"] == accrued(P1 | state, (NOW + 86_400) * 1_000).supply_index

    @pytest.mark.parametrize(
        ("state", "name", "most"),
        [
            # If the new index would not fit, it is the highest one: common/src/rates/index.rs:41, saturating.
            ({"supplied": 10**17, "borrowed": 14 * 10**27, "reserve_factor": 0}, "supply_index", 10**36),
            ({"borrowed": RAY, "supplied": RAY, "borrow_index": 10**36}, "borrow_index", 10**36),
            # More shares than there are numbers are as many as there is room for: common/src/rates/index.rs:97.
            (FULL, "supplied", 2**127 - 1),
            (FULL, "revenue", 2**127 - 1 - 10**28),
        ],
    )
    def test_indexes_and_shares_grow_up_to_a_bound(self, state: Pool, name: str, most: int) -> None:
        """Indexes and shares grow up to a bound."""
        assert most == getattr(accrued(P1 | state, (NOW * 1_000) + YEAR), name)


# 1000 tokens supplied, 10 of them the protocol's, and 500 lent, a hundred seconds ago
LENDING: Pool = P1 | {"supplied": 1_000 * RAY, "revenue": 10 * RAY, "borrowed": 500 * RAY, "cash": 500 * 10**7}
LENDING["last_timestamp"] = (NOW - 100) * 1_000
SPOKE = Spoke(
    spoke=1,
    deprecated=False,
    paused=False,
    frozen=False,
    can_be_collateral=True,
    can_be_borrowed=True,
    can_be_seized=True,
    collateral_factor_bps=7_500,
    liquidation_threshold_bps=7_800,
    liquidation_bonus_bps=900,
    supply_cap=10**10,
    borrow_cap=10**10,
    supplied=0,
    borrowed=0,
)


def row_of(
    pool: Pool, spokes: tuple[Spoke, ...] | None, *, paused: bool = False, hub_active: bool = True
) -> dict[str, Any]:
    """What is published about one hub market."""
    columns = {**pool, "decimals": 7, "paused": paused, "hub_active": hub_active, "spokes": spokes}
    return published("xoxno", columns, NOW)


def spokes_of(pool: Pool, spokes: tuple[Spoke, ...]) -> tuple[SpokeTerms, ...]:
    """The terms of each spoke of a hub market that is open."""
    columns = {**pool, "decimals": 7, "paused": False, "hub_active": True, "spokes": spokes}
    return math.project(with_numbers(plain("xoxno"), columns), NOW).spokes


def accrued(pool: Pool, now: int) -> State:
    """A state at a time in milliseconds."""
    market: HubMarket = with_numbers(plain("xoxno"), pool).state
    return math.accrue(market.state, market.parameters, now)


@pytest.mark.parametrize(
    ("spokes", "given", "expected", "status"),
    [
        ([{}], {}, "", "active"),
        ([{}], {"paused": True}, "supply borrow", "active"),
        ([{}], {"hub_active": False}, "supply borrow", "hub_inactive"),
        ([{"deprecated": True}], {}, "supply borrow", "active"),
        ([{"frozen": True}], {}, "supply borrow", "active"),
        ([{"paused": True}], {}, "supply withdraw borrow repay liquidate", "active"),
        ([{"paused": True}, {"can_be_borrowed": False}], {}, "borrow", "active"),
        ([{"can_be_collateral": False}], {}, "supply", "active"),
        ([], {}, "supply borrow", "unlisted"),
    ],
)
def test_a_gate_is_open_if_one_spoke_opens_it(
    spokes: list[dict[str, Any]], given: dict[str, bool], expected: str, status: str
) -> None:
    """A gate is open if one spoke opens it; controller and hub close what is new, and never exits."""
    row = row_of(LENDING, tuple(replace(SPOKE, **changes) for changes in spokes), **given)

    assert (expected, status) == (closed(row), row["pool_status"])


def test_terms_of_several_spokes() -> None:
    """Caps are summed up over the spokes that lend or take collateral; factors are those of the highest one."""
    factors = "collateral_factor_bps", "liquidation_threshold_bps", "liquidation_bonus_bps"
    spokes = (
        SPOKE,
        replace(
            SPOKE,
            spoke=2,
            collateral_factor_bps=8_000,
            liquidation_threshold_bps=8_100,
            liquidation_bonus_bps=300,
        ),
        replace(SPOKE, spoke=3, can_be_collateral=False, borrow_cap=5, collateral_factor_bps=9_000),
        replace(SPOKE, spoke=4, deprecated=True, supply_cap=7, collateral_factor_bps=9_500),
    )
    row = row_of(LENDING, spokes)
    shown = spokes_of(LENDING, spokes)

    assert [8_000, 8_100, 300] == [row[name] for name in factors]
    assert (2 * 10**10, 2 * 10**10 + 5) == (row["supply_cap"], row["borrow_cap"])
    assert (True, True) == (row["can_be_collateral"], row["can_be_borrowed"])
    assert [1, 2, 3, 4] == [spoke.spoke for spoke in shown]
    assert [True, True, False, False] == [spoke.can_supply for spoke in shown]
    assert [10**10, 10**10, 5, 10**10] == [spoke.borrow_cap for spoke in shown]
    assert None is row_of(LENDING | {"max_utilization": RAY}, spokes)["max_utilization_bps"]


def test_an_insolvent_market_takes_no_supply() -> None:
    """What suppliers are owed may not be more than cash and debt (contracts/pool/src/guards.rs)."""
    insolvent = LENDING | {"cash": 10**9, "max_utilization": RAY}
    row = row_of(insolvent, (SPOKE,))
    (spoke,) = spokes_of(insolvent, (SPOKE,))

    assert ("supply", "insolvent") == (closed(row), row["pool_status"])
    assert row["total_supplied"] - row["total_borrowed"] - 10**9 == row["shortfall"]
    assert 0 == row_of(LENDING | {"cash": 10**10}, (SPOKE,))["shortfall"]
    assert (False, 0, True) == (spoke.can_supply, spoke.available_to_supply, spoke.can_borrow)


@pytest.mark.parametrize("borrowed", [0, 1, 37])
@pytest.mark.parametrize("revenue", [0, 70])
@pytest.mark.parametrize("most", [RAY, RAY // 2, 41 * RAY // 100])
def test_the_most_that_passes(most: int, revenue: int, borrowed: int) -> None:
    """If a share is a base unit, one unit more would leave too little for the debt, the revenue or the buffer."""
    pool = P1 | {"supplied": 100, "borrowed": borrowed, "revenue": revenue, "cash": 100 - borrowed}
    row = row_of(pool | {"max_utilization": most, "asset_decimals": 27}, None)

    def used(debt: int, supply: int) -> int:
        return (debt * RAY + supply // 2) // supply if supply else most + bool(debt)

    out = [n for n in range(101 - max(borrowed, revenue)) if used(borrowed, 100 - n) <= most or most == RAY]
    lent = [n for n in range(99 - borrowed) if used(borrowed + n, 100) <= most or most == RAY]
    assert (max(out), max(lent)) == (row["available_to_withdraw"], row["available_to_borrow"])
