"""What a reader did not foresee: it costs the market or pool it happens in, or at the most its protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import polars as pl
import pytest
from msgspec.structs import replace

from exporter.deployments import Deployment
from exporter.deployments.listing import NOTHING_LISTED
from exporter.errors import MAX_ERROR_TEXT, SourceError
from exporter.ledger.codec.entries import instance_key, variant_key
from exporter.ledger.observation import NO_CONTRACT
from exporter.ledger.oracles import Quote
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView
from exporter.protocols import PROTOCOLS
from exporter.protocols import compute as computing
from exporter.protocols.base import Candidate, Market, PoolReading, ProtocolReading
from exporter.protocols.blend import BLEND
from exporter.protocols.blend.layout import Reserve
from exporter.protocols.collector import Collector
from exporter.protocols.compute import compute
from exporter.protocols.containment import read_contained
from exporter.protocols.numbers import PoolFrameRow, PoolNumbers
from exporter.protocols.protocol import PriceRule
from exporter.tables import PoolKey, pool_keys
from exporter.tree.documents import Unread
from tests.chain_simulator import Chain, ChainSource
from tests.ledger.codec.scval_cases import MUXED_CONTRACTS
from tests.localnet.recorded import BLEND_V1
from tests.protocols.made_ledger import MadeLedger, account, contract, instance
from tests.protocols.world import World

LABELS = tuple(f"market {number}" for number in range(20))
FIRST, SECOND = contract(LABELS[2]), contract(LABELS[11])

Fails = Callable[[str], None]
"""What a reader does with a market, and what it may fail over without catching it."""


def nothing(market: str) -> None:
    del market


@dataclass
class Clumsy:
    """A reader of markets that are only instances. It does one thing with each market before, and one with all after.

    What it fails over it does not catch.
    """

    before: Fails = nothing
    after: Fails = nothing
    at_last: Fails = nothing
    asked: list[str] = field(default_factory=list, init=False)

    async def read(
        self, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
    ) -> ProtocolReading:
        del deployments
        collector = Collector("blend", candidates)
        markets = [item.address for item in candidates]
        await view.read(instance_key(market) for market in markets)

        def take(market: str) -> None:
            self.before(market)
            found = Market(market, "blend", "v2", market, "active", None, "0" * 16, None, (market,))
            collector.reading.markets.append(found)
            collector.append_pool(PoolReading(found, market, market, 7, None, None), [])

        def take_more(market: str) -> None:
            self.asked.append(market)
            self.after(market)

        collector.each_market(markets, take)
        collector.each_market(markets, take_more)
        self.at_last("")
        return collector.reading


def read(reader: Clumsy) -> ProtocolReading:
    """Read all markets, contained."""
    view = LedgerView(MadeLedger(*(instance(contract(label), [], bytes(32)) for label in LABELS)))
    named = [Candidate("blend", contract(label)) for label in LABELS]
    return asyncio.run(read_contained(replace(BLEND, read=reader.read), view, named, ()))


def over(*labels: str) -> Fails:
    """A function that raises an error for the markets with these labels."""

    def fails(market: str) -> None:
        for label in labels:
            if market == contract(label):
                raise KeyError(label)

    return fails


@pytest.mark.parametrize("at", ["before", "after"])
@pytest.mark.parametrize("broken", [LABELS[:1], LABELS[-1:], LABELS[3:5], LABELS[::4], LABELS])
def test_markets_a_reader_fails_over(broken: tuple[str, ...], at: str) -> None:
    """Such markets are unread, each with its own error; nothing of them is left, and no other market is touched."""
    reading = read(Clumsy(**{at: over(*broken)}))

    left = {contract(label) for label in LABELS if label not in broken}
    assert left == {item.address for item in reading.markets}
    assert left == {item.market.address for item in reading.pools}
    assert {(market, market) for market in left} == reading.entry_keys.keys()
    details = {item.market: (item.pool, item.reason, item.detail) for item in reading.unread}
    expected = {contract(label): (None, "undecodable", f"the reader failed: KeyError: '{label}'") for label in broken}
    assert expected == details


def test_a_market_that_failed_is_left_alone() -> None:
    """What comes later is not asked about a market that failed before."""
    reader = Clumsy(before=over(LABELS[2], LABELS[11]), after=over(LABELS[2]))
    reading = read(reader)

    assert {FIRST, SECOND} == set(map(contract, LABELS)) - set(reader.asked)
    assert sorted([FIRST, SECOND]) == sorted(item.market for item in reading.unread)


def test_a_reader_that_fails_over_no_market() -> None:
    """All markets that anything names are unread, with the error, and a notice says so."""

    def fails(market: str) -> None:
        del market
        raise ZeroDivisionError("x" * 1_000)

    reading = read(Clumsy(at_last=fails))

    detail = f"the reader failed: ZeroDivisionError: {'x' * 1_000}"[: MAX_ERROR_TEXT - 1] + "…"
    assert [Unread(market, None, "blend", "undecodable", detail) for market in sorted(map(contract, LABELS))] == (
        reading.unread
    )
    assert [f"nothing of blend could be read: {detail}"] == reading.notices
    assert [] == reading.markets


@pytest.mark.parametrize(
    "error", [SourceError("no endpoint answers"), MemoryError("no room")], ids=["source", "memory"]
)
@pytest.mark.parametrize("at", ["before", "after", "at_last"])
def test_what_ends_a_run_is_not_contained(error: Exception, at: str) -> None:
    """If the source gives nothing, or memory is at its end, that is the run's failure, not a market's."""

    def fails(market: str) -> None:
        del market
        raise error

    with pytest.raises(type(error), match="no "):
        read(Clumsy(**{at: fails}))


def project_or_fail(pool: PoolReading[Reserve], close_time: int) -> PoolNumbers:
    """What Blend computes, without the pools of one market."""
    if pool.market.address == BLEND_V1:
        raise OverflowError("int too big to convert")
    return BLEND.project(pool, close_time)


def failing_judgement(quote: Quote, close_time: int) -> str | None:
    """A price rule that judges nothing."""
    raise TypeError(f"no time {close_time} of {quote.token}")


MISCALCULATING = replace(BLEND, project=project_or_fail, prices=PriceRule(failure=failing_judgement))


def test_pools_that_cannot_be_computed() -> None:
    """Such pools are unread with the error, a price that cannot be judged is none, and the rest does not change."""
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


@pytest.mark.parametrize("step", ["set_price", "set_rewards"])
def test_a_pool_whose_price_or_reward_fails(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is unread with the error, and no other pool of its protocol changes."""
    world, sound = World("blend"), getattr(computing, step)
    whole = world.compute()
    (failing, *_) = pool_keys(whole.pools)

    def fail_for_one(row: PoolFrameRow, *arguments: object) -> None:
        if PoolKey.of(row) == failing:
            raise ZeroDivisionError("integer division by zero")
        sound(row, *arguments)

    monkeypatch.setattr(computing, step, fail_for_one)
    tables = world.compute()

    detail = "the reader failed: ZeroDivisionError: integer division by zero"
    assert [Unread(*failing, "blend", "undecodable", detail)] == tables.unread
    assert whole.pools[1:].equals(tables.pools)


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


@pytest.mark.parametrize("name", PROTOCOLS)
def test_nothing_of_a_market_that_fails_stays(name: str) -> None:
    """No part of a reading has the market, except the lists of unread, verified and unknown code."""
    whole = World(name).read().result
    failed = whole.markets[0].address
    collector = Collector(name, [])
    collector.reading = replace(whole, unread=[])

    def fail(_: str) -> None:
        raise ValueError("broken")

    collector.each_market([failed], fail)
    left = [
        name
        for name in ProtocolReading.__struct_fields__
        if name not in ("notices", "named", "quotes", "contracts", "tokens", "archived", "frozen")
        and failed in repr(getattr(collector.reading, name))
    ]

    assert {"unread"} == set(left) - {"verified", "unknown_code"}
    assert [
        Unread(failed, None, name, "undecodable", "the reader failed: ValueError: broken")
    ] == collector.reading.unread
