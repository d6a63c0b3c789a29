"""The HTTP and JSON-RPC side of the embedded server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.localnet.player import DEFAULT_START_LEDGER, RecordedNetwork
from exporter.localnet.server import MAX_BODY_BYTES
from tests.localnet.rpc_client import LocalRpc

LATEST = DEFAULT_START_LEDGER


@pytest.fixture(scope="module")
def rpc() -> LocalRpc:
    """A server over a small network that does not move."""
    return LocalRpc(RecordedNetwork())


def call(method: Any = "getHealth", **fields: Any) -> dict[str, Any]:
    """One JSON-RPC request object; a field of ``...`` is left out."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method} | fields
    return {name: value for name, value in request.items() if value is not ...}


def test_the_body_is_bounded(rpc: LocalRpc) -> None:
    """Exactly 512 KiB are read, one byte more is refused with status 500."""
    content = json.dumps(call()).encode()
    largest = content + b" " * (MAX_BODY_BYTES - len(content))

    assert 200 == rpc.post(largest).status_code
    refused = rpc.post(largest + b" ")
    assert (500, "http: request body too large\n") == (refused.status_code, refused.text)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_body_that_is_not_json(rpc: LocalRpc, content: bytes) -> None:
    """What cannot be parsed gets status 500 with the text of error -32700, as the real bridge does."""
    response = rpc.post(content)

    assert (500, "[-32700] invalid request value\n") == (response.status_code, response.text)


def test_a_method_that_is_not_there(rpc: LocalRpc) -> None:
    """It is an error with the id of the request."""
    answer = rpc.post(json.dumps(call("noSuchMethod")).encode()).json()
    error = {"code": -32601, "message": "method not found", "data": "noSuchMethod"}

    assert {"jsonrpc": "2.0", "id": 1, "error": error} == answer


def test_paths(rpc: LocalRpc) -> None:
    """The endpoint is at ``/``, and each node has a path; all others are 404."""
    for path in ("/", "/?token=5", "/node/0"):
        assert 200 == rpc.post(json.dumps(call()).encode(), path).status_code
    for path in ("/rpc", "/node/1", "/node/", "/node/x", "/node/-1", "/node/00"):
        assert 404 == rpc.post(json.dumps(call()).encode(), path).status_code


def test_a_batch(rpc: LocalRpc) -> None:
    """Each request of a batch is answered in its place, and notifications not at all."""
    batch = [call(id=1), call(id=...), call("getLatestLedger", id=2), 5]
    answers = rpc.post(json.dumps(batch).encode()).json()

    assert [1, 2, None] == [answer["id"] for answer in answers]
    assert ["result", "result", "error"] == [list(answer)[2] for answer in answers]
