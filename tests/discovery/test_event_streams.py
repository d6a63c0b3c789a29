"""Following events: bounds, gaps, and that a stream is only moved on over ledgers that were looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from exporter.discovery.event_streams import follow_events
from exporter.discovery.known_markets import Memory, RoleKey, StreamKey
from exporter.errors import SourceError
from exporter.ledger.codec.scval_encode import address, symbol
from exporter.ledger.events import ContractEvent, EventFilter, EventsPage, OutOfRange
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Origin
from exporter.protocols.protocol import Discovery, MarketEvents, Protocol
from tests.protocols.made_ledger import contract

FACTORY = contract("factory")
STREAM = StreamKey("one", FACTORY, ("deploy",))


def publishing(*filters: EventFilter) -> Protocol:
    """A protocol whose contracts publish the events of these filters; each names a market."""

    def candidates_in(event: ContractEvent) -> Sequence[Candidate]:
        return [Candidate("one", str(event.value[1]), Origin.EVENT)]

    events = MarketEvents(filters=lambda _: filters, candidates=candidates_in)
    return replace(PROTOCOLS["blend"], discovery=Discovery(events=events))


def event(pool: str, ledger: int = 500, factory: str = FACTORY, topic: str = "deploy") -> ContractEvent:
    """An event that names a pool by label."""
    return ContractEvent(factory, ledger, (symbol(topic),), address(contract(pool)))


class Scripted:
    """A source that gives the answers of a script, the last one for ever, and logs what it is asked."""

    def __init__(self, *answers: EventsPage | OutOfRange | SourceError) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[tuple[EventFilter, ...], int | str]] = []

    async def read_events(self, filters: Sequence[EventFilter], start: int | str) -> EventsPage | OutOfRange:
        self.asked.append((tuple(filters), start))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, SourceError):
            raise answer
        return answer


def end(*events: ContractEvent, latest: int = 1_000) -> EventsPage:
    return EventsPage(events, latest, None, latest)


def follow(
    source: object,
    known: Mapping[StreamKey, int] | None = None,
    protocols: Mapping[str, Any] | None = None,
    **options: Any,
) -> Memory:
    """The memory after reading from where ``known`` says; its notices are those of the reading."""
    memory = Memory("0" * 64, streams=dict(known or {}))
    memory.notices = asyncio.run(
        follow_events(
            source, protocols or {"one": publishing(EventFilter((FACTORY,), ("deploy",)))}, (), memory, **options
        )
    )
    return memory


def pools_in(memory: Memory) -> set[str]:
    return {market.address for market in memory.markets.values()}


def test_source_without_events() -> None:
    """A snapshot file has no events, which is nothing to speak of."""
    assert Memory("0" * 64) == follow(object())


def test_from_where_the_last_run_stopped() -> None:
    """A stream goes on at its ledger; pages follow each other by their cursors, and each moves the stream on."""
    source = Scripted(
        EventsPage((event("A", 610),), 700, "cursor", 1_000),
        EventsPage((event("B", 800),), 799, "another", 1_000),
        SourceError("down"),
    )
    found = follow(source, {STREAM: 600})

    assert [600, "cursor", "another"] == [start for _, start in source.asked]
    assert {contract("A"), contract("B")} == pools_in(found)
    assert {STREAM: 800} == found.streams
    assert [True] == ["down" in notice for notice in found.notices]


@pytest.mark.parametrize(
    ("known", "answers", "pools", "goes_on", "notices"),
    [
        # A stream that was never read begins at the oldest ledger that is kept, without a word of a gap.
        (None, [OutOfRange(300, 1_000, True), end(event("A"))], "A", 1_001, []),
        # One that is ahead of the endpoint, or at its newest ledger, stays where it is.
        (1_000, [OutOfRange(300, 999, True)], "", 1_000, []),
        (1_000, [end(latest=990)], "", 1_000, []),
        # A notice names what all endpoints have forgotten, and the stream goes on after it.
        (600, [OutOfRange(700, 1_000, True), end()], "", 1_001, ["events from ledger 600 to 699 are gone;"]),
        # While an endpoint that may keep the ledgers cannot be asked, the stream is not moved on over them.
        (600, [OutOfRange(700, 1_000, False), end(event("A", 800))], "A", 600, ["from the endpoints that answer"]),
        # Events that were not asked for, of other contracts or topics, name nothing.
        (
            600,
            [end(event("A"), event("B", factory=contract("spam")), event("C", topic="other"))],
            "A",
            1_001,
            [],
        ),
    ],
)
def test_where_a_stream_goes_on(
    known: int | None, answers: list[EventsPage | OutOfRange], pools: str, goes_on: int, notices: list[str]
) -> None:
    """The markets found, the ledger from which the next run reads, and the notices."""
    source = Scripted(*answers)
    found = follow(source, {} if known is None else {STREAM: known})
    beyond = [answer.oldest for answer in answers[:-1] if isinstance(answer, OutOfRange)]

    assert [known or 1, *beyond] == [start for _, start in source.asked]
    assert ({*map(contract, pools)}, {STREAM: goes_on}) == (pools_in(found), found.streams)
    assert [True for _ in notices] == [said in notice for said, notice in zip(notices, found.notices, strict=True)]


def test_oldest_ledger_that_runs_away() -> None:
    """An oldest ledger that is gone whenever it is asked for is given up on."""
    source = Scripted(OutOfRange(700, 1_000, True))
    found = follow(source)

    assert [1, 700, 701, 702] == [start for _, start in source.asked]
    assert [True] == ["faster than they are asked for" in notice for notice in found.notices]


def test_candidates_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of events makes only this many candidates."""
    monkeypatch.setattr("exporter.discovery.event_streams.MAX_CANDIDATES", 2)

    assert 2 == len(follow(Scripted(end(*(event(f"{number}") for number in range(9)))), {STREAM: 600}).markets)


def test_a_source_that_hangs_costs_a_bounded_time() -> None:
    """A source that hangs costs so much time and no more, and what came before stays."""

    class Hanging(Scripted):
        async def read_events(self, filters: Sequence[EventFilter], start: int | str) -> EventsPage | OutOfRange:
            if self.asked:
                await asyncio.sleep(60)
            return await super().read_events(filters, start)

    found = follow(Hanging(EventsPage((event("A"),), 650, "cursor", 1_000)), {STREAM: 600}, max_seconds=0.05)

    assert ({contract("A")}, {STREAM: 651}) == (pools_in(found), found.streams)
    assert [True] == ["took longer than 0.05 s" in notice for notice in found.notices]


def test_requests_are_shared() -> None:
    """Protocols that go on from the same ledger share requests of 5 filters of 5 contracts; others have their own."""
    many = tuple(contract(f"factory {number}") for number in range(27))
    protocols = {
        "one": publishing(EventFilter(many, ("deploy",))),
        "two": publishing(EventFilter((FACTORY,), ("opened", "shop"))),
    }
    source = Scripted(end())
    found = follow(source, protocols=protocols)

    assert [5, 2] == [len(filters) for filters, _ in source.asked]
    assert [25, 2 + 1] == [sum(len(each.contracts) for each in filters) for filters, _ in source.asked]
    assert 28 == len(found.streams)
    source = Scripted(end())
    follow(source, found.streams | {StreamKey("two", FACTORY, ("opened", "shop")): 400}, protocols=protocols)
    assert [1_001, 1_001, 400] == [start for _, start in source.asked]


def test_what_is_read_again_is_not_taken_in() -> None:
    """A run that reads a ledger again takes in nothing that another run found there, or later."""
    memory = Memory("0" * 64)
    other = Memory(
        "0" * 64,
        streams={STREAM: 501, StreamKey("two", FACTORY, ("deploy",)): 500},
        contracts={RoleKey("one", "main", "factory"): FACTORY},
    )
    memory.absorb(other)
    memory.rewind(500)
    memory.absorb(other)

    assert {("two", FACTORY, ("deploy",)): 500} == memory.streams
    assert {} == memory.contracts
