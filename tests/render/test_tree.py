"""The rendered tree: market documents, the documents about a run, and frames that contradict each other."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from exporter.errors import CheckError
from exporter.render.endpoints import market_summaries, render_tree
from exporter.tree.files import FileKind
from tests.render.rendering import LEDGER, SIZES, contract, markets_frame, pool, pools_frame

A, B, X, Y = (contract(number) for number in (1, 2, 11, 12))


def market_documents(pools: pl.DataFrame, markets: pl.DataFrame, cap: int = 200) -> dict[str, bytes]:
    """The market documents of a tree, by market."""
    files = render_tree(pools, markets, SIZES, 50, cap)
    return {file.key[11:-5]: file.data for file in files if file.key.startswith("v1/markets/")}


def test_golden_market_document() -> None:
    """A market document is exactly these bytes."""
    pools = pools_frame(
        [
            pool(A, X, symbol="native", oracle_price_usd=None, tvl_usd_cents=None),
            pool(A, Y, decimals=18, total_supplied=2**127 - 1, oracle_price_usd="1.000000000000000001"),
        ]
    )
    expected = (
        f'{{"market":"{A}","config_hash":"00112233aabbccdd","observed_ledger":{LEDGER},"pool_count":3,"pools":['
        f'{{"pool":"{X}","token_address":"{X}","symbol":"native","decimals":7,"supply_apy_bps":610,'
        '"borrow_apy_bps":1199,"utilization_bps":6540,"total_supplied":"32967024554566",'
        '"total_borrowed":"21562828886421","oracle_price_usd":null,"tvl_usd_cents":null},'
        f'{{"pool":"{Y}","token_address":"{Y}","symbol":"USDC","decimals":18,"supply_apy_bps":610,'
        '"borrow_apy_bps":1199,"utilization_bps":6540,"total_supplied":"170141183460469231731687303715884105727",'
        '"total_borrowed":"21562828886421","oracle_price_usd":"1.000000000000000001","tvl_usd_cents":"329670245"}'
        '],"truncated":false,"tvl_usd_cents":"329670245"}'
    )

    assert {A: expected.encode()} == market_documents(pools, markets_frame(pools, {A: 1}))


@pytest.mark.parametrize(("cap", "listed", "truncated"), [(2, 2, True), (3, 3, False), (4, 3, False), (0, 0, True)])
def test_long_lists_are_cut_at_the_cap(cap: int, listed: int, truncated: bool) -> None:
    """Beyond the cap pools are left out and said to be; count and value still cover all of them."""
    pools = pools_frame(pool(A, contract(number), tvl_usd_cents=number) for number in (11, 12, 13))
    document = json.loads(market_documents(pools, markets_frame(pools), cap)[A])

    assert [contract(number) for number in (11, 12, 13)][:listed] == [row["pool"] for row in document["pools"]]
    assert (truncated, 3, "36") == (document["truncated"], document["pool_count"], document["tvl_usd_cents"])


def test_unread_pools_count_without_truncating() -> None:
    """A pool that could not be read is counted, but its absence is not a cut at the cap."""
    pools = pools_frame([pool(A, X)])
    summaries = {summary.market: summary for summary in market_summaries(pools, markets_frame(pools, {A: 2, B: 1}), 1)}

    assert (3, 1, False) == (summaries[A].pool_count, len(summaries[A].pools), summaries[A].truncated)
    assert (1, [], False, None) == (
        summaries[B].pool_count,
        summaries[B].pools,
        summaries[B].truncated,
        summaries[B].tvl_usd_cents,
    )


def test_market_without_prices_has_no_value() -> None:
    """A market in which no pool has a price has a null value, and one whose value is nothing has a zero."""
    pools = pools_frame([pool(A, X, oracle_price_usd=None, tvl_usd_cents=None), pool(B, X, tvl_usd_cents=0)])
    documents = market_documents(pools, markets_frame(pools))

    assert [None, "0"] == [json.loads(documents[market])["tvl_usd_cents"] for market in (A, B)]


def test_empty_frames_render() -> None:
    """A network without markets still gives the assets documents."""
    pools = pools_frame([])
    keys = {file.key for file in render_tree(pools, markets_frame(pools), SIZES, 50)}

    assert {"v1/assets/index.json", "v1/assets/empty.json", "v1/assets/limit/0.json"} <= keys
    assert not any(key.startswith(("v1/markets/", "v1/pages/")) for key in keys)


def test_pages_come_before_documents() -> None:
    """In the whole tree no immutable file comes after a document."""
    pools = pools_frame([pool(A, X), pool(A, Y), pool(B, X)])
    kinds = [file.kind for file in render_tree(pools, markets_frame(pools), SIZES, 50)]

    assert sorted(kinds, key=[FileKind.PAGE, FileKind.DOCUMENT].index) == kinds


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pool_count": 3}, f"{A}: pool_count is 3, but 2 pools were read and 0 were not"),
        ({"unread_count": 1}, f"{A}: pool_count is 2, but 2 pools were read and 1 were not"),
        ({"tvl_usd_cents": 7}, f"{A}: tvl_usd_cents is 7, but its pools sum up to 659340490"),
        ({"tvl_usd_cents": None}, f"{A}: tvl_usd_cents is None, but its pools sum up to 659340490"),
        ({"observed_ledger": LEDGER + 1}, "must be of one ledger"),
        ({"market": B}, f"{A} is not among the markets"),
        ({"config_hash": "0" * 15}, rf"v1/markets/{A}\.json: .*\$\.config_hash"),
    ],
)
def test_frames_that_contradict_each_other_are_refused(changes: dict[str, Any], message: str) -> None:
    """Markets that do not add up to their pools are refused."""
    pools = pools_frame([pool(A, X), pool(A, Y)])
    markets = markets_frame(pools)
    markets = pl.DataFrame([markets.row(0, named=True) | changes], schema=markets.schema)

    with pytest.raises(CheckError, match=message):
        list(render_tree(pools, markets, SIZES, 50))


def test_markets_out_of_order_are_refused() -> None:
    """Markets must ascend, each once."""
    pools = pools_frame([pool(A, X), pool(B, X)])

    with pytest.raises(CheckError, match="must ascend by market"):
        list(render_tree(pools, markets_frame(pools).reverse(), SIZES, 50))
