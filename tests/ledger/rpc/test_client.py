"""Tests of the RPC client as a ledger source: whom it asks for what, in which order, and how it takes the answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any, TypeVar

import httpx
import pytest

from exporter.errors import AllEndpointsFailedError, NetworkMismatchError
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

    def tip(self, times: int = 1) -> list[int]:
        async def ask(source: RpcSource) -> list[int]:
            return [await source.tip() for _ in range(times)]

        return self.run(ask)

    def read(self, *numbers: int) -> list[EntriesAnswer]:
        return self.run(lambda source: source.read_entries([key(number) for number in numbers]))

    def fault(self, host: str, *faults: fake.Fault) -> None:
        self.rpc.faults[host].extend(faults)

    def starts(self, method: str) -> list[float]:
        return [call.at for call in self.rpc.calls if call.method == method]


def filled(count: int) -> FakeRpc:
    return FakeRpc(entries={key(number): made_entry(number) for number in range(count)})


# The network ---------------------------------------------------------------------------------------------------


def test_another_network_is_a_fault_of_the_configuration() -> None:
    """A spare endpoint of another network fails every call that needs it, with its position and both passphrases."""
    bench = Bench(A, B, rpc=filled(1))
    bench.rpc.turns = 3
    bench.rpc.passphrases[B] = "Another\nNetwork"
    bench.fault(A, *8 * [fake.status(503)])

    async def ask(source: RpcSource) -> list[Any]:
        return await asyncio.gather(*(source.read_entries([key(0)]) for _ in range(8)), return_exceptions=True)

    outcomes = bench.run(ask)

    assert 8 * [NetworkMismatchError] == [type(outcome) for outcome in outcomes]
    assert (
        "rpc_urls[1] (b.example) serves the network 'Another Network', but the configured passphrase is "
        f"{PASSPHRASE!r}: correct rpc_urls or the network"
    ) == str(outcomes[0])
    assert B not in bench.rpc.asked("getLedgerEntries")


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


# Entries -------------------------------------------------------------------------------------------------------


def test_keys_are_deduplicated_and_cut_into_requests_of_200() -> None:
    """Every distinct key is asked once, at most 200 in a request, in the order given, never too many at once.

    The endpoint is asked for its network before, once; a spare one is asked nothing.
    """
    bench = Bench(A, B, rpc=filled(850), max_in_flight=2)
    bench.rpc.turns = 100
    numbers = range(849, -1, -1)
    answers = bench.read(*numbers, *range(100), 849)

    assert [200, 200, 200, 200, 50] == [len(answer.asked) for answer in answers]
    assert [key(number) for number in numbers] == [name for answer in answers for name in answer.asked]
    assert bench.rpc.entries == {name: raw for answer in answers for name, raw in answer.entries.items()}
    assert {(LEDGER, A)} == {(answer.ledger, answer.endpoint) for answer in answers}
    firsts = [call.params["keys"][0] for call in bench.rpc.calls if call.method == "getLedgerEntries"]
    assert [fake.b64(answer.asked[0]) for answer in answers] == firsts
    assert 2 == bench.rpc.most_in_flight
    assert ["getNetwork"] + 5 * ["getLedgerEntries"] == [call.method for call in bench.rpc.calls]


@pytest.mark.parametrize(
    "more",
    [
        fake.entry(key(5), made_entry(5)),  # was not asked for
        fake.entry(key(0), made_entry(0)),  # is there already
        fake.entry(key(1), made_entry(1, LEDGER + 1)),  # changed after the ledger of the answer
        fake.entry(key(1), made_entry(1)) | {"xdr": "AAA="},
    ],
)
def test_entries_that_contradict_themselves_are_unusable(more: dict[str, Any]) -> None:
    """Entries that contradict themselves are asked for elsewhere."""
    bench = Bench(A, B, rpc=filled(1))
    bench.fault(A, fake.altered(lambda right: right["result"]["entries"].append(more)))
    (answer,) = bench.read(0, 1)

    assert (B, {key(0): made_entry(0)}) == (answer.endpoint, answer.entries)


# Failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        fake.rpc_error(-32602, "cannot unmarshal key value AAAA at index 1"),
        fake.rpc_error(-32600, "invalid request"),
        fake.status(401),
        fake.raising(httpx.UnsupportedProtocol("x")),
    ],
)
def test_a_refusal_is_not_repeated(fault: fake.Fault) -> None:
    """An endpoint is asked once for what it does not accept; then others are, and the error names both."""
    bench = Bench(A, B)
    bench.fault(A, fault)
    bench.fault(B, fake.status(500), fault)

    with pytest.raises(AllEndpointsFailedError, match=r"^no usable answer to getLedgerEntries for 2 keys: a.example: "):
        bench.read(0, 1)
    assert [A, B, B] == bench.rpc.asked("getLedgerEntries")


@pytest.mark.parametrize(
    ("fault", "asked"),
    [(fake.rpc_error(-32602, "no"), [A, B, A]), (fake.status(503, retry_after="30"), [A, B, B])],
)
def test_another_endpoint_is_asked_meanwhile(fault: fake.Fault, asked: list[str]) -> None:
    """After a refusal the next question goes to the preferred one again; nobody waits for a demanded wait."""
    bench = Bench(A, B)
    bench.fault(A, fault)
    bench.tip(2)

    assert asked == bench.rpc.asked("getLedgerEntries")
    assert 0.01 > max(bench.clock.slept, default=0)


def test_endless_failure_is_bounded_and_reported_by_endpoint() -> None:
    """If all endpoints fail, each is tried as often as allowed; the error lists each and says what to do."""
    bench = Bench(A, B, C, attempts=3)
    bench.fault(A, *50 * [fake.raising(httpx.ConnectError("x"))])
    bench.fault(B, *50 * [fake.rpc_error(-32603, "latency (40s) since last known ledger closed is too high (>30s)")])
    bench.fault(C, *50 * [fake.status(401)])

    with pytest.raises(AllEndpointsFailedError) as caught:
        bench.tip()
    assert (
        "no usable answer to getLedgerEntries for 1 keys: "
        "a.example: cannot connect (name, address, port, TLS certificate or proxy) (ConnectError) (3 tries); "
        "b.example: error -32603: latency (40s) since last known ledger closed is too high (>30s) (3 tries); "
        "c.example: HTTP 401: it wants a key, or another one: check rpc_urls. "
        "Check rpc_urls and the network; if the endpoints are overloaded, lower max_in_flight or "
        "requests_per_second, or add another URL to rpc_urls."
    ) == str(caught.value)
    assert Counter({A: 3, B: 3, C: 1}) == Counter(bench.rpc.asked("getLedgerEntries"))


def test_the_endpoint_that_works_stays_in_use() -> None:
    """One that failed is asked last until it answers again; then it is as good as any other."""
    bench = Bench(A, B, C, backoff_base_s=0)
    bench.fault(A, fake.status(500), fake.unaltered, fake.unaltered, fake.status(500))
    bench.fault(B, fake.unaltered, fake.unaltered, fake.status(500))
    bench.fault(C, fake.unaltered, fake.status(500))

    bench.tip(7)

    assert [A, B, B, B, C, C, A, A, A, B, B] == bench.rpc.asked("getLedgerEntries")


def test_waits_grow_with_full_jitter_up_to_their_maximum() -> None:
    """Between rounds the client waits a random part of a time that doubles, up to a maximum."""
    bench = Bench(A, attempts=6, backoff_base_s=1, backoff_max_s=6)
    bench.fault(A, *50 * [fake.status(500)])

    with pytest.raises(AllEndpointsFailedError):
        bench.tip()
    assert [0.5, 1, 2, 3, 3] == [pause for pause in bench.clock.slept if pause > 0.01]


@pytest.mark.parametrize(("request_s", "wait_s", "asked"), [(0, 10, 7), (12, 0, 3)])
def test_a_call_has_a_deadline(request_s: float, wait_s: float, asked: int) -> None:
    """A call ends at its deadline, however many tries are left; requests and waits both count."""

    def slow(_call: fake.Call, right: dict[str, Any]) -> httpx.Response:
        bench.clock.now += request_s
        return fake.raw(b"", 500)

    bench = Bench(A, attempts=20, total_deadline_s=30, backoff_base_s=wait_s, backoff_max_s=wait_s)
    bench.fault(A, *50 * [slow])
    started = bench.clock.now

    with pytest.raises(
        AllEndpointsFailedError,
        match=r"to getLedgerEntries for 1 keys within 30 s \(total_deadline_s\), waits included: a.exam",
    ):
        bench.tip()
    assert 30 + request_s >= bench.clock.now - started
    assert all(started + 30 >= call.at + call.request.extensions["timeout"]["read"] for call in bench.rpc.calls)
    assert asked == len(bench.rpc.asked("getLedgerEntries"))


def test_waiting_for_its_turn_costs_a_call_nothing() -> None:
    """The deadline of a batch begins with its first request, so a long queue at a slow rate is not a failure."""
    bench = Bench(rpc=filled(4_000), max_in_flight=2, requests_per_second=1, total_deadline_s=5)

    assert 20 == len(bench.read(*range(4_000)))


# Rates ---------------------------------------------------------------------------------------------------------


def test_retry_after_holds_for_all_calls() -> None:
    """An endpoint is left alone for as many seconds as it demands, by the calls next to the one that learns it too."""
    bench = Bench(A, rpc=filled(2_000), max_in_flight=4, requests_per_second=1)
    bench.fault(A, fake.status(429, retry_after="30"))
    bench.read(*range(2_000))
    starts = bench.starts("getLedgerEntries")

    assert 11 == len(starts)
    assert 30 == pytest.approx(starts[1] - starts[0], abs=0.01)


def test_a_demand_that_is_too_long_is_not_waited_for() -> None:
    """A Retry-After above the maximum rules the endpoint out, and the error says so; the next call asks it again."""
    bench = Bench(A)
    bench.fault(A, fake.status(429, retry_after="3600"))
    words = r"a.example: HTTP 429: .*it demands a wait of 3600 s \(Retry-After\), more than"

    async def ask(source: RpcSource) -> None:
        with pytest.raises(AllEndpointsFailedError, match=words):
            await source.tip()
        await source.tip()

    bench.run(ask)

    assert [A, A] == bench.rpc.asked("getLedgerEntries")


@pytest.mark.parametrize("fault", [fake.status(429, retry_after="soon"), fake.rpc_error(429, "slow down")])
def test_too_many_requests_without_a_time_is_given_one(fault: fake.Fault) -> None:
    """A rate limit that does not say how long is given a time of our own."""
    bench = Bench(A, backoff_base_s=0)
    bench.fault(A, fault, fault)
    bench.tip()
    starts = bench.starts("getLedgerEntries")

    assert [5, 5] == [pytest.approx(later - earlier, abs=0.01) for earlier, later in pairwise(starts)]


def limited(bench: Bench, host: str, per_second: float, *, retry_after: str | None = None) -> Counter[str]:
    """Let a host answer that many requests a second on the virtual clock, and the others with 429; count both."""
    counts, served = Counter[str](), [0.0]

    class Limited(FakeRpc):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            right = await FakeRpc.handle_async_request(self, request)
            if request.url.host != host or served[0] + 1 / per_second <= self.clock() + 1e-9:
                served[0] = self.clock()
                counts["answered"] += 1
                return right
            counts["refused"] += 1
            return fake.raw(b"", 429, **({} if retry_after is None else {"retry_after": retry_after}))

    bench.rpc.__class__ = Limited
    return counts


@pytest.mark.parametrize("retry_after", [None, "0", "1"])
@pytest.mark.parametrize("per_second", [2, *(pytest.param(rate, marks=pytest.mark.slow) for rate in (1, 0.5))])
def test_a_rate_limit_ends_nothing(per_second: float, retry_after: str | None) -> None:
    """However low a server's limit is, all calls are answered, at a rate near the limit and with few refusals."""
    bench = Bench(A, rpc=filled(12_000), max_in_flight=4, requests_per_second=8, total_deadline_s=300)
    counts = limited(bench, A, per_second, retry_after=retry_after)
    started = bench.clock.now

    assert 60 == len(bench.read(*range(12_000)))
    assert 61 == counts["answered"]
    assert 40 >= counts["refused"]
    assert 61 / per_second * 2 + 60 >= bench.clock.now - started


def test_a_hold_of_another_call_uses_no_attempt() -> None:
    """A call that was not sent, because another one learnt of a pause, has all its tries left; sent ones, too."""
    bench = Bench(A, rpc=filled(800), max_in_flight=4, attempts=1)
    bench.fault(A, *12 * [fake.status(429)])

    assert 4 == len(bench.read(*range(800)))
    assert 16 == len(bench.rpc.asked("getLedgerEntries"))


def test_endless_demands_to_wait_end_at_the_deadline() -> None:
    """A server that always wants fewer requests ends a call at its deadline, with the server's words."""
    bench = Bench(A, total_deadline_s=100)
    bench.fault(A, *500 * [fake.status(429)])
    started = bench.clock.now

    with pytest.raises(AllEndpointsFailedError, match=r"within 100 s .*HTTP 429: too many requests.* \(\d+ tries\)"):
        bench.tip()
    assert 100 >= bench.clock.now - started
    assert 22 >= len(bench.rpc.calls)


def test_a_long_demand_of_one_endpoint_costs_the_others_nothing() -> None:
    """One that is not to be asked before the deadline is left out; the tries at another one go on."""
    bench = Bench(A, B, total_deadline_s=40)
    bench.fault(A, fake.status(503, retry_after="60"))
    bench.fault(B, fake.status(500), fake.status(500))

    assert [LEDGER] == bench.tip()
    assert [A, B, B, B] == bench.rpc.asked("getLedgerEntries")


# Limits of keys ------------------------------------------------------------------------------------------------


def too_many(most: int, words: str = "key count ({count}) exceeds maximum supported ({most})") -> type[FakeRpc]:
    class FewKeys(FakeRpc):
        def answer(self, call: fake.Call) -> dict[str, Any]:
            count = len(call.params.get("keys", ()))
            if call.host == A and count > most:
                return fake.error(-32602, words.format(count=count, most=most))
            return FakeRpc.answer(self, call)

    return FewKeys


@pytest.mark.parametrize(
    "words",
    [
        "key count ({count}) exceeds maximum supported ({most})",
        "too many keys: {count} > {most}",
        "a request may have at most {most} ledger keys",
    ],
)
@pytest.mark.parametrize("most", [199, 100, 7])
def test_a_limit_of_keys_is_taken_from_the_error_once(most: int, words: str) -> None:
    """An endpoint that takes fewer keys is asked for fewer from its first refusal on; every key is read."""
    bench = Bench(A, B, rpc=filled(450), max_in_flight=1)
    bench.rpc.__class__ = too_many(most, words)
    answers = [*bench.read(*range(450))]

    assert [key(number) for number in range(450)] == [name for answer in answers for name in answer.asked]
    assert bench.rpc.entries == {name: raw for answer in answers for name, raw in answer.entries.items()}
    counts = [len(call.params["keys"]) for call in bench.rpc.calls if call.method == "getLedgerEntries"]
    assert [200] == [count for count in counts if count > most]
    assert [A] * len(counts) == bench.rpc.asked("getLedgerEntries")


def test_a_limit_of_keys_of_a_spare_endpoint() -> None:
    """A limit of keys binds only the batches that come to its endpoint."""
    bench = Bench(B, A, rpc=filled(600), max_in_flight=1)
    bench.rpc.__class__ = too_many(100)
    bench.fault(B, fake.unaltered, fake.status(500))

    assert 600 == sum(len(answer.asked) for answer in bench.read(*range(600)))
    assert {(B, 200), (A, 200), (A, 100)} == {
        (call.host, len(call.params["keys"])) for call in bench.rpc.calls if call.method == "getLedgerEntries"
    }


@pytest.mark.parametrize("words", ["cannot unmarshal key value AAAA at index 1", "maximum 200 keys", "limit of 0 keys"])
def test_other_refusals_are_no_limit_of_keys(words: str) -> None:
    """A message that does not name fewer keys than were sent stays a refusal."""
    bench = Bench(A, rpc=filled(200))
    bench.fault(A, *9 * [fake.rpc_error(-32602, words)])

    with pytest.raises(AllEndpointsFailedError):
        bench.read(*range(200))
    assert [A] == bench.rpc.asked("getLedgerEntries")


# Close times ---------------------------------------------------------------------------------------------------


NO_TIMES = [0, -5, 1.5, True, None, 10**400, 253_370_764_800]  # the last is in the year 9999
NO_DIGITS = ["", "-5", "0", " 1800000500", "1e9", "9" * 40, "١٨٠٠٠٠٠٥٠٠"]
RIGHT: dict[str, Any] = {"sequence": 500, "ledgerCloseTime": 1_800_000_700}


@pytest.mark.parametrize(
    ("ledgers", "expected"),
    [([RIGHT | {"ledgerCloseTime": value}], 1_800_000_700) for value in (1_800_000_700, "1800000700")]
    + [([RIGHT | {"ledgerCloseTime": value}], None) for value in (*NO_TIMES, *NO_DIGITS)]
    + [([], None), ([RIGHT | {"sequence": 501}], None)],
)
def test_a_close_time_is_in_unix_seconds(ledgers: list[dict[str, Any]], expected: int | None) -> None:
    """A close time is a number or digits, before the year 9999, of the ledger asked for; others are asked elsewhere."""
    bench = Bench(A, B)
    bench.fault(A, fake.unaltered, fake.altered(lambda right: right["result"].update(ledgers=ledgers)))

    assert (expected or CLOSE_TIME + 500) == bench.run(lambda source: source.close_time(500))
    assert ([A] if expected else [A, B]) == bench.rpc.asked("getLedgers")
    assert {"startLedger": 500, "pagination": {"limit": 1}} == bench.rpc.calls[-1].params


def test_a_ledger_that_nobody_has_reached_is_waited_for() -> None:
    """If all endpoints lag, the client waits and asks again; if a ledger is gone, it ends with the endpoint's words."""
    bench = Bench(A)
    bench.rpc.ledgers[A] = 499

    def advance(_call: fake.Call, right: dict[str, Any]) -> httpx.Response:
        bench.rpc.ledgers[A] = 500
        return fake.ok(right)

    bench.fault(A, fake.unaltered, fake.unaltered, fake.unaltered, advance)

    assert CLOSE_TIME + 500 == bench.run(lambda source: source.close_time(500))
    with pytest.raises(AllEndpointsFailedError, match=r"getLedgers for ledger 5: .*start ledger \(5\) must be betw"):
        Bench(A).run(lambda source: source.close_time(5))


STATED = CLOSE_TIME + 7
EVENT = {
    "ledger": LEDGER - 1,
    "contractId": CONTRACT,
    "topic": [],
    "value": "",
    "ledgerClosedAt": "2027-01-15T08:00:07.942Z",
}


@pytest.mark.parametrize(
    ("stated", "ledger", "expected"),
    [
        ({"latestLedgerCloseTime": str(STATED)}, LEDGER, STATED),
        ({"latestLedgerCloseTime": STATED}, LEDGER, STATED),
        ({"events": [EVENT]}, LEDGER - 1, STATED),
        ({"latestLedgerCloseTime": str(STATED)}, LEDGER - 1, None),  # of the newest, which is another one
        ({"events": [EVENT]}, LEDGER - 2, None),
        ({"latestLedgerCloseTime": 253_370_764_800}, LEDGER, None),  # the year 9999
    ],
)
def test_a_close_time_costs_no_whole_ledger_where_events_state_it(
    stated: dict[str, Any], ledger: int, expected: int | None
) -> None:
    """If an answer does not state the close time of this very ledger, getLedgers is asked."""
    bench = Bench()
    bench.fault(A, fake.altered(lambda right: right["result"].update(stated)))

    assert (expected or CLOSE_TIME + ledger) == bench.run(lambda source: source.close_time(ledger))
    methods = [call.method for call in bench.rpc.calls if call.method != "getNetwork"]
    assert ["getEvents", "getLedgers"][: 1 if expected else 2] == methods
    assert {} == bench.source.counters.errors


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
        {"results": [{"xdr": "AAAAAQ=="}, {"xdr": "AAAAAQ=="}]},
        {"results": [{"xdr": ""}]},
        {"results": [{"xdr": "AAA="}]},
        {"transactionData": "AAAA"},
        {"transactionData": fake.b64(fake.transaction_data(key(1))[:-4])},
        {"error": "", "results": None},
    ],
)
def test_a_broken_simulation_is_unusable(change: dict[str, Any]) -> None:
    """A simulation that is neither a whole result nor an error is asked for elsewhere."""
    bench = Bench(A, B, rpc=filled(1))
    bench.fault(A, fake.altered(lambda right: right["result"].update(change)))

    assert B == bench.run(lambda source: source.simulate(CALL)).endpoint


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

    assert {"getLedgerEntries": 4, "getNetwork": 2} == report["requests"]
    assert 6 == len(bench.answered)
    assert {A: {"http 503": 1}, B: {"rpc -32603": 1}} == report["errors"]
    assert {A: 3, B: 1} == report["answers"]
    assert (10, 2, sent) == (report["keys_asked"], report["retries"], report["bytes_sent"])
    assert 500 < bench.source.counters.bytes_received
    assert report == json.loads(json.dumps(report))


def test_a_rate_limit_that_was_met_is_named() -> None:
    """`rate_limits` names an endpoint that wanted fewer requests, with the rate that is left; None without one."""
    bench = Bench(A, requests_per_second=8)
    assert bench.source.rate_limits is None
    bench.fault(A, fake.status(429))
    bench.tip()

    assert f"{A} wanted fewer requests, and is asked 5.6 times a second since" == bench.source.rate_limits
