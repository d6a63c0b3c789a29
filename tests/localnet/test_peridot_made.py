"""The made Peridot markets: what is in them, that they move, and that the exporter agrees with them and their views."""

from __future__ import annotations

import asyncio

from exporter.deployments.local import PERIDOT
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.source import ContractCall
from exporter.ledger.view import Reading, ViewLimits, read_at_one_ledger
from exporter.localnet.chain import Change
from exporter.localnet.made import DEFAULT_START_TIME
from exporter.localnet.peridot import PERIDOT_CODE, Boost, Vault, vault_state
from exporter.localnet.peridot_made import PeridotMarkets
from exporter.protocols.base import Candidate, Compared, ProtocolReading, ViewCall
from exporter.protocols.compute import Tables, compute
from exporter.protocols.peridot import Peridot
from exporter.protocols.peridot.views import FUNCTIONS, PeridotViews
from tests.localnet.direct_source import DirectSource
from tests.localnet.moving import TOKENS, MovingNetwork

MODULES = {"peridot": Peridot()}
LIMITS = ViewLimits(max_rounds=8)


def made(count: int = 2) -> tuple[MovingNetwork, PeridotMarkets]:
    """A network of Peridot markets, some ledgers after its start."""
    markets = PeridotMarkets(1, count, TOKENS, DEFAULT_START_TIME)
    network = MovingNetwork(markets, PERIDOT_CODE)
    for _ in range(60):
        network.advance()
    return network, markets


def read(
    network: MovingNetwork, markets: PeridotMarkets, source: DirectSource | None = None
) -> Reading[ProtocolReading]:
    """What the exporter reads of all markets; the package lists the first one's vaults."""
    candidates = [Candidate("peridot", market.address) for market in markets.markets]
    chosen = source or DirectSource(network)
    return asyncio.run(read_at_one_ledger(chosen, lambda view: Peridot().read(view, candidates, [PERIDOT]), LIMITS))


def tables_of(network: MovingNetwork, reading: Reading[ProtocolReading]) -> Tables:
    """The tables at the reading's ledger."""
    ledger = reading.certificate.ledger
    return compute([reading.result], MODULES, ledger, network.chain.close_time(ledger))


def view(network: MovingNetwork, contract: str, function: str, *arguments: ScVal) -> ScVal:
    """The result of a call that must not fail."""
    simulation = network.contracts.simulate(
        network.chain, network.chain.latest, ContractCall(contract, function, arguments)
    )
    assert simulation.result is not None, simulation.error
    return decode_scval(simulation.result)


def expected(vault: Vault, time: int) -> dict[str, object]:
    """What is to be published of a vault, as the network's own vault accrues."""
    aside = vault.reserves + vault.admin_fees
    before = vault.underlying(), vault.borrowed
    if vault.boost:
        vault.boost = Boost(
            vault.boost.address, vault.boost.shares, vault.boost.all_shares, vault.boost.all_assets
        )  # accruing does not move it
    rate = vault.rate(time)
    vault.accrue(time)
    assert vault.reserves + vault.admin_fees >= aside
    assert vault.underlying() >= before[0]
    return {
        "total_supplied": vault.underlying(),
        "total_borrowed": vault.borrowed,
        "backstop_credit": vault.reserves + vault.admin_fees,
        "borrow_index": vault.index,
        "supply_index": vault.exchange_rate() * 10**12,
        "stored_borrow_apr": rate,
        "accrued_borrow_apr": vault.rate(time),
        "borrow_apy_bps": rate // 100,
        "token_address": vault.token,
    }


def test_the_exporter_agrees_with_the_network() -> None:
    """Every vault comes out as the network's own accrual has it, boosted or not, at the time of the ledger."""
    network, markets = made()
    tables = tables_of(network, read(network, markets))
    rows = {row["pool"]: row for row in tables.pools.rows(named=True)}
    time = network.chain.close_time(network.chain.latest)

    assert 6 == len(rows)
    assert ([], [], []) == (tables.unread, tables.unpriced, tables.notices)
    for market in markets.markets:
        for vault in market.vaults:
            wanted = expected(vault, time)
            assert wanted == {name: rows[vault.address][name] for name in wanted}
    assert {"partly_paused"} == set(tables.markets["status"])


def differences(network: MovingNetwork, reading: Reading[ProtocolReading]) -> tuple[int, list[Compared]]:
    """How many fields the views of the vaults that were read give at the reading's ledger, and those that differ."""
    tables, columns, ledger = tables_of(network, reading), reading.result.columns, reading.certificate.ledger
    rows = {
        row["pool"]: row
        | {"raw": {name: values[columns["pool"].index(row["pool"])] for name, values in columns.items()}}
        for row in tables.pools.rows(named=True)
    }
    compared: list[Compared] = []
    for asked in PeridotViews().calls(reading.result):
        assert isinstance(asked, ViewCall)
        result = network.contracts.simulate(network.chain, ledger, asked.call).result
        assert result is not None
        compared += PeridotViews().compare(asked, decode_scval(result), rows, 0)
    return len(compared), [item for item in compared if not item.agrees]


class SlowlyMoving(DirectSource):
    """A source whose network closes a ledger after every fifth answer."""

    answers = 0

    def _answered(self) -> None:
        self.answers += 1
        if self.answers % 5 == 0:
            self.network.advance()


def test_reading_while_the_network_moves() -> None:
    """While ledgers close between the answers, every vault is read, and all are of one ledger."""
    network, markets = made(1)
    first = network.chain.latest
    reading = read(network, markets, SlowlyMoving(network))

    assert network.chain.latest > first
    assert (3 * len(FUNCTIONS), []) == differences(network, reading)


def test_a_vault_that_never_stands_still() -> None:
    """Where a vault changes after every answer, a call cannot be of the run's ledger: unread, with why, never wrong."""
    network, markets = made(1)
    reading = read(network, markets, DirectSource(network, moving=True))
    tables = tables_of(network, reading)
    compared, wrong = differences(network, reading)

    assert (len(FUNCTIONS) * tables.pools.height, []) == (compared, wrong)
    assert 3 == tables.pools.height + len(tables.unread)
    assert all("get_available_liquidity() failed" in item.detail for item in tables.unread)


def test_requests() -> None:
    """One boosted vault costs one call; the plain one none; prices cost one each, and one for the decimals."""
    network, markets = made(1)
    reading = read(network, markets)

    assert 2 + 1 + 3 == reading.certificate.calls


def test_vault_without_total() -> None:
    """A vault without ``TotalBorrowed`` fails its views, and the exporter reads the others."""
    network, markets = made(1)
    vault = markets.markets[0].vaults[1]
    key = next(key for key, data in vault_state(vault) if b"TotalBorrowed" in key)
    network.chain.close([Change(key, None)], close_time=network.chain.close_time(network.chain.latest) + 5)
    tables = tables_of(network, read(network, markets))

    assert [(vault.address, "undecodable")] == [(item.pool, item.reason) for item in tables.unread]
    call = ContractCall(vault.address, "get_available_liquidity")
    assert network.contracts.simulate(network.chain, network.chain.latest, call).error is not None
