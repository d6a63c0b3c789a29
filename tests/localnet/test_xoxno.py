"""The stand-in for XOXNO's contracts: its math is the judge's, its rules those of the source, and it fails as they do.

Source lines are those of XOXNO/rs-lending-xlm at 5a27d74f.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.deployments.local import XOXNO
from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import address, i128, symbol, vec
from exporter.ledger.source import ContractCall
from exporter.ledger.view import Reading, read_at_one_ledger
from exporter.localnet.chain import Chain, Change
from exporter.localnet.contracts import Simulation
from exporter.localnet.made import MadeNetwork
from exporter.localnet.network import LocalNetwork
from exporter.localnet.xoxno import (
    RAY,
    YEAR,
    Answer,
    HubMarket,
    Params,
    Source,
    answers_entry,
    hub_asset_key,
    oracle_entry,
    parameters_entry,
    state_entry,
)
from exporter.localnet.xoxno_made import XoxnoMarkets
from exporter.protocols.base import Candidate, Compared, NoView, ProtocolReading, ViewCall
from exporter.protocols.compute import Tables, compute
from exporter.protocols.xoxno import Xoxno
from exporter.protocols.xoxno.views import XoxnoViews
from tests.judges import xoxno_judge as judge
from tests.localnet.direct_source import DirectSource
from tests.localnet.view_values import plain, result


class XoxnoNetwork(LocalNetwork):
    """The tokens of the made network and so many hub markets; moves by what `XoxnoMarkets.advance` says."""

    def __init__(self, count: int = 12, *, seed: int = 1, archived: int = 0, missing: int = 0) -> None:
        base = MadeNetwork(pools=0)
        ledger, time = base.chain.latest, base.chain.close_time(base.chain.latest)
        self.tokens = base.tokens
        self.xoxno = XoxnoMarkets(seed, count, base.tokens, time, archived=archived, missing=missing)
        entries = base.chain.state(ledger) | dict(self.xoxno.first_entries(ledger, time))
        super().__init__(Chain(entries, start_ledger=ledger, start_time=time), base.passphrase, 28)

    @property
    def time(self) -> int:
        """The close time of the latest ledger."""
        return self.chain.close_time(self.chain.latest)

    def advance(self, seconds: int = 5) -> int:
        """Close one more ledger, so many seconds later."""
        time = self.time + seconds
        changes = list(self.xoxno.advance(self.chain, self.chain.latest + 1, time))
        return self.chain.close(changes, close_time=time)

    def change(self, *entries: tuple[bytes, bytes]) -> None:
        """Close a ledger in which just these entries are written."""
        self.chain.close([Change(*entry, 90_000_000) for entry in entries], close_time=self.time + 5)

    def view(self, contract: str, function: str, *arguments: object) -> Simulation:
        """A simulated call."""
        call = ContractCall(contract, function, arguments)  # type: ignore[arg-type]
        return self.contracts.simulate(self.chain, self.chain.latest, call)

    def read(self, *more: Candidate, moving: bool = False) -> Reading[ProtocolReading]:
        """What the exporter reads: the controller with the pools of its list, and more candidates."""
        candidates = [Candidate("xoxno", self.xoxno.controller), *more]
        source = DirectSource(self, moving=moving)
        return asyncio.run(read_at_one_ledger(source, lambda view: Xoxno().read(view, candidates, [XOXNO])))

    def compute(self, reading: Reading[ProtocolReading]) -> Tables:
        """What the exporter makes of a reading."""
        ledger = reading.certificate.ledger
        return compute([reading.result], {"xoxno": Xoxno()}, ledger, self.chain.close_time(ledger))


WAD = 10**18


@pytest.fixture
def network() -> XoxnoNetwork:
    """A network some ledgers after its start."""
    made = XoxnoNetwork(12)
    for _ in range(40):
        made.advance()
    return made


def compared(network: XoxnoNetwork) -> tuple[list[Compared], ProtocolReading]:
    """Every field of every view beside the exporter's, at the latest ledger."""
    reading = network.read()
    tables = network.compute(reading)
    columns = reading.result.columns
    raw = {
        pool: {name: values[position] for name, values in columns.items()}
        for position, pool in enumerate(columns["pool"])
    }
    rows = {row["pool"]: row | {"raw": raw[row["pool"]]} for row in tables.pools.rows(named=True)}
    found: list[Compared] = []
    for asked in XoxnoViews().calls(reading.result):
        assert isinstance(asked, ViewCall)
        simulation = network.contracts.simulate(network.chain, network.chain.latest, asked.call)
        assert simulation.result is not None
        found += XoxnoViews().compare(asked, decode_scval(simulation.result), rows, network.time)
    return found, reading.result


def test_the_exporter_agrees_with_the_views(network: XoxnoNetwork) -> None:
    """Every number is the one that the contract's own views have at this ledger: projected indexes, stored rates."""
    found, reading = compared(network)

    assert [] == [item for item in found if not item.agrees]
    assert 8 == len(reading.columns["pool"])
    assert {
        "borrow_index", "supply_index", "cash", "stored_borrow_apr", "stored_supply_apr", "stored_utilization",
        "stored revenue", "stored total_borrowed", "stored total_supplied",
    } == {item.field for item in found}  # fmt: skip
    assert 9 * 8 == len(found)


def test_they_agree_after_years() -> None:
    """Also where nothing happened for years, so that the curve was read again for each."""
    network = XoxnoNetwork(8)
    network.chain.close([], close_time=network.time + 4 * 31_556_926)
    found, _ = compared(network)

    assert [] == [item for item in found if not item.agrees]


def test_a_difference_shows(network: XoxnoNetwork) -> None:
    """A number that is another is found, with its pool and field."""
    reading = network.read().result
    (asked,) = [item for item in XoxnoViews().calls(reading) if isinstance(item, ViewCall) and len(item.pools) > 1]
    tables = network.compute(network.read())
    rows = {row["pool"]: row | {"borrow_index": 1} for row in tables.pools.rows(named=True)}
    value = decode_scval(network.contracts.simulate(network.chain, network.chain.latest, asked.call).result or b"")
    found = list(XoxnoViews().compare(asked, value, rows, network.time))

    assert {"borrow_index"} == {item.field for item in found if not item.agrees}
    assert 8 == sum(not item.agrees for item in found)
    with pytest.raises(DecodeError, match="results for 8 pools"):
        list(XoxnoViews().compare(asked, vec(), rows, network.time))


def test_views_of_nothing() -> None:
    """A market of which no pool could be read has no view, and that is said; no view refuses or tells the time."""
    network = XoxnoNetwork(1, missing=1)
    reading = network.read().result

    assert [NoView(network.xoxno.controller, "none of its pools could be read")] == list(XoxnoViews().calls(reading))
    asked = ViewCall("C", (), None)  # type: ignore[arg-type]
    assert [] == list(XoxnoViews().refused(asked, "HostError", {}))
    assert XoxnoViews().time_of(i128(1)) is None


def test_only_the_bulk_view_is_projected(network: XoxnoNetwork) -> None:
    """The amounts of a single pool are stored ones; the bulk indexes move with the clock."""
    market = next(item for item in network.xoxno.markets if item.borrowed > 10**27)
    pool, key = network.xoxno.pool, hub_asset_key(market)
    before = [result(network.view(pool, name, key)) for name in ("get_borrowed_amount", "get_borrow_rate")]
    (first,) = result(network.view(pool, "get_bulk_indexes", vec(key)))
    network.chain.close([], close_time=network.time + 86_400)
    (second,) = result(network.view(pool, "get_bulk_indexes", vec(key)))

    assert before == [result(network.view(pool, name, key)) for name in ("get_borrowed_amount", "get_borrow_rate")]
    assert market.borrow_index <= first["borrow_index"] < second["borrow_index"]


def token_keys(*tokens: str) -> ScVal:
    """``Vec<PriceKey>``."""
    return vec(*(vec(symbol("Token"), address(token)) for token in tokens))


def quotes(network: XoxnoNetwork, *tokens: str) -> list[dict[str, Any]]:
    """The statuses of tokens, by their keys in the map."""
    simulation = network.view(network.xoxno.aggregator, "quotes", token_keys(*tokens))
    assert simulation.result is not None
    kind, pairs = decode_scval(simulation.result)
    assert scval.MAP == kind
    statuses = {key[1][1][1]: plain(value) for key, value in pairs}
    assert set(tokens) == set(statuses)
    return [statuses[token] for token in tokens]


FLAGS = ("stale", "deviation", "valid")


def test_quotes(network: XoxnoNetwork) -> None:
    """A good price is the midpoint of its sources; a stale and a deviating one say so.

    contracts/price-aggregator/src/engine.rs:404 (the midpoint, and the earlier time).
    """
    xoxno, token, now = network.xoxno, network.tokens[1].contract, network.time
    network.change(
        oracle_entry(xoxno.aggregator, token, 7, [Source(), Source()], 3_600),
        answers_entry(xoxno.aggregator, token, [Answer(WAD, now), Answer(WAD + 5, now - 9)]),
    )
    good, stale, deviating = quotes(network, token, xoxno.stale, xoxno.deviating)

    assert {
        "final_wad": WAD + 2, "primary_wad": WAD, "secondary_wad": WAD + 5, "price_timestamp": now - 9,
        "stale": False, "deviation": False, "valid": True,
    } == good  # fmt: skip
    assert (True, False, False) == tuple(stale[name] for name in FLAGS)
    assert (False, True, False) == tuple(deviating[name] for name in FLAGS)


def test_a_token_without_an_oracle(network: XoxnoNetwork) -> None:
    """It has zeros in the map and costs no other its price: three pools have none, each with its own reason."""
    xoxno = network.xoxno
    (unknown,) = quotes(network, xoxno.unpriced)
    assert {0} == set(unknown.values())
    tables = network.compute(network.read())
    tokens = dict(tables.pools.select("pool", "token_address").iter_rows())
    reasons = {tokens[item.pool]: item.reason for item in tables.unpriced}

    assert {xoxno.stale, xoxno.unpriced, xoxno.deviating} == set(reasons)
    assert "no oracle for this token" in reasons[xoxno.unpriced]
    assert "stale" in reasons[xoxno.stale]
    assert "deviate" in reasons[xoxno.deviating]


def test_a_curve_without_result(network: XoxnoNetwork) -> None:
    """A division by zero fails the contract's view, and the exporter reads the other pools."""
    xoxno = network.xoxno
    market = xoxno.markets[0]
    broken = HubMarket(market.hub, market.token, 7, Params(optimal_utilization=RAY), supplied=RAY, borrowed=2 * RAY)
    network.change(parameters_entry(xoxno.pool, broken), state_entry(xoxno.pool, broken))
    tables = network.compute(network.read())

    assert "#33" in (network.view(xoxno.pool, "get_borrow_rate", hub_asset_key(broken)).error or "")
    assert {f"1-{market.token}": "inconsistent"} == {item.pool: item.reason for item in tables.unread}
    assert 7 == tables.pools.height


def judged(market: HubMarket) -> dict[str, int]:
    """A hub market as the judge takes it."""
    names = ("borrow_index", "borrowed", "cash", "last_timestamp", "revenue", "supplied", "supply_index")
    return asdict(market.params) | {name: getattr(market, name) for name in names} | {"asset_decimals": market.decimals}


def lent(decimals: int = 7) -> HubMarket:
    """A hub market of which half is lent."""
    market = HubMarket(1, "C", decimals)
    market.supply(10 ** (decimals + 6))
    market.borrow(5 * 10 ** (decimals + 5))
    return market


@given(milliseconds=st.integers(0, 3 * YEAR), decimals=st.sampled_from([5, 7, 18]))
def test_accrual_is_the_judges(milliseconds: int, decimals: int) -> None:
    """Every number after any time is the judge's, whose code is another."""
    market = lent(decimals)
    expected = judge.accrue(judged(market), milliseconds)
    market.accrue(milliseconds)

    assert expected == judged(market)
