"""The real mainnet entries of ledger 55,261,759: the numbers are the contract's own, to the last digit.

The deployed wasm, run on the same entries, gave the golden numbers. The file has
no oracle code, so every price is null.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from exporter.config import DiscoverySettings, MarketSettings, Settings
from exporter.deployments.listing import NOTHING_LISTED
from exporter.deployments.networks import NETWORKS, Network
from exporter.discovery import candidates
from exporter.ledger.oracles import Quote
from exporter.ledger.snapshot_file import LedgerSnapshot, SnapshotSource
from exporter.ledger.view import Certificate, LedgerView, read_at_one_ledger
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.protocols.base import ProtocolReading
from exporter.protocols.compute import Tables, compute
from exporter.tables import MARKETS_SCHEMA, POOLS_SCHEMA

BLEND = {"blend": PROTOCOLS["blend"]}
FIXED = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"
XLM = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"
ORACLE = "CATKK5ZNJCKQQWTUWIUFZMY6V6MOQUGSTFSXMNQZHVJHYF7GVV36FB3Y"
V1_CODE = "baf978f10efdbcd85747868bef8832845ea6809f7643b67a4ac0cd669327fc2c"
LEDGER, CLOSE_TIME = 55_261_759, 1_736_780_911

NO_PRICE = f"decimals() failed: not from storage: the instance of {ORACLE} is not held"

# Numbers by column of the pools frame: yields are floored from the stored rates' 10.94, 0.08, 1199.7 and
# 610.6 basis points, utilization_bps from the accrued totals; what can be
# taken out is the difference of the totals, what can be borrowed the most utilization (0.7, 0.95) less the debt.
GOLDEN: list[tuple[str, object, object]] = [
    ("symbol", "native", "USDC"),
    ("total_supplied", 126430667051058, 32967024554566),
    ("total_borrowed", 1177183034145, 21562828886421),
    ("supply_index", 1000042669, 1095073934),
    ("borrow_index", 1001137914, 1147908445),
    ("rate_modifier", 100000000, 1433460376),
    ("backstop_credit", 843339, 1287238827),
    ("stored_utilization", 93109, 6540727),
    ("accrued_utilization", 93109, 6540727),
    ("stored_borrow_apr", 10932, 1133238),
    ("accrued_borrow_apr", 10932, 1133230),
    ("stored_supply_apr", 81, 592975),
    ("accrued_supply_apr", 81, 592971),
    ("borrow_apy_bps", 10, 1199),
    ("supply_apy_bps", 0, 610),
    ("utilization_bps", 93, 6540),
    ("last_accrual_time", 1736756671, 1736780875),
    ("available_to_withdraw", 125253484016913, 11404195668145),
    ("collateral_factor_bps", 7500, 9500),
    ("liquidation_threshold_bps", 7500, 9500),
    ("liability_factor_bps", 13334, 10527),
    ("max_utilization_bps", 7000, 9500),
]
"""Column, and its value for XLM and for USDC."""

SHARED: dict[str, object] = {
    "market": FIXED,
    "protocol": "blend",
    "version": "v1",
    "market_name": "Fixed XLM-USDC",
    "market_status": "active",
    "wasm_hash": V1_CODE,
    "oracle": ORACLE,
    "decimals": 7,
    "total_collateral": 0,
    "index_decimals": 9,
    "apr_decimals": 7,
    "utilization_decimals": 7,
    "rate_modifier_decimals": 9,
    "oracle_decimals": None,
    "oracle_price": None,
    "price_timestamp": None,
    "oracle_price_usd": None,
    "tvl_usd_cents": None,
    "supplied_usd_cents": None,
    "borrowed_usd_cents": None,
    "available_usd_cents": None,
    "price_reason": NO_PRICE,
    **dict.fromkeys(("can_supply", "can_withdraw", "can_repay"), True),
    **dict.fromkeys(("can_borrow", "can_liquidate", "available_to_borrow"), None),
    "can_reason": f"whether the market has a price of the token is not known: {NO_PRICE}",
    **dict.fromkeys(("pool_status", "available_to_supply", "min_first_supply", "supply_cap", "borrow_cap"), None),
    "risk_scope": "reserve",
    "liquidation_kind": "auction",
    "liquidation_bonus_bps": None,
    "reserve_factor_bps": 2000,
    "can_be_collateral": True,
    "can_be_borrowed": True,
    "observed_ledger": LEDGER,
    "ledger_close_time": CLOSE_TIME,
}


async def _read(snapshot: LedgerSnapshot, settings: Settings, network: Network) -> tuple[ProtocolReading, Certificate]:
    found = candidates(settings, network, BLEND, snapshot.contract_instances())["blend"]
    deployments = [item for item in network.deployments if item.protocol == "blend"]
    chosen = deployments if settings.discovery.enabled else []

    async def program(view: LedgerView) -> ProtocolReading:
        return await PROTOCOLS["blend"].read(view, found, chosen)

    reading = await read_at_one_ledger(SnapshotSource(snapshot, storage_answers), program)
    return reading.result, reading.certificate


@pytest.fixture(scope="module")
def snapshot(mainnet_snapshot_path: Path) -> LedgerSnapshot:
    return LedgerSnapshot.load(mainnet_snapshot_path)


def tables_of(snapshot: LedgerSnapshot, settings: Settings | None = None, network: str = "mainnet") -> Tables:
    reading, certificate = asyncio.run(_read(snapshot, settings or Settings(), NETWORKS[network]))
    close_time = asyncio.run(SnapshotSource(snapshot, storage_answers).close_time(certificate.ledger))
    return compute([reading], BLEND, certificate.ledger, close_time, NOTHING_LISTED)


@pytest.fixture(scope="module")
def tables(snapshot: LedgerSnapshot) -> Tables:
    return tables_of(snapshot)


def test_every_number_of_a_pool_is_the_contracts_own(tables: Tables) -> None:
    """The two ascend, and every number of a row is the one that the contract's own wasm gives for these entries."""
    assert list(POOLS_SCHEMA.items()) == list(tables.pools.schema.items())
    for place, (token, row) in enumerate(zip((XLM, USDC), tables.pools.iter_rows(named=True), strict=True)):
        golden = {"pool": token, "token_address": token} | {name: values[place] for name, *values in GOLDEN} | SHARED

        assert golden == {name: row[name] for name in golden}


REWARDS = ("per_second", "per_year", "apr_bps", "expiration", "reason")


def rewards_of(tables: Tables) -> dict[tuple[str, str], tuple[object, ...]]:
    """The rewards of each side of each pool."""
    return {
        (row["symbol"], side): tuple(row[f"{side}_reward_{part}"] for part in REWARDS)
        for row in tables.pools.iter_rows(named=True)
        for side in ("supply", "borrow")
    }


def test_the_pace_of_blnd_follows_from_its_three_entries(snapshot: LedgerSnapshot, tables: Tables) -> None:
    """The pace of BLND is that of the three EmisConfig entries; what it yields takes prices that the file lacks.

    With 0.43 dollars for XLM and 0.9999 for USDC, BLND is worth 0.0814774 USDC in Comet's pool of the same file.
    """
    end = 1737354636
    assert {
        ("native", "supply"): (313744, 9894230784000, None, end, "no_reward_price"),
        ("native", "borrow"): (0, 0, 0, None, "no_emissions"),
        ("USDC", "supply"): (627489, 19788493104000, None, end, "no_reward_price"),
        ("USDC", "borrow"): (627489, 19788493104000, None, end, "no_reward_price"),
    } == rewards_of(tables)

    reading, certificate = asyncio.run(_read(snapshot, Settings(), NETWORKS["mainnet"]))
    prices = {XLM: 4_300_000, USDC: 9_999_000}
    quotes = [Quote(ORACLE, token, 7, price, CLOSE_TIME) for token, price in prices.items()]
    reading.quotes = {quote.key: quote for quote in quotes}
    priced = compute([reading], BLEND, certificate.ledger, CLOSE_TIME, NOTHING_LISTED)

    assert {814774 * 9999000} == set(priced.pools["reward_price"])
    assert {14} == set(priced.pools["reward_price_decimals"])
    # 989,423 BLND a year over 12,643,066 XLM; 1,978,849 over 3,296,702 and 2,156,282 USDC
    assert {("native", "supply"): 148, ("native", "borrow"): 0, ("USDC", "supply"): 489, ("USDC", "borrow"): 747} == {
        side: paid[2] for side, paid in rewards_of(priced).items()
    }
    borrowable = dict(priced.pools.select("symbol", "available_to_borrow").iter_rows())
    assert {"native": 87324283901595, "USDC": 9755844440416} == borrowable
    assert {(True, True, None)} == {*priced.pools.select("can_borrow", "can_liquidate", "can_reason").iter_rows()}
    assert 106972921 == priced.backstops["value_usd_cents"].item()


def test_the_backstops_numbers_follow_from_its_entries(tables: Tables) -> None:
    """The backstop's balance, queue and emission are those of its entries; what the file lacks is null."""
    (row,) = tables.backstops.iter_rows(named=True)
    expected = {
        "market": FIXED,
        "shares": 21442357735951,
        "lp_tokens": 23869829178771,
        "queued_shares": 172318963193,
        "queued_part": 80364,
        "blnd": 105043625476391,
        "usdc": 2139672391721,
        "lp_price_usdc": 4481960,
        "blnd_price_usdc": 814774,
        "value_usd_cents": None,
        "emission_per_second": 3604759,
        "emission_per_year": 113679679824000,
        "emission_expiration": 1737354589,
        "emission_apr_bps": 8727,
        "emission_reason": "valid",
        "emission_source": "emitter",
        "emission_funded": True,
        "threshold_met": None,
        "status_after_update": None,  # LPTknVal is not in the file
    }
    assert expected == {name: row[name] for name in expected}


def test_the_market_counts_both_pools_without_inventing_a_value(tables: Tables) -> None:
    """The market counts both pools, has no value without a price, and a hash of its configuration."""
    expected = {
        "market": FIXED,
        "protocol": "blend",
        "version": "v1",
        "name": "Fixed XLM-USDC",
        "status": "active",
        "listed": False,
        "listed_reason": "not_listed",
        "listed_source": None,  # these tables are made without lists
        "oracle": ORACLE,
        "config_hash": "f939c2a4e91d4a9a",  # changes only with its definition, never with the code around it
        "wasm_hash": V1_CODE,
        "pool_count": 2,
        "priced_count": 0,
        "unread_count": 0,
        **dict.fromkeys(("tvl_usd_cents", "supplied_usd_cents", "borrowed_usd_cents")),
        **dict.fromkeys(("mean_supply_apy_bps", "mean_total_supply_apy_bps", "mean_borrow_apy_bps")),
        **dict.fromkeys(("mean_comparable_supply_apy_bps", "mean_comparable_borrow_apy_bps")),
        "observed_ledger": LEDGER,
    }
    assert [expected] == list(tables.markets.iter_rows(named=True))
    assert list(MARKETS_SCHEMA.items()) == list(tables.markets.schema.items())


def test_everything_else_is_named(tables: Tables) -> None:
    """Nothing is unread; both pools are unpriced; the markets that the file does not have are absent."""
    known = {market for item in NETWORKS["mainnet"].deployments if item.protocol == "blend" for market in item.markets}

    assert [] == tables.unread
    assert [(FIXED, XLM, NO_PRICE), (FIXED, USDC, NO_PRICE)] == [
        (item.market, item.pool, item.reason) for item in tables.unpriced
    ]
    assert sorted(known - {FIXED}) == [item.market for item in tables.absent]
    # blend.md, "Discovery": the reward zone of v1 at this ledger has these four and the one that is there.
    assert 1 == len(tables.notices)
    assert tables.notices[0].startswith("reward zones list 4 markets without a contract: CAQF5KNO")


def test_other_ways_to_the_market(snapshot: LedgerSnapshot, tables: Tables) -> None:
    """Read again, found by the code it runs without any list, or named with discovery off: the numbers are the same."""
    named = (MarketSettings(protocol="blend", address=FIXED),)
    again, nothing_known = tables_of(snapshot), tables_of(snapshot, network="local")
    only = tables_of(snapshot, Settings(markets=named, discovery=DiscoverySettings(enabled=False)))

    for other in (again, nothing_known, only):
        assert tables.pools.equals(other.pools)
        assert tables.markets.equals(other.markets)
    assert ([], []) == (only.absent, only.notices)
    assert tables.unread == again.unread
    assert (tables.unpriced, tables.absent, tables.notices) == (again.unpriced, again.absent, again.notices)
