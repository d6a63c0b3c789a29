"""Bundles of calls through a router that the real host runs, over the archive's oracles and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.router import CALLER, Router, ask_alone
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import ContractCall
from exporter.localnet.answers import PlayedAnswers
from exporter.localnet.chain import Chain
from exporter.past.archive.checkpoint import CheckpointState
from tests.host.blend_world import POOL
from tests.host.host_network import HostSource
from tests.host.machine import Machine
from tests.host.router_code import router_entries
from tests.localnet.routed import RoutedAnswers
from tests.past.archive.archive_snapshot import snapshot_of

ROUTER = strkey.encode(strkey.CONTRACT, b"router".ljust(32, b"\0"))
NOTHING = strkey.encode(strkey.CONTRACT, b"nothing".ljust(32, b"\0"))


@pytest.fixture(scope="module")
def snapshot(archive_state: CheckpointState) -> LedgerSnapshot:
    found = snapshot_of(archive_state)
    return replace(found, entries={**found.entries, **router_entries(ROUTER, found.ledger)})


@pytest.fixture(scope="module")
def source(program: Path, snapshot: LedgerSnapshot) -> Iterator[HostSource]:
    with Machine(program) as machine:
        yield HostSource(snapshot, machine)


@pytest.fixture
def calls(source: HostSource, snapshot: LedgerSnapshot) -> list[ContractCall]:
    """Prices of the market's oracle, and names of all live tokens; most prices fail, and so does one contract."""
    config = source._machine.call(POOL, "get_config").given()
    oracle = next(value[1] for key, value in config[1] if key == symbol("oracle"))
    instances = snapshot.contract_instances()
    tokens = [
        contract
        for contract, instance in instances
        if instance.executable == scval.STELLAR_ASSET and not is_archived(snapshot, contract)
    ]
    prices = [ContractCall(oracle, "lastprice", (vec(symbol("Stellar"), address(token)),)) for token in tokens]
    names = [ContractCall(token, function) for token in tokens for function in ("name", "symbol", "decimals")]
    return [ContractCall(oracle, "decimals"), *prices, *names, ContractCall(NOTHING, "decimals")]


def is_archived(snapshot: LedgerSnapshot, contract: str) -> bool:
    return (snapshot.entries[instance_key(contract)].live_until or 0) < snapshot.ledger


def test_bundles_give_what_the_contracts_give(source: HostSource, calls: list[ContractCall]) -> None:
    """Results are the same with and without the router, which spares most of the requests."""
    router = Router(ROUTER)
    routed = asyncio.run(router.simulate(source, calls))
    alone = asyncio.run(ask_alone(source, calls))
    report = router.report()

    assert [alone[call].result for call in calls] == [answer.result for answer in routed]
    assert [alone[call].error for call in calls] == [answer.error for answer in routed]
    assert (None, 0, []) == (report["stopped"], report["failed"], router.notices)
    assert report["results"] > 0.7 * len(calls)
    for call, answer in zip(calls, routed, strict=True):
        assert not answer.writes
        assert set(alone[call].footprint) <= set(answer.footprint)


def test_an_archived_token_costs_its_bundle_and_no_result(
    source: HostSource, snapshot: LedgerSnapshot, calls: list[ContractCall]
) -> None:
    """A call that restores an entry writes, so that its bundle is not used; its calls are asked for alone."""
    instances = snapshot.contract_instances()
    archived = [
        ContractCall(contract, "symbol")
        for contract, instance in instances
        if instance.executable == scval.STELLAR_ASSET and is_archived(snapshot, contract)
    ]
    router = Router(ROUTER)
    wanted = [*calls, archived[0]]
    routed = asyncio.run(router.simulate(source, wanted))
    alone = asyncio.run(ask_alone(source, wanted))

    assert 2 == len(archived)
    assert [alone[call].result for call in wanted] == [answer.result for answer in routed]
    assert 1 == router.report()["failed"]
    assert alone[archived[0]].writes


def test_the_router_of_other_tests_answers_as_real_code_does(
    source: HostSource, snapshot: LedgerSnapshot, calls: list[ContractCall]
) -> None:
    """A bundle of tokens' calls has the same results and errors, whether the host or the tests' own router runs it."""
    known = [call for call in calls if call.function != "lastprice" and call.contract != calls[0].contract]
    items = [
        vec(address(call.contract), symbol(call.function), vec(*call.arguments), (scval.BOOL, True))
        for call in [*known[:18], ContractCall(known[0].contract, "no_such_function"), known[-1]]
    ]
    bundle = ContractCall(ROUTER, "exec", (address(CALLER), vec(*items)))
    real = asyncio.run(source.simulate(bundle))
    chain = Chain(snapshot.entries, start_ledger=snapshot.ledger, start_time=snapshot.close_time)
    ours = RoutedAnswers(PlayedAnswers(), ROUTER).simulate(chain, chain.latest, bundle)

    assert real.result is not None, real.error
    assert ours.result is not None, ours.error
    assert decode_scval(real.result) == decode_scval(ours.result)
    assert set(real.footprint) == set(ours.footprint)
