"""Calls that go together as a JSON-RPC batch, and endpoints that do not take one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from exporter.ledger.rpc.client import MAX_CALLS_PER_REQUEST
from exporter.ledger.source import ContractCall
from tests.ledger.rpc import fake_rpc as fake
from tests.ledger.rpc.test_client import CONTRACT, Bench

Replies = list[dict[str, Any]]
CALLS = [ContractCall(CONTRACT, f"function_{number}") for number in range(5)]


def together(bench: Bench, calls: list[ContractCall]) -> list[tuple[int, bytes | None]]:
    answers = bench.run(lambda source: source.simulate_together(calls))
    return [(answer.ledger, answer.result) for answer in answers]


def alone(calls: list[ContractCall]) -> list[tuple[int, bytes | None]]:
    """What each of them gives when it is asked alone; the fake gives the same to all."""
    answer = Bench().run(lambda source: source.simulate(CALLS[0]))
    return [(answer.ledger, answer.result)] * len(calls)


@pytest.mark.parametrize(
    ("count", "batches", "singles"),
    [(0, [], 0), (1, [], 1), (5, [5], 0), (MAX_CALLS_PER_REQUEST + 1, [10], 1), (23, [10, 10, 3], 0)],
)
def test_calls_go_together(count: int, batches: list[int], singles: int) -> None:
    """Calls go ten in a request; one that is left goes alone. The report counts requests."""
    bench = Bench()
    calls = [ContractCall(CONTRACT, f"function_{number}") for number in range(count)]

    assert alone(calls) == together(bench, calls)
    assert (batches, singles) == (bench.rpc.batches, len(bench.rpc.asked("simulateTransaction")))
    assert len(batches) + singles == bench.source.counters.requests["simulateTransaction"]


def test_answers_are_in_the_order_of_the_calls() -> None:
    """Replies may come in any order: their ids say which is whose."""
    bench = Bench()

    def shuffled(right: Replies) -> httpx.Response:
        for place, reply in enumerate(right):
            reply["result"]["latestLedger"] = 1_000 + place
        return fake.ok(right[::-1])

    bench.rpc.batch_faults.append(shuffled)

    assert [1_000, 1_001, 1_002, 1_003, 1_004] == [ledger for ledger, _ in together(bench, CALLS)]


def without_result(right: Replies) -> httpx.Response:
    del right[2]["result"]
    return fake.ok([*right[:2], right[2] | fake.error(-32603, "the queue is full"), *right[3:]])


def with_half_a_result(right: Replies) -> httpx.Response:
    right[2]["result"]["results"] = []
    return fake.ok(right)


@pytest.mark.parametrize("fault", [without_result, with_half_a_result])
def test_one_that_fails_is_asked_alone(fault: Callable[[Replies], httpx.Response]) -> None:
    """A call whose part of the answer is no use is asked once more alone, the others are not."""
    bench = Bench()
    bench.rpc.batch_faults.append(fault)

    assert alone(CALLS) == together(bench, CALLS)
    assert 1 == len(bench.rpc.asked("simulateTransaction"))


@pytest.mark.parametrize(
    "fault",
    [
        lambda right: fake.ok(right[0]),
        lambda right: fake.ok(right[:-1]),
        lambda right: fake.ok([*right[:-1], right[0]]),
        lambda right: fake.ok([*right, right[0]]),
        lambda right: fake.ok([*right[:-1], right[-1] | {"id": 7}]),
        lambda _: fake.raw(b"[]"),
        lambda _: fake.raw(b"no batches here", 400),
        lambda _: fake.raw(b"", 503),
        lambda _: fake.ok(fake.error(-32600, "invalid request")),
    ],
)
def test_an_endpoint_that_takes_no_batches(fault: Callable[[Replies], httpx.Response]) -> None:
    """An endpoint whose answer to a batch is no use is asked for each call, and is sent no further batch."""
    bench = Bench()
    bench.rpc.batch_faults.append(fault)

    async def twice(source: Any) -> list[Any]:
        return [*await source.simulate_together(CALLS), *await source.simulate_together(CALLS)]

    answers = [(answer.ledger, answer.result) for answer in bench.run(twice)]

    assert alone(CALLS) * 2 == answers
    assert ([5], 10) == (bench.rpc.batches, len(bench.rpc.asked("simulateTransaction")))
