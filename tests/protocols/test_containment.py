"""What a reader did not foresee: it costs the market or pool it happens in, or at the most its protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import polars as pl
import pytest

from exporter.deployments import Deployment
from exporter.deployments.listing import NOTHING_LISTED
from exporter.errors import DecodeError, SourceError
from exporter.ledger.codec.entries import instance_key, instance_of, variant_key
from exporter.ledger.observation import NO_CONTRACT
from exporter.ledger.oracles import Quote
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, Market, PoolRead, ProtocolReading
from exporter.protocols.blend import BLEND
from exporter.protocols.blend.layout import Reserve
from exporter.protocols.collector import Collector
from exporter.protocols.compute import compute
from exporter.protocols.containment import MAX_ATTEMPTS, read_contained
from exporter.protocols.numbers import PoolNumbers
from exporter.protocols.protocol import PriceRule
from exporter.tree.documents import Unread
from tests.chain_simulator import Chain, ChainSource
from tests.ledger.codec.scval_cases import MUXED_CONTRACTS
from tests.localnet.recorded import BLEND_V1
from tests.protocols.made_ledger import MadeLedger, account, contract, instance
from tests.protocols.world import World

LABELS = tuple(f"market {number}" for number in range(20))
Stumbles = Callable[[Sequence[str]], None]


class Clumsy:
    """A reader of markets that are only instances. What it stumbles over it does not catch."""

    def __init__(self, stumbles: Stumbles) -> None:
        self.stumbles = stumbles

    async def read(
        self, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
    ) -> ProtocolReading:
        del deployments
        collector = Collector("blend", candidates)
        markets = [item.address for item in candidates]
        entries = await view.read(instance_key(market) for market in markets)
        usable = []
        for market in markets:
            entry = entries[instance_key(market)]
            assert entry is not None
            try:
                instance_of(entry.contract_data())
            except DecodeError as error:
                collector.unread(market, None, "undecodable", str(error))
                continue
            usable.append(market)
            found = Market(market, "blend", "v2", market, "active", None, "0" * 16, None, ())
            collector.reading.markets.append(found)
        self.stumbles(usable)
        return collector.reading


def read(stumbles: Stumbles) -> ProtocolReading:
    """Read all markets, contained."""
    view = LedgerView(MadeLedger(*(instance(contract(label), [], bytes(32)) for label in LABELS)))
    named = [Candidate("blend", contract(label)) for label in LABELS]
    return asyncio.run(read_contained(replace(BLEND, read=Clumsy(stumbles).read), view, named, ()))


def over(*labels: str) -> Stumbles:
    """To stumble over any of these."""

    def stumbles(markets: Sequence[str]) -> None:
        for label in labels:
            if contract(label) in markets:
                raise KeyError(label)

    return stumbles


@pytest.mark.parametrize("broken", [LABELS[:1], LABELS[-1:], LABELS[3:5], LABELS[::4], LABELS])
def test_markets_a_reader_fails_over(broken: tuple[str, ...]) -> None:
    """They are unread, each with its own error, and no other is."""
    reading = read(over(*broken))

    assert {contract(label) for label in LABELS if label not in broken} == {item.address for item in reading.markets}
    details = {item.market: (item.pool, item.reason, item.detail) for item in reading.unread}
    expected = {contract(label): (None, "undecodable", f"the reader failed: KeyError: '{label}'") for label in broken}
    assert expected == details


def test_two_markets_that_fail_together() -> None:
    """Only the later one is unread where either alone can be read."""
    first, second = contract(LABELS[2]), contract(LABELS[11])

    def stumbles(markets: Sequence[str]) -> None:
        if first in markets and second in markets:
            raise DecodeError("they contradict each other")

    assert [Unread(second, None, "blend", "undecodable", "they contradict each other")] == read(stumbles).unread


def test_reader_that_fails_over_no_market() -> None:
    """All markets that anything names are unread, with the error, and a notice says so."""

    def stumbles(markets: Sequence[str]) -> None:
        raise ZeroDivisionError(f"{len(markets)} markets" if markets else "none")

    reading = read(stumbles)

    detail = "the reader failed: ZeroDivisionError: none"
    assert [Unread(market, None, "blend", "undecodable", detail) for market in sorted(map(contract, LABELS))] == (
        reading.unread
    )
    assert [f"nothing of blend could be read: {detail}"] == reading.notices
    assert [] == reading.markets


def test_search_is_bounded() -> None:
    """However many markets are broken, the protocol is read this many times at the most, and all of them are unread."""
    count = 0

    def stumbles(markets: Sequence[str]) -> None:
        nonlocal count
        count += 1
        if markets:
            raise AssertionError("x" * 1_000)

    unread = read(stumbles).unread

    assert count <= MAX_ATTEMPTS + 2
    assert len(LABELS) == len(unread)
    assert {300} == {len(item.detail) for item in unread}


def test_failing_source_is_not_contained() -> None:
    """That the source gives nothing is the run's failure, and no market's."""

    def stumbles(markets: Sequence[str]) -> None:
        raise SourceError(f"no endpoint answers for {len(markets)}")

    with pytest.raises(SourceError, match="no endpoint"):
        read(stumbles)


def project_or_fail(pool: PoolRead[Reserve], close_time: int) -> PoolNumbers:
    """What Blend computes, but for the pools of one market."""
    if pool.market.address == BLEND_V1:
        raise OverflowError("int too big to convert")
    return BLEND.project(pool, close_time)


def failing_judgement(quote: Quote, close_time: int) -> str | None:
    """A price rule that judges nothing."""
    raise TypeError(f"no time {close_time} of {quote.token}")


MISCALCULATING = replace(BLEND, project=project_or_fail, prices=PriceRule(failure=failing_judgement))


def test_pools_that_cannot_be_computed() -> None:
    """They are unread with the error, there is no price where it cannot be judged, and the rest is as ever."""
    world = World("blend")
    tables = compute([world.read().result], {"blend": MISCALCULATING}, world.chain.latest, world.time, NOTHING_LISTED)
    others = World("blend").compute().pools.filter(pl.col("market") != BLEND_V1)

    detail = "the reader failed: OverflowError: int too big to convert"
    assert {(BLEND_V1, "undecodable", detail)} == {(item.market, item.reason, item.detail) for item in tables.unread}
    assert (2, 2) == (len(tables.unread), tables.markets.height)
    numbers = ("pool", "total_supplied", "total_borrowed", "borrow_apy_bps")
    assert others.select(numbers).equals(tables.pools.select(numbers))
    assert {f"the reader failed: TypeError: no time {world.time}"} == {
        item.reason.split(" of ")[0] for item in tables.unpriced
    }


@pytest.mark.parametrize("named", [MUXED_CONTRACTS[0][0], account("somebody")])
def test_addresses_that_are_no_contracts(named: str) -> None:
    """Nothing is asked about them: a key of such an address could cost an answer to all the keys next to it."""
    source = ChainSource(Chain())
    view = LedgerView(source)
    keys = [instance_key(named), variant_key(named, "Pool")]

    async def work() -> None:
        assert dict.fromkeys(keys) == await view.read(keys)
        (result,) = await view.call([ContractCall(named, "symbol")])
        assert (None, NO_CONTRACT) == (result.value, result.error)

    asyncio.run(work())
    assert [] == source.log
