"""Blend's own SDK, from npm, and the exporter agree on the pools that an embedded Stellar RPC serves.

scripts/cross-check-blend-sdk installs the SDK and runs this file; without the SDK the tests that need it are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.localnet.made import MadeNetwork
from exporter.localnet.network import LocalNetwork, snapshot_network
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from tests.crosscheck.blend_sdk import PROJECT_ROOT, SdkAnswer, SdkPool, SdkReserve, ask_sdk, require_sdk
from tests.crosscheck.comparison import BEYOND_CAP, NOTHING_LENT, OTHER_DECIMALS, Comparison, Row, compare_pool

MAINNET_POOL = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"
USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"
ORACLE = "CATKK5ZNJCKQQWTUWIUFZMY6V6MOQUGSTFSXMNQZHVJHYF7GVV36FB3Y"
NO_RESERVE_LIST = "LedgerEntryParseError: Unable to parse data for pool config"
MADE_POOLS = 150
MADE_LEDGERS = 40


@contextmanager
def served(network: LocalNetwork) -> Iterator[str]:
    """Serve a network that stands still; gives the URL."""
    with running(create_app(network)) as url:
        yield url


def export(network_name: str, rpc_url: str, folder: Path) -> dict[str, dict[str, Row]]:
    """Run the exporter as a user does; gives the rows of its history file by market and token."""
    out = folder / "public"
    options = {"--network": network_name, "--rpc-url": rpc_url, "--out": out, "--report": folder / "report.json"}
    done = subprocess.run(
        [sys.executable, "-m", "exporter", "run", *(str(part) for option in options.items() for part in option)],
        cwd=PROJECT_ROOT,
        env={**os.environ, "EXPORTER_REQUESTS_PER_SECOND": "10000"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-4000:]
    (parquet,) = (out / "history").rglob("*.parquet")
    by_market: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in pl.read_parquet(parquet).to_dicts():
        by_market[row["market"]][row["token_address"]] = {name: plain(value) for name, value in row.items()}
    return by_market


def plain(value: Any) -> Any:
    """A Parquet decimal without a fraction is an integer."""
    return int(value) if isinstance(value, Decimal) else value


def compare(answer: SdkAnswer, exported: Mapping[str, Mapping[str, Row]]) -> Comparison:
    """Compare all pools that the SDK loaded; the two must have been at one ledger and one time."""
    comparison = Comparison()
    for pool in answer.pools:
        if pool.error is None:
            compare_pool(comparison, pool, exported.get(pool.address, {}))
    for row in (row for rows in exported.values() for row in rows.values()):
        comparison.equal("run", "ledger", answer.ledger, row["observed_ledger"])
        comparison.equal("run", "close time", answer.close_time, int(row["ledger_close_time"].timestamp()))
    print(f"Blend SDK {answer.sdk_version}, ledger {answer.ledger}: {comparison}")
    return comparison


@pytest.mark.slow
def test_mainnet_pool_agrees(mainnet_snapshot_path: Path, tmp_path: Path) -> None:
    """On real mainnet entries the SDK loads the exporter's pools, and agrees on totals, utilization and yields."""
    require_sdk()
    network = snapshot_network(LedgerSnapshot.load(mainnet_snapshot_path))
    with served(network) as url:
        exported = export("mainnet", url, tmp_path)
        answer = ask_sdk(url, network.passphrase, [(MAINNET_POOL, "v1")])
    comparison = compare(answer, exported)

    assert [MAINNET_POOL] == sorted(exported)
    assert [None] == [pool.error for pool in answer.pools]
    assert [] == comparison.differences
    assert {"v1": 2} == comparison.reserves
    assert {} == comparison.left_out


@pytest.mark.slow
def test_made_pools_agree(tmp_path: Path) -> None:
    """On made pools of both generations the SDK agrees wherever it is a judge, and it is one for most reserves."""
    require_sdk()
    network = MadeNetwork(pools=MADE_POOLS, seed=7)
    for _ in range(MADE_LEDGERS):
        network.advance()
    markets = [(market.address, market.generation.label) for market in network.markets]
    with served(network) as url:
        exported = export("local", url, tmp_path)
        answer = ask_sdk(url, network.passphrase, markets)
    comparison = compare(answer, exported)
    failed = {pool.address: pool.error for pool in answer.pools if pool.error is not None}
    reserves = [reserve for pool in answer.pools for reserve in pool.reserves]
    left_out = comparison.left_out[OTHER_DECIMALS] + comparison.left_out[BEYOND_CAP]

    # The SDK cannot load a pool in Setup, which has no list of reserves yet; the exporter has no row of it.
    assert {market.address: NO_RESERVE_LIST for market in network.markets if not market.listed} == failed
    assert sorted(exported) == sorted(market.address for market in network.markets if market.listed)
    assert [] == comparison.differences
    assert MADE_POOLS == len(reserves)
    assert MADE_POOLS == comparison.reserves.total() + left_out
    assert {OTHER_DECIMALS, BEYOND_CAP, NOTHING_LENT} >= set(comparison.left_out)
    assert min(comparison.reserves["v1"], comparison.reserves["v2"]) >= 20
    assert min(comparison.compared["borrow APY"], comparison.compared["price"]) >= 40
    assert comparison.near_boundary <= comparison.compared["borrow APY"] // 20


def mainnet_usdc() -> tuple[SdkPool, dict[str, Any]]:
    """USDC of the mainnet pool as SDK 3.2.2 gives it, and its row (docs/protocols/blend.md, "Vectors")."""
    reserve = SdkReserve(
        asset=USDC,
        ledger=55_261_759,
        decimals=7,
        total_supplied="32967024554566",
        total_borrowed="21562828886421",
        b_rate="1095073934",
        d_rate="1147908445",
        ir_mod="1433460375",
        backstop_credit="1287238827",
        utilization="6540727",
        borrow_apr=0.1133238,
        supply_apr=0.0592975,
        est_borrow_apy=0.11997482958657657,
        est_supply_apy=0.06105502116894024,
        oracle_price=None,
    )
    pool = SdkPool(
        address=MAINNET_POOL, version="v1", name="Fixed XLM-USDC", status=1, oracle=ORACLE, wasm_hash="ba" * 32,
        reserves=(reserve,),
    )  # fmt: skip
    row = {
        "market": MAINNET_POOL,
        "market_name": "Fixed XLM-USDC",
        "market_status": "active",
        "oracle": ORACLE,
        "wasm_hash": "ba" * 32,
        "observed_ledger": 55_261_759,
        "decimals": 7,
        "total_supplied": 32_967_024_554_566,
        "total_borrowed": 21_562_828_886_421,
        "supply_index": 1_095_073_934,
        "borrow_index": 1_147_908_445,
        "rate_modifier": 1_433_460_376,
        "backstop_credit": 1_287_238_827,
        "accrued_utilization": 6_540_727,
        "utilization_bps": 6_540,
        "stored_borrow_apr": 1_133_238,
        "stored_supply_apr": 592_975,
        "borrow_apy_bps": 1_199,
        "supply_apy_bps": 610,
        "price_reason": "no_price",
    }
    return pool, row


COMPARED = [name for name, value in mainnet_usdc()[1].items() if isinstance(value, int)]


@pytest.mark.parametrize("column", COMPARED)
@pytest.mark.parametrize("change", [1, -2])
def test_changed_value_is_a_difference(column: str, change: int) -> None:
    """A value of ours that is off by the least is told, whichever it is."""
    pool, row = mainnet_usdc()
    row[column] += change
    comparison = Comparison()
    compare_pool(comparison, pool, {USDC: row})

    assert 1 == len(comparison.differences)
