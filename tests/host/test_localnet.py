"""The embedded network with the real host behind it, and what it answers next to what the host does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.config import load
from exporter.deployments.networks import NETWORKS
from exporter.errors import NoCommonLedgerError
from exporter.ledger.codec import scval, strkey
from exporter.ledger.rpc.wire import footprint_parts
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import ContractCall
from exporter.localnet.network import snapshot_network
from exporter.localnet.server import Behaviour, create_app, running
from tests.host.blend_world import POOL, World
from tests.host.host_network import MovingNetwork, load_snapshot, simulated
from tests.host.machine import Machine
from tests.jobs import on_chain
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


@pytest.mark.parametrize("seed", [0, 3])
def test_the_check_holds_while_real_transactions_close_ledgers(world: World, seed: int) -> None:
    """``check --on-chain`` over HTTP, while every few requests a transaction closes a ledger, agrees in every field."""
    network = MovingNetwork(world, PASSPHRASE, seed)
    values = {
        "network.name": "testnet",
        "network.requests_per_second": 10_000.0,
        "discovery.enabled": False,
        "markets": [{"protocol": "blend", "address": POOL}],
    }
    compared: list[int] = []
    while (network.done < 8 or sum(compared) < 3 * 72) and len(compared) < 40:
        with running(create_app(network, Behaviour(advance_every_requests=8))) as url:
            try:
                check = on_chain(load(None, values | {"network.rpc_urls": [url]}, environment={}).settings)
            except NoCommonLedgerError:  # everything changed in every round: then a run ends without numbers
                compared.append(0)
                continue
        compared.append(check.compared)

        assert [] == check.differences
    assert network.done >= 8
    assert sum(compared) >= 3 * 72
    assert 72 in compared  # of all four pools


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
