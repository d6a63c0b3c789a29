"""The RPC client over answers of an unmodified stellar-rpc v23.0.4: a run, a check of views, and wrong questions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from exporter.ledger.rpc.failures import (
    ELSEWHERE,
    LAGGING,
    NEVER_HERE,
    NO_SUCH_METHOD,
    REFUSED,
    TOO_MANY_KEYS,
    Failure,
    FailureKind,
    Rule,
    part_size,
    rule_for,
)
from exporter.ledger.source import RawEntry
from exporter.localnet.runner import running
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from tests.jobs import on_chain, run, settings_for
from tests.ledger.rpc.recorded_rpc import RecordedRpc

MARKET = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
RECORDED = datetime(2026, 11, 23, 21, 13, tzinfo=UTC)


@pytest.fixture(scope="module")
def state(real_data: Path) -> Mapping[bytes, RawEntry]:
    """The state that the server served."""
    folder = real_data / "archive-testnet"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    archive = HistoryArchive(FolderFiles(folder))
    return archive.entries(archive.checkpoint(10_047)).entries


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
    """All 72 fields that the contracts' views have are confirmed.

    Version 23 ran calls at its wall clock, a second after the ledger closed: the accrued fields of three pools agree at
    that time, and the check says so.
    """
    recorded = recording(real_data, "onchain.jsonl", state)
    with running(recorded.app) as url:
        found = on_chain(settings_for(None, url, **flags()))
    late = sorted({str(difference.pool) for difference in found.differences})

    assert [] == recorded.unknown
    assert (72, 4, [], []) == (found.compared, found.pools, found.failed, found.notices)
    assert late == sorted(text.split(":")[0].split()[1] for text in found.other_clock)
    assert all("at that other time all fields agree" in text for text in found.other_clock)
    assert 3 == len(late)


WRONG = {
    REFUSED: (
        *("entries empty", "entries no params", "entries ttl key", "entries bad base64", "entries bad xdr"),
        *("entries trailing bytes", "entries keys string", "entries bad format", "entries list params"),
    ),
    TOO_MANY_KEYS: ("entries 201",),
    NO_SUCH_METHOD: (
        *("events old", "events future", "events no start", "events six filters", "events six contracts"),
        *("events bad cursor", "events limit 100000", "ledgers old", "unknown method"),
    ),
    LAGGING: ("ledgers future", "ledgers limit 201"),
    NEVER_HERE: (
        *("no method", "no jsonrpc", "jsonrpc 1.0", "health with params", "text content type", "other path"),
        *("GET", "OPTIONS", "PUT"),
    ),
    ELSEWHERE: ("not json", "empty body", "number"),
}
"""What the client does about each wrong answer that was recorded."""


def test_wrong_answers(real_data: Path) -> None:
    """Each error and each HTTP status of the real server has its rule."""
    path = real_data / "stellar-rpc" / "conformance.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    found = dict[str, Rule]()
    for item in json.loads(path.read_bytes()):
        body = json.loads(item["body"]) if "json" in item["headers"].get("content-type", "") else None
        if body is None and item["status"] != 204:  # only a notification is answered by that
            found[item["name"]] = rule_for(Failure(FailureKind.HTTP, item["body"], code=item["status"]))
        elif isinstance(body, dict) and "error" in body:
            asked = json.loads(item["request"])
            method = asked.get("method", "") if isinstance(asked, dict) else ""
            failure = Failure(FailureKind.RPC, body["error"]["message"], method, body["error"]["code"])
            found[item["name"]] = rule_for(failure)

    assert found == {name: rule for rule, names in WRONG.items() for name in names}
    many = Failure(FailureKind.RPC, "key count (201) exceeds maximum supported (200)", "getLedgerEntries", -32602)
    assert 200 == part_size(many, 201)
