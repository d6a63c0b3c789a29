"""The embedded server against an unmodified stellar-rpc v23.0.4: 68 recorded questions, right and wrong ones.

Both serve the same state at the same ledgers. What may differ is written down here, and nothing else does.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from exporter.ledger.codec.scval_encode import encode_scval, u32
from exporter.localnet.answers import PlayedAnswers
from exporter.localnet.behaviour import SNAPSHOT_NOT_FOUND
from exporter.localnet.chain import Chain
from exporter.localnet.network import LocalNetwork
from exporter.localnet.recording import RecordedAnswer
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from tests.localnet.rpc_client import LocalRpc

POOL = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
OLDEST, LATEST = 10_047, 10_111
OLDEST_CLOSED, LATEST_CLOSED = 1_750_317_294, 1_795_468_284
TESTNET = "Test SDF Network ; September 2015"

LATER = {"latestLedgerCloseTime", "oldestLedgerCloseTime", "closeTime", "headerXdr", "metadataXdr"}
"""Fields that getHealth and getLatestLedger got in versions after 23."""

OWN = {
    *("version", "commitHash", "buildTimestamp", "captiveCoreVersion"),  # of the program
    *("id", "hash", "headerXdr", "metadataXdr"),  # the embedded network has no ledger headers
    *("transactionData", "minResourceFee", "events"),  # its contracts cost something else, and tell no diagnostics
}
"""Fields of which only the type is the same."""

DUPLICATES = {"entries same twice", "entries 200"}
"""Real core refuses a key that is asked for twice; the stand-in for the core behind the recording did not."""


@pytest.fixture(scope="module")
def questions(real_data: Path) -> dict[str, dict[str, Any]]:
    """The recorded questions and answers, by name."""
    path = real_data / "stellar-rpc" / "conformance.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return {item["name"]: item for item in json.loads(path.read_bytes())}


@pytest.fixture(scope="module")
def rpc(real_data: Path, questions: dict[str, dict[str, Any]]) -> LocalRpc:
    """The embedded server over the state that was served, at the ledgers of the recording, with what contracts said."""
    folder = real_data / "archive-testnet"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    archive = HistoryArchive(FolderFiles(folder))
    state = archive.entries(archive.checkpoint(OLDEST)).entries
    chain = Chain(state, start_ledger=OLDEST, start_time=OLDEST_CLOSED)
    while chain.latest < LATEST:
        chain.close(close_time=LATEST_CLOSED - (LATEST - 1 - chain.latest))
    right, wrong = (
        json.loads(questions[name]["body"])["result"] for name in ("simulate ok", "simulate wrong arguments")
    )
    answers = [
        RecordedAnswer(POOL, "get_config", [], base64.b64decode(right["results"][0]["xdr"])),
        RecordedAnswer(POOL, "get_reserve", [encode_scval(u32(1))], None, wrong["error"]),
    ]
    return LocalRpc(LocalNetwork(chain, TESTNET, 22, PlayedAnswers(answers, LATEST)))


def asked(rpc: LocalRpc, item: dict[str, Any]) -> Any:
    """The embedded server's answer to a question."""
    sent = {"text content type": "text/plain", "charset": "application/json; charset=utf-8"}
    headers = {"content-type": sent.get(item["name"], "application/json")}
    method = item["name"] if item["name"] in ("GET", "OPTIONS", "PUT") else "POST"
    return rpc.request(method, item.get("request", "").encode(), item.get("path", "/"), headers)


def differences(found: Any, recorded: Any, place: str = "$") -> list[str]:
    """Where an answer is other than the recorded one, but for what may differ."""
    name = place.rpartition(".")[2]
    if isinstance(found, dict) and isinstance(recorded, dict):
        extra = found.keys() - recorded.keys() - LATER
        wrong = [f"{place} has or lacks {key}" for key in sorted(extra | recorded.keys() - found.keys())]
        both = found.keys() & recorded.keys()
        return wrong + [
            text for key in sorted(both) for text in differences(found[key], recorded[key], f"{place}.{key}")
        ]
    if type(found) is not type(recorded):
        return [f"{place} is a {type(found).__name__}, not a {type(recorded).__name__}"]
    if name in OWN and place != "$.id":
        return []
    if isinstance(found, list) and len(found) == len(recorded):
        pairs = enumerate(zip(found, recorded, strict=True))
        return [text for index, (one, other) in pairs for text in differences(one, other, f"{place}[{index}]")]
    if place == "$.result.error":  # below its first line are the host's events and the program's stack
        found, recorded = found.partition("\n")[0], recorded.partition("\n")[0]
    if place == "$.error.data" and recorded.startswith("json: cannot unmarshal"):  # the types of the server's language
        found, recorded = found[: len("json: cannot unmarshal")], "json: cannot unmarshal"
    return [] if found == recorded else [f"{place} is {found!r}, not {recorded!r}"]


def test_every_question(rpc: LocalRpc, questions: dict[str, dict[str, Any]]) -> None:
    """Status, headers and bodies are the recorded ones."""
    wrong = dict[str, list[str]]()
    for name, item in questions.items():
        answer, recorded = asked(rpc, item), item["body"]
        facts = {key: answer.headers.get(key) for key in ("content-type", "vary")}
        said = differences(
            {"status": answer.status_code} | facts,
            {"status": item["status"]} | {key: item["headers"].get(key) for key in facts},
            "http",
        )
        if item["headers"].get("content-type") == "application/json":
            body = json.loads(recorded)
            if name in DUPLICATES:
                body = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": SNAPSHOT_NOT_FOUND}}
            said += differences(answer.json(), body)
        elif answer.text != recorded:
            said.append(f"the body is {answer.text!r}, not {recorded!r}")
        if said:
            wrong[name] = said

    assert {} == wrong
    assert 68 == len(questions)
