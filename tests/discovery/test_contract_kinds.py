"""The kinds of contracts, by code and by the names in storage, measured on all recorded protocols."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import pytest

from exporter.deployments import MARKET
from exporter.deployments.networks import network_of
from exporter.discovery.contract_kinds import ContractKind, CountedContract, classify_all
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import (
    CONTRACT_DATA,
    ContractData,
    decode_contract_data,
    encode_contract_data,
    instance_of,
    is_instance_key,
)
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.localnet.player import RecordedNetwork
from exporter.protocols import PROTOCOLS
from exporter.protocols.protocol import Protocol
from tests.localnet.recorded import BLEND_V2
from tests.protocols.protocol_facts import all_facts


def recorded() -> tuple[list[bytes], list[tuple[str, ContractInstance]]]:
    """All contract data of the recorded network, and all instances."""
    chain = RecordedNetwork().chain
    entries = {key: entry.data for key in chain.known_keys() if (entry := chain.stored(key)) is not None}
    data = [content for content in entries.values() if content[:4] == CONTRACT_DATA.to_bytes(4, "big")]
    decoded = [decode_contract_data(content) for key, content in entries.items() if is_instance_key(key)]
    return data, [(entry.contract, instance_of(entry)) for entry in decoded]


def renamed(instances: list[tuple[str, ContractInstance]]) -> list[tuple[str, ContractInstance]]:
    """The contracts of a state, each with a code that nobody knows."""
    return [
        (address, instance._replace(wasm_hash=sha256(address.encode()).digest()) if instance.wasm_hash else instance)
        for address, instance in instances
    ]


def listed() -> dict[str, tuple[str, str]]:
    """Protocol and role of each contract in the recorded network's lists."""
    deployments = network_of(RecordedNetwork().passphrase).deployments
    return {item.address: (each.protocol, item.role) for each in deployments for item in each.contracts}


def taken(
    modules: Mapping[str, Protocol], instances: list[tuple[str, ContractInstance]], *, lists: bool = True
) -> dict[str, CountedContract]:
    deployments = network_of(RecordedNetwork().passphrase).deployments if lists else ()
    lending = classify_all(modules, deployments, recorded()[0], instances)
    return {item.address: item for item in lending.lending}


def test_markets_are_known_by_their_code() -> None:
    """Every market of the lists, or of the code that one of these or a protocol has, and no other contract."""
    found = {
        address: item.protocol
        for address, item in taken(PROTOCOLS, recorded()[1]).items()
        if item.kind == ContractKind.KNOWN_CODE
    }
    markets = {address: protocol for address, (protocol, role) in listed().items() if role == MARKET}

    assert found == markets
    assert set(PROTOCOLS) == set(found.values())


@pytest.mark.parametrize("protocol", ["k2", "alula"])
def test_a_market_that_runs_the_code_of_a_listed_one(protocol: str) -> None:
    """A market such as K2's third router is found: no list has it or its code, but a listed market runs that code."""
    _, instances = recorded()
    unlisted = renamed(instances)
    code = next(item.wasm_hash for address, item in unlisted if listed().get(address) == (protocol, MARKET))
    stranger = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
    copy = ContractInstance(scval.WASM, code, None, None)

    assert ContractKind.KNOWN_CODE == taken(PROTOCOLS, [*unlisted, (stranger, copy)])[stranger].kind
    assert stranger not in taken(PROTOCOLS, [*unlisted, (stranger, copy)], lists=False)


def test_markets_of_unknown_code_are_known_by_their_storage() -> None:
    """If no list has any code, the names in storage still find each market of every protocol, and nothing else."""
    found = taken(PROTOCOLS, renamed(recorded()[1]), lists=False)
    markets = {address: protocol for address, (protocol, role) in listed().items() if role == MARKET}

    assert markets == {
        address: item.protocol for address, item in found.items() if item.kind == ContractKind.KNOWN_STORAGE
    }
    assert set(PROTOCOLS) == set(markets.values())


def test_recall_of_the_lending_rule() -> None:
    """If no protocol were known, the rule finds those whose contracts have its shape, and nothing else."""
    found = taken({}, renamed(recorded()[1]))
    lenders = {(protocol, facts.lender_role) for protocol, facts in all_facts().items()}
    shaped = {listed()[address] for address, item in found.items() if item.kind == ContractKind.LENDING_SHAPED}

    assert [name for name, facts in all_facts().items() if facts.has_lending_shape] == sorted(
        protocol for protocol, _ in shaped & lenders
    )
    assert {listed()[address][1] for address in found} <= {role for _, role in lenders}


def test_a_pool_of_blend_with_a_position_has_the_shape() -> None:
    """Blend names debts in positions, and nowhere else."""
    data, instances = recorded()
    position = (scval.MAP, (((scval.SYMBOL, "liabilities"), (scval.MAP, ())),))
    data.append(encode_contract_data(ContractData(BLEND_V2, (scval.SYMBOL, "Positions"), 1, position)))
    found = classify_all({}, (), data, renamed(instances)).lending

    assert BLEND_V2 in {item.address for item in found}


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("total_supply", "borrow_index", "interest"), ContractKind.LENDING_SHAPED),
        (("TotalSupply", "BORROWED", "UtilizationRate"), ContractKind.LENDING_SHAPED),
        (("total_supply", "borrow_cap"), ContractKind.OTHER),
        (("supplier", "reborrowed", "interest"), ContractKind.OTHER),
        (("assets", "base", "decimals", "timestamp"), ContractKind.ORACLE),
        (("METADATA", "decimal", "symbol"), ContractKind.TOKEN),
        ((), ContractKind.OTHER),
    ],
)
def test_kinds_by_names(names: tuple[str, ...], kind: ContractKind) -> None:
    """A word counts by its beginning; one word of each of three groups makes the shape of lending."""
    value: ScVal = (scval.VEC, tuple((scval.SYMBOL, name) for name in names))
    data = encode_contract_data(ContractData(BLEND_V2, (scval.U32, 1), 1, value))
    instance = ContractInstance(scval.WASM, b"?" * 32, None, None)

    counts = classify_all(PROTOCOLS, (), [data], [(BLEND_V2, instance)]).counts

    assert [kind] == [each for each, count in counts.items() if count]


def test_kinds_without_names() -> None:
    """A Stellar asset is a token whatever is stored, and bytes that only look like names are none."""
    looks = b"".join(b"\0\0\0\x0f\0\0\0\x20" + name + b"\0" for name in (b"supply", b"borrow", b"interest"))
    data = encode_contract_data(ContractData(BLEND_V2, (scval.U32, 1), 1, (scval.BYTES, looks)))
    for executable, kind in ((scval.STELLAR_ASSET, ContractKind.TOKEN), (scval.WASM, ContractKind.OTHER)):
        instance = ContractInstance(executable, None, None, None)
        counts = classify_all(PROTOCOLS, (), [data], [(BLEND_V2, instance)]).counts

        assert [kind] == [each for each, count in counts.items() if count]
