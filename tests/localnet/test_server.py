"""The embedded server: HTTP and JSON-RPC, a real socket, ledger snapshot files."""

from __future__ import annotations

import socket

import httpx
import pytest
from msgspec.structs import replace

from exporter.deployments.networks import NETWORKS, network_id
from exporter.errors import SnapshotFileError
from exporter.ledger.codec import entries
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import RawEntry
from exporter.localnet.network import snapshot_network
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import MAX_BODY_BYTES, create_app, running
from tests.localnet.rpc_client import LocalRpc, text

HEALTH = b'{"jsonrpc":"2.0","id":7,"method":"getHealth"}'


@pytest.fixture(scope="module")
def rpc() -> LocalRpc:
    """A server over a network that has moved on by three ledgers."""
    network = RecordedNetwork()
    for _ in range(3):
        network.advance()
    return LocalRpc(network)


def test_bodies_that_are_refused(rpc: LocalRpc) -> None:
    """Exactly 512 KiB are read; one byte more, or what is not JSON, gets status 500, as the real bridge does."""
    largest = HEALTH.ljust(MAX_BODY_BYTES)
    assert 200 == rpc.post(largest).status_code
    for content, words in (
        (largest + b" ", "http: request body too large\n"),
        (b"\xff", "[-32700] invalid request value\n"),
        (b"[" * 100_000, "[-32700] invalid request value\n"),
    ):
        refused = rpc.post(content)
        assert (500, words) == (refused.status_code, refused.text)


def test_each_node_has_a_path_all_others_are_404(rpc: LocalRpc) -> None:
    """The endpoint is at ``/``, and each node has a path; all others are 404."""
    for path in ("/", "/?token=5", "/node/0"):
        assert 200 == rpc.post(HEALTH, path).status_code
    for path in ("/rpc", "/node/1", "/node/", "/node/x", "/node/-1", "/node/00"):
        assert 404 == rpc.post(HEALTH, path).status_code


def test_pages_of_ledgers(rpc: LocalRpc) -> None:
    """The cursor of a page of ledgers goes on after it."""
    chain = rpc.network.chain
    page = rpc.result("getLedgers", startLedger=chain.oldest, pagination={"limit": 2})
    rest = rpc.result("getLedgers", pagination={"cursor": page["cursor"]})
    ledgers = [(item["sequence"], int(item["ledgerCloseTime"])) for item in page["ledgers"] + rest["ledgers"]]

    assert [(ledger, chain.close_time(ledger)) for ledger in range(chain.oldest, chain.latest + 1)] == ledgers
    assert (2, 2) == (len(page["ledgers"]), len(rest["ledgers"]))


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_a_server_stops_with_its_block_and_frees_its_port(host: str, shown: str) -> None:
    """A free port is chosen where none is given; a URL has an IPv6 address in brackets."""
    if host == "::1" and not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    app = create_app(RecordedNetwork())
    with running(app, host=host) as url:
        assert url.startswith(f"http://{shown}:")
        port = int(url.rpartition(":")[2])
        assert 405 == httpx.get(url).status_code
    with running(app, host=host, port=port) as again:
        assert url == again
        assert 405 == httpx.get(again).status_code
        with pytest.raises(OSError, match="in use"), running(app, host=host, port=port):
            pass
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_the_mainnet_snapshot_is_served(mainnet_snapshot: LedgerSnapshot) -> None:
    """The real file becomes mainnet at its one ledger, with its close time, entries and lives."""
    rpc = LocalRpc(snapshot_network(mainnet_snapshot))

    assert {"passphrase": NETWORKS["mainnet"].passphrase, "protocolVersion": 22} == rpc.result("getNetwork")
    (ledger,) = rpc.result("getLedgers", startLedger=55261759)["ledgers"]
    assert "1736780911" == ledger["ledgerCloseTime"]
    key = next(iter(mainnet_snapshot.entries))
    [entry] = rpc.result("getLedgerEntries", keys=[text(key)])["entries"]
    assert (text(mainnet_snapshot.entries[key].data), 4294967295) == (entry["xdr"], entry["liveUntilLedgerSeq"])
    assert 55261759 == snapshot_network(mainnet_snapshot).advance()


def _snapshot(passphrase: str) -> LedgerSnapshot:
    key = entries.code_key(bytes(32))
    return LedgerSnapshot(23, 63, 1_700_000_000, network_id(passphrase), {key: RawEntry(b"", 5, None)})


def test_the_network_is_recognized_by_its_hash() -> None:
    """Known networks are recognized; others need their passphrase, and only the right one is taken."""
    for network in NETWORKS.values():
        assert network.passphrase == snapshot_network(_snapshot(network.passphrase)).passphrase
    private = _snapshot("A private network")
    assert "A private network" == snapshot_network(private, "A private network").passphrase
    with pytest.raises(SnapshotFileError, match="not known here: give its passphrase"):
        snapshot_network(private)
    with pytest.raises(SnapshotFileError, match="of another network"):
        snapshot_network(replace(private, ledger=127), "Another network")
