"""The embedded server on a real socket, with stellar-sdk's own client as the judge."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx
import pytest
from stellar_sdk import SorobanServer

from exporter.deployments.networks import NETWORKS
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app


@pytest.fixture(scope="module")
def network() -> RecordedNetwork:
    """A network that has an archived reserve and has moved on by three ledgers."""
    network = RecordedNetwork(archived=[RecordedNetwork().pools[0].key])
    for _ in range(3):
        network.advance()
    return network


@pytest.fixture(scope="module")
def sdk_server(network: RecordedNetwork) -> Iterator[SorobanServer]:
    with running(create_app(network)) as url, SorobanServer(url) as server:
        yield server


def test_the_sdk_reads_health_network_and_ledgers(network: RecordedNetwork, sdk_server: SorobanServer) -> None:
    """stellar-sdk parses getHealth, getNetwork, getVersionInfo, getLatestLedger and getLedgers."""
    chain = network.chain

    health = sdk_server.get_health()
    assert ("healthy", chain.latest, chain.oldest) == (health.status, health.latest_ledger, health.oldest_ledger)
    assert NETWORKS[NETWORK].passphrase == sdk_server.get_network().passphrase
    assert 28 == sdk_server.get_version_info().protocol_version
    latest = sdk_server.get_latest_ledger()
    assert (chain.latest, chain.close_time(chain.latest)) == (latest.sequence, latest.close_time)
    page = sdk_server.get_ledgers(start_ledger=chain.oldest, limit=2)
    rest = sdk_server.get_ledgers(cursor=page.cursor)
    ledgers = [*page.ledgers, *rest.ledgers]
    assert list(range(chain.oldest, chain.latest + 1)) == [ledger.sequence for ledger in ledgers]
    assert [chain.close_time(ledger.sequence) for ledger in ledgers] == [ledger.ledger_close_time for ledger in ledgers]
    assert [] == sdk_server.get_events(start_ledger=chain.oldest).events


def test_a_server_stops_with_its_block_and_frees_its_port() -> None:
    """A free port is chosen where none is given; after the block the same port can be had again."""
    app = create_app(RecordedNetwork())
    with running(app) as url:
        port = int(url.rpartition(":")[2])
        assert 405 == httpx.get(url).status_code
    with running(app, port=port) as again:
        assert url == again
        assert 405 == httpx.get(again).status_code
        with pytest.raises(OSError, match="in use"), running(app, port=port):
            pass
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_a_url_has_an_ipv6_address_in_brackets() -> None:
    """So that it can be asked."""
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with running(create_app(RecordedNetwork()), host="::1") as url:
        assert url.startswith("http://[::1]:")
        assert 405 == httpx.get(url).status_code
