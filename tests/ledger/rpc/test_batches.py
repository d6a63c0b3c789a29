"""Calls that go together as a JSON-RPC batch, and endpoints that do not take one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.ledger.rpc.client import MAX_CALLS_PER_REQUEST, RpcSource
from exporter.ledger.source import ContractCall, SimulationAnswer
from tests.ledger.rpc import fake_rpc as fake
from tests.ledger.rpc.test_client import CONTRACT, A, B, Bench

Replies = list[dict[str, Any]]
CALLS = [ContractCall(CONTRACT, f"function_{number}") for number in range(5)]


def together(bench: Bench, calls: list[ContractCall]) -> list[tuple[int, bytes | None]]:
    answers = bench.run(lambda source: source.simulate_together(calls))
    return [(answer.ledger, answer.result) for answer in answers]


def alone(calls: list[ContractCall]) -> list[tuple[int, bytes | None]]:
    """The answer to each call alone; the fake gives the same to all."""
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


def with_an_error(right: Replies) -> httpx.Response:
    del right[2]["result"]
    return fake.ok([*right[:2], right[2] | fake.error(-32603, "the queue is full"), *right[3:]])


def with_half_a_result(right: Replies) -> httpx.Response:
    right[2]["result"]["results"] = []
    return fake.ok(right)


@pytest.mark.parametrize("fault", [with_an_error, with_half_a_result])
def test_one_that_fails_is_asked_alone(fault: Callable[[Replies], httpx.Response]) -> None:
    """A call whose part of the answer is no use is asked once more alone, the others are not."""
    bench = Bench()
    bench.rpc.batch_faults.append(fault)

    assert alone(CALLS) == together(bench, CALLS)
    assert 1 == len(bench.rpc.asked("simulateTransaction"))


def errors(right: Replies, code: int, count: int) -> Replies:
    """The right replies; the first has an error and no result."""
    refused = [{"jsonrpc": "2.0", "id": reply["id"]} | fake.error(code, "words") for reply in right[:count]]
    return [*refused, *right[count:]]


def raising(problem: Exception) -> Callable[[Replies], httpx.Response]:
    def fault(_: Replies) -> httpx.Response:
        raise problem

    return fault


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda right: fake.ok(right[0]), id="the first reply alone"),
        pytest.param(lambda right: fake.ok(right[:-1]), id="one is missing"),
        pytest.param(lambda right: fake.ok([*right[:-1], right[0]]), id="one twice in place of another"),
        pytest.param(lambda right: fake.ok([*right, right[0]]), id="one twice"),
        pytest.param(lambda right: fake.ok([*right[:-1], right[-1] | {"id": 7}]), id="an id of another request"),
        pytest.param(lambda right: fake.ok([*right[:-1], right[-1] | {"id": None}]), id="no id"),
        pytest.param(lambda right: fake.ok(errors(right, -32600, 5)), id="errors only"),
        pytest.param(lambda _: fake.ok(fake.error(-32600, "invalid request")), id="one error"),
        pytest.param(lambda _: fake.raw(b"[]"), id="no replies"),
        pytest.param(lambda _: fake.raw(b"", 204), id="no content"),
        pytest.param(lambda right: fake.raw(json.dumps(right).encode()[:-9]), id="cut"),
        pytest.param(lambda _: fake.raw(b"<html>a page of a proxy</html>"), id="a page"),
        pytest.param(lambda _: fake.raw(b"[" * 10_000), id="nested lists"),
        *(
            pytest.param(lambda _, code=code: fake.raw(b"no batches here", code), id=f"http {code}")
            for code in (301, 400, 403, 413, 429, 500, 503, 504)
        ),
        pytest.param(lambda right: fake.ok([*right[:-1], right[-1] | {"padding": "x" * 40_000}]), id="too large"),
        pytest.param(raising(httpx.ReadTimeout("x")), id="timeout"),
        pytest.param(raising(httpx.RemoteProtocolError("x")), id="cut connection"),
    ],
)
def test_an_endpoint_that_takes_no_batches(fault: Callable[[Replies], httpx.Response]) -> None:
    """An endpoint whose answer to a batch is no use is asked for each call, and is sent no further batch."""
    bench = Bench(max_response_bytes=30_000)
    bench.rpc.batch_faults.append(fault)

    async def twice(source: RpcSource) -> list[SimulationAnswer]:
        return [*await source.simulate_together(CALLS), *await source.simulate_together(CALLS)]

    answers = [(answer.ledger, answer.result) for answer in bench.run(twice)]

    assert alone(CALLS) * 2 == answers
    assert ([5], 10) == (bench.rpc.batches, len(bench.rpc.asked("simulateTransaction")))
    assert 1 == sum(map(Counter.total, bench.source.counters.errors.values()))


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda _: fake.raw(b"", 429, retry_after="7"), id="http"),
        pytest.param(lambda right: fake.ok(errors(right, 429, 5)), id="each call"),
        pytest.param(lambda right: fake.ok(errors(right, 429, 2)), id="some calls"),
        pytest.param(lambda _: fake.ok(fake.error(429, "slow down")), id="one error"),
    ],
)
def test_an_endpoint_that_wants_fewer_requests(fault: Callable[[Replies], httpx.Response]) -> None:
    """An endpoint that counts each call of a batch, and finds them too many, is left alone before it is asked again."""
    bench = Bench()
    bench.rpc.batch_faults.append(fault)
    began = bench.clock.now

    assert alone(CALLS) == together(bench, CALLS)
    assert 5 == len(bench.starts("simulateTransaction"))
    assert min(bench.starts("simulateTransaction")) - began >= 5
    assert bench.source.rate_limits is not None


def test_another_endpoint_answers_what_the_first_does_not() -> None:
    """Calls of a batch that failed go to whichever endpoint answers; only the first takes no batches any more."""
    bench = Bench(A, B)
    bench.rpc.ledgers[B] = 900
    bench.rpc.batch_faults.append(lambda _: fake.raw(b"", 503))
    bench.fault(A, *5 * [fake.status(503)])

    async def twice(source: RpcSource) -> list[SimulationAnswer]:
        return [*await source.simulate_together(CALLS), *await source.simulate_together(CALLS)]

    assert [900] * 10 == [answer.ledger for answer in bench.run(twice)]
    assert [5, 5] == bench.rpc.batches


@pytest.mark.parametrize(
    ("rate", "batches", "singles"), [(1_000, [10, 2], 0), (8, [8, 4], 0), (2.5, [2] * 6, 0), (1.5, [], 12)]
)
def test_calls_of_a_batch_count_as_requests(rate: float, batches: list[int], singles: int) -> None:
    """No second has more calls than ``requests_per_second``, getNetwork included; a batch alone has no more either."""
    bench = Bench(requests_per_second=rate)
    calls = [ContractCall(CONTRACT, f"function_{number}") for number in range(12)]
    began = bench.clock.now

    together(bench, calls)

    assert (batches, singles) == (bench.rpc.batches, len(bench.starts("simulateTransaction")))
    at_once = int(rate)
    assert bench.clock.now - began >= 12 // at_once - 1


@given(
    st.lists(st.permutations(range(5)), min_size=1, max_size=3),
    st.lists(st.integers(900, 1_100), min_size=5, max_size=5),
)
def test_any_order_and_any_ledgers(orders: list[list[int]], ledgers: list[int]) -> None:
    """Whatever the order of the replies, and whichever ledger each is of, each call gets the answer to it."""
    bench = Bench()

    def reordered(order: list[int]) -> Callable[[Replies], httpx.Response]:
        def fault(right: Replies) -> httpx.Response:
            for reply, ledger in zip(right, ledgers, strict=True):
                reply["result"]["latestLedger"] = ledger
            return fake.ok([right[position] for position in order])

        return fault

    bench.rpc.batch_faults.extend(map(reordered, orders))

    async def ask(source: RpcSource) -> list[list[int]]:
        return [[answer.ledger for answer in await source.simulate_together(CALLS)] for _ in orders]

    assert [ledgers] * len(orders) == bench.run(ask)
