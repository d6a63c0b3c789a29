"""The exporter's numbers against the contracts' own getters, every field for real, and calls answered from entries."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import Struct
from msgspec.structs import replace

from exporter.audit import on_chain as job
from exporter.audit.on_chain import ChainCheck, StorageRuleComparison, compare_storage_rules
from exporter.deployments.networks import network_id
from exporter.errors import CheckError
from exporter.job.scope_reading import read_protocols
from exporter.job.sources import OpenSource, open_snapshot
from exporter.ledger.codec.scval_encode import encode_scval, i128, struct_map, u64
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView, read_at_one_ledger
from exporter.localnet.chain import Chain
from exporter.localnet.network import Answering, LocalNetwork, Simulation
from exporter.localnet.oracle import ORACLE
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import Behaviour, create_app, running
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import ComputedPool
from exporter.protocols.numbers import PoolFrameRow
from exporter.protocols.protocol import Compared
from tests.audit.contract_getters import ALULA, ContractGetters
from tests.job_runs import direct, on_chain, read_tables, settings_for
from tests.localnet.recorded import BLEND_V2, only, pools_of
from tests.protocols.protocol_facts import all_facts, recorded_pools

pytestmark = pytest.mark.usefixtures("without_pages")


def compare(network: RecordedNetwork, *names: str, behaviour: Behaviour | None = None, **flags: Any) -> ChainCheck:
    with running(create_app(network, behaviour or Behaviour())) as url:
        return on_chain(settings_for(None, url, **flags, **(only(*names) if names else {})))


def with_getters(**options: Any) -> RecordedNetwork:
    """A network whose pools of Blend and Alula have debts, and answer their getters."""
    network = RecordedNetwork()
    network.advance(network.pools)
    network.contracts = ContractGetters(network, **options)
    return network


def test_what_contracts_were_recorded_to_say() -> None:
    """Every field of K2, Peridot and XOXNO agrees with the recorded answers; what has no getter or answer is named."""
    check = compare(RecordedNetwork())

    assert [] == check.differences
    without = [f"no getter of {name} is known" for name, protocol in PROTOCOLS.items() if not protocol.getters]
    assert ["Blend v1 pools have no getter of a reserve", *without] == [item.reason for item in check.without]
    with_getters = {name: facts for name, facts in all_facts().items() if PROTOCOLS[name].getters}
    assert {name: facts.compared_fields for name, facts in with_getters.items()} == check.by_protocol
    assert all("Error(WasmVm, MissingValue)" in item.reason for item in check.failed)


def increased(value: object) -> Any:
    """A number that is one too large, or another text."""
    return value + 1 if isinstance(value, int) else f"not {value}"


def altered_state(value: Any, name: str = "") -> Any:
    """A state with other numbers, each squared, since a getter may show a rounded part or ratio of it."""
    if isinstance(value, Struct):
        changes = {name: altered_state(getattr(value, name), name) for name in value.__struct_fields__}
        return replace(value, **changes)
    return increased(value**2 + len(name) if isinstance(value, int) and value > 38 else value)


def altered(computed: ComputedPool) -> ComputedPool:
    """A pool with another state and other columns."""
    row = {name: increased(value) for name, value in computed.row.items()}
    return ComputedPool(replace(computed.pool, state=altered_state(computed.pool.state)), cast(PoolFrameRow, row))


def test_every_difference_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field that is compared is compared for real: with other numbers of ours none of them agrees.

    Nobody answers Slender's getters here; its deployed code answers them in tests/protocols.
    """
    network, compared, numbers = RecordedNetwork(), job.compare, job.rows_at
    network.contracts = ContractGetters(network)
    seen: list[Compared] = []

    def seeing(*given: Any) -> Iterator[Compared]:
        seen.extend(found := list(compared(*given)))
        yield from found

    def wrong(*given: Any) -> dict[str, dict[str, ComputedPool]]:
        return {
            market: {pool: altered(computed) for pool, computed in pools.items()}
            for market, pools in numbers(*given).items()
        }

    monkeypatch.setattr(job, "compare", seeing)
    right = compare(network)
    fields = {(item.market, item.field) for item in seen} - {(item.market, "accrued_to") for item in seen}
    monkeypatch.setattr(job, "rows_at", wrong)
    different = {(item.market, item.field) for item in compare(network).differences}

    assert [] == right.differences
    recorded = {name for name, facts in all_facts().items() if facts.compared_fields}
    assert {"alula", "blend"} | recorded == {name for name, count in right.by_protocol.items() if count}
    assert set() == fields ^ different


def test_later_calls_are_compared_at_their_own_close_time() -> None:
    """Calls made at other ledgers than the reading are compared at the close time of their own ledger."""
    check = compare(with_getters(), "blend", behaviour=Behaviour(advance_every_requests=5))

    assert [] == check.differences
    assert check.compared > 0


def test_refused_prices_are_compared_as_refusals() -> None:
    """If the contract refuses a price, the refusals are compared."""
    refused = pools_of(RecordedNetwork(), ALULA)[0].token
    check = compare(with_getters(refused=[refused]), "alula")

    assert [(refused, "oracle_price", None)] == [
        (item.pool, item.field, item.contract) for item in check.differences
    ]  # the exporter has a price
    assert 3 == check.pools


def test_an_rpc_with_its_own_clock_is_recognized() -> None:
    """An RPC that runs calls at its own clock is recognized: at that time everything agrees (blend.md, "Getters")."""
    check = compare(with_getters(clock=1_000), "blend")

    assert "accrued_to" in {item.field for item in check.differences}
    assert {BLEND_V2} == {item.market for item in check.differences} == {text.split()[0] for text in check.other_clock}
    assert all("27.1" in text for text in check.other_clock)


def test_what_is_excluded_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An excluded pool is not compared, and an excluded oracle is not called, as in a run."""
    network = with_getters()
    pool, called = pools_of(network, BLEND_V2)[0].token, list[str]()
    simulate = network.contracts.simulate

    def seeing(chain: Chain, ledger: int, call: ContractCall) -> Simulation:
        called.append(call.contract)
        return simulate(chain, ledger, call)

    monkeypatch.setattr(network.contracts, "simulate", seeing)
    check = compare(network, BLEND_V2, exclude=[ORACLE, f"{BLEND_V2}/{pool}"])

    assert [] == check.differences
    assert len(pools_of(network, BLEND_V2)) - 1 == check.pools
    assert BLEND_V2 in called
    assert ORACLE not in called


def test_nothing_to_compare(mainnet_snapshot_path: Path) -> None:
    """If no call can be made, the check fails; it does not pass without having looked."""
    with pytest.raises(CheckError, match="nothing could be compared with the contracts: Blend v1 pools have no getter"):
        on_chain(settings_for(network__name="mainnet"), mainnet_snapshot_path)


@pytest.mark.slow
def test_ledgers_that_close_faster_than_the_calls() -> None:
    """If the rounds run out before all calls are of one ledger, the command ends, and compares the calls that hold."""
    check = compare(with_getters(), behaviour=Behaviour(advance_every_requests=8), network__max_rounds=3)

    assert [] == check.differences
    assert check.compared > 0
    assert check.failed


SETTINGS = settings_for()


def network(ledgers: int) -> RecordedNetwork:
    made = RecordedNetwork(close_seconds=31)
    for _ in range(ledgers):
        made.advance()
    return made


def file_of(made: RecordedNetwork) -> OpenSource:
    ledger, chain = made.chain.latest, made.chain
    entries, network = chain.state(ledger), network_id(made.passphrase)
    snapshot = LedgerSnapshot(made.protocol_version, ledger, chain.close_time(ledger), network, entries)
    return open_snapshot(SETTINGS, snapshot, "recorded.json")


@pytest.mark.parametrize("ledgers", [0, 25])
def test_a_file_has_the_numbers_of_its_network(ledgers: int) -> None:
    """A snapshot file of a ledger gives every pool as the network itself does, with its price, without calls."""
    made = network(ledgers)
    simulated, stored = read_tables(direct(made)), read_tables(file_of(made))

    assert recorded_pools() == simulated.pools.height
    assert [] == stored.unpriced
    pairs = zip(simulated.pools.iter_rows(named=True), stored.pools.iter_rows(named=True), strict=True)
    different = [(a["protocol"], name, b[name]) for a, b in pairs for name in a if a[name] != b[name]]
    # of aTokens, in tokens that no rule knows
    needs_a_balance = (
        "available_to_withdraw",
        "available_to_borrow",
        "available_usd_cents",
        "available_to_borrow_usd_cents",
        "shortfall",
    )
    assert {("k2", name, None) for name in needs_a_balance} == set(different)


def calls_both_ways(made: RecordedNetwork) -> StorageRuleComparison:
    """The readers' calls, answered by the network and from the entries."""
    opened = direct(made)

    async def program(view: LedgerView) -> StorageRuleComparison:
        await read_protocols(view, SETTINGS, opened)
        return await compare_storage_rules(view, opened.source.close_time)

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

    def simulate(self, chain: Chain, ledger: int, call: ContractCall) -> Simulation:
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


def test_reading_while_the_network_moves() -> None:
    """Ledgers close between the answers, and still one ledger's state is read; the rest is named."""
    network = RecordedNetwork()
    for _ in range(4):
        network.advance(network.pools)
    first, chain = network.chain.latest, network.chain
    moved = read_tables(direct(network, moving=True))
    still = Chain(chain.state(moved.ledger), start_ledger=moved.ledger, start_time=chain.close_time(moved.ledger))
    alone = read_tables(direct(LocalNetwork(still, network.passphrase, 28)))

    assert chain.latest > first
    assert chain.state(first) != chain.state(chain.latest)
    pools = {(row["market"], row["pool"]): row for row in alone.pools.iter_rows(named=True)}
    assert recorded_pools() == len(pools) == moved.pools.height + len(moved.unread)
    assert moved.pools.height > 12
    for row in moved.pools.iter_rows(named=True):
        expected = pools[row["market"], row["pool"]]
        # A price that moved meanwhile may not be known at the reading's ledger; then there is none.
        priced = {name for name in row if row[name] is None and expected[name] is not None}
        different = {name for name in row if row[name] != expected[name]} - priced
        assert different <= ({"price_reason", "can_reason"} if row["oracle_price"] is None else set())
