"""The same made ledger priced by simulation and from its entries alone, over all pools of all protocols."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from exporter.deployments.networks import NETWORKS, network_id
from exporter.job.reading import read_protocols
from exporter.job.sources import OpenSource, open_snapshot
from exporter.job.storage_rule_comparison import RecordingView, compare_storage_rules
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval_encode import i128, struct_map, u64
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.view import LedgerView, read_at_one_ledger
from exporter.localnet.contracts import Contracts, Host, TrapError
from exporter.localnet.made import SOME, MadeNetwork
from exporter.localnet.network import CODE, LocalNetwork
from exporter.localnet.reflector_contract import REFLECTOR_WASM_HASH, run_reflector
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import ProtocolReading
from exporter.protocols.compute import Tables, compute
from exporter.tables import VALID_PRICE
from tests.jobs import settings_for
from tests.localnet.direct_source import DirectSource

PRICE = ("oracle_decimals", "oracle_price", "price_timestamp", "oracle_price_usd", "tvl_usd_cents")
LOCAL = NETWORKS["made"]


def network(ledgers: int, close_seconds: int = 31) -> MadeNetwork:
    """All protocols after so many ledgers, with oracles whose entries are as on mainnet where that is known."""
    made = MadeNetwork(pools=40, alula_markets=2, others=SOME, real_oracles=True, close_seconds=close_seconds)
    for _ in range(ledgers):
        made.advance()
    return made


def live(made: LocalNetwork) -> OpenSource:
    """The network, of which calls are simulated."""
    return OpenSource(DirectSource(made), LOCAL, [], "direct", None)


def file_of(made: LocalNetwork) -> OpenSource:
    """The newest ledger's entries, as a snapshot file has them."""
    ledger = made.chain.latest
    snapshot = LedgerSnapshot(
        made.protocol_version,
        ledger,
        made.chain.close_time(ledger),
        network_id(made.passphrase),
        made.chain.state(ledger),
    )
    return open_snapshot(settings_for(None), snapshot, "made.json")


def tables_of(opened: OpenSource) -> Tables:
    """All that a run would make of it."""

    async def program(view: LedgerView) -> list[ProtocolReading]:
        return await read_protocols(view, settings_for(None), opened, PROTOCOLS)

    async def work() -> Tables:
        reading = await read_at_one_ledger(opened.source, program)
        ledger = reading.certificate.ledger
        close_time = await opened.source.close_time(ledger)
        return compute(reading.result, PROTOCOLS, ledger, close_time)

    return asyncio.run(work())


@pytest.mark.parametrize("ledgers", [0, 5, 9, 25])
def test_priced_alike(ledgers: int) -> None:
    """What the entries price has the same price, time and value as by simulation; all else says why it has none."""
    made = network(ledgers)
    simulated, stored = tables_of(live(made)), tables_of(file_of(made))
    keys = ["protocol", "market", "pool"]
    both = simulated.pools.join(stored.pools, on=keys, how="inner", suffix="_stored")
    priced: Counter[str] = Counter()
    for row in both.iter_rows(named=True):
        unknown = "not from storage" in row["price_reason_stored"]
        if unknown:
            assert all(row[f"{name}_stored"] is None for name in PRICE)
            continue
        assert [row[name] for name in PRICE] == [row[f"{name}_stored"] for name in PRICE]
        assert row["price_reason"].split(" (")[0] == row["price_reason_stored"].split(" (")[0]
        priced[row["protocol"]] += row["price_reason"] == VALID_PRICE

    # Boosted vaults of Peridot, and tokens that keep their symbol in a way of their own, need a contract's word.
    lost = simulated.pools.join(stored.pools, on=keys, how="anti").select("market", "pool").rows()
    reasons = {(item.market, item.pool): item.detail for item in stored.unread}
    assert {*lost} <= reasons.keys()
    assert all("not from storage" in reasons[pool] for pool in lost)
    assert {"alula", "blend", "k2", "peridot", "slender", "xoxno"} == set(both["protocol"])
    assert {"blend", "peridot", "slender", "xoxno"} == {name for name, count in priced.items() if count}


def calls_both_ways(made: LocalNetwork) -> tuple[int, list[str], Counter[str]]:
    """How many of the readers' calls are answered both ways, what differs, and which functions have no rule."""
    opened = live(made)

    async def program(view: LedgerView) -> tuple[int, list[str], Counter[str]]:
        recording = RecordingView(view)
        await read_protocols(recording, settings_for(None), opened, PROTOCOLS)
        found = await compare_storage_rules(view, recording.made, opened.source.close_time)
        fields = [item.field for item in found.differences]
        return found.compared, fields, Counter(call.function for call in found.without)

    async def work() -> tuple[int, list[str], Counter[str]]:
        return (await read_at_one_ledger(opened.source, program)).result

    return asyncio.run(work())


def test_every_call_agrees() -> None:
    """The calls that have a rule give the same both ways; the made oracles of Alula and K2 have none."""
    compared, differences, without = calls_both_ways(network(7))

    assert [] == differences
    assert compared > 40
    assert {"decimals", "lastprice", "get_asset_prices_vec_fresh"} <= set(without)


def test_a_simulation_that_gives_another_price() -> None:
    """A node whose oracle says something else than the entries is found out."""

    def lying(host: Host, contract: str, function: str, arguments: tuple[scval.ScVal, ...]) -> scval.ScVal:
        given = run_reflector(host, contract, function, arguments)
        return struct_map({"price": i128(1), "timestamp": u64(host.timestamp)}) if function == "lastprice" else given

    made = network(2)
    code = Contracts({**CODE._by_wasm_hash, REFLECTOR_WASM_HASH: lying}, CODE._stellar_asset)
    _, differences, _ = calls_both_ways(LocalNetwork(made.chain, made.passphrase, made.protocol_version, code))

    assert {"lastprice() from its entries"} == set(differences)


def test_a_call_that_the_node_refused_is_not_compared() -> None:
    """An error of the node, such as a budget that ran out, says nothing about the contract."""
    made = network(2)

    def tired(*_: object) -> scval.ScVal:
        raise TrapError("Error(Budget, ExceededLimit)")

    code = Contracts({**CODE._by_wasm_hash, REFLECTOR_WASM_HASH: tired}, CODE._stellar_asset)
    before, _, _ = calls_both_ways(made)
    compared, differences, _ = calls_both_ways(LocalNetwork(made.chain, made.passphrase, made.protocol_version, code))

    assert [] == differences
    assert 0 < compared < before
