"""A Stellar RPC, or several of them, as a `exporter.ledger.source.LedgerSource`.

A call of a method asks the endpoints in turn, the best first, until one gives a usable answer. If none does, it waits
for a growing time and asks them again, except those whose failure lasts. At its bounds (`RpcLimits`) it ends with an
error that says what each endpoint answered. An endpoint that wants fewer requests is left alone for some time, and then
asked less often.

Before anything else, an endpoint is asked once which network it serves. Every answer states its ledger, so endpoints
may be mixed.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import ClassVar, Final, Generic, Protocol, Self, TypeVar

import httpx
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from exporter.errors import AllEndpointsFailedError, ConfigError, NetworkMismatchError
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.ledger_header import LATEST_PROTOCOL, later_protocol
from exporter.ledger.events import EventFilter, EventsPage, OutOfRange
from exporter.ledger.rpc import wire
from exporter.ledger.rpc.endpoints import (
    AttemptError,
    Endpoint,
    Failure,
    RpcHeaders,
    RpcLimits,
    Timing,
    http_client,
    parse_endpoints,
    post,
)
from exporter.ledger.rpc.redaction import Redactor, quiet_http_loggers
from exporter.ledger.source import ContractCall, EntriesAnswer, SimulationAnswer

R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MAX_CALLS_PER_REQUEST: Final = 10
"""The most calls in one JSON-RPC batch. A server works on as many of them at once as it has processors."""

_ANY_KEY: Final = instance_key(strkey.encode_contract(bytes(32)))
_ADVICE: Final = (
    "Check rpc_urls and the network; if the endpoints are overloaded, lower max_in_flight or requests_per_second, "
    "or add another URL to rpc_urls"
)


class RpcCounters(Struct):
    """Counts of the HTTP requests since the client was made."""

    requests: Counter[str] = field(default_factory=Counter)  # by method
    answers: Counter[str] = field(default_factory=Counter)  # usable ones, by endpoint
    errors: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # endpoint -> name
    keys_asked: int = 0  # in getLedgerEntries; a key that is asked for again counts again
    retries: int = 0  # requests that repeat a failed one, at the same endpoint or at another
    bytes_sent: int = 0  # request bodies
    bytes_received: int = 0  # whole answers, decompressed

    def as_dict(self) -> dict[str, object]:
        """The counts as plain values, for the run report."""
        plain: dict[str, object] = msgspec.to_builtins(self, order="deterministic")
        return plain


class Question(Struct, Generic[R, T], frozen=True):
    """A question to an endpoint.

    ``read`` makes a value from the decoded result and the endpoint that gave it, or raises `AttemptError`. ``subject``
    says in errors what the question was about. ``key_count`` is the number of ledger keys in it.
    """

    method: str
    params: Mapping[str, object] | None
    decoder: msgspec.json.Decoder[wire.Reply[R]]
    read: Callable[[R, Endpoint], T]
    subject: str
    key_count: int = 0
    call_count: ClassVar = 1

    def body(self, request_id: int) -> bytes:
        """The request. The id is one that no other request of the client has."""
        return wire.encode_request(request_id, self.method, self.params)

    def answer(self, body: bytes, request_id: int, endpoint: Endpoint) -> T:
        """The value in an answer. Raises `AttemptError`."""
        return self.read(wire.decode_reply(body, self.decoder, request_id), endpoint)


class _Request(Protocol[T_co]):
    """What one HTTP request asks: a `Question`, or several as a `_Batch`."""

    @property
    def method(self) -> str: ...

    @property
    def key_count(self) -> int: ...

    @property
    def call_count(self) -> int: ...

    def body(self, request_id: int) -> bytes: ...

    def answer(self, body: bytes, request_id: int, endpoint: Endpoint) -> T_co: ...


class _Batch(Struct, frozen=True):
    """Several simulations in one HTTP request, a JSON-RPC batch. Each is at a ledger of its own."""

    params: Sequence[Mapping[str, object]]
    read: Callable[[wire.SimulationResult, Endpoint], SimulationAnswer]
    method: ClassVar = "simulateTransaction"
    key_count: ClassVar = 0

    @property
    def call_count(self) -> int:
        return len(self.params)

    def body(self, request_id: int) -> bytes:
        return wire.encode_batch(self._ids(request_id), self.method, self.params)

    def answer(self, body: bytes, request_id: int, endpoint: Endpoint) -> list[SimulationAnswer | None]:
        """The answers in the order of the simulations. None for one that failed and may succeed alone.

        Raises `AttemptError` if none succeeded, or if the endpoint wants fewer requests.
        """
        answers: list[SimulationAnswer | None] = []
        failures: list[Failure] = []
        for reply in wire.decode_batch(body, wire.SIMULATIONS, self._ids(request_id)):
            try:
                answers.append(self.read(wire.result_of(reply), endpoint))
            except AttemptError as error:
                answers.append(None)
                failures.append(error.failure)
        for failure in failures:
            if failure.retry_after_s is not None or len(failures) == len(answers):
                raise AttemptError(failure)
        return answers

    def _ids(self, request_id: int) -> list[str]:
        return [f"{request_id}.{position}" for position in range(len(self.params))]


class _TooManyKeysError(Exception):
    """An endpoint takes fewer ledger keys in a request than the question has."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most


class _DeadlineError(Exception):
    """The time of a call is over, or would be after the next wait."""


class RpcSource:
    """Stellar RPC endpoints, the preferred ones first, with failover between them. It is an async context manager.

    Each method raises `AllEndpointsFailedError`, or `NetworkMismatchError` if an endpoint serves another network than
    that of the passphrase. ``counters`` and ``endpoints`` are for the run report. Neither they nor an error contain
    more of a URL than host and port, nor anything of a header. The constructor raises `ConfigError` if a URL, a header
    or the passphrase is not valid.
    """

    def __init__(
        self,
        rpc_urls: Sequence[str],
        passphrase: str,
        *,
        headers: RpcHeaders | None = None,
        limits: RpcLimits | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        timing: Timing | None = None,
        on_request: Callable[[], None] = lambda: None,
    ) -> None:
        if not passphrase:
            raise ConfigError("the passphrase is empty; give the network's passphrase")
        quiet_http_loggers()
        self._passphrase = passphrase
        self._limits, self._timing = limits or RpcLimits(), timing or Timing()
        self._endpoints = parse_endpoints(rpc_urls, headers)
        self.endpoints: tuple[str, ...] = tuple(endpoint.label for endpoint in self._endpoints)
        self.counters = RpcCounters()
        self.notices: list[str] = []
        """What people should know about the endpoints. Notices are added while the endpoints are asked."""
        values = (value for endpoint in self._endpoints for value in endpoint.headers.values())
        self._redactor = Redactor(rpc_urls, values)
        self._http = http_client(self._endpoints, self._limits, transport)
        self._on_request = on_request
        self._ids = count(1)
        # A call keeps its slot while it waits and retries. So it need not queue again behind a thousand others, and
        # an endpoint in trouble gets fewer requests.
        self._slots = asyncio.Semaphore(self._limits.max_in_flight)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def tip(self) -> int:
        (answer,) = await self._read_batch((_ANY_KEY,))
        return answer.ledger

    async def close_time(self, ledger: int) -> int:
        """The close time of a ledger, in unix seconds. If the ledger has not closed yet, it is asked for again.

        getLedgers answers with the whole ledger (1.3 to 1.9 MB on mainnet). So getEvents is asked first, because its
        answer states the close time, too, if the ledger is the newest or has an event.
        """
        window = {"startLedger": ledger, "endLedger": ledger + 1, "filters": [], "pagination": {"limit": 1}}
        by_events = Question(
            "getEvents",
            window,
            wire.EVENTS,
            lambda result, _: wire.stated_close_time(result, ledger),
            f"getEvents for ledger {ledger}",
        )
        with suppress(AllEndpointsFailedError):  # getLedgers will say what is wrong
            stated = await self._ask(by_events)
            if stated:
                return stated
        params = {"startLedger": ledger, "pagination": {"limit": 1}}
        subject = f"getLedgers for ledger {ledger}"
        return await self._ask(
            Question("getLedgers", params, wire.LEDGERS, lambda result, _: wire.close_time_of(result, ledger), subject)
        )

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        """Simulate one call at the newest ledger. If the contract fails, the answer has an ``error``."""
        params = {"transaction": wire.invocation_envelope(call)}
        subject = f"simulateTransaction of {call.function} of {call.contract}"
        question = Question("simulateTransaction", params, wire.SIMULATION, self._simulation, subject)
        return await self._ask(question)

    async def simulate_together(self, calls: Sequence[ContractCall]) -> list[SimulationAnswer]:
        """Simulate calls, several in an HTTP request as far as endpoints take JSON-RPC batches.

        A batch has at most `MAX_CALLS_PER_REQUEST`, and no more than may be asked in one second.
        """
        at_once = min(MAX_CALLS_PER_REQUEST, int(self._ordered()[0].rate(self._limits.requests_per_second)) or 1)
        starts = range(0, len(calls), at_once)
        answers = await asyncio.gather(*(self._simulate_part(calls[start : start + at_once]) for start in starts))
        return [answer for part in answers for answer in part]

    async def _simulate_part(self, calls: Sequence[ContractCall]) -> list[SimulationAnswer]:
        """Simulate calls as a batch, and those that it has no answer for alone."""
        answers = await self._simulate_batch(calls)
        unanswered = [call for call, answer in zip(calls, answers, strict=True) if answer is None]
        alone = iter(await asyncio.gather(*map(self.simulate, unanswered)))
        return [next(alone) if answer is None else answer for answer in answers]

    async def _simulate_batch(self, calls: Sequence[ContractCall]) -> Sequence[SimulationAnswer | None]:
        """Ask the best endpoint once, if it takes batches. None for each call without an answer."""
        unanswered = [None] * len(calls)
        endpoint = self._ordered()[0]
        if len(calls) == 1 or not endpoint.takes_batches:
            return unanswered
        batch = _Batch([{"transaction": wire.invocation_envelope(call)} for call in calls], self._simulation)
        async with self._slots:
            try:
                outcome = await self._exchange(endpoint, batch, self._timing.clock() + self._limits.total_deadline_s)
            except _DeadlineError:
                return unanswered
        return unanswered if outcome is None or isinstance(outcome, Failure) else outcome

    def _simulation(self, result: wire.SimulationResult, endpoint: Endpoint) -> SimulationAnswer:
        if result.error:
            error = self._redactor.clean(result.error) or "an error without words"
            return SimulationAnswer(result.latest_ledger, None, error, (), endpoint.label)
        value, footprint = wire.call_parts(result)
        return SimulationAnswer(result.latest_ledger, value, None, footprint, endpoint.label)

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        """Read all keys, each once, in their order. There is an answer for each request.

        A request has up to 200 keys, or as many as the present endpoint is known to take.
        """
        return await self._read_in_batches(tuple(dict.fromkeys(keys)), self._ordered()[0].most_keys)

    async def _read_in_batches(self, keys: tuple[bytes, ...], most: int) -> list[EntriesAnswer]:
        starts = range(0, len(keys), most)
        batches = await asyncio.gather(*(self._read_batch(keys[start : start + most]) for start in starts))
        return [answer for batch in batches for answer in batch]

    async def _read_batch(self, keys: tuple[bytes, ...]) -> list[EntriesAnswer]:
        asked = frozenset(keys)

        def read(result: wire.EntriesResult, endpoint: Endpoint) -> EntriesAnswer:
            return EntriesAnswer(result.latest_ledger, keys, wire.entries_of(result, asked), endpoint.label)

        subject = f"getLedgerEntries for {len(keys)} keys"
        question = Question("getLedgerEntries", {"keys": keys}, wire.ENTRIES, read, subject, len(keys))
        try:
            return [await self._ask(question)]
        except _TooManyKeysError as error:
            most = error.most
        return await self._read_in_batches(keys, most)  # each batch is smaller than this one, so this ends

    async def read_events(self, filters: Sequence[EventFilter], start: int | str) -> EventsPage | OutOfRange:
        """A page of events, from an endpoint that still keeps the ledger, if there is one."""
        subject = f"getEvents from {start if isinstance(start, int) else 'a cursor'}"
        question = Question(
            "getEvents",
            wire.events_params(filters, start),
            wire.EVENTS,
            lambda result, _: wire.events_page(result, start),
            subject,
        )
        try:
            return await self._ask(question)
        except AllEndpointsFailedError as error:
            ranges = [each for each in map(wire.range_in, error.answers) if each is not None]
            if not ranges:
                raise
        oldest, latest = min(low for low, _ in ranges), max(high for _, high in ranges)
        return OutOfRange(oldest, latest, certain=len(ranges) == len(self.endpoints))

    @property
    def rate_limits(self) -> str | None:
        """The endpoints that wanted fewer requests, and how often each is asked since then, in words.

        None if no endpoint did.
        """
        limited = [
            f"{each.label} wanted fewer requests, and is asked {each.most_per_second:.2g} times a second since"
            for each in self._endpoints
            if each.most_per_second < math.inf
        ]
        return "; ".join(limited) or None

    @property
    def failed_requests(self) -> str | None:
        """How often requests to each endpoint failed, and how, in words. None if none did."""
        failed = [
            f"{label} failed: {', '.join(f'{name} ({count}x)' for name, count in sorted(names.items()))}"
            for label, names in self.counters.errors.items()
        ]
        return "; ".join(failed) or None

    async def _ask(self, question: Question[R, T]) -> T:
        failures: dict[Endpoint, Failure] = {}  # the last failure of each endpoint, without secrets
        tries: Counter[Endpoint] = Counter()
        failed: Counter[Endpoint] = Counter()  # tries, except those to which the endpoint answered with a pause
        problem = ""
        async with self._slots:
            deadline = self._timing.clock() + self._limits.total_deadline_s
            try:
                while left := self._worth_asking(failures, failed, deadline):
                    if rounds := max(failed.values(), default=0):  # a random wait up to a growing time (full jitter)
                        longest = min(self._limits.backoff_max_s, self._limits.backoff_base_s * 2 ** (rounds - 1))
                        await self._pause(self._timing.random() * longest, deadline)
                    for endpoint in left:
                        if endpoint.most_keys < question.key_count:
                            raise _TooManyKeysError(endpoint.most_keys)
                        outcome = await self._exchange(endpoint, question, deadline)
                        if outcome is None:
                            continue
                        self.counters.retries += bool(failures)
                        tries[endpoint] += 1
                        if not isinstance(outcome, Failure):
                            endpoint.failing = False
                            return outcome
                        endpoint.failing |= outcome.blame
                        failed[endpoint] += outcome.retry_after_s is None
                        failures[endpoint] = replace(outcome, text=self._redactor.clean(outcome.text))
                        if endpoint.most_keys < question.key_count:
                            raise _TooManyKeysError(endpoint.most_keys)
            except _DeadlineError:
                problem = f" within {self._limits.total_deadline_s:g} s (total_deadline_s), waits included"
        answers = [
            f"{each.label}: not asked"
            if each not in failures
            else f"{each.label}: {failures[each].text}" + (f" ({tries[each]} tries)" if tries[each] > 1 else "")
            for each in self._endpoints
        ]
        raise AllEndpointsFailedError(
            f"no usable answer to {question.subject}{problem}: {'; '.join(answers)}. {_ADVICE}.", answers
        )

    def _worth_asking(
        self, failures: Mapping[Endpoint, Failure], failed: Mapping[Endpoint, int], deadline: float
    ) -> list[Endpoint]:
        """The endpoints that may still answer, in order. Raises `_DeadlineError` if all demand a longer wait."""
        able = [
            each
            for each in self._ordered()
            if failed.get(each, 0) < self._limits.attempts and not (each in failures and failures[each].lasting)
        ]
        in_time = [each for each in able if each.held_until <= deadline]
        if able and not in_time:
            raise _DeadlineError
        return in_time

    def _ordered(self) -> list[Endpoint]:
        """All endpoints in the order in which they are asked: good ones, then failing ones, then those on hold."""
        now = self._timing.clock()
        return sorted(self._endpoints, key=lambda each: (max(each.held_until, now), each.failing, each.position))

    async def _has_turn(self, endpoint: Endpoint, deadline: float, calls: int = 1) -> bool:
        """Wait until the endpoint may be asked, by its rate and its holds.

        Returns False if it has asked to be left alone in the meantime.
        """
        await self._pause(endpoint.reserve(self._timing.clock(), self._limits.requests_per_second, calls), deadline)
        return endpoint.held_until <= self._timing.clock()

    async def _pause(self, seconds: float, deadline: float) -> None:
        if self._timing.clock() + seconds > deadline:
            raise _DeadlineError
        if seconds > 0:
            await self._timing.sleep(seconds)

    async def _exchange(self, endpoint: Endpoint, question: _Request[T], deadline: float) -> T | Failure | None:
        """The outcome of asking an endpoint, after it is known to serve the network.

        None if the endpoint has asked to be left alone in the meantime.
        """
        check = endpoint.network_check
        if check is None:
            check = endpoint.network_check = asyncio.create_task(self._check_network(endpoint))
        failure = await asyncio.shield(check)  # other calls wait for the same check
        if failure is not None:
            if endpoint.network_check is check:
                endpoint.network_check = None
            return failure
        if not await self._has_turn(endpoint, deadline, question.call_count):
            return None
        return await self._send(endpoint, question, deadline)

    async def _check_network(self, endpoint: Endpoint) -> Failure | None:
        """Why an endpoint is not known to serve the network; None if it is. Raises `NetworkMismatchError`."""
        deadline = self._timing.clock() + self._limits.total_deadline_s
        try:
            while not await self._has_turn(endpoint, deadline):
                pass
        except _DeadlineError:  # it must not be the outcome of the task, because it would end later calls, too
            return Failure("timeout", "it was not to be asked in time (in getNetwork)")
        question = Question("getNetwork", None, wire.NETWORK, lambda result, _: result, "getNetwork")
        answer = await self._send(endpoint, question, deadline)
        if isinstance(answer, Failure):
            return replace(answer, text=f"{answer.text} (in getNetwork)")
        passphrase, protocol = answer.passphrase, answer.protocol_version
        if isinstance(protocol, int) and LATEST_PROTOCOL < protocol < 2**32:
            self.notices[:] = {*self.notices, later_protocol("the network", protocol)}
        if passphrase != self._passphrase:
            raise NetworkMismatchError(
                f"rpc_urls[{endpoint.position}] ({endpoint.label}) serves the network "
                f"{self._redactor.clean(passphrase)!r}, but the configured passphrase is {self._passphrase!r}: correct "
                "rpc_urls or the network"
            )
        return None

    async def _send(self, endpoint: Endpoint, question: _Request[T], deadline: float) -> T | Failure:
        request_id = next(self._ids)
        body = question.body(request_id)
        counters = self.counters
        counters.requests[question.method] += 1
        counters.keys_asked += question.key_count
        counters.bytes_sent += len(body)
        outcome: T | Failure
        asked_at = self._timing.clock()
        try:
            timeout_s = min(deadline - self._timing.clock(), self._limits.request_timeout_s)
            answer = await post(self._http, endpoint, body, timeout_s, self._limits)
            counters.bytes_received += len(answer)
            outcome = question.answer(answer, request_id, endpoint)
            counters.answers[endpoint.label] += 1
        except AttemptError as error:
            outcome = error.failure
            # A ledger that is not kept may close in a moment. Events of old ledgers, though, never come back.
            if question.method == "getLedgers" and outcome.code == wire.OUT_OF_RANGE:
                outcome = replace(outcome, lasting=False)
            counters.errors[endpoint.label][outcome.name] += 1
            if question.call_count > 1:  # whatever was wrong with it, the same calls are safe to ask alone
                endpoint.takes_batches = False
            if outcome.retry_after_s is not None:
                rate = self._limits.requests_per_second
                endpoint.hold(asked_at, self._timing.clock(), outcome.retry_after_s, rate)
            if outcome.most_keys is not None and outcome.most_keys < question.key_count:
                endpoint.most_keys = outcome.most_keys
        self._on_request()
        return outcome
