"""The made markets of every protocol: they move, and the exporter agrees with their contracts' views while they do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from exporter.deployments.made_addresses import ALULA, K2, PERIDOT, SLENDER, XOXNO
from exporter.errors import DecodeError
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import i128, vec
from exporter.ledger.source import ContractCall
from exporter.ledger.view import Reading, ViewLimits, read_at_one_ledger
from exporter.localnet.alula_made import AlulaMarkets
from exporter.localnet.k2_made import K2Markets
from exporter.localnet.made import DEFAULT_START_TIME
from exporter.localnet.peridot_made import PeridotMarkets
from exporter.localnet.slender_made import SlenderMarkets
from exporter.localnet.xoxno_made import XoxnoMarkets
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Compared, NoView, ProtocolReading, Row, ViewCall
from exporter.protocols.compute import Tables, compute
from exporter.protocols.xoxno.views import XoxnoViews
from tests.localnet.direct_source import DirectSource
from tests.localnet.moving import TOKENS, MovingNetwork

MADE: dict[str, Any] = {
    "alula": AlulaMarkets,
    "k2": K2Markets,
    "peridot": PeridotMarkets,
    "slender": SlenderMarkets,
    "xoxno": XoxnoMarkets,
}
COUNTS = {"alula": 4, "k2": 6, "peridot": 2, "slender": 2, "xoxno": 8}
LISTS = {"alula": ALULA, "k2": K2, "peridot": PERIDOT, "slender": SLENDER, "xoxno": XOXNO}


class Network(MovingNetwork):
    """One protocol's made markets, sixty ledgers after their start."""

    def __init__(self, protocol: str, count: int | None = None, **broken: int) -> None:
        super().__init__(MADE[protocol](1, count or COUNTS[protocol], TOKENS, DEFAULT_START_TIME, **broken))
        self.protocol, self.module = protocol, PROTOCOLS[protocol]
        for _ in range(60):
            self.advance()

    def read(self, source: DirectSource | None = None) -> Reading[ProtocolReading]:
        """What the exporter reads of all markets."""
        made: Any = self.markets
        addresses = [made.controller] if self.protocol == "xoxno" else [market.address for market in made.markets]
        candidates = [Candidate(self.protocol, address) for address in addresses]
        lists = [LISTS[self.protocol]]
        chosen = source or DirectSource(self)
        return asyncio.run(
            read_at_one_ledger(chosen, lambda view: self.module.read(view, candidates, lists), ViewLimits(max_rounds=8))
        )

    def tables(self, reading: Reading[ProtocolReading]) -> Tables:
        ledger = reading.certificate.ledger
        return compute([reading.result], PROTOCOLS, ledger, self.chain.close_time(ledger))

    def rows(self, reading: Reading[ProtocolReading]) -> dict[str, dict[str, Row]]:
        """The exporter's numbers by market and pool, with what was read of each."""
        columns = reading.result.columns
        keys = list(zip(columns["market"], columns["pool"], strict=True))
        found: dict[str, dict[str, Row]] = {}
        for row in self.tables(reading).pools.rows(named=True):
            position = keys.index((row["market"], row["pool"]))
            raw = {name: values[position] for name, values in columns.items()}
            found.setdefault(row["market"], {})[row["pool"]] = row | {"raw": raw}
        return found

    def compared(
        self,
        reading: Reading[ProtocolReading],
        rows: Mapping[str, Mapping[str, Row]] | None = None,
        *,
        instead: bool = False,
    ) -> Iterator[Compared]:
        """Every field of every view at the reading's ledger; ``instead``: of those that are asked where one fails."""
        ledger, rows = reading.certificate.ledger, self.rows(reading) if rows is None else rows
        for asked in self.module.views.calls(reading.result):
            assert isinstance(asked, ViewCall)
            for view in asked.instead if instead else (asked,):
                result = self.contracts.simulate(self.chain, ledger, view.call).result
                if result is not None:  # Alula's contracts give nothing of a market with a price that is too old
                    time = self.chain.close_time(ledger)
                    yield from self.module.views.compare(view, decode_scval(result), rows.get(view.market, {}), time)


class SlowlyMoving(DirectSource):
    """A source whose network closes a ledger after every fifth answer."""

    answers = 0

    def _answered(self) -> None:
        self.answers += 1
        if self.answers % 5 == 0:
            self.network.advance()


YEARS = 4 * 31_556_926


@pytest.mark.parametrize("seconds", [5, YEARS])
@pytest.mark.parametrize("protocol", MADE)
def test_the_exporter_agrees_with_the_views(protocol: str, seconds: int) -> None:
    """Every field of every view is the exporter's, at once and after years without an operation."""
    network = Network(protocol)
    network.chain.close([], close_time=network.chain.close_time(network.chain.latest) + seconds)
    reading = network.read()
    compared = list(network.compared(reading))

    assert [] == [item for item in compared if not item.agrees]
    assert {item.pool for item in compared} - {None} <= set(reading.result.columns["pool"])
    # Alula's views fail when all prices are too old.
    assert len(compared) >= 2 * len(reading.result.columns["pool"]) or (protocol, seconds) == ("alula", YEARS)
    assert [] == [item for item in network.compared(reading, instead=True) if not item.agrees]


def increased(value: object, name: str = "") -> object:
    """A number that is one too large; a raw one, of which a view may show a rounded part, is squared."""
    if isinstance(value, dict):
        return {
            name: increased(item**2 if isinstance(item, int) and item > 38 else item, name)
            for name, item in value.items()
        }
    # Slender's view of a token is told by the token: it is none of the numbers.
    return value + 1 if isinstance(value, int) else value if name == "s_token" else f"not {value}"


@pytest.mark.parametrize("protocol", MADE)
def test_every_difference_shows(protocol: str) -> None:
    """Each field that is compared is compared for real: with other numbers of ours none of them agrees."""
    network = Network(protocol)
    reading = network.read()
    wrong = {
        market: {pool: {name: increased(value) for name, value in row.items()} for pool, row in pools.items()}
        for market, pools in network.rows(reading).items()
    }
    fields = {item.field for item in network.compared(reading)}
    different = {item.field for item in network.compared(reading, wrong) if not item.agrees}

    assert fields - {"accrued_to", "pools"} == different
    assert {"pools"} >= {item.field for item in network.compared(reading, {})}


def test_views_of_xoxno_that_cannot_be_compared() -> None:
    """A market of which no pool could be read has no view, and an answer of another length is none."""
    network = Network("xoxno", 1)
    reading = network.read().result
    reading.columns = {name: [] for name in reading.columns}
    asked = ViewCall("C", ("1-A",), ContractCall("C", "get_bulk_indexes"))

    assert [NoView(network.markets.controller, "none of its pools could be read")] == list(  # type: ignore[attr-defined]
        XoxnoViews().calls(reading)
    )
    with pytest.raises(DecodeError, match="0 results for 1 pools"):
        list(XoxnoViews().compare(asked, vec(), {}, 0))
    assert (None, []) == (XoxnoViews().time_of(i128(1)), list(XoxnoViews().refused(asked, "HostError", {})))


@pytest.mark.parametrize("protocol", MADE)
def test_reading_while_the_network_moves(protocol: str) -> None:
    """While ledgers close between the answers, what is read is the state of one ledger; the rest is named."""
    missing = int(protocol == "alula")
    network = Network(protocol, **({"missing": missing} if missing else {}))
    first = network.chain.latest
    # A vault of Peridot costs calls of its own, which have to be of the ledger of its entries.
    source = SlowlyMoving(network) if protocol == "peridot" else DirectSource(network, moving=True)
    reading = network.read(source)
    # A price that moved meanwhile may not be known at the reading's ledger; then there is none.
    wrong = [item for item in network.compared(reading) if not item.agrees and item.ours is not None]
    unread = [item.reason for item in network.tables(reading).unread]

    assert network.chain.latest > first
    assert network.chain.state(first) != network.chain.state(network.chain.latest)
    assert [] == wrong
    assert ["absent"] * missing == unread
    assert reading.result.columns["pool"]


def test_a_vault_that_never_stands_still() -> None:
    """Where a vault changes after every answer, a call cannot be of the run's ledger: unread, with why, never wrong."""
    network = Network("peridot", 1)
    reading = network.read(DirectSource(network, moving=True))
    tables = network.tables(reading)

    assert [] == [item for item in network.compared(reading) if not item.agrees]
    assert 3 == tables.pools.height + len(tables.unread)
    assert all("get_available_liquidity() failed" in item.detail for item in tables.unread)


UNPRICED = {
    "alula": ["stale"],
    "k2": ["stale"],
    "peridot": [],
    "slender": [],
    "xoxno": ["stale", "unpriced", "deviating"],
}


@pytest.mark.parametrize("protocol", MADE)
def test_prices_stay_fresh(protocol: str) -> None:
    """However long a network runs, only the tokens that are to have no price have none."""
    network = Network(protocol)
    for _ in range(20):
        network.advance(250)
    tables = network.tables(network.read())
    tokens = dict(tables.pools.select("pool", "token_address").iter_rows())

    assert {getattr(network.markets, name) for name in UNPRICED[protocol]} == {
        tokens[item.pool] for item in tables.unpriced
    }
