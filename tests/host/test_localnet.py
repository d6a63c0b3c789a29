"""The embedded network with the real host behind it, and what it answers next to what the host does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from exporter.config import Settings, load
from exporter.deployments.networks import NETWORKS
from exporter.errors import EXIT_DONE, NoCommonLedgerError
from exporter.job.on_chain import ChainCheck
from exporter.job.report import RunLog
from exporter.job.run import execute
from exporter.job.sources import RpcEndpoints
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.rpc.wire import footprint_parts
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import ContractCall
from exporter.localnet.behaviour import Behaviour
from exporter.localnet.network import LocalNetwork, snapshot_network
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.stores import open_store
from tests.host.blend_world import POOL, World
from tests.host.host_network import MovingNetwork, simulated, still_network
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


def settings_for(url: str, **more: object) -> Settings:
    """Settings that read the archive's market from an embedded network, and no other."""
    values = {
        "network.name": "testnet",
        "network.rpc_urls": [url],
        "network.requests_per_second": 10_000.0,
        "discovery.enabled": False,
        "markets": [{"protocol": "blend", "address": POOL}],
        **more,
    }
    return load(None, values, environment={}).settings


def checked(network: LocalNetwork, behaviour: Behaviour | None = None) -> ChainCheck:
    """What ``exporter check --on-chain`` finds on a network."""
    with running(create_app(network, behaviour or Behaviour())) as url:
        return on_chain(settings_for(url))


def touched(transaction_data: bytes) -> set[bytes]:
    """Every key of a footprint."""
    return {key for part in footprint_parts(transaction_data) for key in part}


def test_the_check_against_the_contracts_meets_the_real_ones(snapshot: LedgerSnapshot, machine: Machine) -> None:
    """``check --on-chain`` over HTTP: every field of the archive's market equals what its deployed code answers."""
    check = checked(still_network(snapshot, machine, PASSPHRASE))

    assert ([], [], 4, 72) == (check.differences, check.failed, check.pools, check.compared)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_the_check_holds_while_real_transactions_close_ledgers(world: World, seed: int) -> None:
    """A transaction closes a ledger every few requests; the one-ledger view, with real footprints, still agrees."""
    network = MovingNetwork(world, PASSPHRASE, seed)
    compared = checks = 0
    while (network.done < 8 or compared < 3 * 72) and checks < 40:
        checks += 1
        try:
            check = checked(network, Behaviour(advance_every_requests=8))
        except NoCommonLedgerError:  # everything changed in every round: then a run ends without numbers
            continue
        compared += check.compared

        assert ([], []) == (check.differences, check.other_clock)
    assert network.done >= 8
    assert compared >= 3 * 72


def test_a_run_publishes_what_the_contracts_say(world: World, tmp_path: Path) -> None:
    """The job, over HTTP and on a moving chain: the rows are the deployed code's state at the run's ledger."""
    network = MovingNetwork(world, PASSPHRASE, 1)
    for _ in range(10):
        network.advance()
    first = network.chain.latest
    with running(create_app(network, Behaviour(advance_every_requests=4))) as url:
        settings = settings_for(url, **{"output.uri": str(tmp_path / "out"), "network.max_ledger_age": 0})
        store = open_store(settings.output.uri)
        done = execute(settings, store, RunLog(None), RpcEndpoints(), now=lambda: later(network))
    pools = pl.read_parquet(next((tmp_path / "out" / "history").rglob("date=*/*.parquet")))

    assert EXIT_DONE == done.exit_code
    assert set(pools["pool"]) == set(assets_at(network, done.ledger))
    close_times = {network.chain.close_time(ledger) for ledger in range(first, network.chain.latest + 1)}
    for row in pools.iter_rows(named=True):
        answer = reserve_at(network, done.ledger, row["pool"])
        config, data = answer.struct("config"), answer.struct("data")
        supplied = data.i128("b_supply") * data.i128("b_rate") // 10**12
        borrowed = -(-data.i128("d_supply") * data.i128("d_rate") // 10**12)
        assert (supplied, borrowed) == (row["total_supplied"], row["total_borrowed"])
        assert (data.i128("b_rate"), data.i128("d_rate")) == (row["supply_index"], row["borrow_index"])
        assert config.u32("decimals") == row["decimals"]
        price, timestamp = price_at(network, done.ledger, row["oracle"], row["pool"])
        assert price == row["oracle_price"]
        # This oracle says the time of the call. The host records no footprint for the time, so the call may have been
        # made at any ledger of the reading: one before the run's, or one after it.
        assert timestamp == network.chain.close_time(done.ledger)
        assert row["price_timestamp"] in close_times


def price_at(network: MovingNetwork, ledger: int, oracle: str, asset: str) -> tuple[int, int]:
    call = ContractCall(oracle, "lastprice", (vec(symbol("Stellar"), address(asset)),))
    answer = network.contracts.simulate(network.chain, ledger, call)
    price = Fields.of(decode_scval(answer.result or b""), "lastprice")
    return price.i128("price"), price.u64("timestamp")


def later(network: MovingNetwork) -> datetime:
    return datetime.fromtimestamp(network.chain.close_time(network.chain.latest) + 5, UTC)


def assets_at(network: MovingNetwork, ledger: int) -> list[str]:
    answer = network.contracts.simulate(network.chain, ledger, ContractCall(POOL, "get_reserve_list", ()))
    return [item[1] for item in decode_scval(answer.result or b"")[1]]


def reserve_at(network: MovingNetwork, ledger: int, asset: str) -> Fields:
    answer = network.contracts.simulate(network.chain, ledger, ContractCall(POOL, "get_reserve", (address(asset),)))
    return Fields.of(decode_scval(answer.result or b""), "get_reserve")


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
    still_network(snapshot, machine, PASSPHRASE)
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
