"""Which addresses a run tries to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from exporter.config import DiscoverySettings, MarketSettings, Settings
from exporter.deployments.networks import NETWORKS, Network
from exporter.discovery import candidates
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ContractInstance
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Origin
from tests.protocols.blend_chain import CODE, deployment
from tests.protocols.made_ledger import UNKNOWN_CODE, contract

KNOWN = Network("test", "Test", (deployment("b1", ["A", "B"]), deployment("b2", ["C"])))


def settings_of(*markets: str, enabled: bool = True) -> Settings:
    """Settings in which the operator names Blend markets by label."""
    named = tuple(MarketSettings(protocol="blend", address=contract(label)) for label in markets)
    return Settings(markets=named, discovery=DiscoverySettings(enabled=enabled))


def running(wasm_hash: bytes | None) -> ContractInstance:
    """A contract instance of some code; None for a Stellar asset."""
    executable = scval.STELLAR_ASSET if wasm_hash is None else scval.WASM
    return ContractInstance(executable, wasm_hash, None, None)


def labels_of(found: Mapping[str, list[Candidate]]) -> list[tuple[str, bool]]:
    """The Blend candidates by label, and whether they are demanded."""
    by_address = {contract(label): label for label in "ABCDEFG"}
    return [(by_address[item.address], item.demanded) for item in found["blend"]]


def test_published_deployments() -> None:
    """The markets of all published deployments of the network are tried."""
    assert [("A", False), ("B", False), ("C", False)] == labels_of(candidates(settings_of(), KNOWN, PROTOCOLS))


def test_operators_markets_come_first() -> None:
    """What the operator names is demanded, and is not listed again where it is published."""
    found = candidates(settings_of("D", "B"), KNOWN, PROTOCOLS)

    assert [("D", True), ("B", True), ("A", False), ("C", False)] == labels_of(found)


def test_discovery_off() -> None:
    """With discovery off only the operator's own markets are tried, whatever is known or in the file."""
    found = candidates(settings_of("D", enabled=False), KNOWN, PROTOCOLS, [(contract("E"), running(CODE["v1"]))])

    assert [("D", True)] == labels_of(found)


def test_named_twice() -> None:
    """A market named twice is one candidate."""
    assert [("D", True)] == labels_of(candidates(settings_of("D", "D", enabled=False), KNOWN, PROTOCOLS))


def test_contracts_of_a_snapshot_file() -> None:
    """Of a file's contracts those that run the code of a known market are tried, of either generation."""
    instances = [
        (contract("D"), running(CODE["v2"])),
        (contract("E"), running(UNKNOWN_CODE)),
        (contract("F"), running(None)),
        (contract("A"), running(CODE["v1"])),
        (contract("G"), running(CODE["v1"])),
    ]
    found = candidates(settings_of(), KNOWN, PROTOCOLS, instances)

    assert [("A", False), ("B", False), ("C", False), ("D", False), ("G", False)] == labels_of(found)


def test_found_before() -> None:
    """What was found before is tried after the lists; who vouches for a listed market is taken from it."""
    found = [
        Candidate("blend", contract("D"), Origin.REMEMBERED),
        Candidate("blend", contract("A"), Origin.EVENT, voucher=contract("factory")),
        Candidate("blend", contract("A"), Origin.EVENT, voucher=contract("another")),
    ]
    named = candidates(settings_of(), KNOWN, PROTOCOLS, found=found)["blend"]

    assert [("A", Origin.DEPLOYMENT, contract("factory")), ("D", Origin.REMEMBERED, None)] == [
        (label, item.origin, item.voucher) for label in "AD" for item in named if item.address == contract(label)
    ]
    assert [] == candidates(settings_of(enabled=False), KNOWN, PROTOCOLS, found=found)["blend"]


def test_pools_of_one_market() -> None:
    """Pools that nothing lists are candidates beside their market, each once."""
    found = [Candidate("blend", contract("A"), Origin.EVENT, pool) for pool in ("1-x", "2-x", "1-x")]
    named = candidates(settings_of(), KNOWN, PROTOCOLS, found=found)["blend"]

    assert [None, "1-x", "2-x"] == [item.pool for item in named if item.address == contract("A")]


@dataclass
class OtherProtocol:
    """As much of a protocol as discovery asks for."""

    name: str
    code: Mapping[bytes, str]

    def market_wasm_hashes(self) -> Mapping[bytes, str]:
        return self.code


def test_each_protocol_gets_its_own() -> None:
    """Candidates are divided by protocol; one without any has an empty list."""
    modules = {
        "blend": PROTOCOLS["blend"],
        "other": OtherProtocol("other", {UNKNOWN_CODE: "v9"}),
        "none": OtherProtocol("none", {}),
    }
    instances = [(contract("D"), running(CODE["v1"])), (contract("E"), running(UNKNOWN_CODE))]
    found = candidates(settings_of("F"), KNOWN, modules, instances)  # type: ignore[arg-type]

    assert {"blend", "other", "none"} == set(found)
    assert [("F", True), ("A", False), ("B", False), ("C", False), ("D", False)] == labels_of(found)
    assert [Candidate("other", contract("E"), Origin.SNAPSHOT)] == found["other"]
    assert [] == found["none"]


@pytest.mark.parametrize("name", NETWORKS)
def test_shipped_networks(name: str) -> None:
    """On every shipped network all published markets are candidates of their protocol, each once."""
    network = NETWORKS[name]
    found = [item for items in candidates(Settings(), network, PROTOCOLS).values() for item in items]

    known = [item for item in network.deployments if item.protocol in PROTOCOLS]
    published = [(item.protocol, market) for item in known for market in item.markets]
    assert sorted(published) == sorted((item.protocol, item.address) for item in found)
    assert not any(item.demanded for item in found)
