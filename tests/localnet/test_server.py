"""The HTTP and JSON-RPC side of the embedded server."""

from __future__ import annotations

import pytest

from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import MAX_BODY_BYTES
from tests.localnet.rpc_client import LocalRpc

HEALTH = b'{"jsonrpc":"2.0","id":7,"method":"getHealth"}'


@pytest.fixture(scope="module")
def rpc() -> LocalRpc:
    """A server over a small network that does not move."""
    return LocalRpc(RecordedNetwork())


def test_the_body_is_bounded(rpc: LocalRpc) -> None:
    """Exactly 512 KiB are read, one byte more is refused with status 500."""
    largest = HEALTH.ljust(MAX_BODY_BYTES)

    assert 200 == rpc.post(largest).status_code
    refused = rpc.post(largest + b" ")
    assert (500, "http: request body too large\n") == (refused.status_code, refused.text)


@pytest.mark.parametrize("content", [b"\xff", b"[" * 100_000])
def test_a_body_that_is_not_json(rpc: LocalRpc, content: bytes) -> None:
    """What cannot be parsed gets status 500 with the text of error -32700, as the real bridge does."""
    response = rpc.post(content)

    assert (500, "[-32700] invalid request value\n") == (response.status_code, response.text)


def test_paths(rpc: LocalRpc) -> None:
    """The endpoint is at ``/``, and each node has a path; all others are 404."""
    for path in ("/", "/?token=5", "/node/0"):
        assert 200 == rpc.post(HEALTH, path).status_code
    for path in ("/rpc", "/node/1", "/node/", "/node/x", "/node/-1", "/node/00"):
        assert 404 == rpc.post(HEALTH, path).status_code
