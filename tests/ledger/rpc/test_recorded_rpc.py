"""The RPC client over answers of an unmodified stellar-rpc v23.0.4: a run, a check of views, and wrong questions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from exporter.ledger.rpc import wire
from exporter.ledger.rpc.http import AttemptError
from exporter.ledger.source import RawEntry
from exporter.localnet.server import running
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from tests.jobs import on_chain, run, settings_for
from tests.ledger.rpc.recorded_rpc import RecordedRpc
from tests.past.archive.archive_snapshot import state_at

MARKET = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
ACCRUING = {"accrued_to", "supply_index", "borrow_index", "backstop_credit", "total_supplied", "total_borrowed"}
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


def flags() -> dict[str, Any]:
    return {
        "network__name": "testnet",
        "network__max_ledger_age": 0,
        "markets": [{"protocol": "blend", "address": MARKET}],
    }


def test_a_run(real_data: Path, state: Mapping[bytes, RawEntry], tmp_path: Path) -> None:
    """The four pools of the market are published, each with its price, and the recording has every answer."""
    recorded = recording(real_data, "run.jsonl", state)
    with running(recorded.app) as url:
        code, facts = run(settings_for(tmp_path, url, **flags()), now=RECORDED)
    page = json.loads((tmp_path / "v1" / "assets" / "index.json").read_bytes())["data"]
    prices = {"native": "0.2500000", "USDC": "1.0000000", "wBTC": "100000.0000000", "wETH": "3000.0000000"}

    assert [] == recorded.unknown
    assert (0, [], []) == (code, facts["unread"], facts["unpriced"])
    assert prices == {pool["symbol"]: pool["oracle_price_usd"] for pool in page}
    assert {(MARKET, 10_169)} == {(pool["market"], pool["observed_ledger"]) for pool in page}
    (market,) = json.loads((tmp_path / "v1" / "changes.json").read_bytes())["markets"]
    watched = {(item["kind"], item["subject"].split()[0]): item["value"] for item in market["values"]}
    assert {("admin", "admin"), ("code", "market"), ("code", "oracle"), ("oracle", "oracle")} == watched.keys()
    assert watched["admin", "admin"].startswith("G")


def test_a_check_of_views(real_data: Path, state: Mapping[bytes, RawEntry]) -> None:
    """All 72 fields that the contracts' views have are confirmed, but for those that accrue.

    Version 23 ran calls at its wall clock, a second after the ledger closed, which shows in three pools.
    """
    recorded = recording(real_data, "onchain.jsonl", state)
    with running(recorded.app) as url:
        found = on_chain(settings_for(None, url, **flags()))

    assert [] == recorded.unknown
    assert (72, 4, [], []) == (found.compared, found.pools, found.failed, found.notices)
    assert ACCRUING == {difference.field for difference in found.differences}
    assert 3 == len({difference.pool for difference in found.differences})


PASSING = {"entries empty", "entries no params", "number"}
"""The wrong questions that the client would ask again; to all others it takes no for an answer."""


def test_wrong_answers(real_data: Path) -> None:
    """Each error of the real server is one to the client, and repeated only where that may help."""
    path = real_data / "stellar-rpc" / "conformance.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    found = set()
    for item in json.loads(path.read_bytes()):
        body = json.loads(item["body"]) if "json" in item["headers"].get("content-type", "") else None
        if item["status"] == 200 and isinstance(body, dict) and "error" in body:
            with pytest.raises(AttemptError) as caught:
                wire.decode_reply(item["body"].encode(), wire.ENTRIES, body["id"])
            assert body["error"]["message"] in caught.value.failure.text
            if not caught.value.failure.lasting:
                found.add(item["name"])

    assert found == PASSING
