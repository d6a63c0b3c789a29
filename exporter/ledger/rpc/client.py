"""A Stellar RPC, or several, as a `exporter.ledger.source.LedgerSource`.

One call of a method tries endpoints in turn until one gives a usable answer, or the bounds are reached:

    choose an endpoint -> keep to its rate -> post -> its network was checked -> decode
          ^                                                                       |
          +--------------------- wait, as `classify` says <------- failure -------+

What network an endpoint serves is asked once, along with the first question, and nothing is believed before.

Every answer states the ledger it is of, so endpoints may be mixed. What can fail, and what is done about it, is in
`failures`. The bounds are those of `RpcLimits`: tries at each endpoint, HTTP requests in a call, the time of a request
and of a call.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import httpx
import msgspec

from exporter.errors import (
    AllEndpointsFailedError,
    ConfigError,
    ExporterError,
    NetworkMismatchError,
    RequestRefusedError,
)
from exporter.ledger.events import EventFilter, EventsPage, OutOfRange
from exporter.ledger.rpc import wire
from exporter.ledger.rpc.endpoints import (
    Endpoint,
    EndpointPool,
    RpcLimits,
    Timing,
    parse_endpoints,
)
from exporter.ledger.rpc.failures import (
    RATE_LIMITS,
    Action,
    AttemptError,
    Failure,
    FailureKind,
    classify,
    part_size,
    rule_for,
    stated_maximum,
)
from exporter.ledger.rpc.http import HttpPoster
from exporter.ledger.rpc.redaction import Redactor, quiet_http_loggers
from exporter.ledger.rpc.wire import invocation_envelope
from exporter.ledger.source import ContractCall, EntriesAnswer, SimulationAnswer

T = TypeVar("T")

_ENVELOPE_BYTES: Final = 256  # of a request body around its keys or its transaction, generously
_SHOWN_KEY_LENGTH: Final = 200  # characters of a key in an error; a contract-data key has about 150

_ADVICE: Final = (
    "Check rpc_urls and the network; if the endpoints are overloaded, lower max_in_flight or requests_per_second, "
    "or add another URL to rpc_urls"
)


@dataclass(slots=True)
class RpcCounters:
    """Counts since the client was made. All are of HTTP requests unless said otherwise.

    ``retries`` are requests that repeat one that failed, at the same or another endpoint, ``splits`` how often a
    batch of keys was cut after a failure, ``keys_asked`` the keys of all getLedgerEntries requests (a key that is
    asked for again counts again).
    """

    requests: Counter[str] = field(default_factory=Counter)  # by method
    answers: Counter[str] = field(default_factory=Counter)  # usable ones, by endpoint
    errors: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # endpoint -> name
    keys_asked: int = 0
    retries: int = 0
    splits: int = 0
    bytes_sent: int = 0  # request bodies
    bytes_received: int = 0  # answers, decompressed

    def received(self, size: int) -> None:
        self.bytes_received += size

    def as_dict(self) -> dict[str, Any]:
        """The counters as plain values in a fixed order, for a report."""
        return {
            "requests": dict(sorted(self.requests.items())),
            "answers": dict(sorted(self.answers.items())),
            "errors": {label: dict(sorted(names.items())) for label, names in sorted(self.errors.items())},
            "keys_asked": self.keys_asked,
            "retries": self.retries,
            "splits": self.splits,
            "bytes_sent": self.bytes_sent,
            "bytes_received": self.bytes_received,
        }


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """A question. ``decode`` turns an answer's body, with the request's id and who gave it, into a value.

    It raises `AttemptError` for an invalid answer. ``subject`` says in an error what the question was about;
    ``keys`` is the number of ledger keys it names, if it does.
    """

    method: str
    params: Mapping[str, Any] | None
    decode: Callable[[bytes, int, Endpoint], T]
    subject: str
    keys: int = 0


@dataclass(frozen=True, slots=True)
class Split:
    """Instead of an answer: ask again in parts of at most ``size`` keys."""

    size: int


@dataclass(slots=True)
class Budget:
    """The budget of one call: until when (on the client's clock), and how many HTTP requests."""

    deadline: float
    requests: int


@dataclass(slots=True)
class _Progress:
    """The state of one question."""

    sent: int = 0  # requests, checks of the network not counted
    tries: Counter[Endpoint] = field(default_factory=Counter)  # that failed
    failures: dict[Endpoint, Failure] = field(default_factory=dict)  # the last of each, cleaned
    hopeless: set[Endpoint] = field(default_factory=set)  # for this question
    passed: set[Endpoint] = field(default_factory=set)  # tried in this round
    waits: list[tuple[float, float]] = field(default_factory=list)  # ranges demanded by the failures of this round
    rounds: int = 0


class _BudgetSpentError(Exception):
    """Says which bound was reached."""


class RpcCaller:
    """Asks questions of a pool of endpoints."""

    def __init__(
        self,
        pool: EndpointPool,
        passphrase: str,
        poster: HttpPoster,
        *,
        limits: RpcLimits,
        timing: Timing,
        redactor: Redactor,
        counters: RpcCounters,
        on_request: Callable[[], None],
    ) -> None:
        self._pool = pool
        self._passphrase = passphrase
        self._poster = poster
        self._limits = limits
        self._timing = timing
        self._redactor = redactor
        self._counters = counters
        self._on_request = on_request
        self._ids = count(1)

    def budget(self) -> Budget:
        """The bounds of a call that begins now."""
        return Budget(self._timing.clock() + self._limits.total_deadline_s, self._limits.requests_per_call)

    async def ask(self, question: Question[T], budget: Budget) -> T | Split:
        """The answer of the first endpoint that gives a usable one, or how to split the question.

        Raises `AllEndpointsFailedError`, `RequestRefusedError` and `NetworkMismatchError`.
        """
        progress = _Progress()
        while True:
            try:
                endpoint = await self._choose(progress, budget)
                if endpoint is None:
                    problem = ""
                    break
                if question.keys > endpoint.max_keys:
                    return Split(endpoint.max_keys)
                outcome = await self._exchange(endpoint, question, progress, budget)
                if outcome is None:
                    continue  # meanwhile the endpoint has asked to be left alone
                if not isinstance(outcome, Failure):
                    self._pool.succeeded(endpoint, self._timing.clock())
                    return outcome
                action = self._judge(endpoint, outcome, question, progress)
                if action is Action.SPLIT:
                    self._counters.splits += 1
                    size = part_size(outcome, question.keys)
                    if size == stated_maximum(outcome):
                        endpoint.max_keys = min(endpoint.max_keys, size)
                    return Split(size)
                if action is Action.GIVE_UP:
                    reason = progress.failures[endpoint]
                    raise RequestRefusedError(f"{endpoint.label} refuses {question.subject}: {reason}")
            except _BudgetSpentError as spent:
                problem = f" within {spent}"
                break
        raise AllEndpointsFailedError(self._report(question, progress, problem))

    async def _exchange(
        self, endpoint: Endpoint, question: Question[T], progress: _Progress, budget: Budget
    ) -> T | Failure | None:
        """The outcome of asking an endpoint that serves the network; None where it was not asked.

        With its very first check a question goes along, whose answer is dropped unless the check is passed.
        """
        if endpoint.network_checks:
            if (failure := await self._check_network(endpoint, budget)) is not None:
                return failure
            return await self._ask_once(endpoint, question, progress, budget)
        along = self._ask_once(endpoint, question, progress, budget)
        asking = asyncio.create_task(along)
        try:
            if (failure := await self._check_network(endpoint, budget)) is not None:
                return failure
            return await asking
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _ask_once(
        self, endpoint: Endpoint, question: Question[T], progress: _Progress, budget: Budget
    ) -> T | Failure | None:
        if not await self._wait_for_slot(endpoint, budget):
            return None
        self._counters.retries += progress.sent > 0
        progress.sent += 1
        return await self._send(endpoint, question, budget)

    async def _choose(self, progress: _Progress, budget: Budget) -> Endpoint | None:
        """The next endpoint to ask, after waiting where all have been asked; None when none is worth asking."""
        while True:
            now = self._timing.clock()
            for endpoint in self._pool.endpoints:
                if (demanded := endpoint.held_until - now) > self._limits.max_retry_after_s:
                    progress.hopeless.add(endpoint)
                    longest = f"{self._limits.max_retry_after_s:g} s (max_retry_after_s)"
                    text = (
                        f"it demands a wait of {demanded:.0f} s (Retry-After), more than the {longest} that are waited"
                    )
                    progress.failures[endpoint] = Failure(FailureKind.HTTP, text)
            left = [each for each in self._pool.ordered(now) if self._worth_asking(each, progress)]
            ready = [each for each in left if each.held_until <= now]
            fresh = [each for each in ready if each not in progress.passed]
            if fresh:
                return fresh[0]
            if not left:
                return None
            if ready:
                low, high = max(progress.waits, default=(0.0, 0.0))
                wait = low + self._timing.random() * (high - low)
            else:
                wait = min(each.held_until for each in left) - now
            await self._pause(wait, budget)
            progress.rounds += 1
            progress.passed.clear()
            progress.waits.clear()

    def _worth_asking(self, endpoint: Endpoint, progress: _Progress) -> bool:
        return endpoint not in progress.hopeless and progress.tries[endpoint] < self._limits.attempts

    async def _wait_for_slot(self, endpoint: Endpoint, budget: Budget) -> bool:
        await self._pause(endpoint.reserve(self._timing.clock(), self._limits.requests_per_second), budget)
        return endpoint.held_until <= self._timing.clock()

    async def _pause(self, seconds: float, budget: Budget) -> None:
        if seconds > self._remaining(budget):
            raise _BudgetSpentError(f"{self._limits.total_deadline_s:g} s (total_deadline_s), waits included")
        if seconds > 0:
            await self._timing.sleep(seconds)

    def _remaining(self, budget: Budget) -> float:
        """Seconds left; raises when there are none."""
        remaining = budget.deadline - self._timing.clock()
        if remaining <= 0:
            raise _BudgetSpentError(f"{self._limits.total_deadline_s:g} s (total_deadline_s), waits included")
        return remaining

    async def _send(self, endpoint: Endpoint, question: Question[T], budget: Budget) -> T | Failure:
        """One HTTP request and its answer; counted."""
        remaining = self._remaining(budget)
        if budget.requests <= 0:
            raise _BudgetSpentError(f"{self._limits.requests_per_call} requests (requests_per_call)")
        budget.requests -= 1
        request_id = next(self._ids)
        body = wire.encode_request(request_id, question.method, question.params)
        counters = self._counters
        counters.requests[question.method] += 1
        counters.keys_asked += question.keys
        counters.bytes_sent += len(body)
        outcome: T | Failure
        try:
            answer = await self._poster.post(endpoint, body, min(remaining, self._limits.request_timeout_s))
            outcome = question.decode(answer, request_id, endpoint)
        except AttemptError as error:
            outcome = replace(error.failure, method=question.method)
        if isinstance(outcome, Failure):
            counters.errors[endpoint.label][outcome.name] += 1
        else:
            counters.answers[endpoint.label] += 1
        self._on_request()
        return outcome

    async def _check_network(self, endpoint: Endpoint, budget: Budget) -> Failure | None:
        """Make sure, once, that an endpoint serves the configured network; calls that come meanwhile wait for it."""
        if endpoint.network_checked:
            return None
        checks_before = endpoint.network_checks
        try:
            async with asyncio.timeout(self._remaining(budget)):
                await endpoint.network_lock.acquire()
        except TimeoutError:
            return Failure(FailureKind.TIMEOUT, "timed out while its network was being checked")
        try:
            if endpoint.network_checks != checks_before:  # another call has just done it, or would fail again
                return endpoint.network_failure
            question = Question("getNetwork", None, _passphrase, "getNetwork")
            await self._wait_for_slot(endpoint, budget)
            outcome = await self._send(endpoint, question, budget)
            if not isinstance(outcome, Failure) and outcome != self._passphrase:
                theirs = self._redactor.clean(outcome)
                raise NetworkMismatchError(
                    f"rpc_urls[{endpoint.position}] ({endpoint.label}) serves the network {theirs!r}, but the "
                    f"configured passphrase is {self._passphrase!r}: correct rpc_urls or the network"
                )
            endpoint.network_checks += 1
            endpoint.network_failure = outcome if isinstance(outcome, Failure) else None
            endpoint.network_checked = endpoint.network_failure is None
            return endpoint.network_failure
        finally:
            endpoint.network_lock.release()

    def _judge(self, endpoint: Endpoint, failure: Failure, question: Question[T], progress: _Progress) -> Action:
        """The next step after a failure; notes what it shows about the endpoint."""
        now = self._timing.clock()
        rule = rule_for(failure)
        others = any(
            each is not endpoint and not progress.tries[each] and each not in progress.hopeless
            for each in self._pool.endpoints
        )
        keys = question.keys if failure.method == question.method else 0  # the check of the network names none
        action = classify(failure, keys, at_last=progress.tries[endpoint] > 0 and not others)
        progress.tries[endpoint] += 1
        progress.failures[endpoint] = replace(failure, text=self._redactor.clean(failure.text))
        endpoint.stale = endpoint.stale or rule.stale
        if rule.blame:
            aside = self._pool.failed(endpoint, now)
            if failure.code in RATE_LIMITS and failure.retry_after_s is None:
                endpoint.hold(now, min(aside, self._limits.max_retry_after_s))
        if failure.retry_after_s is not None:
            endpoint.hold(now, failure.retry_after_s)
        longest = min(self._limits.backoff_max_s, self._limits.backoff_base_s * 2**progress.rounds)
        progress.passed.add(endpoint)
        progress.waits.append(rule.wait_s or (0.0, longest))  # anything between them (full jitter)
        if rule.lasting:
            progress.hopeless.add(endpoint)
        return action

    def _report(self, question: Question[T], progress: _Progress, problem: str) -> str:
        lines = []
        for endpoint in self._pool.endpoints:
            failure = progress.failures.get(endpoint)
            if failure is None:
                lines.append(f"{endpoint.label}: not asked")
                continue
            tries = progress.tries[endpoint]
            often = f" ({tries} tries)" if tries > 1 else ""
            lines.append(f"{endpoint.label}: {failure}{often}")
        return f"no usable answer to {question.subject}{problem}: {'; '.join(lines)}. {_ADVICE}."


def _passphrase(body: bytes, request_id: int, _: Endpoint) -> str:
    return wire.decode_reply(body, wire.NETWORK, request_id).passphrase


class RpcSource:
    """Reads ledger entries, simulations and close times from Stellar RPC endpoints, with failover between them.

    Use it as an async context manager, within one event loop. ``counters`` and ``endpoints`` are for the run report;
    neither they nor any error holds anything of a URL but host and port.

    Args:
        rpc_urls: 1 to 16 URLs, the preferred ones first. https, or http to this machine.
        passphrase: of the network that each endpoint must serve; checked before anything that it says is used.
        limits: bounds on time, size, rate and tries.
        transport: what to send HTTP requests through instead of the network.
        timing: clock and chance; for tests.
        on_request: called after each HTTP request.

    Raises:
        ConfigError: a URL or the passphrase is not acceptable.
    """

    def __init__(
        self,
        rpc_urls: Sequence[str],
        passphrase: str,
        *,
        limits: RpcLimits | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        timing: Timing | None = None,
        on_request: Callable[[], None] = lambda: None,
    ) -> None:
        if not passphrase:
            raise ConfigError("passphrase must be the network's passphrase, and is empty")
        quiet_http_loggers()
        limits, timing = limits or RpcLimits(), timing or Timing()
        pool = EndpointPool(parse_endpoints(rpc_urls), limits)
        self.endpoints: tuple[str, ...] = tuple(endpoint.label for endpoint in pool.endpoints)
        self.counters = RpcCounters()
        self._limits = limits
        self._redactor = Redactor(rpc_urls)
        self._poster = HttpPoster(limits, transport, self.counters.received)
        # A call keeps its place while it waits and retries: it need not queue again behind a thousand others, and
        # an endpoint in trouble gets fewer requests.
        self._places = asyncio.Semaphore(limits.max_in_flight)
        self._close_times: dict[int, int] = {}
        """Of the ledgers whose close time some answer had by the way; one or two for each page of events."""
        self._caller = RpcCaller(
            pool,
            passphrase,
            self._poster,
            limits=limits,
            timing=timing,
            redactor=self._redactor,
            counters=self.counters,
            on_request=on_request,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._poster.aclose()

    async def tip(self) -> int:
        """The newest ledger of a healthy endpoint, by getHealth.

        Raises `AllEndpointsFailedError` when no endpoint is healthy, and `NetworkMismatchError`.
        """

        def decode(body: bytes, request_id: int, endpoint: Endpoint) -> int:
            tip = wire.tip_of(wire.decode_reply(body, wire.HEALTH, request_id))
            endpoint.stale = False
            return tip

        return await self._call(Question("getHealth", None, decode, "getHealth"))

    async def close_time(self, ledger: int) -> int:
        """The close time of this very ledger in unix seconds, from JSON and never from header XDR.

        It is known where an earlier answer was of this ledger and stated it. If not, getHealth is asked, which states
        that of the newest ledger, then getEvents, whose events of a ledger state it. Only where these lack it
        getLedgers is asked, whose answer has the whole ledger (1.3 to 1.9 MB on mainnet); an endpoint that has not
        reached the ledger yet is then waited for, within the bounds. Raises `AllEndpointsFailedError` and
        `NetworkMismatchError`.
        """
        window = {"startLedger": ledger, "endLedger": ledger + 1, "filters": [], "pagination": {"limit": 1}}
        with suppress(AllEndpointsFailedError):  # getLedgers will say what is wrong with them
            if ledger not in self._close_times:
                await self._learn_close_times("getHealth", None, wire.HEALTH)
            if ledger not in self._close_times:
                await self._learn_close_times("getEvents", window, wire.EVENTS)
        if ledger not in self._close_times:
            self._close_times[ledger] = await self._close_time_by_ledgers(ledger)
        return self._close_times[ledger]

    async def _learn_close_times(
        self, method: str, params: Mapping[str, Any] | None, decoder: msgspec.json.Decoder[wire.Reply[Any]]
    ) -> None:
        """Ask one endpoint what may state a close time; whatever it answers is usable."""

        def decode(body: bytes, request_id: int, _: Endpoint) -> dict[int, int]:
            try:
                return wire.stated_close_times(wire.decode_reply(body, decoder, request_id))
            except AttemptError:
                return {}

        self._close_times |= await self._call(Question(method, params, decode, method))

    async def _close_time_by_ledgers(self, ledger: int) -> int:
        def decode(body: bytes, request_id: int, _: Endpoint) -> int:
            return wire.close_time_of(wire.decode_reply(body, wire.LEDGERS, request_id), ledger)

        params = {"startLedger": ledger, "pagination": {"limit": 1}}
        return await self._call(Question("getLedgers", params, decode, f"getLedgers for ledger {ledger}"))

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        """Simulate one call at the newest ledger.

        A call that the contract fails is an answer with ``error``. Raises `AllEndpointsFailedError`,
        `RequestRefusedError` (the arguments are too large) and `NetworkMismatchError`.
        """
        subject = f"simulateTransaction of {call.function} of {call.contract}"
        transaction = wire.encode_base64(invocation_envelope(call))
        if len(transaction) + _ENVELOPE_BYTES > self._limits.max_request_bytes:
            raise RequestRefusedError(f"{subject}: the request is larger than {self._limits.max_request_bytes:,} bytes")

        def decode(body: bytes, request_id: int, endpoint: Endpoint) -> SimulationAnswer:
            result = wire.decode_reply(body, wire.SIMULATION, request_id)
            if result.error:
                error = self._redactor.clean(result.error) or "an error without words"
                return SimulationAnswer(result.latest_ledger, None, error, (), endpoint.label)
            value, read, written = wire.call_parts(result)
            ledger, footprint = result.latest_ledger, read + written
            return SimulationAnswer(ledger, value, None, footprint, endpoint.label, writes=bool(written))

        return await self._call(Question("simulateTransaction", {"transaction": transaction}, decode, subject))

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        """Read any number of keys (LedgerKey XDR), each once, in requests of at most 200.

        Keys given first are asked first. Returns one answer for each request that succeeded, in the order of the
        keys; together they cover every key. All or nothing: raises `AllEndpointsFailedError`, `RequestRefusedError`
        (naming the key where it is a single one) and `NetworkMismatchError`.
        """
        batches = list(self._batches(keys))
        answers: list[list[EntriesAnswer]] = [[] for _ in batches]
        waiting = iter(enumerate(batches))

        async def work() -> None:
            for position, batch in waiting:  # shared: each worker takes the next batch that none has taken
                answers[position] = await self._read_batch(batch)

        problem: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(len(batches), self._limits.max_in_flight)):
                    workers.create_task(work())
        except BaseExceptionGroup as group:
            # One error of several that came at once: a bug before an expected error.
            problem = min(group.exceptions, key=lambda error: isinstance(error, ExporterError))
        if problem is not None:
            raise problem
        return [answer for batch in answers for answer in batch]

    async def read_events(self, filters: Sequence[EventFilter], start: int | str) -> EventsPage | OutOfRange:
        """A page of events, from a ledger or the cursor of the page before (see `exporter.ledger.events`).

        Endpoints that do not keep the ledger any more are passed over for one that does. Raises
        `AllEndpointsFailedError` and `NetworkMismatchError`.
        """
        ranges: dict[str, tuple[int, int]] = {}

        def decode(body: bytes, request_id: int, endpoint: Endpoint) -> EventsPage:
            try:
                result = wire.decode_reply(body, wire.EVENTS, request_id)
            except AttemptError as error:
                if (kept := wire.range_of(error.failure)) is not None:
                    ranges[endpoint.label] = kept
                raise
            page = wire.events_page(result, start)
            self._close_times |= wire.stated_close_times(result)
            return page

        subject = f"getEvents from {start if isinstance(start, int) else 'a cursor'}"
        try:
            return await self._call(Question("getEvents", wire.events_params(filters, start), decode, subject))
        except AllEndpointsFailedError:
            if not ranges:
                raise
        oldest, latest = min(low for low, _ in ranges.values()), max(high for _, high in ranges.values())
        return OutOfRange(oldest, latest, certain=len(ranges) == len(self.endpoints))

    async def _call(self, question: Question[T]) -> T:
        async with self._places:
            answer = await self._caller.ask(question, self._caller.budget())
        assert not isinstance(answer, Split)  # only questions about several keys are split
        return answer

    async def _read_batch(self, batch: tuple[bytes, ...]) -> list[EntriesAnswer]:
        answers = []
        async with self._places:
            budget = self._caller.budget()
            parts = deque([batch])
            while parts:
                part = parts.popleft()
                answer = await self._caller.ask(self._entries_question(part), budget)
                if isinstance(answer, Split):
                    pieces = [part[start : start + answer.size] for start in range(0, len(part), answer.size)]
                    parts.extendleft(reversed(pieces))
                else:
                    answers.append(answer)
        return answers

    def _entries_question(self, keys: tuple[bytes, ...]) -> Question[EntriesAnswer]:
        asked = {wire.encode_base64(key): key for key in keys}

        def decode(body: bytes, request_id: int, endpoint: Endpoint) -> EntriesAnswer:
            result = wire.decode_reply(body, wire.ENTRIES, request_id)
            entries = wire.entries_of(result, asked)
            return EntriesAnswer(result.latest_ledger, keys, entries, endpoint.label)

        subject = _subject(keys)
        return Question("getLedgerEntries", {"keys": list(asked)}, decode, subject, len(keys))

    def _batches(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, ...]]:
        """Distinct keys in the order given, cut by number and by the size of the request."""
        room = self._limits.max_request_bytes - _ENVELOPE_BYTES
        batch: list[bytes] = []
        size = 0
        for key in dict.fromkeys(keys):
            key_size = (len(key) + 2) // 3 * 4 + 3  # base64, quotes, comma
            if key_size > room:
                raise RequestRefusedError(f"{_subject((key,))}: the key is larger than a request may be")
            if len(batch) == self._limits.keys_per_request or size + key_size > room:
                yield tuple(batch)
                batch, size = [], 0
            batch.append(key)
            size += key_size
        if batch:
            yield tuple(batch)


def _subject(keys: tuple[bytes, ...]) -> str:
    if len(keys) > 1:
        return f"getLedgerEntries for {len(keys)} keys"
    shown = wire.encode_base64(keys[0][: _SHOWN_KEY_LENGTH // 4 * 3])
    return f"getLedgerEntries for the key {shown}" + ("…" if len(shown) == _SHOWN_KEY_LENGTH else "")
