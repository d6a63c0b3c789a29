"""The list of markets, the summary of the protocols, and the tokens."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from exporter.errors import CheckError
from exporter.ledger.tokens import Token
from exporter.numbers.compute import Tables
from exporter.render.endpoints import render_overview
from exporter.tables import MARKETS
from tests.history.frames import pools_frame
from tests.render.rendering import LEDGER, contract

A, B, C, X, Y = (contract(number) for number in (1, 2, 3, 11, 12))


def market(address: str, protocol: str = "blend", tvl: int | None = 5, pools: int = 1) -> dict[str, object]:
    """A row of the markets frame."""
    return {
        "market": address,
        "protocol": protocol,
        "version": "v2",
        "name": "Fixed",
        "status": "active",
        "oracle": None,
        "config_hash": "0" * 16,
        "wasm_hash": None,
        "pool_count": pools,
        "unread_count": 0,
        "tvl_usd_cents": tvl,
        "observed_ledger": LEDGER,
    }


def overview(
    markets: list[dict[str, object]],
    pools: list[tuple[str, str]] | None = None,
    first_seen: dict[str, int] | None = None,
    tokens: dict[str, Token] | None = None,
) -> dict[str, Any]:
    """All documents, by key."""
    rows = [{"market": name, "pool": pool, "token_address": pool, "symbol": "copy"} for name, pool in pools or []]
    tables = Tables(
        LEDGER,
        1,
        pools_frame(rows, LEDGER),
        pl.DataFrame(markets, schema=MARKETS),
        tokens=tokens or {},
    )
    return {file.key: json.loads(file.data) for file in render_overview(tables, first_seen or {})}


def test_the_list_of_markets() -> None:
    """Every market is listed with its counts and value, null where no pool has a price."""
    document = overview([market(A), market(B, tvl=None, pools=0)])["v1/markets.json"]

    assert LEDGER == document["observed_ledger"]
    assert [
        {
            "market": A,
            "protocol": "blend",
            "version": "v2",
            "name": "Fixed",
            "status": "active",
            "observed_ledger": LEDGER,
            "pool_count": 1,
            "tvl_usd_cents": "5",
        },
        {"market": B, "pool_count": 0, "tvl_usd_cents": None},
    ] == [document["data"][0], {name: document["data"][1][name] for name in ("market", "pool_count", "tvl_usd_cents")}]


def test_the_summary_adds_up() -> None:
    """Counts and values are summed by protocol and over all, also beyond 38 digits; null where nothing is priced."""
    huge = 10**38 - 1
    document = overview(
        [market(A, "blend", huge, 2), market(B, "alula", None, 3), market(C, "blend", huge, 1)],
    )["v1/protocol/summary.json"]

    assert {
        "observed_ledger": LEDGER,
        "market_count": 3,
        "pool_count": 6,
        "tvl_usd_cents": str(2 * huge),
        "protocols": [
            {"protocol": "alula", "market_count": 1, "pool_count": 3, "tvl_usd_cents": None},
            {"protocol": "blend", "market_count": 2, "pool_count": 3, "tvl_usd_cents": str(2 * huge)},
        ],
    } == document


def test_nothing_was_read() -> None:
    """Without a market there is an empty list, a summary of nothing, and no token."""
    documents = overview([])

    assert ["v1/markets.json", "v1/protocol/summary.json"] == list(documents)
    assert {
        "observed_ledger": LEDGER,
        "market_count": 0,
        "pool_count": 0,
        "tvl_usd_cents": None,
        "protocols": [],
    } == documents["v1/protocol/summary.json"]


def test_tokens() -> None:
    """A token has what its contract says, the pools that lend it, and the ledger it was first seen at."""
    documents = overview(
        [market(A), market(B)],
        pools=[(A, X), (A, Y), (B, X)],
        first_seen={X: 7, Y: LEDGER, contract(99): 1},
        tokens={X: Token(X, "native", 7), Y: Token(Y, "EURC", None)},
    )

    assert {
        "address": X,
        "symbol": "native",
        "decimals": 7,
        "first_seen_ledger": 7,
        "observed_ledger": LEDGER,
        "pools": [{"market": A, "pool": X}, {"market": B, "pool": X}],
    } == documents[f"v1/tokens/{X}.json"]
    # The pool's own decimals stand in for those that the contract does not give.
    assert ("EURC", 7) == tuple(documents[f"v1/tokens/{Y}.json"][name] for name in ("symbol", "decimals"))
    assert f"v1/tokens/{contract(99)}.json" not in documents


def test_a_token_that_is_new() -> None:
    """A token that the history does not know was first seen at this ledger."""
    documents = overview([market(A)], pools=[(A, X)])

    assert ("copy", LEDGER) == tuple(documents[f"v1/tokens/{X}.json"][name] for name in ("symbol", "first_seen_ledger"))


def test_markets_out_of_order_are_refused() -> None:
    """A list that does not ascend is not published."""
    with pytest.raises(CheckError, match="must ascend by market"):
        overview([market(B), market(A)])
