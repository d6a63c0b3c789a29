"""The embedded server against an unmodified stellar-rpc v23.0.4: both serve the same state at the same ledgers.

What may differ is written down here, and nothing else does.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from exporter.ledger.codec.scval_encode import encode_scval, u32
from exporter.localnet.chain import Chain
from exporter.localnet.network import LocalNetwork, PlayedAnswers
from exporter.localnet.recording import RecordedAnswer
from exporter.localnet.rpc import SNAPSHOT_NOT_FOUND
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from tests.localnet.conformance import LATEST, OLDEST, TESTNET, answer_differences, recorded_questions, request_of
from tests.localnet.rpc_client import LocalRpc
from tests.past.archive.archive_snapshot import state_at

POOL = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
OLDEST_CLOSED, LATEST_CLOSED = 1_750_317_294, 1_795_468_284

OWN = {
    *("version", "commitHash", "buildTimestamp", "captiveCoreVersion"),  # of the program
    *("id", "hash", "headerXdr", "metadataXdr"),  # the embedded network has no ledger headers
    *("transactionData", "minResourceFee", "events"),  # its calls cost something else, and leave no diagnostics
}
"""Fields whose values differ, and whose types are the same."""

DUPLICATES = {"entries same twice", "entries 200"}
"""Real core refuses a key that is asked for twice; the stand-in for the core behind the recording did not."""


@pytest.fixture(scope="module")
def questions(real_data: Path) -> dict[str, dict[str, Any]]:
    """The recorded questions and answers, by name."""
    return recorded_questions(real_data)


@pytest.fixture(scope="module")
def rpc(testnet_archive: Path, questions: dict[str, dict[str, Any]]) -> LocalRpc:
    """The embedded server over the state that was served, at the ledgers of the recording, with what contracts said."""
    archive = HistoryArchive(FolderFiles(testnet_archive))
    state = state_at(archive, OLDEST).entries
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


def test_every_question_gets_the_recorded_answer(rpc: LocalRpc, questions: dict[str, dict[str, Any]]) -> None:
    """Status, type and body are the recorded ones."""
    refused = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": SNAPSHOT_NOT_FOUND}})
    wrong = dict[str, list[str]]()
    for name, item in questions.items():
        request = request_of(item)
        answer = rpc.request(request.method, request.content, request.url.path, dict(request.headers))
        if found := answer_differences(answer, item | ({"body": refused} if name in DUPLICATES else {}), OWN):
            wrong[name] = found

    assert {} == wrong
    assert 68 == len(questions)
