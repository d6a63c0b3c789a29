"""Tests which addresses a run tries to read, and whether the lists still hold."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping

import pytest

from exporter.config import DiscoverySettings, MarketSettings, Settings
from exporter.deployments import MARKET, Deployment, KnownContract
from exporter.deployments.networks import Network
from exporter.discovery.candidates import Drift, candidates, check_lists
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.view import LedgerView, read_at_one_ledger
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Origin
from exporter.protocols.blend.layout import WASM_HASHES
from tests.protocols.made_ledger import UNKNOWN_CODE, MadeLedger, contract, instance, known

CODE = {generation: code for code, generation in WASM_HASHES.items()}
LISTS = {"b1": "AB", "b2": "C"}
KNOWN = Network(
    "test",
    "Test",
    tuple(Deployment("blend", "test", tuple(known(label, MARKET) for label in LISTS[name])) for name in LISTS),
)


def settings_of(*markets: str, enabled: bool = True) -> Settings:
    """Settings in which the operator names Blend markets by label."""
    named = tuple(MarketSettings(protocol="blend", address=contract(label)) for label in markets)
    return Settings(markets=named, discovery=DiscoverySettings(enabled=enabled))


def running(wasm_hash: bytes | None) -> ContractInstance:
    """A contract instance of some code; None for a Stellar asset."""
    executable = scval.STELLAR_ASSET if wasm_hash is None else scval.WASM
    return ContractInstance(executable, wasm_hash, None, None)


def labels_of(found: Mapping[str, list[Candidate]]) -> list[tuple[str, bool]]:
    """The Blend candidates by label, and whether they are configured."""
    by_address = {contract(label): label for label in "ABCDEFG"}
    return [(by_address[item.address], item.configured) for item in found["blend"]]


LISTED = [("A", False), ("B", False), ("C", False)]


@pytest.mark.parametrize(
    ("settings", "tried"),
    [
        (settings_of(), LISTED),
        (settings_of("D", "B"), [("D", True), ("B", True), ("A", False), ("C", False)]),
        (settings_of("D", "D", enabled=False), [("D", True)]),
    ],
)
def test_lists_and_operator(settings: Settings, tried: list[tuple[str, bool]]) -> None:
    """The operator's markets come first and are configured, then the lists', each once; with discovery off no other."""
    file = [(contract("E"), running(CODE["v1"]))] if not settings.discovery.enabled else []

    assert tried == labels_of(candidates(settings, KNOWN, PROTOCOLS, file))


def test_contracts_of_a_snapshot_file() -> None:
    """A run tries the contracts of a file that run the code of a known market, of either generation."""
    instances = [
        (contract("D"), running(CODE["v2"])),
        (contract("E"), running(UNKNOWN_CODE)),
        (contract("F"), running(None)),
        (contract("A"), running(CODE["v1"])),
        (contract("G"), running(CODE["v1"])),
    ]
    found = candidates(settings_of(), KNOWN, PROTOCOLS, instances)

    assert [*LISTED, ("D", False), ("G", False)] == labels_of(found)


def test_markets_found_before_are_tried_after_the_lists() -> None:
    """Markets that were found before are tried after the lists; a listed market gets their voucher."""
    found = [
        Candidate("blend", contract("D"), Origin.REMEMBERED),
        Candidate("blend", contract("A"), Origin.EVENT, voucher=contract("factory")),
        Candidate("blend", contract("A"), Origin.EVENT, voucher=contract("another")),
    ]
    named = candidates(settings_of(), KNOWN, PROTOCOLS, discovered=found)["blend"]

    assert [("A", Origin.DEPLOYMENT, contract("factory")), ("D", Origin.REMEMBERED, None)] == [
        (label, item.origin, item.voucher) for label in "AD" for item in named if item.address == contract(label)
    ]
    assert [] == candidates(settings_of(enabled=False), KNOWN, PROTOCOLS, discovered=found)["blend"]


X = contract("X")
LISTED_CODE = CODE["v1"]
OTHER_CODE = (
    f"has contract code {UNKNOWN_CODE.hex()}, listed (a source, 2026-09-28) is {LISTED_CODE.hex()}; "
    "it may have been upgraded or replaced"
)
ABSENT = f"drift: the ledger has no contract at factory {X} of blend v1 as listed (a source, 2026-09-28)"


@pytest.mark.parametrize(
    ("role", "listed", "found", "whole", "notices"),
    [
        # A contract with the code of the list is not a news; nor is one whose code no list has.
        ("market", LISTED_CODE, LISTED_CODE, True, []),
        ("factory", LISTED_CODE, LISTED_CODE, True, []),
        ("market", None, UNKNOWN_CODE, True, []),
        ("factory", None, UNKNOWN_CODE, True, []),
        # Other code than listed is a warning with both hashes, the source and its date.
        ("market", LISTED_CODE, UNKNOWN_CODE, True, [f"drift: market {X} of blend v1 {OTHER_CODE}"]),
        ("factory", LISTED_CODE, UNKNOWN_CODE, True, [f"drift: factory {X} of blend v1 {OTHER_CODE}"]),
        # A missing contract is a warning, unless it is a market, which is reported absent, or the file has only some.
        ("factory", None, None, True, [ABSENT]),
        ("factory", LISTED_CODE, None, False, []),
        ("market", LISTED_CODE, None, True, []),
    ],
    ids=range(9),
)
def test_other_code_of_a_listed_contract_is_noticed(
    role: str, listed: bytes | None, found: bytes | None, whole: bool, notices: list[str]
) -> None:
    """The notice about a contract of the lists that runs other code on the ledger, or is missing."""
    date = datetime.date(2026, 9, 28)
    known = KnownContract(X, role, "a source", date, wasm_hash=listed.hex() if listed else None)
    ledger = MadeLedger(*([] if found is None else [instance(X, [], found)]))

    async def program(view: LedgerView) -> list[Drift]:
        return await check_lists(view, [Deployment("blend", "v1", (known,))], has_all_contracts=whole)

    drifts = asyncio.run(read_at_one_ledger(ledger, program)).result
    assert [("blend", X, notice) for notice in notices] == [(*drift[:2], drift.notice) for drift in drifts]
