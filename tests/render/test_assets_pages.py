"""Assets pages: exact bytes, and for any frame the promises that a client pages by."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import CheckError
from exporter.render.lists import render_assets, snapshots
from exporter.tree.documents import encode, page_token
from exporter.tree.files import FileKind
from tests.render.rendering import LEDGER, SIZES, contract, markets_frame, pool, pools_frame

A, B, X = (contract(number) for number in (1, 2, 11))

ROWS = (
    f'{{"market":"{A}","pool":"{X}","token_address":"{X}","symbol":"native","decimals":7,"supply_apy_bps":0,'
    '"borrow_apy_bps":1199,"utilization_bps":6540,"total_supplied":"32967024554566",'
    f'"total_borrowed":"21562828886421","oracle_price_usd":null,"tvl_usd_cents":null,"observed_ledger":{LEDGER}}}',
    f'{{"market":"{B}","pool":"{X}","token_address":"{X}","symbol":"\\"\\\\/\\n\\u0000\\u001fé\u2028🦀","decimals":18,'
    '"supply_apy_bps":610,"borrow_apy_bps":1199,"utilization_bps":6540,'
    '"total_supplied":"170141183460469231731687303715884105727","total_borrowed":"21562828886421",'
    f'"oracle_price_usd":"1.000000000000000001","tvl_usd_cents":"329670245","observed_ledger":{LEDGER}}}',
)


def golden_pools() -> pl.DataFrame:
    """A pool without a price, and one with a hostile symbol, 18 decimals and the largest amount."""
    unpriced = pool(A, X, symbol="native", supply_apy_bps=0, oracle_price_usd=None, tvl_usd_cents=None)
    large = {"decimals": 18, "total_supplied": 2**127 - 1, "oracle_price_usd": "1.000000000000000001"}
    return pools_frame([unpriced, pool(B, X, symbol='"\\/\n\x00\x1fé\u2028🦀', **large)])


def page(rows: Iterable[str], next_cursor: str | None = None) -> bytes:
    """A page of rows, written out by hand."""
    return f'{{"data":[{",".join(rows)}],"next_cursor":{json.dumps(next_cursor)},"observed_ledger":{LEDGER}}}'.encode()


def rendered(pools: pl.DataFrame, sizes: Iterable[int] = (1, 2), default_size: int = 2) -> dict[str, bytes]:
    """All pages and documents by key; no key may come twice."""
    files = list(render_assets(pools, markets_frame(pools), list(sizes), default_size, LEDGER))
    tree = {file.key: file.data for file in files}
    assert len(files) == len(tree)
    return tree


def test_the_pages_of_a_small_frame_stay_the_same() -> None:
    """The pages of a small frame are exactly these bytes, each under the name of its content."""
    last = page(ROWS[1:])
    first, both = page(ROWS[:1], page_token(last)), page(ROWS)
    tree = rendered(golden_pools())

    assert (both, first) == (tree["v1/assets/index.json"], tree["v1/assets/limit/1.json"])
    assert page([], page_token(both)) == tree["v1/assets/limit/0.json"]
    for data in (last, both):
        assert data == tree[f"v1/pages/{page_token(data)}.json"]


def test_empty_frame_has_its_pages() -> None:
    """Without pools the listing is an empty page, for every limit."""
    keys = {f"v1/assets/{name}.json" for name in ("index", "empty")}

    assert dict.fromkeys(keys, page([])) == rendered(pools_frame([]))


def test_an_index_names_what_it_replaces() -> None:
    """A listing's first page without a limit names exactly the limits that are left out.

    A market of which no pool could be read has its listing, too.
    """
    pools = pools_frame([pool(A, contract(number)) for number in range(20, 80)])
    files = {file.key: file for file in render_assets(pools, markets_frame(pools, {B: 1}), SIZES, 50, LEDGER)}
    both = f"v1/assets/market/{A}/token/{contract(20)}"

    assert ("limit/50.json",) == files[f"v1/assets/market/{A}/index.json"].replaces
    assert tuple(f"limit/{size}.json" for size in (0, *SIZES)) == files[f"{both}/index.json"].replaces
    assert {"v1/assets/index.json", "v1/assets/limit/100.json"} <= files.keys()
    assert [f"{both}/index.json"] == [key for key in files if key.startswith(both)]
    assert [f"v1/assets/market/{B}/index.json"] == [key for key in files if B in key]
    assert page([]) == files[f"v1/assets/market/{B}/index.json"].data


def test_pages_of_a_listing_come_before_its_documents() -> None:
    """The order is the same each time, whatever the order of the sizes, and a document is never before its pages."""
    pools = golden_pools()
    files = list(render_assets(pools, markets_frame(pools), SIZES, 50, LEDGER))
    written: set[str] = set()
    for file in files:
        cursor = json.loads(file.data)["next_cursor"]
        assert cursor is None or cursor in written
        if file.kind is FileKind.PAGE:
            written.add(page_token(file.data))
            assert file.key.startswith("v1/pages/")

    assert files == list(render_assets(pools, markets_frame(pools), SIZES[::-1], 50, LEDGER))


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    """Pools of a few markets and tokens, some markets with several pools of one token."""
    markets = [contract(number) for number in range(1, 5)]
    tokens = [contract(number) for number in range(11, 15)]
    places = draw(st.sets(st.tuples(st.sampled_from(markets), st.integers(0, 20)), max_size=30))
    rows = []
    for market, number in sorted(places):
        token = draw(st.sampled_from(tokens))
        price = draw(st.sampled_from(["0.5", None]))
        changes: dict[str, Any] = {
            "pool": f"{number:02}-{token}",
            "total_supplied": draw(st.integers(0, 2**127 - 1)),
            "oracle_price_usd": price,
            "tvl_usd_cents": draw(st.integers(0, 2**120)) if price else None,
        }
        rows.append(pool(market, token, **changes))
    return pools_frame(rows)


@given(frames(), st.sets(st.integers(2, 40), max_size=4), st.data())
def test_every_walk_gives_every_row_once_in_order(
    pools: pl.DataFrame, more_sizes: set[int], data: st.DataObject
) -> None:
    """The cursors of every filter and size lead from its first page through all its rows and no others."""
    sizes = [1, *sorted(more_sizes)]
    default_size = data.draw(st.sampled_from(sizes))
    tree = rendered(pools, sizes, default_size)
    rows = json.loads(encode(snapshots(pools)))
    reached = set()
    markets = {None, *(row["market"] for row in rows)}
    tokens = {None, *(row["token_address"] for row in rows)}
    for market in markets:
        for token in tokens:
            wanted = [row for row in rows if market in (None, row["market"]) and token in (None, row["token_address"])]
            folder = "v1/assets" + (f"/market/{market}" if market else "") + (f"/token/{token}" if token else "")
            if not wanted and (market or token):
                assert f"{folder}/index.json" not in tree
                continue
            index = tree[f"{folder}/index.json"]
            heads = {"index": default_size} | {f"limit/{size}": size for size in [0, *sizes]}
            for name, size in heads.items():
                if size == 0 and market and token:
                    assert f"{folder}/{name}.json" not in tree
                    continue
                # A limit that is left out would have the bytes of the index; a limit that is there has others.
                assert name == "index" or tree.get(f"{folder}/{name}.json") != index
                walked = []
                content = json.loads(tree.get(f"{folder}/{name}.json", index))
                assert min(size, len(wanted)) == len(content["data"])
                while True:
                    walked += content["data"]
                    cursor = content["next_cursor"]
                    if cursor is None:
                        break
                    # Every page but the last is full, and none is empty.
                    assert len(content["data"]) == size
                    reached.add(f"v1/pages/{cursor}.json")
                    content = json.loads(tree[f"v1/pages/{cursor}.json"])
                    assert content["data"]
                    size = size or default_size
                assert wanted == walked

    assert {key for key in tree if key.startswith("v1/pages/")} == reached


@pytest.mark.parametrize("pools", [golden_pools().reverse(), pl.concat([golden_pools()[:1]] * 2)])
def test_frames_out_of_order_are_refused(pools: pl.DataFrame) -> None:
    """A frame out of order, or with a pool twice, renders nothing."""
    with pytest.raises(CheckError, match="must ascend by market and pool"):
        next(render_assets(pools, markets_frame(pools), SIZES, 50, LEDGER))
