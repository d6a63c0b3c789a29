"""The documents of markets, pools and tokens, what is covered, and frames that contradict each other."""

from __future__ import annotations

import json
import re
from datetime import date
from itertools import chain
from typing import Any, get_args

import polars as pl
import pytest
from msgspec import Struct
from msgspec.structs import fields

from exporter.deployments import Deployment, KnownContract
from exporter.errors import CheckError
from exporter.history.periods import periods_of
from exporter.history.series import Series
from exporter.ledger.tokens import Token
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Parameter
from exporter.protocols.compute import Tables
from exporter.render.lists import with_list_columns
from exporter.render.run_documents import (
    SKIPPED_PER_PAGE,
    excluded_on,
    protocol_list,
    protocol_summary,
    render_details,
    render_markets,
    render_skipped,
    token_documents,
)
from exporter.tables import COLUMNS, FRAME_DTYPES, MARKETS_SCHEMA, PoolKey, written
from exporter.tree.documents import Absent, SkippedMarket, Unpriced, Unread
from exporter.tree.pools import AssetDetail
from exporter.tree.read_back import read_back, render_document
from exporter.tree.values import SkipReason
from tests.history.frames import CLOSE_TIME, LEDGER, pools_frame
from tests.render import rendering
from tests.render.rendering import contract, market_row, markets_frame

A, B, C, D, X, Y = (contract(number) for number in (1, 2, 3, 4, 11, 12))


def overview(
    markets: list[dict[str, object]],
    pools: list[tuple[str, str]] | None = None,
    first_seen: dict[str, int] | None = None,
    tokens: dict[str, Token] | None = None,
) -> dict[str, Any]:
    """All documents, by key."""
    rows = [{"market": name, "pool": pool, "token_address": pool, "symbol": "copy"} for name, pool in pools or []]
    tables = Tables(
        LEDGER, 1, pools_frame(rows, LEDGER), pl.DataFrame(markets, schema=MARKETS_SCHEMA), tokens=tokens or {}
    )
    documents = chain([protocol_summary(tables)], token_documents(tables, first_seen or {}, {}))
    return {file.key: json.loads(file.data) for file in map(render_document, documents)}


def test_what_was_skipped_is_in_pages() -> None:
    """Every skipped market is on one page, in order; each says how many pages there are."""
    skipped = [SkippedMarket(contract(n), "blend", SkipReason.POOLS) for n in range(SKIPPED_PER_PAGE + 1)]
    tables = Tables(LEDGER, 1, pools_frame([], LEDGER), pl.DataFrame(schema=MARKETS_SCHEMA), skipped=skipped)
    files = {file.key: json.loads(file.data) for file in render_skipped(tables)}

    assert ["v1/skipped.json", "v1/skipped/2.json"] == list(files)
    assert [item.market for item in skipped] == [row["market"] for page in files.values() for row in page["data"]]
    assert [(1, 2), (2, 2)] == [(page["page"], page["page_count"]) for page in files.values()]


def test_the_summary_adds_up() -> None:
    """Values of listed markets are summed by protocol and over all, with the counts of what is in them.

    A sum may have more than 38 digits, and is null where nothing is priced. What other markets claim is apart.
    """
    huge = 10**38 - 1
    markets = [
        market_row(A, tvl_usd_cents=huge, pool_count=2),
        market_row(B, protocol="alula", tvl_usd_cents=None, pool_count=3),
        market_row(C, tvl_usd_cents=huge),
        market_row(D, tvl_usd_cents=7, listed=False, listed_reason="not_listed", listed_source=None),
    ]
    document = overview(markets)["v1/protocol/summary.json"]

    def totals(markets: int, pools: int, priced: int, value: int | None) -> list[object]:
        return [markets, pools, priced, None if value is None else str(value)]

    def given(part: dict[str, Any], prefix: str = "") -> list[object]:
        names = ("market_count", "pool_count", "priced_count", "tvl_usd_cents")
        return [part[f"{prefix}{name}"] for name in names]

    alula, blend = document["protocols"]
    assert ["alula", "blend"] == [alula["protocol"], blend["protocol"]]
    assert [totals(3, 6, 2, 2 * huge), totals(1, 1, 1, 7)] == [given(document), given(document, "unlisted_")]
    assert [totals(1, 3, 0, None), totals(0, 0, 0, None)] == [given(alula), given(alula, "unlisted_")]
    assert [totals(2, 3, 2, 2 * huge), totals(1, 1, 1, 7)] == [given(blend), given(blend, "unlisted_")]


ISSUER = "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"


def test_a_token_has_its_facts_pools_and_first_ledger() -> None:
    """A token has what its contract says, the pools that lend it, and the ledger it was first seen at."""
    documents = overview(
        [market_row(A), market_row(B)],
        pools=[(A, X), (A, Y), (B, X)],
        first_seen={X: 7, Y: LEDGER, contract(99): 1},
        tokens={X: Token(X, "native", 7), Y: Token(Y, "EURC", None, issuer=ISSUER, name=f"EURC:{ISSUER}")},
    )

    token, other = documents[f"v1/tokens/{X}.json"], documents[f"v1/tokens/{Y}.json"]
    assert {"symbol": "native", "decimals": 7, "first_seen_ledger": 7, "issuer": None}.items() <= token.items()
    assert [{"market": name, "pool": X, "listed": True} for name in (A, B)] == token["pools"]
    # The pool's own decimals replace those that the contract does not give.
    assert {"symbol": "EURC", "decimals": 7, "issuer": ISSUER, "name": f"EURC:{ISSUER}"}.items() <= other.items()
    assert f"v1/tokens/{contract(99)}.json" not in documents


def market_documents(pools: pl.DataFrame, markets: pl.DataFrame, cap: int = 200) -> dict[str, bytes]:
    """The market documents of a tree, by market."""
    files = map(read_back, render_markets(Tables(LEDGER, 0, pools, markets), cap))
    return {file.key[11:-5]: file.data for file in files if file.key.startswith("v1/markets/")}


def test_golden_market_document() -> None:
    """A market document is exactly these bytes."""
    pools = rendering.pools_frame(
        [
            rendering.pool(A, X, symbol="native", oracle_price_usd=None, tvl_usd_cents=None),
            rendering.pool(A, Y, decimals=18, total_supplied=2**127 - 1, oracle_price_usd="1.000000000000000001"),
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
        '],"truncated":false,"tvl_usd_cents":"329670245","priced_count":1,"listed":true,'
        '"listed_reason":"package_list","listed_source":"the app","backstop":null,"pending":[],"risk":null}'
    )

    assert {A: expected.encode()} == market_documents(pools, markets_frame(pools, {A: 1}))


@pytest.mark.parametrize(("cap", "listed", "truncated"), [(2, 2, True), (3, 3, False), (4, 3, False), (0, 0, True)])
def test_long_lists_are_cut_at_the_cap(cap: int, listed: int, truncated: bool) -> None:
    """Beyond the cap pools are left out and said to be; count and value still cover all of them."""
    pools = rendering.pools_frame(rendering.pool(A, contract(number), tvl_usd_cents=number) for number in (11, 12, 13))
    document = json.loads(market_documents(pools, markets_frame(pools), cap)[A])

    assert [contract(number) for number in (11, 12, 13)][:listed] == [row["pool"] for row in document["pools"]]
    assert (truncated, 3, "36") == (document["truncated"], document["pool_count"], document["tvl_usd_cents"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pool_count": 3}, f"{A}: pool_count is 3, but 2 pools were read and 0 were not"),
        ({"unread_count": 1}, f"{A}: pool_count is 2, but 2 pools were read and 1 were not"),
        ({"tvl_usd_cents": 7}, f"{A}: tvl_usd_cents is 7, but its pools sum up to 659340490"),
        ({"tvl_usd_cents": None}, f"{A}: tvl_usd_cents is None, but its pools sum up to 659340490"),
        ({"market": B}, f"{A} is not among the markets"),
        ({"config_hash": "0" * 15}, rf"v1/markets/{A}\.json: .*\$\.config_hash"),
    ],
)
def test_frames_that_contradict_each_other_are_refused(changes: dict[str, Any], message: str) -> None:
    """Markets that do not add up to their pools are refused."""
    pools = rendering.pools_frame([rendering.pool(A, X), rendering.pool(A, Y)])
    markets = markets_frame(pools)
    markets = pl.DataFrame([markets.row(0, named=True) | changes], schema=markets.schema)

    with pytest.raises(CheckError, match=message):
        market_documents(pools, markets)


MARKET, POOL, ORACLE = contract(1), contract(2), contract(3)

ROW: dict[str, object] = {
    **{column.name: 100 + column.position for column in COLUMNS if FRAME_DTYPES[column.type].is_integer()},
    "market": MARKET,
    "pool": POOL,
    "token_address": POOL,
    "protocol": "blend",
    "market_status": "active",
    "pool_status": "odd",
    "wasm_hash": "ab" * 32,
    "oracle": ORACLE,
    "share_token": POOL,
    "oracle_price_usd": "1.00000000000000",
    "price_timestamp": CLOSE_TIME - 60,
    "price_reason": "valid",
    "total_supplied": 10**38 - 1,
    "can_borrow": False,
    "can_repay": None,
    "available_to_borrow": 0,
    "supply_compounding": "52",
    "borrow_compounding": "365",
}
PARAMETERS = (Parameter("util", 8_000_000, 7), Parameter("supply_cap", 2**127 - 1, 7, no_limit=True))


def rendered(**changes: object) -> dict[str, Any]:
    """The detail of one made pool, read from its file."""
    pools = pools_frame([ROW | changes])
    periods = list(periods_of(Series().pools, CLOSE_TIME, pools))
    listed = with_list_columns(pools, periods, "mainnet")
    tables = Tables(
        LEDGER, CLOSE_TIME, listed, pl.DataFrame(schema=MARKETS_SCHEMA), parameters={PoolKey(MARKET, POOL): PARAMETERS}
    )
    (file,) = map(read_back, render_details(tables, PROTOCOLS, periods, {}))
    assert f"v1/assets/{MARKET}/{changes.get('pool', POOL)}.json" == file.key
    document: dict[str, Any] = json.loads(file.data)
    observed = [(each["period"], each["observed_count"]) for each in document.pop("periods")]
    assert [("24h", 0), ("7d", 0), ("30d", 0)] == observed
    return document


def test_each_column_of_a_pool_is_in_its_detail() -> None:
    """Each column of a pool is in its detail, in the part of its model, as documents write it."""
    detail = rendered()
    frame = pools_frame([ROW]).select(written(column.name, column.document_type) for column in COLUMNS)
    expected = frame.row(0, named=True)
    kinds = {"": AssetDetail} | {part.name: get_args(part.type)[0] for part in fields(AssetDetail)}
    found = {
        field.name: (detail[name] if name else detail)[field.encode_name]
        for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, Struct)
        for field in fields(kind)
        if field.name in expected
    }

    assert expected == found
    assert "ab" * 32 == detail["contract_wasm_hash"]
    assert {"oracle": ORACLE, "validity": "valid", "value": "118", "decimals": 117, "time": "2025-03-17T08:25:40Z"} == (
        detail["price"]
    )
    assert ("everything is open", None) == tuple(
        detail["operations"][f"{status}_status_meaning"] for status in ("market", "pool")
    )
    assert [
        {"name": "util", "value": "8000000", "decimals": 7, "no_limit": False},
        {"name": "supply_cap", "value": str(2**127 - 1), "decimals": 7, "no_limit": True},
    ] == detail["rate_model"]
    assert (LEDGER, f"https://mainnet.blend.capital/dashboard/?poolId={MARKET}") == (
        detail["first_seen_ledger"],
        detail["app_url"],
    )
    assert ([], [], []) == (detail["rate_curve"], detail["risk"]["spokes"], detail["pending"])


@pytest.mark.parametrize("seconds", [-1, 253_402_300_800, 2**63 - 1])
def test_a_price_of_no_date(seconds: int) -> None:
    """A price is shown also when its oracle gives a time that is not a date; the time is null."""
    detail = rendered(price_timestamp=seconds)

    assert ("118", None) == (detail["price"]["value"], detail["price"]["time"])


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"oracle_price": None}, "price.validity is 'valid'"),
        ({"borrowed_usd_cents": None}, "price.validity is 'valid'"),
        ({"available_usd_cents": None}, "liquidity.available_usd_cents must be there"),
        ({"borrow_cap": None}, "risk.borrow_cap_usd_cents must be there"),
        ({"available_to_borrow": 1}, "liquidity.available_to_borrow is 1, but $.operations.can_borrow is False"),
        ({"can_withdraw": None}, "liquidity.available_to_withdraw is 148, but $.operations.can_withdraw is None"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, object], wrong: str) -> None:
    """A row that says valid and has no price, or has an amount behind a closed gate, is not a document."""
    with pytest.raises(CheckError, match=re.escape(f"$.{wrong}")):
        rendered(**changes)


def coverage(tables: Tables, *deployments: Deployment, network: str = "mainnet") -> dict[str, Any]:
    """The document, its protocols by name."""
    file = render_document(protocol_list(tables, PROTOCOLS, deployments, network))
    assert "v1/protocols.json" == file.key
    document: dict[str, Any] = json.loads(file.data)
    return document | {"data": {part["protocol"]: part for part in document["data"]}}


def tables_of(*markets: dict[str, object], **missing: Any) -> Tables:
    return Tables(LEDGER, 1, pools_frame([], LEDGER), pl.DataFrame(markets, schema=MARKETS_SCHEMA), **missing)


def test_counts_of_what_was_found() -> None:
    """Markets, pools, codes, and what is missing are counted by protocol, even if nothing was found."""
    document = coverage(
        tables_of(
            market_row(A, pool_count=3),
            market_row(B, protocol="alula", pool_count=2),
            market_row(C, protocol="slender"),
            *(market_row(address, protocol="slender", wasm_hash="ab" * 32) for address in (D, X)),
            unread=[Unread(A, C, "blend", "archived", "x"), Unread(D, None, "blend", "undecodable", "x")],
            absent=[Absent(C, "alula", "x")],
            unpriced=[Unpriced(A, C, "x"), Unpriced(B, C, "x"), Unpriced(B, D, "x")],
        )
    )

    assert sorted(PROTOCOLS) == sorted(document["data"])
    names = ("market_count", "pool_count", "unread_count", "unpriced_count", "absent_count")
    assert [0, 0, 0, 0, 0] == [document["data"]["k2"][name] for name in names]
    assert [1, 3, 2, 1, 0] == [document["data"]["blend"][name] for name in names]
    assert [1, 2, 0, 2, 1] == [document["data"]["alula"][name] for name in names]
    versions = document["data"]["slender"]["contract_versions"]
    assert [(None, 1), ("ab" * 32, 2)] == [(version["wasm_hash"], version["market_count"]) for version in versions]


def test_what_is_known_and_what_is_left_out() -> None:
    """An address known beforehand has its role and source; on mainnet vaults that count Blend twice are left out."""
    known = KnownContract(A, "backstop", "a list", date(2026, 11, 18))
    document = coverage(tables_of(), Deployment("blend", "v2", (known,)))
    [found] = document["data"]["blend"]["known_contracts"]
    excluded = {item["name"]: item["reason"] for item in document["excluded"]}

    assert {"deployment": "v2", "role": "backstop", "source": "a list", "date": "2026-11-18"}.items() <= found.items()
    assert [] == document["data"]["alula"]["known_contracts"]
    assert "twice" in excluded["DeFindex"]
    assert "NEAR" in excluded["Templar"]
    assert all(excluded.values())
    assert [] == coverage(tables_of(), network="local")["excluded"] == excluded_on("nowhere")
