"""The same ledger priced by simulation and from its entries alone, over all pools of all protocols."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from exporter.deployments.networks import network_id
from exporter.job.on_chain import RecordingView, StorageRuleComparison, compare_storage_rules
from exporter.job.reading import read_protocols
from exporter.job.sources import OpenSource, open_snapshot
from exporter.ledger.codec.scval_encode import encode_scval, i128, struct_map, u64
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView, read_at_one_ledger
from exporter.localnet.chain import Chain
from exporter.localnet.network import Answer, Answering, Simulation
from exporter.localnet.player import RecordedNetwork
from exporter.protocols import PROTOCOLS
from tests.jobs import direct, read_tables, settings_for

SETTINGS = settings_for()


def network(ledgers: int) -> RecordedNetwork:
    """All protocols after this many ledgers."""
    made = RecordedNetwork(close_seconds=31)
    for _ in range(ledgers):
        made.advance()
    return made


def file_of(made: RecordedNetwork) -> OpenSource:
    """The newest ledger's entries, as a snapshot file has them."""
    ledger, chain = made.chain.latest, made.chain
    entries, network = chain.state(ledger), network_id(made.passphrase)
    snapshot = LedgerSnapshot(made.protocol_version, ledger, chain.close_time(ledger), network, entries)
    return open_snapshot(SETTINGS, snapshot, "recorded.json")


@pytest.mark.parametrize("ledgers", [0, 25])
def test_a_file_has_the_numbers_of_its_network(ledgers: int) -> None:
    """A snapshot file of a ledger gives every pool as the network itself does, with its price, without calls."""
    made = network(ledgers)
    simulated, stored = read_tables(direct(made)), read_tables(file_of(made))

    assert 24 == simulated.pools.height
    assert [] == stored.unpriced
    pairs = zip(simulated.pools.iter_rows(named=True), stored.pools.iter_rows(named=True), strict=True)
    different = [(a["protocol"], name, b[name]) for a, b in pairs for name in a if a[name] != b[name]]
    # of aTokens, in tokens that no rule knows
    needs_a_balance = (
        "available_to_withdraw",
        "available_to_borrow",
        "available_usd_cents",
        "available_to_borrow_usd_cents",
    )
    assert {("k2", name, None) for name in needs_a_balance} == set(different)


def calls_both_ways(made: RecordedNetwork) -> StorageRuleComparison:
    """The readers' calls, answered by the network and from the entries."""
    opened = direct(made)

    async def program(view: LedgerView) -> StorageRuleComparison:
        recording = RecordingView(view)
        await read_protocols(recording, SETTINGS, opened, PROTOCOLS)
        return await compare_storage_rules(view, recording.made, opened.source.close_time)

    async def work() -> StorageRuleComparison:
        return (await read_at_one_ledger(opened.source, program)).result

    return asyncio.run(work())


def test_every_call_agrees() -> None:
    """The calls that have a rule give the same both ways; those without one are counted."""
    found = calls_both_ways(network(0))

    assert [] == found.differences
    assert found.compared > 6
    assert {"balance": 2} == Counter(call.function for call in found.without)


class Prices:
    """Other answers to ``lastprice``; everything else as before."""

    def __init__(self, others: Answering, price: Simulation) -> None:
        self._others, self._price = others, price

    def simulate(self, chain: Chain, ledger: int, call: ContractCall) -> Answer:
        """Answer one call on the state of a ledger."""
        return self._price if call.function == "lastprice" else self._others.simulate(chain, ledger, call)


def test_a_simulation_that_gives_another_price() -> None:
    """A node whose oracle says something else than the entries is found out."""
    made = network(2)
    price = struct_map({"price": i128(1), "timestamp": u64(made.chain.close_time(made.chain.latest))})
    made.contracts = Prices(made.contracts, Simulation(encode_scval(price), None, {}))

    assert {"lastprice() from its entries"} == {item.field for item in calls_both_ways(made).differences}


def test_a_call_that_the_node_refused_is_not_compared() -> None:
    """An error of the node, such as a budget that ran out, says nothing about the contract."""
    made = network(2)
    before = calls_both_ways(made)
    made.contracts = Prices(made.contracts, Simulation(None, "HostError: Error(Budget, ExceededLimit)", {}))
    after = calls_both_ways(made)

    assert [] == after.differences
    assert 0 < after.compared < before.compared
