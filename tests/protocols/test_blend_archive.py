"""Blend over bytes that nobody here wrote: the pool of a testnet archive, with the code that mainnet's pools run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from exporter.deployments.listing import NOTHING_LISTED
from exporter.ledger.snapshot_file import LedgerSnapshot, SnapshotSource
from exporter.ledger.view import read_at_one_ledger
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from exporter.protocols.compute import compute
from tests.past.archive.archive_snapshot import archive_snapshot

POOL = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"


@pytest.fixture(scope="module")
def facts(real_data: Path) -> dict[str, Any]:
    """What other people read about the pool, from the same buckets."""
    path = real_data / "archive-testnet-blend.json"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in the folder of real data")
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


@pytest.fixture(scope="module")
def archive(testnet_archive: Path) -> HistoryArchive:
    """The archive's files."""
    return HistoryArchive(FolderFiles(testnet_archive))


@cache
def snapshot_at(archive: HistoryArchive, checkpoint: int, contracts: tuple[str, ...]) -> LedgerSnapshot:
    """The entries of some contracts at a checkpoint."""
    return archive_snapshot(archive, checkpoint, contracts)


def read(snapshot: LedgerSnapshot) -> ProtocolReading:
    """The pool as our reader reads it."""
    reading = asyncio.run(
        read_at_one_ledger(
            SnapshotSource(snapshot, storage_answers),
            lambda view: PROTOCOLS["blend"].read(view, [Candidate("blend", POOL, Origin.CONFIGURATION)], []),
        )
    )
    assert snapshot.ledger == reading.certificate.ledger
    return reading.result


def contracts_of(facts: Mapping[str, Any]) -> tuple[str, ...]:
    return (POOL, *(reserve["asset"] for reserve in facts["reserves"]))


def state_before(states: Sequence[Mapping[str, Any]], ledger: int) -> Mapping[str, Any]:
    """The last of the states that was written at or before a ledger."""
    return max((state for state in states if state["ledger"] <= ledger), key=lambda state: int(state["ledger"]))


@pytest.mark.parametrize("checkpoint", [575, 895, 959, 10047])
def test_the_pool_is_read_from_an_archive(archive: HistoryArchive, facts: dict[str, Any], checkpoint: int) -> None:
    """Every reserve, with each number of its state and its configuration, is that of the checkpoint."""
    reading = read(snapshot_at(archive, checkpoint, contracts_of(facts)))
    pools = reading.pools

    assert [] == reading.unread + reading.absent
    assert [("TestnetV2", "v2", "admin_active", facts["pool_instance_storage"]["Config"]["oracle"])] == [
        (market.name, market.version, market.status, market.oracle) for market in reading.markets
    ]
    assert facts["pool_wasm_sha256"] == reading.markets[0].wasm_hash
    assert [reserve["asset"] for reserve in facts["reserves"]] == [pool.pool for pool in pools]
    for reserve, pool in zip(facts["reserves"], pools, strict=True):
        state = state_before(reserve["res_data"], checkpoint)["value"]
        config = state_before(reserve["config"], checkpoint)["value"]
        read_config, read_data = asdict(pool.state.config), asdict(pool.state.data)
        config["supply_cap"] = int(config["supply_cap"])
        assert state == read_data
        assert config | {"generation": "v2"} == read_config
        assert reserve["asset_metadata"]["symbol"] == reading.tokens[reserve["asset"]].symbol


def test_the_backstop_holds_enough_and_pays_nothing(archive: HistoryArchive, facts: dict[str, Any]) -> None:
    """The pool's backstop, of the v2 code too, holds enough for the status that its admin could set; nothing is paid.

    A fiftieth of the shares is queued; 100 BLND and 2.5 USDC are behind ten tokens.
    """
    backstop = facts["pool_instance_storage"]["Backstop"]
    comet = "CAVWKK4WB7SWLKI7VBPPGP6KNUKLUAWQIHE44V7G7MYOG4K23PW2PXKJ"
    emitter = "CA3WEGSM5ILLQKPJJUJJFZF6VG3K6NCQAOBQKF4WWWMRT4HWLQZYOVUD"
    around = (backstop, comet, emitter, facts["pool_instance_storage"]["BLNDTkn"])
    snapshot = snapshot_at(archive, 10047, (*contracts_of(facts), *around))
    tables = compute([read(snapshot)], PROTOCOLS, snapshot.ledger, snapshot.close_time, NOTHING_LISTED)

    (row,) = tables.backstops.iter_rows(named=True)
    expected = {
        "backstop": backstop,
        "lp_token": comet,
        "shares": 500010000000,
        "lp_tokens": 500010000000,
        "queued_shares": 10000000000,
        "queued_part": 199997,
        "blnd": 5000100000000,
        "usdc": 125002500000,
        "lp_price_usdc": 12500000,
        "blnd_price_usdc": 1000000,
        "threshold_product_bps": 781312,
        "threshold_met": True,
        "status_after_update": "admin_active",
        "emission_reason": "no_emissions",
        "emission_apr_bps": 0,
        "emission_source": "emitter",
        "emission_funded": True,
        "backfill_remaining": None,
    }
    assert expected == {name: row[name] for name in expected}
    assert {("no_emissions", 0, "BLND")} == set(
        tables.pools.select("supply_reward_reason", "supply_reward_apr_bps", "reward_symbol").iter_rows()
    )
