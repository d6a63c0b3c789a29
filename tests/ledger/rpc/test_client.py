"""The RPC client as a ledger source: what it asks, of whom, in which order, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any, TypeVar

import httpx
import pytest

from exporter.errors import AllEndpointsFailedError, NetworkMismatchError, RequestRefusedError
from exporter.ledger.events import EventFilter
from exporter.ledger.rpc.client import RpcSource
from exporter.ledger.rpc.endpoints import RpcLimits
from exporter.ledger.source import ContractCall, EntriesAnswer, SimulationAnswer
from tests.ledger.rpc import fake_rpc as fake
from tests.ledger.rpc.fake_rpc import CLOSE_TIME, LEDGER, PASSPHRASE, FakeRpc, VirtualClock, key, made_entry

A, B, C = "a.example", "b.example", "c.example"
CONTRACT = "CAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAD2KM"
CALL = ContractCall(CONTRACT, "decimals")
T = TypeVar("T")


class Bench:
    """A client over a fake RPC, with a virtual clock."""

    def __init__(self, *hosts: str, rpc: FakeRpc | None = None, **limits: Any) -> None:
        self.rpc = rpc or FakeRpc()
        self.clock = VirtualClock()
        self.rpc.clock = self.clock.clock
        self.answered: list[None] = []
        self.source = RpcSource(
            [f"https://{host}/rpc" for host in hosts or (A,)],
            PASSPHRASE,
            limits=RpcLimits(**{"requests_per_second": 1_000, **limits}),
            transport=self.rpc,
            timing=self.clock.timing(),
            on_request=lambda: self.answered.append(None),
        )

    def run(self, ask: Callable[[RpcSource], Awaitable[T]]) -> T:
        async def main() -> T:
            async with self.source as source:
                return await ask(source)

        return asyncio.run(main())

    def read(self, *numbers: int) -> list[EntriesAnswer]:
        return self.run(lambda source: source.read_entries([key(number) for number in numbers]))

    def fault(self, host: str, *faults: fake.Fault) -> None:
        self.rpc.faults[host].extend(faults)


def filled(count: int) -> FakeRpc:
    return FakeRpc(entries={key(number): made_entry(number) for number in range(count)})


def found(answers: list[EntriesAnswer]) -> dict[bytes, Any]:
    return {name: raw for answer in answers for name, raw in answer.entries.items()}


# The network ---------------------------------------------------------------------------------------------------


def test_the_network_is_checked_once() -> None:
    """Each endpoint is asked for its network before anything else, once, and only when it is used."""
    bench = Bench(A, B, rpc=filled(900), max_in_flight=4)
    bench.rpc.turns = 3
    bench.read(*range(900))

    assert ["getNetwork"] + 5 * ["getLedgerEntries"] == [call.method for call in bench.rpc.calls]
    assert {A} == set(bench.rpc.asked())


def test_another_network_is_a_fault_of_the_configuration() -> None:
    """An endpoint of another network fails the call, with its position, its label and both passphrases."""
    bench = Bench(A, B)
    bench.rpc.passphrases[A] = "Another\nNetwork"

    with pytest.raises(NetworkMismatchError) as caught:
        bench.run(lambda source: source.tip())
    assert (
        "rpc_urls[0] (a.example) serves the network 'Another Network', but the configured passphrase is "
        f"{PASSPHRASE!r}: correct rpc_urls or the network"
    ) == str(caught.value)
    assert ["getNetwork"] == [call.method for call in bench.rpc.calls]


def test_every_waiting_call_learns_of_another_network() -> None:
    """Calls that wait for the check of the network fail like the one that makes it; none gets data that is there."""
    bench = Bench(A, rpc=filled(1))
    bench.rpc.turns = 3
    bench.rpc.passphrases[A] = "another"

    async def ask(source: RpcSource) -> list[Any]:
        return await asyncio.gather(*(source.read_entries([key(0)]) for _ in range(8)), return_exceptions=True)

    assert 8 * [NetworkMismatchError] == [type(outcome) for outcome in bench.run(ask)]


class LateNetwork(FakeRpc):
    """Says which network it serves after everything else that it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        method = str(json.loads(request.content)["method"])
        if method == "getNetwork":
            await asyncio.sleep(0.05)
        response = await super().handle_async_request(request)
        self.answered.append(method)
        return response


def test_the_first_question_goes_along_with_the_check() -> None:
    """It is asked while the network is not known yet, and its answer is given when it is."""
    late = LateNetwork()
    bench = Bench(A, rpc=late)

    assert 1_000 == bench.run(lambda source: source.tip())
    assert ["getHealth", "getNetwork"] == late.answered


def test_an_answer_of_another_network_is_not_believed() -> None:
    """Also where it came before the endpoint said which network it serves."""
    late = LateNetwork()
    bench = Bench(A, B, rpc=late)
    late.passphrases[A] = "another"

    with pytest.raises(NetworkMismatchError):
        bench.run(lambda source: source.tip())
    assert ["getHealth", "getNetwork"] == late.answered


def test_an_answer_is_not_believed_when_the_check_fails() -> None:
    """The next endpoint is asked instead, and a further question waits for the check to be passed."""
    bench = Bench(A, B, rpc=LateNetwork())
    bench.rpc.network_faults[A].append(fake.status(500))

    async def ask(source: RpcSource) -> list[str]:
        return [(await source.read_entries([key(0)]))[0].endpoint for _ in range(2)]

    assert [B, B] == bench.run(ask)


def test_a_spare_endpoint_of_another_network_is_reported_when_it_is_needed() -> None:
    """The spare endpoint's network is checked before its first use, and failing over to a wrong one fails."""
    bench = Bench(A, B)
    bench.rpc.passphrases[B] = "another"
    bench.fault(A, fake.status(503))

    with pytest.raises(NetworkMismatchError, match=r"^rpc_urls\[1\] \(b.example\) serves the network 'another'"):
        bench.run(lambda source: source.tip())


def test_a_check_that_fails_is_a_failure_of_the_endpoint() -> None:
    """An endpoint whose getNetwork fails is not used; calls that waited for the check do not each repeat it."""
    bench = Bench(A, B, rpc=filled(1))
    bench.rpc.turns = 3
    bench.rpc.network_faults[A].append(fake.status(500))

    async def ask(source: RpcSource) -> list[Any]:
        return await asyncio.gather(*(source.read_entries([key(0)]) for _ in range(4)))

    assert 4 == len(bench.run(ask))
    assert [A, B] == bench.rpc.asked("getNetwork")
    assert {B} == set(bench.rpc.asked("getLedgerEntries"))


def test_a_check_that_is_too_large_does_not_split_the_keys() -> None:
    """What goes wrong with the check of the network says nothing of the keys that are to be read."""
    bench = Bench(A, B, rpc=filled(10))
    bench.rpc.network_faults[A].append(fake.status(413))
    (answer,) = bench.read(*range(10))

    assert (B, 10) == (answer.endpoint, len(answer.asked))


def test_waiting_for_a_check_is_bounded() -> None:
    """A call whose time runs out while another call checks a hanging endpoint ends; it does not hang as well."""

    class HangingNetwork(FakeRpc):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.host == B:
                await asyncio.sleep(3_600)
            return await super().handle_async_request(request)

    def slow(_call: fake.Call, right: dict[str, Any]) -> httpx.Response:
        bench.clock.now += 119.95
        return fake.raw(b"", 500)

    bench = Bench(A, B, rpc=HangingNetwork())
    bench.fault(A, fake.status(500), slow)

    async def ask(source: RpcSource) -> None:
        hanging = asyncio.create_task(source.tip())
        await asyncio.sleep(0.01)
        bench.clock.now += 10  # A is no longer put aside
        with pytest.raises(AllEndpointsFailedError, match=r"b.example: timed out while its network was being checked"):
            await asyncio.wait_for(source.simulate(CALL), 2)
        hanging.cancel()
        await asyncio.wait([hanging])

    bench.run(ask)


# The tip -------------------------------------------------------------------------------------------------------


def test_the_tip_comes_from_get_health() -> None:
    """The newest ledger is asked for by getHealth, and never by getLatestLedger, which answers megabytes."""
    bench = Bench()

    assert LEDGER == bench.run(lambda source: source.tip())
    assert ["getNetwork", "getHealth"] == [call.method for call in bench.rpc.calls]


LATENCY = fake.rpc_error(-32603, "latency (40s) since last known ledger closed is too high (>30s)")
UNHEALTHY = fake.altered(lambda right: right["result"].update(status="catching up"))


@pytest.mark.parametrize("fault", [LATENCY, UNHEALTHY])
def test_an_endpoint_that_says_it_lags_is_asked_last(fault: fake.Fault) -> None:
    """After a getHealth that says stale another endpoint answers, and goes on answering; the stale one is kept."""
    bench = Bench(A, B, rpc=filled(1), attempts=1)
    bench.fault(A, fault)

    async def ask(source: RpcSource) -> tuple[int, list[EntriesAnswer], list[EntriesAnswer]]:
        tip = await source.tip()
        first = await source.read_entries([key(0)])
        bench.clock.now += 1_000
        bench.fault(B, fake.status(500))
        return tip, first, await source.read_entries([key(0)])

    tip, first, second = bench.run(ask)

    assert LEDGER == tip
    assert [B, A] == [first[0].endpoint, second[0].endpoint]


def test_lagging_comes_after_failing_until_it_is_over() -> None:
    """An endpoint that lags is asked after one that fails, and is preferred again once it says it is healthy."""
    bench = Bench(A, B, rpc=filled(1))
    bench.fault(A, LATENCY)
    bench.fault(B, fake.unaltered, fake.status(500), fake.unaltered, fake.status(500))

    async def ask(source: RpcSource) -> list[str]:
        await source.tip()  # A lags, B answers
        bench.clock.now += 1_000
        reads = [await source.read_entries([key(0)]) for _ in range(2)]  # B fails once, A steps in; then B again
        await source.tip()  # B fails, A is healthy
        reads.append(await source.read_entries([key(0)]))
        return [answers[0].endpoint for answers in reads]

    assert [A, B, A] == bench.run(ask)


# Entries -------------------------------------------------------------------------------------------------------


def test_keys_are_deduplicated_and_cut_into_requests_of_200() -> None:
    """Every distinct key is asked once, at most 200 in a request, in the order given, one answer a request."""
    bench = Bench(rpc=filled(450))
    numbers = [*range(449, -1, -1), *range(100), 449]
    answers = bench.read(*numbers)

    assert [200, 200, 50] == [len(answer.asked) for answer in answers]
    assert [key(number) for number in range(449, -1, -1)] == [name for answer in answers for name in answer.asked]
    assert bench.rpc.entries == found(answers)
    assert {(LEDGER, A)} == {(answer.ledger, answer.endpoint) for answer in answers}


def test_earlier_keys_are_asked_first_within_max_in_flight() -> None:
    """Requests start in the order of the keys, with never more in flight than allowed, and with that many."""
    bench = Bench(rpc=filled(100), keys_per_request=5, max_in_flight=3)
    bench.rpc.turns = 5
    bench.read(*range(100))
    asked = [call.params["keys"][0] for call in bench.rpc.calls if call.method == "getLedgerEntries"]

    assert [fake.b64(key(number)) for number in range(0, 100, 5)] == asked
    assert 3 == bench.rpc.most_in_flight


def test_all_calls_share_the_bound_on_requests_in_flight() -> None:
    """Reads, simulations and close times asked at once keep to max_in_flight together."""
    bench = Bench(rpc=filled(50), keys_per_request=5, max_in_flight=2)
    bench.rpc.turns = 5

    async def ask(source: RpcSource) -> None:
        reads = [source.read_entries([key(number) for number in range(50)]) for _ in range(2)]
        await asyncio.gather(*reads, source.tip(), source.close_time(500), *(source.simulate(CALL) for _ in range(9)))

    bench.run(ask)

    assert 2 == bench.rpc.most_in_flight


def test_requests_keep_to_the_limit_on_bytes() -> None:
    """A batch is cut where the request's body would be too long, however few keys it has."""
    big = {bytes([number]) * 400: made_entry(number) for number in range(20)}
    bench = Bench(rpc=FakeRpc(entries=big), max_request_bytes=4_000)
    answers = bench.run(lambda source: source.read_entries(list(big)))

    assert big == found(answers)
    assert 4_000 >= max(len(call.request.content) for call in bench.rpc.calls)
    assert [6, 6, 6, 2] == [len(answer.asked) for answer in answers]


def test_a_key_that_fits_into_no_request_is_refused() -> None:
    """A key larger than a request may be is named, shortened, and nothing is asked."""
    bench = Bench(max_request_bytes=2_000)

    with pytest.raises(RequestRefusedError, match=r"^getLedgerEntries for the key A{200}…: the key is larger"):
        bench.run(lambda source: source.read_entries([bytes(3_000)]))
    assert [] == bench.rpc.calls


def test_answers_are_matched_by_key() -> None:
    """Entries come in any order, and absent keys are left out: the key of each entry says which it is."""
    bench = Bench(rpc=filled(5))
    bench.fault(A, fake.altered(lambda right: right["result"]["entries"].reverse()))
    (answer,) = bench.read(0, 1, 2, 77, 4)

    assert {key(number): made_entry(number) for number in (0, 1, 2, 4)} == answer.entries
    assert tuple(key(number) for number in (0, 1, 2, 77, 4)) == answer.asked


def test_liveness_is_as_the_endpoint_says() -> None:
    """live_until is None where the field is left out, 0 for an archived entry, and the ledger otherwise."""
    entries = {key(n): made_entry(n, live_until=live) for n, live in enumerate((None, 0, 2**32 - 1))}
    (answer,) = Bench(rpc=FakeRpc(entries=entries)).read(0, 1, 2)

    assert [None, 0, 2**32 - 1] == [answer.entries[key(number)].live_until for number in range(3)]


def test_nothing_found_may_be_null() -> None:
    """An entries field of null is an empty list: every key is absent."""
    bench = Bench()
    bench.fault(A, fake.altered(lambda right: right["result"].update(entries=None)))
    (answer,) = bench.read(1)

    assert {} == answer.entries


# Splitting -----------------------------------------------------------------------------------------------------


def test_a_batch_is_split_at_the_maximum_that_an_endpoint_states() -> None:
    """A smaller maximum of the endpoint's is kept to, at once and for later batches."""
    bench = Bench(rpc=filled(500), max_in_flight=1)
    bench.rpc.max_keys = 80
    answers = bench.read(*range(500))

    assert bench.rpc.entries == found(answers)
    assert [80, 80, 40, 80, 80, 40, 80, 20] == [len(answer.asked) for answer in answers]
    assert 1 == bench.source.counters.splits
    assert [key(number) for number in range(500)] == [name for answer in answers for name in answer.asked]


def test_a_batch_that_is_too_large_for_a_gateway_is_halved() -> None:
    """HTTP 413 halves the batch, as often as needed."""
    bench = Bench(rpc=filled(100))
    bench.fault(A, fake.status(413), fake.status(413))
    answers = bench.read(*range(100))

    assert [25, 25, 50] == [len(answer.asked) for answer in answers]
    assert bench.rpc.entries == found(answers)


def test_a_missing_snapshot_is_asked_for_again_after_a_moment() -> None:
    """-32603 with 404 is asked for again within half a second where there is no other endpoint."""
    bench = Bench(A, rpc=filled(3))
    bench.fault(A, fake.rpc_error(-32603, fake.NOT_FOUND))
    (answer,) = bench.read(0, 1, 2)

    assert A == answer.endpoint
    assert [0.35] == [pause for pause in bench.clock.slept if pause > 0.01]


def test_a_key_that_core_chokes_on_is_found_and_named() -> None:
    """-32603 with 404 from everyone: next endpoint, again, halves; in the end the error names the one key."""
    bench = Bench(A, B, rpc=filled(200))
    bench.rpc.poison = key(137)

    with pytest.raises(
        AllEndpointsFailedError, match=r"^no usable answer to getLedgerEntries for the key (\S+): "
    ) as caught:
        bench.read(*range(200))
    first_four = [(call.host, len(call.params["keys"])) for call in bench.rpc.calls if "keys" in call.params][:5]

    assert fake.b64(key(137)) in str(caught.value)
    assert [(A, 200), (B, 200), (A, 200), (A, 100)] == first_four[:4]
    assert 100 >= len(bench.rpc.calls)


def test_splitting_is_bounded() -> None:
    """Parts and retries of one batch stay within requests_per_call."""
    bench = Bench(rpc=filled(200), requests_per_call=30)
    bench.rpc.max_keys = 2

    with pytest.raises(AllEndpointsFailedError, match=r"within 30 requests \(requests_per_call\)"):
        bench.read(*range(200))
    assert 30 == len(bench.rpc.calls)


def test_a_non_canonical_key_is_found_and_refused() -> None:
    """-32603 with "mismatching key" is the request's fault: halves find the key, and the error names it."""
    bench = Bench(A, B, rpc=filled(4))
    bench.fault(A, *3 * [fake.rpc_error(-32603, "mismatching key in result")])

    with pytest.raises(RequestRefusedError, match=r"a.example refuses getLedgerEntries for the key") as caught:
        bench.read(0, 1, 2, 3)
    assert fake.b64(key(0)) in str(caught.value)
    assert [4, 2, 1] == [len(call.params["keys"]) for call in bench.rpc.calls if "keys" in call.params]


# Failures ------------------------------------------------------------------------------------------------------


def test_a_refused_request_is_not_repeated() -> None:
    """-32602 is said once: no other endpoint and no repetition can help."""
    bench = Bench(A, B, rpc=filled(2))
    bench.fault(A, fake.rpc_error(-32602, "cannot unmarshal key value AAAA at index 1"))

    with pytest.raises(RequestRefusedError) as caught:
        bench.read(0, 1)
    assert (
        "a.example refuses getLedgerEntries for 2 keys: error -32602: cannot unmarshal key value AAAA at index 1"
    ) == str(caught.value)
    assert [A] == bench.rpc.asked("getLedgerEntries")


def test_endless_failure_is_bounded_and_reported_by_endpoint() -> None:
    """With all endpoints failing, each is tried as often as allowed; the error lists each and says what to do."""
    bench = Bench(A, B, C, attempts=3)
    bench.fault(A, *50 * [fake.raising(httpx.ConnectError("x"))])
    bench.fault(B, *50 * [fake.status(503)])
    bench.fault(C, *50 * [fake.status(401)])

    with pytest.raises(AllEndpointsFailedError) as caught:
        bench.run(lambda source: source.tip())
    assert (
        "no usable answer to getHealth: "
        "a.example: cannot connect (name, address, port, TLS certificate or proxy) (ConnectError) (3 tries); "
        "b.example: HTTP 503: it is overloaded (3 tries); "
        "c.example: HTTP 401: it wants a key, or another one: check rpc_urls. "
        "Check rpc_urls and the network; if the endpoints are overloaded, lower max_in_flight or "
        "requests_per_second, or add another URL to rpc_urls."
    ) == str(caught.value)
    assert Counter({A: 3, B: 3, C: 1}) == Counter(bench.rpc.asked("getHealth"))


def test_a_failure_worth_a_retry_keeps_to_the_attempts() -> None:
    """Where one try at each endpoint is allowed, what would be asked again at once is not."""
    bench = Bench(A, B, attempts=1)
    bench.fault(A, fake.rpc_error(-32603, "boom"))
    bench.fault(B, fake.raising(httpx.ReadError("x")))

    with pytest.raises(AllEndpointsFailedError, match=r"a.example: error -32603: boom; b.example: the connection br"):
        bench.run(lambda source: source.tip())
    assert [A, B] == bench.rpc.asked("getHealth")


def test_waits_grow_with_full_jitter_up_to_their_maximum() -> None:
    """Between rounds the client waits a random part of a time that doubles, up to a maximum."""
    bench = Bench(A, attempts=6, backoff_base_s=1, backoff_max_s=6)
    bench.fault(A, *50 * [fake.status(500)])

    with pytest.raises(AllEndpointsFailedError):
        bench.run(lambda source: source.tip())
    assert [0.5, 1, 2, 3, 3] == [pause for pause in bench.clock.slept if pause > 0.01]


def test_a_call_has_a_deadline() -> None:
    """However many tries are left, a call ends at its deadline, and says which bound it was."""
    bench = Bench(A, attempts=20, total_deadline_s=30, backoff_base_s=10, backoff_max_s=10)
    bench.fault(A, *50 * [fake.status(500)])
    started = bench.clock.now

    with pytest.raises(
        AllEndpointsFailedError, match=r"to getHealth within 30 s \(total_deadline_s\), waits included: a.exam"
    ):
        bench.run(lambda source: source.tip())
    assert 30 >= bench.clock.now - started
    assert 6 == len(bench.rpc.asked("getHealth"))


def test_slow_requests_count_towards_the_deadline() -> None:
    """The time that requests take is part of a call's time, not the waits alone."""

    def slow(_call: fake.Call, right: dict[str, Any]) -> httpx.Response:
        bench.clock.now += 50
        return fake.raw(b"", 500)

    bench = Bench(A, attempts=20, total_deadline_s=120)
    bench.fault(A, *20 * [slow])

    with pytest.raises(AllEndpointsFailedError, match=r"within 120 s \(total_deadline_s\)"):
        bench.run(lambda source: source.tip())
    assert 3 == len(bench.rpc.asked("getHealth"))


def test_waiting_for_its_turn_costs_a_call_nothing() -> None:
    """The deadline of a batch begins with its first request, so a long queue at a slow rate is not a failure."""
    bench = Bench(rpc=filled(40), keys_per_request=1, max_in_flight=2, requests_per_second=1, total_deadline_s=5)

    assert 40 == len(bench.read(*range(40)))


def test_one_failed_batch_ends_the_whole_read() -> None:
    """A read is all or nothing: the first error is raised as itself, and no request goes on afterwards."""
    bench = Bench(rpc=filled(100), keys_per_request=1, max_in_flight=4)
    bench.rpc.turns = 3
    bench.fault(A, *4 * [fake.unaltered], fake.rpc_error(-32602, "no"))

    async def ask(source: RpcSource) -> int:
        with pytest.raises(RequestRefusedError):
            await source.read_entries([key(number) for number in range(100)])
        asked = len(bench.rpc.calls)
        for _ in range(20):
            await asyncio.sleep(0)
        return len(bench.rpc.calls) - asked

    assert 0 == bench.run(ask)
    assert 15 > len(bench.rpc.calls)


def test_a_closed_client_sends_nothing() -> None:
    """After closing, using the client is a programming error that says so."""
    bench = Bench()
    bench.run(lambda source: source.tip())

    with pytest.raises(RuntimeError, match="the RPC client is closed"):
        asyncio.run(bench.source.tip())


# Retry-After ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [429, 503])
def test_retry_after_is_honoured(code: int) -> None:
    """The only endpoint is left alone for as many seconds as it demands; then asked again."""
    bench = Bench(A)
    bench.fault(A, fake.status(code, retry_after="7"))
    bench.run(lambda source: source.tip())
    first, second = (call.at for call in bench.rpc.calls if call.method == "getHealth")

    assert 7 == pytest.approx(second - first, abs=0.01)


def test_retry_after_holds_for_all_calls() -> None:
    """A demand to wait, made to one call, is kept to by the calls next to it."""
    bench = Bench(A, rpc=filled(20), keys_per_request=1, max_in_flight=4)
    bench.rpc.turns = 2
    bench.fault(A, fake.status(429, retry_after="30"))
    bench.read(*range(20))
    starts = [call.at for call in bench.rpc.calls if call.method == "getLedgerEntries"]
    early = [start for start in starts if start < starts[0] + 30]

    assert 21 == len(starts)
    assert 4 >= len(early)


def test_requests_that_wait_for_the_rate_learn_of_a_hold() -> None:
    """A request that has its place in the rate already is not sent when the endpoint demands a wait meanwhile."""
    bench = Bench(A, rpc=filled(4), keys_per_request=1, max_in_flight=4, requests_per_second=1)
    bench.fault(A, fake.status(429, retry_after="30"))
    bench.read(*range(4))
    starts = [call.at for call in bench.rpc.calls if call.method == "getLedgerEntries"]

    assert 5 == len(starts)
    assert 1 == len([start for start in starts if start < starts[0] + 30])


def test_another_endpoint_is_asked_meanwhile() -> None:
    """An endpoint that demands a wait is not waited for where another can answer."""
    bench = Bench(A, B, rpc=filled(2), keys_per_request=1, max_in_flight=1)
    bench.fault(A, fake.status(429, retry_after="30"))
    bench.read(0, 1)

    assert [A, B, B] == bench.rpc.asked("getLedgerEntries")
    assert 0.01 > max(bench.clock.slept)


def test_a_demand_that_is_too_long_is_not_waited_for() -> None:
    """A Retry-After above the maximum rules the endpoint out, and the error says so."""
    bench = Bench(A, B, attempts=2)
    bench.fault(A, fake.status(429, retry_after="3600"))
    bench.fault(B, *9 * [fake.status(500)])

    with pytest.raises(
        AllEndpointsFailedError,
        match=r"a.example: it demands a wait of 3600 s \(Retry-After\), more than the 60 s \(max_retry_after_s\) that",
    ):
        bench.run(lambda source: source.tip())
    assert [A, B, B] == bench.rpc.asked("getHealth")


@pytest.mark.parametrize(
    "fault",
    [
        fake.status(429),
        fake.status(429, retry_after="soon"),
        fake.rpc_error(429, "slow down"),
        fake.rpc_error(-32005, "limit"),
    ],
)
def test_too_many_requests_without_a_time_is_given_one(fault: fake.Fault) -> None:
    """A rate limit that does not say how long is given a growing time of our own."""
    bench = Bench(A, aside_base_s=3)
    bench.fault(A, fault, fault)
    bench.run(lambda source: source.tip())
    starts = [call.at for call in bench.rpc.calls if call.method == "getHealth"]

    assert [3, 6] == [pytest.approx(later - earlier, abs=0.01) for earlier, later in pairwise(starts)]


# Close times ---------------------------------------------------------------------------------------------------


LACKING = (fake.unaltered, fake.unaltered)
"""getHealth and getEvents of a server that does not state the close time there."""


def with_close_time(value: object) -> fake.Fault:
    return fake.altered(lambda right: right["result"]["ledgers"][0].update(ledgerCloseTime=value))


@pytest.mark.parametrize("value", [1_800_000_500, "1800000500"])
def test_a_close_time_is_a_number_or_a_string(value: object) -> None:
    """The close time is taken from the JSON field, whichever type it has; one ledger is asked for."""
    bench = Bench()
    bench.fault(A, *LACKING, with_close_time(value))

    assert 1_800_000_500 == bench.run(lambda source: source.close_time(500))
    assert {"startLedger": 500, "pagination": {"limit": 1}} == bench.rpc.calls[-1].params


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x",
        "-5",
        "0",
        0,
        -5,
        1.5,
        True,
        None,
        "1_800_000_500",
        " 1800000500",
        "1e9",
        253_370_764_800,  # the year 9999
        10**12,
        "9" * 40,
        10**400,
        "2027-01-15T08:00:00Z",
        "١٨٠٠٠٠٠٥٠٠",
    ],
)
def test_an_invalid_close_time_is_unusable(value: object) -> None:
    """Anything but unix seconds in digits is asked for elsewhere."""
    bench = Bench(A, B)
    bench.fault(A, *LACKING, with_close_time(value))

    assert CLOSE_TIME + 500 == bench.run(lambda source: source.close_time(500))
    assert [A, B] == bench.rpc.asked("getLedgers")


def test_a_close_time_of_another_ledger_is_unusable() -> None:
    """The answer must be for the ledger that was asked for."""
    bench = Bench(A, B)
    bench.fault(A, *LACKING, fake.altered(lambda right: right["result"]["ledgers"][0].update(sequence=501)))
    bench.fault(B, fake.altered(lambda right: right["result"].update(ledgers=[])))

    assert CLOSE_TIME + 500 == bench.run(lambda source: source.close_time(500))
    assert {A: {"unusable answer": 1}, B: {"unusable answer": 1}} == bench.source.counters.errors


def test_a_ledger_that_an_endpoint_has_not_reached_is_asked_for_elsewhere() -> None:
    """A lagging endpoint is passed over for this call, and not put aside for others."""
    bench = Bench(A, B)
    bench.rpc.ledgers[A] = 990

    async def ask(source: RpcSource) -> tuple[int, int]:
        return await source.close_time(995), await source.tip()

    assert (CLOSE_TIME + 995, 990) == bench.run(ask)


def test_a_ledger_that_nobody_has_reached_is_waited_for() -> None:
    """Where all lag the client waits for about half a ledger each time, and asks again."""
    bench = Bench(A)
    bench.rpc.ledgers[A] = 499

    def advance(_call: fake.Call, right: dict[str, Any]) -> httpx.Response:
        bench.rpc.ledgers[A] = 500
        return fake.ok(right)

    bench.fault(A, *LACKING, fake.unaltered, fake.unaltered, advance)

    assert CLOSE_TIME + 500 == bench.run(lambda source: source.close_time(500))
    assert [3, 3, 3] == [pause for pause in bench.clock.slept if pause > 0.01]


def test_a_ledger_that_is_gone_is_not_waited_for() -> None:
    """A ledger older than what the endpoints keep does not come back: it fails at once, in their words."""
    bench = Bench(A, B)

    with pytest.raises(AllEndpointsFailedError, match=r"getLedgers for ledger 5: .*start ledger \(5\) must be betw"):
        bench.run(lambda source: source.close_time(5))
    assert [A, B] == bench.rpc.asked("getLedgers")


STATED = CLOSE_TIME + 7


def stating(method: str, **fields: object) -> FakeRpc:
    """A server that adds fields to its answers of a method."""

    class Stating(FakeRpc):
        def answer(self, call: fake.Call) -> dict[str, Any]:
            right = super().answer(call)
            return fake.result(**right["result"] | fields) if call.method == method else right

    return Stating()


EVENT = {
    "ledger": LEDGER - 1,
    "contractId": CONTRACT,
    "topic": [],
    "value": "",
    "ledgerClosedAt": "2027-01-15T08:00:07Z",
}


@pytest.mark.parametrize(
    ("rpc", "ledger", "methods"),
    [
        (stating("getHealth", latestLedgerCloseTime=str(STATED)), LEDGER, ["getHealth"]),
        (stating("getHealth", latestLedgerCloseTime=STATED), LEDGER, ["getHealth"]),
        (stating("getEvents", latestLedgerCloseTime=str(STATED)), LEDGER, ["getHealth", "getEvents"]),
        (stating("getEvents", events=[EVENT]), LEDGER - 1, ["getHealth", "getEvents"]),
        (
            stating("getEvents", events=[EVENT | {"ledgerClosedAt": "2027-01-15T08:00:07.942Z"}]),
            LEDGER - 1,
            ["getHealth", "getEvents"],
        ),
    ],
)
def test_a_close_time_costs_no_whole_ledger(rpc: FakeRpc, ledger: int, methods: list[str]) -> None:
    """The close time is taken from getHealth or getEvents, as text or number, where they state it for that ledger."""
    bench = Bench(rpc=rpc)

    assert STATED == bench.run(lambda source: source.close_time(ledger))
    assert methods == [call.method for call in bench.rpc.calls if call.method != "getNetwork"]


@pytest.mark.parametrize(
    ("rpc", "ledger"),
    [
        (stating("getHealth", latestLedgerCloseTime=str(STATED)), LEDGER - 1),  # of the newest, which is another one
        (stating("getEvents", latestLedgerCloseTime=str(STATED)), LEDGER - 1),
        (stating("getEvents", events=[EVENT]), LEDGER - 2),
        (stating("getEvents", events=[EVENT | {"ledgerClosedAt": "2027-02-30T08:00:07Z"}]), LEDGER - 1),
        (stating("getHealth", latestLedgerCloseTime="yesterday"), LEDGER),
        (stating("getHealth", latestLedgerCloseTime=253_370_764_800), LEDGER),  # the year 9999
        (stating("getHealth", latestLedger="none"), LEDGER),
    ],
)
def test_a_close_time_that_is_not_of_the_ledger_is_not_taken(rpc: FakeRpc, ledger: int) -> None:
    """What states nothing usable for this very ledger is not a failure: getLedgers is asked."""
    bench = Bench(rpc=rpc)

    assert CLOSE_TIME + ledger == bench.run(lambda source: source.close_time(ledger))
    methods = [call.method for call in bench.rpc.calls if call.method != "getNetwork"]
    assert ["getHealth", "getEvents", "getLedgers"] == methods
    assert {} == bench.source.counters.errors


def test_a_close_time_that_the_events_of_a_run_stated_costs_nothing() -> None:
    """A page of events states that of the newest ledger, and so does a second question: no request is sent for it."""
    bench = Bench(rpc=stating("getEvents", latestLedgerCloseTime=str(STATED)))

    async def ask(source: RpcSource) -> list[int]:
        await source.read_events([EventFilter((CONTRACT,), ("new",))], LEDGER)
        return [await source.close_time(LEDGER), await source.close_time(LEDGER)]

    assert [STATED, STATED] == bench.run(ask)
    assert ["getEvents"] == [call.method for call in bench.rpc.calls if call.method != "getNetwork"]


# Simulation ----------------------------------------------------------------------------------------------------


def test_a_simulated_call_gives_its_result_and_footprint() -> None:
    """The result is the returned ScVal's XDR, the footprint the keys it read, at the ledger it ran at."""
    bench = Bench(rpc=filled(3))
    answer = bench.run(lambda source: source.simulate(CALL))

    assert SimulationAnswer(LEDGER, b"\0\0\0\3\0\0\0\x2a", None, tuple(bench.rpc.entries), A) == answer
    assert ["transaction"] == list(bench.rpc.calls[-1].params)


def test_a_call_that_the_contract_fails_is_an_answer() -> None:
    """A host error is text in the answer, in one bounded line, and is not retried."""
    bench = Bench(A, B)
    words = "HostError: Error(Contract, #3)\n\nEvent log (newest first):\n" + "x" * 5_000
    bench.fault(A, fake.altered(lambda right: right.update(result={"latestLedger": 7, "error": words})))
    answer = bench.run(lambda source: source.simulate(CALL))

    assert (7, None, (), A) == (answer.ledger, answer.result, answer.footprint, answer.endpoint)
    assert answer.error is not None
    assert answer.error.startswith("HostError: Error(Contract, #3) Event log (newest first): xxx")
    assert 300 == len(answer.error)


@pytest.mark.parametrize(
    "change",
    [
        {"results": []},
        {"results": None},
        {"results": [{"xdr": "AAAAAQ=="}, {"xdr": "AAAAAQ=="}]},
        {"results": [{"xdr": "AAAAAQ"}]},
        {"results": [{"xdr": ""}]},
        {"results": [{"xdr": "AAA="}]},
        {"results": [{}]},
        {"transactionData": None},
        {"transactionData": "AAAA"},
        {"transactionData": fake.b64(fake.transaction_data(key(1))[:-4])},
        {"latestLedger": 0},
        {"error": 5},
        {"error": "", "results": None},
    ],
)
def test_a_broken_simulation_is_unusable(change: dict[str, Any]) -> None:
    """A simulation that is neither a whole result nor an error is asked for elsewhere."""
    bench = Bench(A, B, rpc=filled(1))
    bench.fault(A, fake.altered(lambda right: right["result"].update(change)))

    assert B == bench.run(lambda source: source.simulate(CALL)).endpoint


def test_a_full_queue_is_a_matter_of_transport() -> None:
    """A JSON-RPC error of a simulation is retried elsewhere, and in the end it is a failure of the source."""
    queue = fake.rpc_error(-32098, "rpc queue for simulateTransaction surpassed queue limit of 100 requests")
    bench = Bench(A, B, attempts=2)
    bench.fault(A, *2 * [queue])
    bench.fault(B, *2 * [queue])

    with pytest.raises(
        AllEndpointsFailedError, match=f"^no usable answer to simulateTransaction of decimals of {CONTRACT}: "
    ):
        bench.run(lambda source: source.simulate(CALL))
    assert [A, B, A, B] == bench.rpc.asked("simulateTransaction")


def test_a_simulation_that_is_too_large_is_refused_unsent() -> None:
    """Arguments that do not fit into a request are refused, naming the call."""
    bench = Bench(max_request_bytes=2_000)
    call = ContractCall(CONTRACT, "f", ((13, bytes(3_000)),))

    with pytest.raises(RequestRefusedError, match=f"simulateTransaction of f of {CONTRACT}: the request is larger"):
        bench.run(lambda source: source.simulate(call))
    assert [] == bench.rpc.calls


# The report ----------------------------------------------------------------------------------------------------


def test_counters_say_what_was_done() -> None:
    """The report has requests by method, keys, retries, errors by endpoint and kind, and bytes in both directions."""
    bench = Bench(A, B, rpc=filled(3), max_in_flight=1)
    bench.fault(A, fake.status(503))
    bench.fault(B, fake.rpc_error(-32603, "not ready"))

    async def ask(source: RpcSource) -> None:
        await source.read_entries([key(number) for number in range(3)])
        await source.tip()

    bench.run(ask)
    report = bench.source.counters.as_dict()
    sent = sum(len(call.request.content) for call in bench.rpc.calls)

    assert {"getHealth": 1, "getLedgerEntries": 3, "getNetwork": 2} == report["requests"]
    assert 6 == len(bench.answered)
    assert {A: {"http 503": 1}, B: {"rpc -32603": 1}} == report["errors"]
    assert {A: 3, B: 1} == report["answers"]
    assert (9, 2, 0, sent) == (report["keys_asked"], report["retries"], report["splits"], report["bytes_sent"])
    assert 500 < report["bytes_received"]
    assert report == json.loads(json.dumps(report))
