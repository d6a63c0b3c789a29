"""The documents of markets, pools and tokens, what is covered, and frames that contradict each other."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

import polars as pl
import pytest

from exporter.deployments import Deployment, KnownContract
from exporter.errors import CheckError
from exporter.history.periods import periods_of
from exporter.history.series import Series
from exporter.ledger.tokens import Token
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Absent, Parameter, Unread
from exporter.protocols.compute import Tables, Unpriced
from exporter.render.run_documents import (
    excluded_on,
    market_summaries,
    protocol_list,
    render_details,
    render_overview,
    render_tree,
)
from exporter.tables import MARKETS
from exporter.tree.read_back import read_back, render_document
from tests.history.frames import CLOSE_TIME, LEDGER, pools_frame
from tests.render import rendering
from tests.render.rendering import SIZES, contract, markets_frame

A, B, C, D, X, Y = (contract(number) for number in (1, 2, 3, 4, 11, 12))


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
    return {file.key: json.loads(file.data) for file in map(read_back, render_overview(tables, first_seen or {}))}


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
            "supplied_usd_cents": None,
            "borrowed_usd_cents": None,
            "mean_supply_apy_bps": None,
            "mean_total_supply_apy_bps": None,
            "mean_borrow_apy_bps": None,
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


ISSUER = "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"


def test_tokens() -> None:
    """A token has what its contract says, the pools that lend it, and the ledger it was first seen at."""
    documents = overview(
        [market(A), market(B)],
        pools=[(A, X), (A, Y), (B, X)],
        first_seen={X: 7, Y: LEDGER, contract(99): 1},
        tokens={X: Token(X, "native", 7), Y: Token(Y, "EURC", None, issuer=ISSUER, name=f"EURC:{ISSUER}")},
    )

    assert {
        "address": X,
        "symbol": "native",
        "decimals": 7,
        "first_seen_ledger": 7,
        "observed_ledger": LEDGER,
        "pools": [{"market": A, "pool": X}, {"market": B, "pool": X}],
        "issuer": None,
        "name": None,
    } == documents[f"v1/tokens/{X}.json"]
    assert ISSUER == documents[f"v1/tokens/{Y}.json"]["issuer"]
    assert f"EURC:{ISSUER}" == documents[f"v1/tokens/{Y}.json"]["name"]
    # The pool's own decimals replace those that the contract does not give.
    assert ("EURC", 7) == tuple(documents[f"v1/tokens/{Y}.json"][name] for name in ("symbol", "decimals"))
    assert f"v1/tokens/{contract(99)}.json" not in documents


def test_a_token_that_is_new() -> None:
    """A token that the history does not know was first seen at this ledger."""
    documents = overview([market(A)], pools=[(A, X)])

    assert ("copy", LEDGER) == tuple(documents[f"v1/tokens/{X}.json"][name] for name in ("symbol", "first_seen_ledger"))


def market_documents(pools: pl.DataFrame, markets: pl.DataFrame, cap: int = 200) -> dict[str, bytes]:
    """The market documents of a tree, by market."""
    files = render_tree(pools, markets, SIZES, 50, cap)
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
        '],"truncated":false,"tvl_usd_cents":"329670245","backstop":null,"pending":[]}'
    )

    assert {A: expected.encode()} == market_documents(pools, markets_frame(pools, {A: 1}))


@pytest.mark.parametrize(("cap", "listed", "truncated"), [(2, 2, True), (3, 3, False), (4, 3, False), (0, 0, True)])
def test_long_lists_are_cut_at_the_cap(cap: int, listed: int, truncated: bool) -> None:
    """Beyond the cap pools are left out and said to be; count and value still cover all of them."""
    pools = rendering.pools_frame(rendering.pool(A, contract(number), tvl_usd_cents=number) for number in (11, 12, 13))
    document = json.loads(market_documents(pools, markets_frame(pools), cap)[A])

    assert [contract(number) for number in (11, 12, 13)][:listed] == [row["pool"] for row in document["pools"]]
    assert (truncated, 3, "36") == (document["truncated"], document["pool_count"], document["tvl_usd_cents"])


def test_unread_pools_count_without_truncating() -> None:
    """A pool that could not be read is counted, but its absence is not a cut at the cap."""
    pools = rendering.pools_frame([rendering.pool(A, X)])
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
    pools = rendering.pools_frame(
        [rendering.pool(A, X, oracle_price_usd=None, tvl_usd_cents=None), rendering.pool(B, X, tvl_usd_cents=0)]
    )
    documents = market_documents(pools, markets_frame(pools))

    assert [None, "0"] == [json.loads(documents[market])["tvl_usd_cents"] for market in (A, B)]


def test_empty_frames_render() -> None:
    """A network without markets still gives the assets documents."""
    pools = rendering.pools_frame([])
    keys = {file.key for file in render_tree(pools, markets_frame(pools), SIZES, 50)}

    assert {"v1/assets/index.json", "v1/assets/empty.json"} <= keys
    assert not any(key.startswith(("v1/markets/", "v1/pages/")) for key in keys)


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
    pools = rendering.pools_frame([rendering.pool(A, X), rendering.pool(A, Y)])
    markets = markets_frame(pools)
    markets = pl.DataFrame([markets.row(0, named=True) | changes], schema=markets.schema)

    with pytest.raises(CheckError, match=message):
        list(map(read_back, render_tree(pools, markets, SIZES, 50)))


def test_markets_out_of_order_are_refused() -> None:
    """Markets must ascend, each once."""
    pools = rendering.pools_frame([rendering.pool(A, X), rendering.pool(B, X)])

    with pytest.raises(CheckError, match="must ascend by market"):
        list(render_tree(pools, markets_frame(pools).reverse(), SIZES, 50))


MARKET, POOL, ORACLE = contract(1), contract(2), contract(3)

ROW: dict[str, object] = {
    "market": MARKET,
    "pool": POOL,
    "token_address": POOL,
    "symbol": "USDC",
    "decimals": 7,
    "protocol": "blend",
    "version": "v2",
    "market_name": "Fixed",
    "market_status": "active",
    "wasm_hash": "ab" * 32,
    "oracle": ORACLE,
    "supply_apy_bps": 610,
    "borrow_apy_bps": 1199,
    "utilization_bps": 6540,
    "total_supplied": 10**38 - 1,
    "total_borrowed": 21,
    "total_collateral": 5,
    "oracle_decimals": 14,
    "oracle_price": 10**14,
    "price_timestamp": CLOSE_TIME - 60,
    "price_reason": "valid",
    "oracle_price_usd": "1.00000000000000",
    "tvl_usd_cents": 77,
    "supply_index": 11,
    "borrow_index": 12,
    "index_decimals": 12,
    "stored_supply_apr": 13,
    "stored_borrow_apr": 14,
    "accrued_supply_apr": 15,
    "accrued_borrow_apr": 16,
    "apr_decimals": 7,
    "stored_utilization": 17,
    "accrued_utilization": 18,
    "utilization_decimals": 6,
    "rate_modifier": 19,
    "rate_modifier_decimals": 9,
    "backstop_credit": 20,
    "can_borrow": False,
    "can_repay": None,
    "can_reason": "nobody knows",
    "pool_status": "odd",
    "available_to_withdraw": 21,
    "available_to_borrow": 0,
    "available_to_supply": None,
    "min_first_supply": 1_000,
    "supplied_usd_cents": 22,
    "borrowed_usd_cents": 23,
    "available_usd_cents": 24,
    "available_to_supply_usd_cents": None,
    "available_to_borrow_usd_cents": 0,
    "supply_compounding": "52",
    "borrow_compounding": "365",
    "comparable_supply_apy_bps": 611,
    "comparable_borrow_apy_bps": 1200,
    "total_supply_apy_bps": 638,
    "collateral_factor_bps": 9500,
    "liquidation_threshold_bps": 9600,
    "liability_factor_bps": 10526,
    "liquidation_bonus_bps": None,
    "supply_cap": 0,
    "borrow_cap": None,
    "pool_label": "Hub 1",
    "supply_cap_usd_cents": 0,
    "borrow_cap_usd_cents": None,
    "share_token": POOL,
    "share_supply": 29,
    "max_utilization_bps": 9500,
    "reserve_factor_bps": 2000,
    "reward_symbol": "BLND",
    "reward_token_decimals": 7,
    "reward_decimals": 7,
    "supply_reward_per_second": 25,
    "supply_reward_per_year": 26,
    "supply_reward_expiration": CLOSE_TIME + 60,
    "supply_reward_apr_bps": 27,
    "borrow_reward_per_second": 0,
    "borrow_reward_per_year": 0,
    "borrow_reward_expiration": None,
    "borrow_reward_apr_bps": 0,
    "reward_price": 28,
    "reward_price_decimals": 21,
    "reward_price_source": "comet_spot",
}
PARAMETERS = (Parameter("util", 8_000_000, 7), Parameter("supply_cap", 2**127 - 1, 7, no_limit=True))


def rendered(**changes: object) -> dict[str, Any]:
    """The detail of one made pool, as it is in its file."""
    tables = Tables(
        LEDGER,
        CLOSE_TIME,
        pools_frame([ROW | changes]),
        pl.DataFrame(schema=MARKETS),
        parameters={(MARKET, POOL): PARAMETERS},
    )
    (file,) = map(
        read_back,
        render_details(
            tables, PROTOCOLS, list(periods_of(Series().pools, tables.close_time, tables.pools)), {}, "mainnet"
        ),
    )
    assert f"v1/assets/{MARKET}/{changes.get('pool', POOL)}.json" == file.key
    document: dict[str, Any] = json.loads(file.data)
    periods = document.pop("periods")
    assert [("24h", 0), ("7d", 0), ("30d", 0)] == [(each["period"], each["observed_count"]) for each in periods]
    return document


def test_every_field() -> None:
    """A detail is the snapshot, then everything else of the pool, exactly this."""
    assert {
        "market": MARKET,
        "pool": POOL,
        "token_address": POOL,
        "symbol": "USDC",
        "decimals": 7,
        "supply_apy_bps": 610,
        "borrow_apy_bps": 1199,
        "utilization_bps": 6540,
        "total_supplied": "9" * 38,
        "total_borrowed": "21",
        "oracle_price_usd": "1.00000000000000",
        "tvl_usd_cents": "77",
        "observed_ledger": LEDGER,
        "ledger_close_time": "2025-03-17T08:26:40Z",
        "protocol": "blend",
        "version": "v2",
        "market_name": "Fixed",
        "market_status": "active",
        "pool_label": "Hub 1",
        "first_seen_ledger": LEDGER,
        "app_url": f"https://mainnet.blend.capital/dashboard/?poolId={MARKET}",
        "rate_curve": [],
        "contract_wasm_hash": "ab" * 32,
        "total_collateral": "5",
        "backstop_credit": "20",
        "last_accrual_time": "2025-03-17T08:26:40Z",
        "price": {
            "oracle": ORACLE,
            "validity": "valid",
            "value": "100000000000000",
            "decimals": 14,
            "time": "2025-03-17T08:25:40Z",
        },
        "rates": {
            "apr_decimals": 7,
            "stored_supply_apr": "13",
            "stored_borrow_apr": "14",
            "accrued_supply_apr": "15",
            "accrued_borrow_apr": "16",
            "utilization_decimals": 6,
            "stored_utilization": "17",
            "accrued_utilization": "18",
            "rate_modifier_decimals": 9,
            "rate_modifier": "19",
        },
        "indexes": {"decimals": 12, "supply": "11", "borrow": "12", "share_token": POOL, "share_supply": "29"},
        "rate_model": [
            {"name": "util", "value": "8000000", "decimals": 7, "no_limit": False},
            {"name": "supply_cap", "value": str(2**127 - 1), "decimals": 7, "no_limit": True},
        ],
        "supply_compounding": "52",
        "borrow_compounding": "365",
        "comparable_supply_apy_bps": 611,
        "comparable_borrow_apy_bps": 1200,
        "total_supply_apy_bps": 638,
        "operations": {
            "can_supply": True,
            "can_withdraw": True,
            "can_borrow": False,
            "can_repay": None,
            "can_liquidate": True,
            "can_reason": "nobody knows",
            "market_status_meaning": "everything is open",
            "pool_status": "odd",
            "pool_status_meaning": None,
        },
        "liquidity": {
            "available_to_withdraw": "21",
            "available_to_borrow": "0",
            "available_to_supply": None,
            "min_first_supply": "1000",
            "supplied_usd_cents": "22",
            "borrowed_usd_cents": "23",
            "available_usd_cents": "24",
            "available_to_supply_usd_cents": None,
            "available_to_borrow_usd_cents": "0",
        },
        "risk": {
            "risk_scope": "reserve",
            "collateral_factor_bps": 9500,
            "liquidation_threshold_bps": 9600,
            "liability_factor_bps": 10526,
            "liquidation_bonus_bps": None,
            "liquidation_kind": "auction",
            "supply_cap": "0",
            "borrow_cap": None,
            "supply_cap_usd_cents": "0",
            "borrow_cap_usd_cents": None,
            "max_utilization_bps": 9500,
            "reserve_factor_bps": 2000,
            "can_be_collateral": True,
            "can_be_borrowed": True,
            "spokes": [],
        },
        "rewards": {
            "reward_token": "C" + 55 * "A",
            "reward_symbol": "BLND",
            "reward_token_decimals": 7,
            "reward_decimals": 7,
            "supply_reward_per_second": "25",
            "supply_reward_per_year": "26",
            "supply_reward_expiration": "2025-03-17T08:27:40Z",
            "supply_reward_apr_bps": 27,
            "supply_reward_reason": "valid",
            "borrow_reward_per_second": "0",
            "borrow_reward_per_year": "0",
            "borrow_reward_expiration": None,
            "borrow_reward_apr_bps": 0,
            "borrow_reward_reason": "expired",
            "reward_price": "28",
            "reward_price_decimals": 21,
            "reward_price_source": "comet_spot",
        },
        "pending": [],
    } == rendered()


def test_a_pool_without_a_price() -> None:
    """Without a valid price the oracle and the reason stay, and price, time and value are null."""
    nothing = dict.fromkeys(
        (
            "oracle_decimals",
            "oracle_price",
            "price_timestamp",
            "oracle_price_usd",
            "tvl_usd_cents",
            "supplied_usd_cents",
            "borrowed_usd_cents",
            "available_usd_cents",
            "available_to_borrow_usd_cents",
            "supply_cap_usd_cents",
        ),
        None,
    )
    detail = rendered(**nothing, price_reason="the price is 6 minutes 40 seconds old, more than 6 minutes")

    assert {
        "oracle": ORACLE,
        "validity": "the price is 6 minutes 40 seconds old, more than 6 minutes",
        "value": None,
        "decimals": None,
        "time": None,
    } == detail["price"]
    assert [None, None] == [detail["oracle_price_usd"], detail["tvl_usd_cents"]]


@pytest.mark.parametrize("seconds", [-1, 253_402_300_800, 2**63 - 1])
def test_a_price_of_no_date(seconds: int) -> None:
    """A price is shown also when its oracle gives a time that is not a date; the time is null."""
    detail = rendered(price_timestamp=seconds)

    assert ("100000000000000", None) == (detail["price"]["value"], detail["price"]["time"])


def test_contracts_without_code_of_their_own() -> None:
    """A market without an oracle or wasm code says so with null; one without known parameters has an empty list."""
    detail = rendered(oracle=None, wasm_hash=None, pool=contract(3))

    assert (None, None, []) == (detail["contract_wasm_hash"], detail["price"]["oracle"], detail["rate_model"])


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"oracle_price": None}, "price.validity is 'valid'"),
        ({"borrowed_usd_cents": None}, "price.validity is 'valid'"),
        ({"available_usd_cents": None}, "liquidity.available_usd_cents must be there"),
        ({"borrow_cap": 5}, "risk.borrow_cap_usd_cents must be there"),
        ({"available_to_borrow": 1}, "liquidity.available_to_borrow is 1, but $.operations.can_borrow is False"),
        ({"can_withdraw": None}, "liquidity.available_to_withdraw is 21, but $.operations.can_withdraw is None"),
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
    return Tables(LEDGER, 1, pools_frame([], LEDGER), pl.DataFrame(markets, schema=MARKETS), **missing)


def test_every_protocol_is_there() -> None:
    """A protocol of which nothing was found is listed all the same, with nothing but zeros."""
    document = coverage(tables_of())

    assert sorted(PROTOCOLS) == sorted(document["data"])
    assert LEDGER == document["observed_ledger"]
    for part in document["data"].values():
        assert 0 == sum(value for name, value in part.items() if name.endswith("_count"))


def test_counts_of_what_was_found() -> None:
    """Markets, pools, and what is missing are counted for each protocol apart."""
    document = coverage(
        tables_of(
            market(A, pools=3),
            market(B, "alula", pools=2),
            unread=[Unread(A, C, "blend", "archived", "x"), Unread(D, None, "blend", "undecodable", "x")],
            absent=[Absent(C, "alula", "x")],
            unpriced=[Unpriced(A, C, "x"), Unpriced(B, C, "x"), Unpriced(B, D, "x")],
        )
    )

    names = ("market_count", "pool_count", "unread_count", "unpriced_count", "absent_count")
    assert [1, 3, 2, 1, 0] == [document["data"]["blend"][name] for name in names]
    assert [1, 2, 0, 2, 1] == [document["data"]["alula"][name] for name in names]


def test_versions_of_the_contracts() -> None:
    """Markets are counted by the code they run, the unknown among them."""
    rows = [market(A), market(B) | {"wasm_hash": "ab" * 32}, market(C) | {"wasm_hash": "ab" * 32}]

    versions = coverage(tables_of(*rows))["data"]["blend"]["contract_versions"]

    expected = [(None, 1), ("ab" * 32, 2)]
    assert expected == [(version["wasm_hash"], version["market_count"]) for version in versions]


def test_known_contracts_with_their_source() -> None:
    """Every address that was known beforehand has its role, and where and when it was taken."""
    known = KnownContract(A, "backstop", "a list", date(2026, 11, 18))

    document = coverage(tables_of(), Deployment("blend", "v2", (known,)))

    expected = {
        "deployment": "v2",
        "role": "backstop",
        "address": A,
        "name": "",
        "wasm_hash": None,
        "source": "a list",
        "date": "2026-11-18",
    }
    assert [expected] == document["data"]["blend"]["known_contracts"]
    assert [] == document["data"]["alula"]["known_contracts"]


def test_what_is_left_out() -> None:
    """On mainnet the vaults that would count Blend twice are named with the reason; elsewhere nothing is."""
    excluded = {item["name"]: item["reason"] for item in coverage(tables_of())["excluded"]}

    assert "twice" in excluded["DeFindex"]
    assert "NEAR" in excluded["Templar"]
    assert all(excluded.values())
    assert [] == coverage(tables_of(), network="local")["excluded"]
    assert () == excluded_on("nowhere")
