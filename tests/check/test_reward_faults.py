"""What a document says of rewards must follow from the numbers beside it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from exporter.check.reward_faults import reward_faults
from exporter.render.assets_pages import snapshots
from exporter.tables import YEAR
from exporter.tree.pools import PoolSnapshot
from tests.render.rendering import contract, pool, pools_frame

(ROW,) = snapshots(
    pools_frame([pool(contract(1), contract(2), total_supplied=5 * 10**7, oracle_price_usd="3.0000000")])
)
REWARDS: dict[str, Any] = {
    "reward_price": "5000000",
    "reward_price_decimals": 7,
    "reward_price_source": "pool",
    "reward_token_decimals": 7,
    "reward_decimals": 2,
    "supply_reward_per_second": "100",
    "supply_reward_per_year": str(YEAR),
    "supply_reward_apr_bps": YEAR * 5_000_000 * 10_000 // (5 * 10**7 * 30_000_000),
    "supply_reward_reason": "valid",
    "borrow_reward_per_second": "0",
    "borrow_reward_per_year": "0",
    "borrow_reward_apr_bps": 0,
    "borrow_reward_reason": "no_emissions",
}


def faults(row: PoolSnapshot = ROW, **changes: object) -> list[str]:
    """What is wrong with the rewards of a pool of five tokens at three dollars."""
    return list(reward_faults(row, REWARDS | changes))


def test_a_yield_that_follows() -> None:
    """A token a second hundred times a hundredth, at half a dollar, is 1051 of 15 dollars; nothing is wrong with it."""
    assert 1051 == REWARDS["supply_reward_apr_bps"]
    assert [] == faults()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"supply_reward_apr_bps": 1052}, "supply_reward_apr_bps is 1052, but its pace, prices and total give 1051"),
        ({"reward_price": "6000000"}, "supply_reward_apr_bps is 1051, but its pace, prices and total give 1261"),
        ({"supply_reward_per_year": "1"}, f"supply_reward_per_year is '1', but its pace gives '{YEAR}'"),
        ({"supply_reward_apr_bps": None}, "supply_reward_apr_bps is None at a pace of 100, but its reason is 'valid'"),
        (
            {"supply_reward_reason": "unread"},
            "supply_reward_apr_bps is 1051 at a pace of 100, but its reason is 'unread'",
        ),
        (
            {"borrow_reward_per_second": "1"},
            "borrow_reward_apr_bps is 0 at a pace of 1, but its reason is 'no_emissions'",
        ),
        ({"reward_price_source": None}, "reward_price must be there if and only if its decimals and its source are"),
        ({"reward_token_decimals": None}, "supply_reward_apr_bps is 1051, and has no price or no total to follow from"),
    ],
)
def test_what_does_not_follow(changes: dict[str, Any], fault: str) -> None:
    """Each number that contradicts another is named with what it should be."""
    assert any(found.startswith(f"$.rewards.{fault}") for found in faults(**changes)), faults(**changes)


def test_a_pool_without_a_price() -> None:
    """A yield has nothing to follow from where the pool has no price."""
    row = msgspec.structs.replace(ROW, oracle_price_usd=None, tvl_usd_cents=None)

    assert ["$.rewards.supply_reward_apr_bps is 1051, and has no price or no total to follow from"] == faults(row)
