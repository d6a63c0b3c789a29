"""The exporter over an unmodified stellar-rpc: runs, the contracts' own views, and the questions of the recording."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.jobs import on_chain, run, settings_for
from tests.localnet.conformance import LATEST, answer_differences, recorded_questions, request_of
from tests.rpc.conftest import StartServer

MARKET = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
ACCRUING = {"accrued_to", "supply_index", "borrow_index", "backstop_credit", "total_supplied", "total_borrowed"}
PRICES = {"native": "0.2500000", "USDC": "1.0000000", "wBTC": "100000.0000000", "wETH": "3000.0000000"}

OWN = {
    *("version", "commitHash", "buildTimestamp", "captiveCoreVersion", "protocolVersion"),  # of the program
    *("transactionData", "minResourceFee", "events"),  # what calls cost depends on the protocol
    *("id", "hash", "headerXdr", "metadataXdr"),  # ledgers close now, and not when the answers were recorded
    *("latestLedgerCloseTime", "oldestLedgerCloseTime", "latestLedgerCloseTimestamp", "ledgerCloseTime"),
}
"""Fields whose values belong to one program, or to one moment."""

CHANGED = {"health with params", "simulate memo"}
"""Questions that version 27 answers in another way than 23; the exporter asks neither."""


@pytest.fixture(scope="module")
def closing(start_server: StartServer) -> str:
    """A server whose ledgers close every second."""
    return start_server(1.0, 0)


@pytest.fixture(scope="module")
def at_rest(start_server: StartServer) -> str:
    """A server at the ledger of the recording."""
    return start_server(0.02, LATEST)


def flags() -> dict[str, Any]:
    return {"network__name": "testnet", "markets": [{"protocol": "blend", "address": MARKET}]}


def test_runs_while_ledgers_close(closing: str, tmp_path: Path) -> None:
    """Each run publishes all four pools with their prices, all at one ledger, which is later at each run."""
    ledgers = list[int]()
    for _ in range(3):
        time.sleep(1.5)
        code, facts = run(settings_for(tmp_path, closing, **flags()), now=datetime.now(UTC))
        page = json.loads((tmp_path / "v1" / "assets" / "index.json").read_bytes())["data"]

        assert (0, [], []) == (code, facts["unread"], facts["unpriced"])
        assert PRICES == {pool["symbol"]: pool["oracle_price_usd"] for pool in page}
        ledgers += {pool["observed_ledger"] for pool in page}
    assert 3 == len(ledgers)
    assert ledgers == sorted(set(ledgers))


def test_views_of_the_deployed_contracts(closing: str) -> None:
    """All 72 fields of the contracts' views agree, but for what accrued until a server before 27.1 ran the calls."""
    found = on_chain(settings_for(None, closing, **flags()))

    assert (72, 4, [], []) == (found.compared, found.pools, found.failed, found.notices)
    assert {difference.field for difference in found.differences} <= ACCRUING


def test_every_question(at_rest: str, real_data: Path) -> None:
    """Right and wrong questions are answered as they were when the recording was taken, to which localnet is held."""
    wrong = dict[str, list[str]]()
    with httpx.Client(timeout=20) as client:
        for name, item in recorded_questions(real_data).items():
            request = request_of(item)
            url = at_rest + request.url.path
            answer = client.request(request.method, url, content=request.content, headers=request.headers)
            if found := answer_differences(answer, item, OWN):
                wrong[name] = found

    assert {} == {name: found for name, found in wrong.items() if name not in CHANGED}
