"""The HTTP and JSON-RPC side of the embedded server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.localnet.behaviour import Behaviour
from exporter.localnet.made import DEFAULT_START_LEDGER, MadeNetwork
from exporter.localnet.server import MAX_BODY_BYTES
from tests.localnet.rpc_client import LocalRpc

LATEST = DEFAULT_START_LEDGER


@pytest.fixture(scope="module")
def rpc() -> LocalRpc:
    """A server over a small network that stands still."""
    return LocalRpc(MadeNetwork(pools=3))


def call(method: Any = "getHealth", **fields: Any) -> dict[str, Any]:
    """One JSON-RPC request object; a field of ``...`` is left out."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method} | fields
    return {name: value for name, value in request.items() if value is not ...}


def post(rpc: LocalRpc, document: Any) -> Any:
    response = rpc.post(json.dumps(document).encode())
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    return response.json()


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/jsonp", "", "application/json; charset=latin-1", "application/xml"]
)
def test_other_content_types_are_415(rpc: LocalRpc, content_type: str) -> None:
    """A body must be application/json, in UTF-8."""
    assert 415 == rpc.post(json.dumps(call()).encode(), **{"content-type": content_type}).status_code


def test_the_body_is_bounded(rpc: LocalRpc) -> None:
    """Exactly 512 KiB are read, one byte more is refused with status 500."""
    content = json.dumps(call()).encode()
    largest = content + b" " * (MAX_BODY_BYTES - len(content))

    assert 200 == rpc.post(largest).status_code
    refused = rpc.post(largest + b" ")
    assert (500, "http: request body too large\n") == (refused.status_code, refused.text)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b'{"a":}', b"nothing"])
def test_a_body_that_is_no_json_is_a_parse_error(rpc: LocalRpc, content: bytes) -> None:
    """What is no JSON at all gets status 500 with the text of error -32700, as the real bridge does."""
    response = rpc.post(content)

    assert (500, "[-32700] invalid request value\n") == (response.status_code, response.text)


@pytest.mark.parametrize(
    ("document", "code", "identifier"),
    [
        (5, -32700, None),
        ("text", -32700, None),
        (None, -32700, None),
        ({}, -32600, None),
        (call(jsonrpc=...), -32600, 1),
        (call(jsonrpc="1.0"), -32600, 1),
        (call(method=...), -32600, 1),
        (call(method=5), -32700, 1),
        (call(method=""), -32600, 1),
        (call(id=[1]), -32600, None),
        (call(id={}), -32600, None),
        (call(id=True), -32600, None),
        (call(params=5), -32600, 1),
        (call(params="x"), -32600, 1),
        (call(params=[1]), -32602, 1),
        (call(more=1), -32600, 1),
        (call("noSuchMethod"), -32601, 1),
    ],
)
def test_requests_that_are_not_json_rpc(rpc: LocalRpc, document: Any, code: int, identifier: Any) -> None:
    """Malformed requests are answered with the code of what is wrong, and with their id where it is usable."""
    answer = post(rpc, document)

    assert {"jsonrpc", "id", "error"} == set(answer)
    assert (code, identifier) == (answer["error"]["code"], answer["id"])
    assert answer["error"]["message"]


def test_a_notification_is_not_answered(rpc: LocalRpc) -> None:
    """A request without an id, or with null, gets status 204; it is executed all the same."""
    for identifier in (..., None):
        before = len(rpc.behaviour.calls)
        response = rpc.post(json.dumps(call(id=identifier)).encode())
        assert (204, b"") == (response.status_code, response.content)
        assert before + 1 == len(rpc.behaviour.calls)


def test_a_batch_is_answered_in_its_order(rpc: LocalRpc) -> None:
    """Each element has its answer, failing ones too, in the order of the batch; notifications have none."""
    answers = post(rpc, [call(id=5), call("noSuchMethod", id=4), call(id=None), 7, call("getNetwork", id=3)])

    assert [5, 4, None, 3] == [answer["id"] for answer in answers]
    assert ["result", "error", "error", "result"] == ["result" if "result" in answer else "error" for answer in answers]


def test_a_batch_of_one_is_answered_with_an_object(rpc: LocalRpc) -> None:
    """The real bridge sends a lone answer without an array, and so is it here; an empty batch has no answer."""
    assert 9 == post(rpc, [call(id=9)])["id"]
    assert 204 == rpc.post(b"[]").status_code


def test_a_batch_can_straddle_a_ledger() -> None:
    """Each call of a batch reads the latest ledger for itself."""
    rpc = LocalRpc(MadeNetwork(pools=3), Behaviour(advance_every_requests=2))

    answers = post(rpc, [call(id=index) for index in range(5)])
    assert [LATEST, LATEST, LATEST + 1, LATEST + 1, LATEST + 2] == [
        answer["result"]["latestLedger"] for answer in answers
    ]


def test_every_path_is_the_endpoint(rpc: LocalRpc) -> None:
    """Any path is served, so that URLs with a key in them can be tried; unknown nodes are 404."""
    for path in ("/", "/soroban/rpc", "/v1/some-secret-key?token=5", "/node/0"):
        assert 200 == rpc.post(json.dumps(call()).encode(), path).status_code
    for path in ("/node/1", "/node/", "/node/x", "/node/-1", "/node/00"):
        assert 404 == rpc.post(json.dumps(call()).encode(), path).status_code
