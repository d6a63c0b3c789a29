"""A Stellar RPC, or several, as a `exporter.ledger.source.LedgerSource`.

Every answer states the ledger it is of, so endpoints may be mixed. What can fail, and what is done about it, is in
`exporter.ledger.rpc_errors`; the bounds on it are in `exporter.ledger.rpc_limits`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

import httpx

from exporter.errors import AllEndpointsFailedError, ConfigError, ExporterError, RequestRefusedError
from exporter.ledger import rpc_events, rpc_wire
from exporter.ledger.endpoints import Endpoint, EndpointPool, parse_endpoints
from exporter.ledger.events import EventFilter, EventsPage, OutOfRange
from exporter.ledger.redaction import Redactor, quiet_http_loggers
from exporter.ledger.rpc_calls import Question, RpcCaller, Split
from exporter.ledger.rpc_counters import RpcCounters, RpcEvent
from exporter.ledger.rpc_errors import AttemptError
from exporter.ledger.rpc_http import HttpPoster
from exporter.ledger.rpc_limits import RpcLimits, Timing
from exporter.ledger.simulation import invocation_envelope
from exporter.ledger.source import ContractCall, EntriesAnswer, SimulationAnswer

T = TypeVar("T")

_ENVELOPE_BYTES: Final = 256  # of a request body around its keys or its transaction, generously
_SHOWN_KEY_LENGTH: Final = 200  # characters of a key in an error; a contract-data key has about 150


class RpcSource:
    """Reads ledger entries, simulations and close times from Stellar RPC endpoints, with failover between them.

    Use it as an async context manager, within one event loop. ``counters`` and ``endpoints`` are for the run report;
    neither they nor any error holds anything of a URL but host and port.

    Args:
        rpc_urls: 1 to 16 URLs, the preferred ones first. https, or http to this machine.
        passphrase: of the network that each endpoint must serve; checked before an endpoint's first use.
        limits: bounds on time, size, rate and tries.
        transport: what to send HTTP requests through instead of the network.
        timing: clock and chance; for tests.
        on_event: called after each HTTP request.
        allow_http: accept http:// to any host.

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
        on_event: Callable[[RpcEvent], None] | None = None,
        allow_http: bool = False,
    ) -> None:
        if not passphrase:
            raise ConfigError("passphrase must be the network's passphrase, and is empty")
        quiet_http_loggers()
        limits, timing = limits or RpcLimits(), timing or Timing()
        pool = EndpointPool(parse_endpoints(rpc_urls, allow_http=allow_http), limits)
        self.endpoints: tuple[str, ...] = tuple(endpoint.label for endpoint in pool.endpoints)
        self.counters = RpcCounters()
        self._limits = limits
        self._redactor = Redactor(rpc_urls)
        self._poster = HttpPoster(limits, transport, timing.wall_clock, self.counters.received)
        # A call keeps its place while it waits and retries: it need not queue again behind a thousand others, and
        # an endpoint in trouble gets fewer requests.
        self._places = asyncio.Semaphore(limits.max_in_flight)
        self._caller = RpcCaller(
            pool,
            passphrase,
            self._poster,
            limits=limits,
            timing=timing,
            redactor=self._redactor,
            counters=self.counters,
            on_event=on_event,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._poster.aclose()

    async def tip(self) -> int:
        """The newest ledger of a healthy endpoint, by getHealth.

        Raises `AllEndpointsFailedError` when no endpoint is healthy, and `NetworkMismatchError`.
        """

        def decode(body: bytes, request_id: int, endpoint: Endpoint) -> int:
            tip = rpc_wire.tip_of(rpc_wire.decode_reply(body, rpc_wire.HEALTH, request_id))
            endpoint.stale = False
            return tip

        return await self._call(Question("getHealth", None, decode, "getHealth"))

    async def close_time(self, ledger: int) -> int:
        """The close time of a ledger in unix seconds, by getLedgers, from its JSON and never from header XDR.

        An endpoint that has not reached the ledger yet is waited for, within the bounds. Raises
        `AllEndpointsFailedError` and `NetworkMismatchError`.
        """

        def decode(body: bytes, request_id: int, _: Endpoint) -> int:
            return rpc_wire.close_time_of(rpc_wire.decode_reply(body, rpc_wire.LEDGERS, request_id), ledger)

        params = {"startLedger": ledger, "pagination": {"limit": 1}}
        return await self._call(Question("getLedgers", params, decode, f"getLedgers for ledger {ledger}"))

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        """Simulate one call at the newest ledger.

        A call that the contract fails is an answer with ``error``. Raises `AllEndpointsFailedError`,
        `RequestRefusedError` (the arguments are too large) and `NetworkMismatchError`.
        """
        subject = f"simulateTransaction of {call.function} of {call.contract}"
        transaction = rpc_wire.encode_base64(invocation_envelope(call))
        if len(transaction) + _ENVELOPE_BYTES > self._limits.max_request_bytes:
            raise RequestRefusedError(f"{subject}: the request is larger than {self._limits.max_request_bytes:,} bytes")

        def decode(body: bytes, request_id: int, endpoint: Endpoint) -> SimulationAnswer:
            result = rpc_wire.decode_reply(body, rpc_wire.SIMULATION, request_id)
            if result.error:
                error = self._redactor.clean(result.error) or "an error without words"
                return SimulationAnswer(result.latest_ledger, None, error, (), endpoint.label)
            value, read, written = rpc_wire.call_parts(result)
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
            problem = _most_telling(group)
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
                result = rpc_wire.decode_reply(body, rpc_wire.EVENTS, request_id)
            except AttemptError as error:
                if (kept := rpc_events.range_of(error.failure)) is not None:
                    ranges[endpoint.label] = kept
                raise
            return rpc_events.events_page(result, start)

        subject = f"getEvents from {start if isinstance(start, int) else 'a cursor'}"
        try:
            return await self._call(Question("getEvents", rpc_events.events_params(filters, start), decode, subject))
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
        asked = {rpc_wire.encode_base64(key): key for key in keys}

        def decode(body: bytes, request_id: int, endpoint: Endpoint) -> EntriesAnswer:
            result = rpc_wire.decode_reply(body, rpc_wire.ENTRIES, request_id)
            entries = rpc_wire.entries_of(result, asked)
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
    shown = rpc_wire.encode_base64(keys[0][: _SHOWN_KEY_LENGTH // 4 * 3])
    return f"getLedgerEntries for the key {shown}" + ("…" if len(shown) == _SHOWN_KEY_LENGTH else "")


def _most_telling(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """One error of several that came at once: a bug before an expected error."""
    return min(group.exceptions, key=lambda error: isinstance(error, ExporterError))
