"""The shipped networks and addresses."""

from __future__ import annotations

import datetime
import re
import tomllib
from importlib.resources import files

import pytest

from exporter.deployments import MARKET, Deployment, KnownContract, app_url, protocol_of_market
from exporter.deployments.networks import NETWORKS, Network, derived_address, network_id, network_of
from exporter.ledger.codec import strkey
from exporter.protocols import PROTOCOLS

DEPLOYMENTS = [
    pytest.param(deployment, id=f"{network.name} {deployment.protocol} {deployment.label}")
    for network in NETWORKS.values()
    for deployment in network.deployments
]


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_lists_are_well_formed(deployment: Deployment) -> None:
    """Every address is the strkey of a contract, its checksum right: no digit was lost in copying; nor of a hash."""
    pools = [address for pool in deployment.pools for address in (pool.market, pool.token)]
    addresses = [item.address for item in deployment.contracts]
    hashes = [item.wasm_hash for item in deployment.contracts if item.wasm_hash is not None]

    assert [] == [address for address in addresses + pools if not strkey.is_contract(address)]
    assert [] == [text for text in hashes if not re.fullmatch("[0-9a-f]{64}", text)]
    for listed in (deployment.contracts, deployment.pools):
        assert all(item.source and type(item.date) is datetime.date for item in listed)


def test_links_are_well_formed() -> None:
    """Every app has an https URL with one place for a market or a hub at most, a source and a date."""
    text = files("exporter.deployments").joinpath("apps.toml").read_text("utf-8")
    apps = [app for listed in tomllib.loads(text).values() for app in listed]

    assert apps
    for app in apps:
        assert {"protocol", "url", "source", "date"} == set(app)
        assert re.fullmatch(r"https://[a-z.]+/[A-Za-z0-9/?=_-]*(\{(market|hub)\})?", app["url"])


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_deployments_of_a_network(network: Network) -> None:
    """Each is of a protocol that can be read and has a market or backstop; no address is of two; both names find it.

    One without any contract is only announced.
    """
    found = [{item.backstop, *item.markets} - {None} for item in network.deployments if item.contracts]

    assert all(found)
    assert len(set[object]().union(*found)) == sum(map(len, found))
    assert {item.protocol for item in network.deployments} <= set(PROTOCOLS)
    assert (NETWORKS[network.name], network_of(network.passphrase)) == (network, network)
    assert Network("custom", "My Network ; 2026") == network_of("My Network ; 2026")


def test_mainnet_lists_have_every_pool_and_their_backstops() -> None:
    """Mainnet has the pools of blend.md, "Discovery": 17 of v1, 12 of v2 and 1 of v2.1, each list with its backstop."""
    expected = {
        "v1": (17, "CAO3AGAMZVRMHITL36EJ2VZQWKYRPWMQAPDQD5YEOF3GIF7T44U4JAL3"),
        "v2": (12, "CAQQR5SWBXKIGZKPBZDH3KM5GQ5GUTPKB7JAFCINLZBC5WXPJKRG3IM7"),
        "v2.1": (1, "CCS4AZ5ORM6VLLPJTJUFRNXWBMHOO3L5WHHRPL2ZMILE35ZDMQFHOQMJ"),
    }
    blend = [item for item in NETWORKS["mainnet"].deployments if item.protocol == "blend"]

    assert expected == {item.label: (len(item.markets), item.backstop) for item in blend if item.contracts}
    assert ["precept"] == [item.label for item in blend if not item.contracts]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mainnet", "7ac33997544e3175d266bd022439b22cdb16508c01163f26e5cb2a3e1045a979"),
        ("testnet", "cee0302d59844d32bdca915c8203dd44b33fbb7edc19051ea37abedf28ecd472"),
    ],
)
def test_a_networks_passphrase_hashes_to_its_documented_id(name: str, expected: str) -> None:
    """The passphrases are the networks' own: their SHA-256 is the network id that Stellar documents."""
    assert expected == network_id(NETWORKS[name].passphrase)


def test_where_the_protocols_own_apps_show_a_pool() -> None:
    """Links name the market in Blend's app, the hub in XOXNO's; a protocol or network without an app has none."""
    market, token = derived_address("market"), derived_address("token")

    assert f"https://mainnet.blend.capital/dashboard/?poolId={market}" == app_url("mainnet", "blend", market, token)
    assert "https://xoxno.com/defi/lending/hub/2" == app_url("mainnet", "xoxno", market, f"2-{token}")
    assert "https://app.alula.finance/" == app_url("mainnet", "alula", market, token)
    assert app_url("mainnet", "k2", market, token) is None
    assert app_url("local", "blend", market, token) is None


def test_a_market_of_two_protocols() -> None:
    """Lists that have one address as a market of two protocols are refused by its name; twice in one is the same."""
    address = NETWORKS["mainnet"].deployments[0].markets[0]
    one, other = (
        Deployment(name, "v1", (KnownContract(address, MARKET, "", datetime.date.min),)) for name in ("blend", "k2")
    )

    assert {address: "blend"} == protocol_of_market([one, one])
    with pytest.raises(ValueError, match=f"{address} is a market of blend and of k2"):
        protocol_of_market([one, other])
