"""The made Slender markets: what is in them, that they move, and that the exporter agrees with their views."""

from __future__ import annotations

import asyncio

import pytest

from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.view import Reading, read_at_one_ledger
from exporter.localnet.made import DEFAULT_START_TIME
from exporter.localnet.slender import CODE, Reserve, borrow_rate
from exporter.localnet.slender_made import SlenderMarkets
from exporter.protocols.base import Candidate, Compared, ProtocolReading, ViewCall
from exporter.protocols.compute import Tables, compute
from exporter.protocols.slender import Slender
from exporter.protocols.slender.views import SlenderViews
from tests.localnet.direct_source import DirectSource
from tests.localnet.moving import TOKENS, MovingNetwork


def made(count: int = 2, archived: int = 0) -> tuple[MovingNetwork, SlenderMarkets]:
    """A network of Slender markets, some ledgers after its start."""
    markets = SlenderMarkets(1, count, TOKENS, DEFAULT_START_TIME, archived=archived)
    network = MovingNetwork(markets, CODE)
    for _ in range(60):
        network.advance()
    return network, markets


def read(network: MovingNetwork, markets: SlenderMarkets, moving: bool = False) -> Reading[ProtocolReading]:
    """What the exporter reads of all markets."""
    candidates = [Candidate("slender", market.address) for market in markets.markets]
    source = DirectSource(network, moving)
    return asyncio.run(read_at_one_ledger(source, lambda view: Slender().read(view, candidates, ())))


def tables_of(network: MovingNetwork, reading: Reading[ProtocolReading]) -> Tables:
    """The tables at the reading's ledger."""
    ledger = reading.certificate.ledger
    return compute([reading.result], {"slender": Slender()}, ledger, network.chain.close_time(ledger))


@pytest.mark.parametrize("moving", [False, True])
def test_the_exporter_agrees_with_the_views(moving: bool) -> None:
    """Coefficients, shares and state of every reserve are those of the pool's views, also while the network moves."""
    network, markets = made()
    reading = read(network, markets, moving)
    tables = tables_of(network, reading)
    columns, ledger = reading.result.columns, reading.certificate.ledger
    keys = list(zip(columns["market"], columns["pool"], strict=True))
    rows: dict[str, dict[str, dict[str, object]]] = {}
    for row in tables.pools.rows(named=True):
        position = keys.index((row["market"], row["pool"]))
        raw = {name: values[position] for name, values in columns.items()}
        rows.setdefault(row["market"], {})[row["pool"]] = row | {"raw": raw}
    compared: list[Compared] = []
    for asked in SlenderViews().calls(reading.result):
        assert isinstance(asked, ViewCall)
        simulation = network.contracts.simulate(network.chain, ledger, asked.call)
        assert simulation.result is not None
        compared += SlenderViews().compare(asked, decode_scval(simulation.result), rows[asked.market], 0)

    assert 2 * 3 * 10 == len(compared)
    assert [] == [item for item in compared if not item.agrees]
    assert ([], [], []) == (tables.unread, tables.unpriced, tables.notices)


def test_totals_agree_with_the_network() -> None:
    """What suppliers own and borrowers owe is what the network's own reserves say."""
    network, markets = made(1)
    rows = {row["pool"]: row for row in tables_of(network, read(network, markets)).pools.rows(named=True)}
    time = network.chain.close_time(network.chain.latest)

    for reserve in markets.markets[0].reserves:
        row = rows[reserve.token]
        assert reserve.owned(time) == row["total_supplied"]
        assert reserve.debt_supply * reserve.debt_coefficient(time) // 10**9 == row["total_borrowed"]
        assert 0 <= row["utilization_bps"] <= 10_000


def test_reserves_move_as_the_contract_s_do() -> None:
    """A reserve of the contract's own tests comes to the coefficients that they expect, at each step."""
    day = 86_400
    reserve = Reserve("token", "s", "debt", 9, 0)
    reserve.deposit(100_000_000, day)
    reserve.borrow(40_000_000, day)
    found = [(reserve.collateral_coefficient(time * day), reserve.debt_coefficient(time * day)) for time in (2, 3)]
    reserve.borrow(400_000, 3 * day)
    found += [(reserve.collateral_coefficient(time * day), reserve.debt_coefficient(time * day)) for time in (4, 5)]

    assert [
        (1_000_000_010, 1_000_000_000), (1_000_000_010, 1_000_000_000),
        (1_000_125_260, 1_000_344_464), (1_000_167_020, 1_000_459_304),
    ] == found  # fmt: skip


@pytest.mark.parametrize(
    ("lent", "rate"),
    [
        (0, 0), (20, 27_517_810), (50, 53_966_913), (75, 145_205_089), (80, 199_799_636), (90, 540_574_625),
        (95, 1_524_769_809), (99, 5_000_000_000), (100, 5_000_000_000),
    ],
)  # fmt: skip
def test_rates_are_the_contract_s(lent: int, rate: int) -> None:
    """The rates are those that the contract's own tests expect."""
    assert rate == borrow_rate(100, lent)


def test_archived_market() -> None:
    """An archived market stays so while the others move, and is absent, not unread."""
    network, markets = made(2, archived=1)
    tables = tables_of(network, read(network, markets))

    assert [market.address for market in markets.archived] == [item.market for item in tables.absent]
    assert (3, []) == (tables.pools.height, tables.unread)
    with pytest.raises(ValueError, match="not that many Slender markets"):
        SlenderMarkets(1, 1, TOKENS, DEFAULT_START_TIME, archived=2)
