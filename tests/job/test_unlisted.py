"""A run reads the listed markets as if there were no others, and some of the others apart."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from exporter.deployments.networks import NETWORKS, network_id
from exporter.discovery.known_markets import KnownMarket, Memory
from exporter.errors import SourceError
from exporter.job import reading
from exporter.job.evidence import Evidence
from exporter.job.reading import MarketsReading, read_again, read_markets
from exporter.job.sources import OpenSource
from exporter.job.unlisted import MIN_POOLS, Budget, budget_of
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.source import MAX_KEYS_PER_REQUEST, ContractCall, EntriesAnswer, SimulationAnswer
from exporter.localnet.oracle import ORACLE
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.protocols.base import Origin
from tests.job_runs import settings_for
from tests.localnet.direct_source import DirectSource
from tests.localnet.recorded import BLEND_V1, BLEND_V2, LISTED
from tests.protocols.protocol_facts import recorded_pools

pytestmark = pytest.mark.usefixtures("without_pages")

POOLS_EACH = 2
"""Pools of a market that the network deploys."""


class Read(NamedTuple):
    """A reading and its evidence."""

    read: MarketsReading
    evidence: Evidence

    @property
    def markets(self) -> set[str]:
        return {*self.read.tables().markets["market"]}

    @property
    def unlisted(self) -> set[str]:
        return self.markets - {market for _, market in LISTED}

    @property
    def reasons(self) -> dict[str, str]:
        return {item.market: item.reason for item in self.read.skipped}


def read(source: DirectSource, known: Sequence[str] = (), **flags: Any) -> Read:
    """Read as a run does whose memory has these markets, the first of them for longest."""
    settings = settings_for(None, "http://127.0.0.1:1", **flags)
    memory = Memory(network_id(settings.passphrase))
    for ledger, market in enumerate(known, 1):
        memory.learn(KnownMarket(protocol="blend", address=market, origin=Origin.EVENT, first_seen_ledger=ledger))
    opened = OpenSource(source, NETWORKS[NETWORK], [], "direct", None)
    return Read(*asyncio.run(read_markets(settings, opened, memory)))


def deployed(network: RecordedNetwork, count: int) -> list[str]:
    return [network.deploy(f"market {number}") for number in range(count)]


def listed_rows(found: Read) -> list[dict[str, Any]]:
    """What is published about the pools of listed markets, without the ledger and its time."""
    pools = found.read.tables().pools.filter("listed")
    return pools.drop("observed_ledger", "ledger_close_time").to_dicts()


def test_the_oldest_are_read_and_the_rest_is_skipped() -> None:
    """If there are many markets, those known first are read, whole, while there is room; a repeated run is the same."""
    network = RecordedNetwork()
    markets = deployed(network, 2 * MIN_POOLS // POOLS_EACH)
    found = read(DirectSource(network), markets)
    room = MIN_POOLS // POOLS_EACH

    assert {*markets[:room]} == found.unlisted
    assert dict.fromkeys(markets[room:], "pools") == found.reasons
    assert [] == found.read.tables().unread
    repeated = read_again(Evidence.decode(found.evidence.encode(), "evidence"))[0]
    assert found.read.tables().pools.equals(repeated.tables().pools)
    assert found.read.skipped == repeated.skipped
    assert found.read.tables().notices == repeated.tables().notices


def test_listed_markets_are_as_without_them() -> None:
    """Numbers of listed markets, and the requests for them, do not depend on how many others there are."""
    alone, crowded = RecordedNetwork(), RecordedNetwork()
    markets = deployed(crowded, 30)
    for _ in markets:
        alone.close({})

    assert listed_rows(read(DirectSource(alone))) == listed_rows(read(DirectSource(crowded), markets))


class Counting(DirectSource):
    """Counts requests as an RPC would get them."""

    def __init__(self, network: RecordedNetwork) -> None:
        super().__init__(network)
        self.requests = 0

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        self.requests += -(-len(keys) // MAX_KEYS_PER_REQUEST)
        return await super().read_entries(keys)

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        self.requests += 1
        return await super().simulate(call)


@pytest.mark.slow
def test_two_hundred_markets_cost_two_requests() -> None:
    """Next to 48 markets that are named, 200 markets of strangers change no number and add two requests."""
    network = RecordedNetwork(copies=125)
    copies = list(network.copies)
    named: dict[str, Any] = {"markets": [{"protocol": "blend", "address": market} for market in copies[:48]]}
    alone, crowded = Counting(network), Counting(network)
    before, after = read(alone, **named), read(crowded, copies[48:], **named)

    assert recorded_pools() + 48 * 3 == len(listed_rows(before))
    assert listed_rows(before) == listed_rows(after)
    assert 200 == len(after.unlisted) - 48 + len(after.reasons)
    assert alone.requests < crowded.requests <= alone.requests + 2


def test_a_market_that_is_too_large_leaves_room_to_others() -> None:
    """A market that has more pools than there is room for is skipped as a whole, and a later one is read."""
    network = RecordedNetwork()
    large = [network.deploy(f"large {number}", label="testnet") for number in range(5)]  # of four pools each
    *small, last = deployed(network, 3)
    found = read(DirectSource(network), [*large[:4], small[0], large[4], small[1], last])

    assert {*large[:4], small[0], small[1]} == found.unlisted
    assert {large[4]: "pools", last: "pools"} == found.reasons


class Moving(DirectSource):
    """A network in which a market's instance changes before each answer about it, or ledgers close after answers."""

    def __init__(self, network: RecordedNetwork, market: str | None = None, closes_after: int | None = None) -> None:
        super().__init__(network)
        self.recorded = network
        self.market = market
        self.closes_after = closes_after
        self.answers = 0
        self.changes = 0

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        if self.market is not None and (key := instance_key(self.market)) in keys:
            self.changes += 1
            self.recorded.close({key: self.recorded.look(key)})
        answers = await super().read_entries(keys)
        self.answers += 1
        if self.closes_after is not None and self.answers % self.closes_after == 0:
            self.recorded.advance()
        return answers


def test_entries_that_change_always_do_not_end_a_run() -> None:
    """A market whose instance changes at every ledger costs the others nothing; it is read, or unread as changed."""
    network = RecordedNetwork()
    busy, quiet = deployed(network, 2)
    source = Moving(network, busy)
    found = read(source, [busy, quiet])

    assert {market for _, market in LISTED} | {quiet} <= found.markets
    assert found.reasons in ({}, {busy: "changed"})
    assert source.changes < 20


def test_absent_entries_are_read_with_the_listed_ones() -> None:
    """If ledgers close while markets are read, missing entries are asked for along with those that change often."""
    network = RecordedNetwork()
    markets = deployed(network, 3)
    found = read(Moving(network, closes_after=4), markets)

    assert {*markets} == found.unlisted
    assert {} == found.reasons


class Refusing(DirectSource):
    """Fails each request that has a key of one market."""

    def __init__(self, network: RecordedNetwork, market: str) -> None:
        super().__init__(network)
        self.market = market

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        if instance_key(self.market) in keys:
            raise SourceError("no answer with this key")
        return await super().read_entries(keys)


def test_what_the_source_refuses_of_one_costs_that_one() -> None:
    """A market for which requests fail is unread, and those that were asked for along with it are read."""
    network = RecordedNetwork()
    bad, good = deployed(network, 2)
    found = read(Refusing(network, bad), [bad, good])

    assert {good} == found.unlisted
    assert {bad: "failed"} == found.reasons
    assert [(bad, "failed")] == [(item.market, item.reason) for item in found.read.tables().unread]


class Slow(DirectSource):
    """Never answers a request that has a key of one market."""

    def __init__(self, network: RecordedNetwork, market: str) -> None:
        super().__init__(network)
        self.market = market

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        if instance_key(self.market) in keys:
            await asyncio.sleep(3600)
        return await super().read_entries(keys)


def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that never ends costs unlisted markets their part of the time, and no listed one anything."""
    monkeypatch.setattr(reading, "budget_of", lambda *_: Budget(0.1, 20))
    network = RecordedNetwork()
    bad, good = deployed(network, 2)
    found = read(Slow(network, bad), [bad, good])

    assert {market for _, market in LISTED} == found.markets
    assert {bad: "time", good: "time"} == found.reasons


@pytest.mark.parametrize(
    ("took", "listed", "expected"),
    [(10, 165, (75, 20)), (130, 1_000, (40, 100)), (160, 0, (0, 20))],
    ids=["little", "much", "too much"],
)
def test_the_budget_leaves_listed_markets_their_time_and_pools(
    took: float, listed: int, expected: tuple[float, int]
) -> None:
    """The budget: a quarter of the deadline, or less if listed markets need it; a tenth of their pools, at least 20."""
    assert Budget(*expected) == budget_of(300, took, listed)


def test_what_is_excluded_is_left_alone() -> None:
    """An excluded market is not read, an excluded pool has no numbers, and an excluded oracle is never called."""
    network = RecordedNetwork()
    (market,) = deployed(network, 1)
    pool = read(DirectSource(network)).read.tables().pools.filter(market=BLEND_V2)["pool"][0]
    found = read(DirectSource(network), [market], exclude=[market, f"{BLEND_V2}/{pool}", ORACLE, BLEND_V1])
    tables = found.read.tables()

    assert {market: "excluded", BLEND_V1: "excluded"} == found.reasons
    assert [(BLEND_V2, pool, "excluded")] == [(item.market, item.pool, item.reason) for item in tables.unread]
    assert [] == [call for call in found.evidence.calls if call.contract == ORACLE]
    reasons = {row["price_reason"] for row in tables.pools.to_dicts() if row["oracle"] == ORACLE}
    assert {"the configuration excludes it"} == {reason.rpartition(": ")[2] for reason in reasons}
    repeated = read_again(Evidence.decode(found.evidence.encode(), "evidence"))[0]
    assert tables.pools.equals(repeated.tables().pools)
    assert found.read.skipped == repeated.skipped
