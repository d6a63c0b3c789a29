"""The RPC client over answers of an unmodified stellar-rpc v23.0.4: a run, and a check of getters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from exporter.ledger.source import RawEntry
from exporter.localnet.server import running
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.tree.families import WATCHED
from tests.job_runs import on_chain, run, settings_for
from tests.ledger.rpc.recorded_rpc import RecordedRpc
from tests.past.archive.archive_snapshot import state_at

pytestmark = pytest.mark.usefixtures("without_pages")

MARKET = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
ACCRUING = {"accrued_to", "supply_index", "borrow_index", "backstop_credit", "total_supplied", "total_borrowed"}
MARKETS = [{"protocol": "blend", "address": MARKET}]
FLAGS: dict[str, Any] = {"network__name": "testnet", "network__max_ledger_age": "0s", "markets": MARKETS}
RECORDED = datetime(2026, 11, 23, 21, 13, tzinfo=UTC)


@pytest.fixture(scope="module")
def state(testnet_archive: Path) -> Mapping[bytes, RawEntry]:
    """The state that the server served."""
    return state_at(HistoryArchive(FolderFiles(testnet_archive)), 10_047).entries


def recording(real_data: Path, name: str, state: Mapping[bytes, RawEntry]) -> RecordedRpc:
    path = real_data / "stellar-rpc" / name
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return RecordedRpc(path, state)


def test_a_run_over_a_recording_finds_every_answer(
    real_data: Path, state: Mapping[bytes, RawEntry], tmp_path: Path
) -> None:
    """The four pools of the market are published, each with its price, and the recording has every answer."""
    recorded = recording(real_data, "run.jsonl", state)
    with running(recorded.app) as url:
        code, facts = run(settings_for(tmp_path, url, **FLAGS), now=RECORDED)
    page = json.loads((tmp_path / "v1" / "assets" / "index.json").read_bytes())["data"]
    prices = {"native": "0.2500000", "USDC": "1.0000000", "wBTC": "100000.0000000", "wETH": "3000.0000000"}

    assert [] == recorded.unknown
    assert (0, [], []) == (code, facts["unread"], facts["unpriced"])
    assert prices == {pool["symbol"]: pool["oracle_price_usd"] for pool in page}
    assert {(MARKET, 10_169)} == {(pool["market"], pool["observed_ledger"]) for pool in page}
    (watched_file,) = (tmp_path / WATCHED.prefix).iterdir()
    (market,) = json.loads(watched_file.read_bytes())["markets"]
    watched = {(item["kind"], item["subject"].split()[0]): item["value"] for item in market["values"]}
    named = {("admin", "admin"), ("code", "market"), ("code", "oracle"), ("oracle", "oracle")}
    assert named | {("frozen", "pools")} == watched.keys()
    assert watched["admin", "admin"].startswith("G")


def test_a_check_of_views(real_data: Path, state: Mapping[bytes, RawEntry]) -> None:
    """All 72 fields that the contracts' getters have are confirmed, except for those that accrue.

    Version 23 ran calls at its wall clock, a second after the ledger closed, which shows in three pools.
    """
    recorded = recording(real_data, "onchain.jsonl", state)
    with running(recorded.app) as url:
        found = on_chain(settings_for(None, url, **FLAGS))

    assert [] == recorded.unknown
    assert (72, 4, [], []) == (found.compared, found.pools, found.failed, found.notices)
    assert ACCRUING == {difference.field for difference in found.differences}
    assert 3 == len({difference.pool for difference in found.differences})
