"""What the embedded network answers next to what the host does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.audit.on_chain import check_chain
from exporter.config import load
from exporter.deployments.networks import NETWORKS
from exporter.job.sources import OpenSource
from exporter.ledger.codec import scval, strkey
from exporter.ledger.rpc.wire import footprint_parts
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import ContractCall
from exporter.localnet.network import snapshot_network
from tests.host.blend_world import POOL
from tests.host.judge_file import HostSource, load_snapshot, simulated
from tests.host.machine import Machine
from tests.job_runs import Opened
from tests.past.archive.archive_snapshot import CheckpointState, snapshot_of

PASSPHRASE = NETWORKS["testnet"].passphrase
NOBODY = strkey.encode(strkey.CONTRACT, bytes(32))


@pytest.fixture(scope="module")
def snapshot(archive_state: CheckpointState) -> LedgerSnapshot:
    return snapshot_of(archive_state)


@pytest.fixture(scope="module")
def machine(program: Path) -> Iterator[Machine]:
    with Machine(program) as machine:
        yield machine


def touched(transaction_data: bytes) -> set[bytes]:
    """Every key of a footprint."""
    return {key for part in footprint_parts(transaction_data) for key in part}


def tokens_of(snapshot: LedgerSnapshot) -> list[str]:
    """The Stellar asset contracts."""
    return [
        contract for contract, instance in snapshot.contract_instances() if instance.executable == scval.STELLAR_ASSET
    ]


def asked(snapshot: LedgerSnapshot) -> list[ContractCall]:
    """What runs ask tokens, and a contract that is not there."""
    functions = ("decimals", "name", "symbol")
    calls = [ContractCall(token, function, ()) for token in tokens_of(snapshot) for function in functions]
    return [*calls, ContractCall(NOBODY, "decimals", ())]


def test_views_of_the_archive_agree(snapshot: LedgerSnapshot, machine: Machine) -> None:
    """All 72 fields that the real contracts' views give of the archive's four pools are ours."""
    markets = [{"protocol": "blend", "address": POOL}]
    settings = load(None, {"network.name": "testnet", "discovery.enabled": False, "markets": markets}).settings
    source = OpenSource(HostSource(snapshot, machine), NETWORKS["testnet"], [], "host", has_all_contracts=False)
    check = asyncio.run(check_chain(settings, Opened(source)))

    assert ([], [], 72, 4) == (check.differences, check.failed, check.compared, check.pools)


def test_the_network_answers_as_the_contracts_do(snapshot: LedgerSnapshot, machine: Machine) -> None:
    """Results are byte for byte the same, errors have the same kind and code, footprints hold the same keys."""
    network = snapshot_network(snapshot, PASSPHRASE)
    load_snapshot(machine, snapshot)
    different: list[tuple[object, ...]] = []
    for call in asked(snapshot):
        real = simulated(machine, call)
        ours = network.contracts.simulate(network.chain, network.chain.latest, call)
        if real.result != ours.result or code_of(real.error) != code_of(ours.error):
            different.append((call, real.result, real.error, ours.result, ours.error))
        elif real.result is not None and touched(ours.transaction_data()) != set(real.footprint):
            different.append((call, "footprint", tuple(real.footprint), tuple(ours.footprint)))

    assert [] == different
    assert 20 == len(tokens_of(snapshot))


def code_of(error: str | None) -> str | None:
    """The ``Error(...)`` of a host's message."""
    return None if error is None else error.removeprefix("HostError: ").split(")")[0] + ")"
