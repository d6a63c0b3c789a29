"""Reading XOXNO Lending from a chain: what is read, what is not and why, and that nothing is lost in silence."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from exporter.ledger.codec.scval_encode import u32
from exporter.protocols.base import Origin
from exporter.protocols.compute import Tables
from tests.protocols.made_ledger import contract, pools_of, rows_of, unread_of
from tests.protocols.xoxno_ledger import (
    XoxnoLedger,
    candidate,
    controller,
    demanded,
    deployment,
    hub,
    parameters,
    pool_id,
    quotes_call,
    spoke_itself,
    state,
)

A, B = contract("A"), contract("B")
POOLS = ((1, "USDC"), (1, "XLM"), (2, "USDC"))
ALL = {(A, pool_id(*pool)) for pool in POOLS}


def three_pools() -> XoxnoLedger:
    """A controller A with USDC in two hubs and XLM in one."""
    ledger = XoxnoLedger()
    ledger.add_market("A", POOLS)
    return ledger


def compute(ledger: XoxnoLedger, *more: tuple[int, str]) -> Tables:
    """What is published of A, of which the list has all pools and more."""
    return ledger.compute([candidate("A")], [deployment("A", [*POOLS, *more])])


class TestReading:
    """What is read when all is well."""

    def test_a_token_in_two_hubs_is_two_pools(self) -> None:
        """They have their own state and parameters, and are neither added up nor taken for one another."""
        ledger = three_pools()
        ledger.replace(state("A", 2, "USDC", cash=7, supplied=600 * 10**27), parameters("A", 2, "USDC", slope1=0))
        tables = compute(ledger)
        rows = rows_of(tables)
        first, second = (rows[pool_id(hub, "USDC")] for hub in (1, 2))

        assert first["token_address"] == second["token_address"] == contract("USDC")
        assert 1_000 * 10**7 <= first["total_supplied"]
        assert 600 * 10**7 <= second["total_supplied"] < 601 * 10**7
        assert {1, 2} == {
            next(item.value for item in tables.parameters[A, pool_id(hub, "USDC")] if item.name == "hub_id")
            for hub in (1, 2)
        }

    def test_requests(self) -> None:
        """One request has controller, tokens and oracles along with the pools, one the spokes, one their usage.

        Each of four spokes may list each of three pools; one of them does. One call gives every price.
        """
        ledger = three_pools()
        ledger.read([candidate("A")], [deployment("A", POOLS)])

        assert [1 + 2 + 2 * 3 + 2, 2 + 4 + 4 * 3, 3] == ledger.asked.requests
        ordered = [token for _, token in sorted(POOLS, key=lambda pool: (pool[0], contract(pool[1])))]
        assert {quotes_call("A aggregator", list(dict.fromkeys(ordered))): 1} == Counter(ledger.asked.calls)

    def test_pools_named_by_candidates(self) -> None:
        """A pool that an event or an earlier run named is read next to those of the list, and once."""
        found = candidate("A", pool_id(1, "XLM"), Origin.EVENT)
        before = candidate("A", pool_id(2, "USDC"), Origin.REMEMBERED)
        tables = three_pools().compute([candidate("A"), found, before, before], [deployment("A", [(1, "USDC")])])

        assert ALL == pools_of(tables)

    def test_another_pool_contract(self) -> None:
        """The controller decides which contract holds the pools; that the list has another one is said."""
        ledger = three_pools()
        tables = ledger.compute([candidate("A")], [deployment("A", POOLS, "old pool")])

        assert ALL == pools_of(tables)
        assert [f"market {A} keeps its pools in contract {contract('A pool')}, not in"] == [
            notice.split(f" {contract('old pool')}")[0] for notice in tables.notices
        ]

    def test_two_controllers(self) -> None:
        """Each controller has its own pools, contract and aggregator."""
        ledger = three_pools()
        ledger.add_market("B", [(1, "USDC")])
        tables = ledger.compute(
            [candidate("B"), candidate("A")], [deployment("A", POOLS), deployment("B", [(1, "USDC")])]
        )

        assert ALL | {(B, pool_id(1, "USDC"))} == pools_of(tables)
        assert {contract("A aggregator"), contract("B aggregator")} == set(tables.pools["oracle"])

    def test_a_market_without_pools(self) -> None:
        """A controller of which no pool is known is read, and that none was found is said."""
        ledger = XoxnoLedger()
        ledger.replace(controller("A"))
        tables = ledger.compute([demanded("A")])

        assert [(A, 0)] == tables.markets.select("market", "pool_count").rows()
        assert [] == tables.unread
        assert [f"market {A} was read and no pool of it was found"] == [
            notice.split(":")[0] for notice in tables.notices
        ]

    def test_an_operators_market(self) -> None:
        """A controller that no list has names its aggregator itself: its pools are read, and have prices."""
        ledger = three_pools()
        tables = ledger.compute([demanded("A"), candidate("A", pool_id(1, "XLM"), Origin.EVENT)])

        assert {(A, pool_id(1, "XLM"))} == pools_of(tables)
        assert ([], [contract("A aggregator")]) == (tables.unpriced, tables.pools["oracle"].to_list())


class TestFailures:
    """What cannot be read is named, and costs nothing else."""

    def test_listed_and_not_created(self) -> None:
        """A listed pool without any entry does not exist: that is said, and it is neither a member nor unread."""
        tables = compute(three_pools(), (2, "SPIKO"), (2, "OTHER"))

        assert ALL == pools_of(tables)
        assert [3] == tables.markets["pool_count"].to_list()
        assert [] == tables.unread
        assert 1 == len(tables.notices)
        assert "these pools are announced but not deployed" in tables.notices[0]
        assert pool_id(2, "SPIKO") in tables.notices[0]

    @pytest.mark.parametrize("origin", [Origin.REMEMBERED, Origin.CONFIGURATION])
    def test_found_once_and_gone(self, origin: Origin) -> None:
        """A pool that was there once, or that the operator named, is never lost: it is unread, and a member."""
        tables = three_pools().compute(
            [candidate("A"), candidate("A", pool_id(3, "XLM"), origin)], [deployment("A", POOLS)]
        )

        assert {(A, pool_id(3, "XLM")): "absent"} == {place: reason for place, (reason, _) in unread_of(tables).items()}
        assert [(4, 1)] == tables.markets.select("pool_count", "unread_count").rows()

    def test_a_pool_id_that_is_none(self) -> None:
        """A remembered pool that is not a hub and token is named and costs nothing."""
        tables = three_pools().compute(
            [candidate("A"), candidate("A", "USDC", Origin.REMEMBERED)], [deployment("A", POOLS)]
        )

        assert ["undecodable"] == [item.reason for item in tables.unread]
        assert ALL == pools_of(tables)


class TestSpokes:
    """What spokes and hubs allow, as the controller keeps it."""

    def row(self, ledger: XoxnoLedger) -> dict[str, Any]:
        """What is published of USDC in hub 1."""
        return rows_of(compute(ledger))[pool_id(1, "USDC")]

    def test_hub_and_spokes(self) -> None:
        """A hub that is missing or switched off, a spoke that is deprecated or missing: nothing new."""
        for broken, status in (
            (hub("A", 1, active=False), "hub_inactive"),
            (spoke_itself("A", 1, deprecated=True), "active"),
        ):
            for change in ("replace", "remove"):
                ledger = three_pools()
                getattr(ledger, change)(broken)
                row = self.row(ledger)
                assert (False, True, status) == (row["can_supply"], row["can_withdraw"], row["pool_status"])

    @pytest.mark.parametrize(
        ("storage", "notice"),
        [
            ({"LastSpokeId": None}, "it does not say how many"),
            ({"LastSpokeId": u32(4_000)}, "4000 are many"),
        ],
    )
    def test_spokes_that_are_not_read(self, storage: dict[str, Any], notice: str) -> None:
        """Where their number is not known, or above the bound, the pools are read and nothing is said of spokes."""
        ledger = three_pools()
        ledger.replace(controller("A", storage=storage))
        tables = compute(ledger)

        assert ([], {None}) == (tables.unread, set(tables.pools["can_supply"]))
        assert [True] == [notice in item for item in tables.notices]

    def test_no_spoke_at_all(self) -> None:
        """A controller of no spokes: nothing can be opened, and it costs no further request."""
        ledger = three_pools()
        ledger.replace(controller("A", storage={"LastSpokeId": u32(0)}))
        row = self.row(ledger)

        assert (False, "unlisted", 0) == (row["can_borrow"], row["pool_status"], row["supply_cap"])
        assert 2 == len(ledger.asked.requests)
