"""Templar's fork of Blend v2, precept v0.1.0: v2's entries and rules, and a stricter rule of prices."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.ledger.codec.scval_encode import i128, struct_map, u32, u64
from exporter.protocols.blend.layout import PRECEPT
from tests.localnet.recorded import BLEND_V2
from tests.protocols.world import World


def rows(code: str | None, decimals: int, seconds: int) -> list[dict[str, Any]]:
    """Blend's v2 market with this code. Its oracle's prices are that many seconds later than the ledger."""
    world = World("blend")
    if code is not None:
        world.code(BLEND_V2, bytes.fromhex(code))
    price = struct_map({"price": i128(10**decimals), "timestamp": u64(world.time + seconds)})
    oracle = next(row["oracle"] for row in world.compute().pools.rows(named=True) if row["market"] == BLEND_V2)
    world.answers |= {(oracle, "decimals"): u32(decimals), (oracle, "lastprice"): price}
    tables = world.compute()
    assert [] == [text for text in tables.notices if "which is not known for blend" in text]
    return [row for row in tables.pools.rows(named=True) if row["market"] == BLEND_V2]


def test_a_fork_is_read_as_what_it_was_forked_from() -> None:
    """A fork's pools have the numbers and gates that v2's code has with the same entries."""
    of_v2, of_fork = rows(None, 7, 0), rows(PRECEPT, 7, 0)

    assert [row | {"wasm_hash": PRECEPT} for row in of_v2] == of_fork
    assert {10**7} == {row["oracle_price"] for row in of_fork}


@pytest.mark.parametrize(
    ("decimals", "seconds", "reason"),
    [
        (7, 1, "the price is of 1 second after the ledger, which the market refuses"),
        (14, 0, "the market's oracle has 14 decimals, and the market takes 7 only"),
    ],
)
def test_prices_that_only_the_fork_refuses(decimals: int, seconds: int, reason: str) -> None:
    """A price of the future, or of other than 7 decimals, is none there, and closes loans (pool.rs, load_price)."""
    of_v2, of_fork = rows(None, decimals, seconds), rows(PRECEPT, decimals, seconds)

    assert {"valid"} == {row["price_reason"] for row in of_v2}
    assert {(reason, None, False)} == {(row["price_reason"], row["oracle_price"], row["can_borrow"]) for row in of_fork}
