"""The shipped networks and addresses."""

from __future__ import annotations

import hashlib

import pytest

from exporter.deployments import Deployment, app_url
from exporter.deployments.derived_addresses import derived_address
from exporter.deployments.networks import NETWORKS, network_id, network_of
from exporter.ledger.codec import strkey
from exporter.protocols import PROTOCOLS

DEPLOYMENTS = [
    pytest.param(deployment, id=f"{network.name} {deployment.protocol} {deployment.label}")
    for network in NETWORKS.values()
    for deployment in network.deployments
]


# Of the sorted addresses of Blend on each network, one a line: they were compared with blend.md, "Structure".
BLEND_DIGESTS = {
    "mainnet": "0feaabbdde24bd84",
    "testnet": "41e2422aa69a2c75",
    "local": "4c624bc79286dd3f",
}


def addresses_of(*deployments: Deployment) -> list[str]:
    """Every address of deployments."""
    return [
        address
        for deployment in deployments
        for address in (*([deployment.backstop] if deployment.backstop else []), *deployment.markets)
    ]


def blend_on(name: str) -> list[Deployment]:
    """The deployments of Blend on a network."""
    return [item for item in NETWORKS[name].deployments if item.protocol == "blend"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_addresses_are_contracts(deployment: Deployment) -> None:
    """Every address is the strkey of a contract, its checksum right: no digit was lost in copying."""
    assert [] == [address for address in addresses_of(deployment) if not strkey.is_contract(address)]


@pytest.mark.parametrize("name", NETWORKS)
def test_addresses_are_unique(name: str) -> None:
    """No address is listed twice on a network: a market is of one deployment."""
    found = addresses_of(*NETWORKS[name].deployments)

    assert len(set(found)) == len(found)


def test_mainnet_lists() -> None:
    """Mainnet has the pools of blend.md, "Discovery": 17 of v1, 12 of v2 and 1 of v2.1, each list with its backstop."""
    expected = {
        "v1": (17, "CAO3AGAMZVRMHITL36EJ2VZQWKYRPWMQAPDQD5YEOF3GIF7T44U4JAL3"),
        "v2": (12, "CAQQR5SWBXKIGZKPBZDH3KM5GQ5GUTPKB7JAFCINLZBC5WXPJKRG3IM7"),
        "v2.1": (1, "CCS4AZ5ORM6VLLPJTJUFRNXWBMHOO3L5WHHRPL2ZMILE35ZDMQFHOQMJ"),
    }

    assert expected == {item.label: (len(item.markets), item.backstop) for item in blend_on("mainnet")}


def test_lists_as_they_were_collected() -> None:
    """The lists are unchanged since they were compared with their source; whoever changes one changes this."""
    digests = {
        name: hashlib.sha256("\n".join(sorted(addresses_of(*blend_on(name)))).encode()).hexdigest()[:16]
        for name in NETWORKS
    }

    assert BLEND_DIGESTS == digests


def test_every_deployment_can_be_read() -> None:
    """Every deployment is of a protocol that can be read, and gives something to begin with: markets or a backstop."""
    deployments = [item for network in NETWORKS.values() for item in network.deployments]

    assert {item.protocol for item in deployments} <= set(PROTOCOLS)
    assert all(item.markets or item.backstop for item in deployments)


def test_networks_by_name_and_passphrase() -> None:
    """A network is found by its passphrase, and by the name the configuration uses."""
    assert {"mainnet", "testnet", "local"} == set(NETWORKS)
    for name, network in NETWORKS.items():
        assert name == network.name
        assert network == network_of(network.passphrase)


def test_unknown_passphrase() -> None:
    """Of another passphrase nothing is known: no address of a known network is tried on it."""
    network = network_of("My Network ; 2026")

    assert ("custom", "My Network ; 2026", ()) == (network.name, network.passphrase, network.deployments)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mainnet", "7ac33997544e3175d266bd022439b22cdb16508c01163f26e5cb2a3e1045a979"),
        ("testnet", "cee0302d59844d32bdca915c8203dd44b33fbb7edc19051ea37abedf28ecd472"),
    ],
)
def test_network_id(name: str, expected: str) -> None:
    """The passphrases are the networks' own: their SHA-256 is the network id that Stellar documents."""
    assert expected == network_id(NETWORKS[name].passphrase)


def test_made_addresses() -> None:
    """Addresses of the embedded network follow from their labels, and differ."""
    assert strkey.is_contract(derived_address("a"))
    assert derived_address("a") == derived_address("a") != derived_address("b")
    assert hashlib.sha256(b"a").digest() == strkey.decode_contract(derived_address("a"))


def test_where_the_protocols_own_apps_show_a_pool() -> None:
    """Links name the market in Blend's app, the hub in XOXNO's; a protocol or network without an app has none."""
    market, token = derived_address("market"), derived_address("token")

    assert f"https://mainnet.blend.capital/dashboard/?poolId={market}" == app_url("mainnet", "blend", market, token)
    assert "https://xoxno.com/defi/lending/hub/2" == app_url("mainnet", "xoxno", market, f"2-{token}")
    assert "https://app.alula.finance/" == app_url("mainnet", "alula", market, token)
    assert app_url("mainnet", "k2", market, token) is None
    assert app_url("local", "blend", market, token) is None
