"""A Stellar RPC in memory for the tests of the RPC client: right answers, a log of calls, and faults by script.

`FakeRpc` is a transport: every host is an endpoint over the same entries. ``faults`` holds, for each host, what to do
to its next answers; when the script has ended, the answers are right. A fault gets the call and the right answer's
body as a dict, and gives the response to send instead, or raises what the transport is to raise.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from exporter.ledger.rpc.endpoints import Timing
from exporter.ledger.source import RawEntry

PASSPHRASE = "Network of the tests ; November 2026"
LEDGER = 1_000
CLOSE_TIME = 1_800_000_000


@dataclass(frozen=True)
class Call:
    host: str
    method: str
    params: dict[str, Any]
    request: httpx.Request
    at: float


Fault = Callable[[Call, dict[str, Any]], httpx.Response]


class VirtualClock:
    """A clock that goes on, to the next sleeper's time, when nothing else has happened for a while."""

    IDLE_TURNS = 30  # of the event loop; a request to a fake takes fewer

    def __init__(self) -> None:
        self.now = 5_000.0
        self.slept: list[float] = []
        self.waiting: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        self.slept.append(seconds)
        self.waiting.append(until)
        try:
            while self.now < until:
                for _ in range(self.IDLE_TURNS):
                    await asyncio.sleep(0)
                if min(self.waiting) == until:
                    self.now = max(self.now, until)
        finally:
            self.waiting.remove(until)

    def timing(self, random: Callable[[], float] = lambda: 0.5) -> Timing:
        return Timing(clock=self.clock, sleep=self.sleep, random=random)


class Chunks(httpx.AsyncByteStream):
    """A body that arrives in pieces; with ``then`` raised, or waited for, after the last."""

    def __init__(self, chunks: Iterable[bytes], then: Exception | None = None) -> None:
        self.chunks, self.then = list(chunks), then

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk
        if self.then is not None:
            raise self.then


@dataclass
class FakeRpc(httpx.AsyncBaseTransport):
    entries: dict[bytes, RawEntry] = field(default_factory=dict)
    ledgers: dict[str, int] = field(default_factory=dict)  # of each host; LEDGER where it is not said
    passphrases: dict[str, str] = field(default_factory=dict)
    faults: dict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    network_faults: dict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    batch_faults: deque[Callable[[list[dict[str, Any]]], httpx.Response]] = field(default_factory=deque)
    batches: list[int] = field(default_factory=list)
    """How many calls each JSON-RPC batch had; these are not among ``calls``."""
    calls: list[Call] = field(default_factory=list)
    clock: Callable[[], float] = lambda: 0.0
    turns: int = 0  # of the event loop that each request takes
    in_flight: int = 0
    most_in_flight: int = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            body = json.loads(await request.aread())
            host = request.url.host
            if isinstance(body, list):
                return self.batch(host, body, request)
            call = Call(host, body["method"], body.get("params", {}), request, self.clock())
            self.calls.append(call)
            for _ in range(self.turns):
                await asyncio.sleep(0)
            right = {"jsonrpc": "2.0", "id": body["id"]} | self.answer(call)
            script = self.network_faults[host] if call.method == "getNetwork" else self.faults[host]
            return script.popleft()(call, right) if script else ok(right)
        finally:
            self.in_flight -= 1

    def batch(self, host: str, body: list[dict[str, Any]], request: httpx.Request) -> httpx.Response:
        self.batches.append(len(body))
        calls = [Call(host, item["method"], item["params"], request, self.clock()) for item in body]
        right = [
            {"jsonrpc": "2.0", "id": item["id"]} | self.answer(call) for item, call in zip(body, calls, strict=True)
        ]
        return self.batch_faults.popleft()(right) if self.batch_faults else ok(right)

    def answer(self, call: Call) -> dict[str, Any]:
        ledger = self.ledgers.get(call.host, LEDGER)
        if call.method == "getNetwork":
            return result(passphrase=self.passphrases.get(call.host, PASSPHRASE), protocolVersion=28)
        if call.method == "getEvents":
            return result(events=[], cursor=f"{ledger << 32}-0", latestLedger=ledger)
        if call.method == "getLedgers":
            return self.get_ledgers(call.params, ledger)
        if call.method == "getLedgerEntries":
            return self.get_ledger_entries(call.params, ledger)
        if call.method == "simulateTransaction":
            return result(
                latestLedger=ledger,
                transactionData=b64(transaction_data(*self.entries)),
                results=[{"auth": [], "xdr": b64(struct.pack(">II", 3, 42))}],
                minResourceFee="1",
            )
        return error(-32601, "no such method")

    def get_ledgers(self, params: dict[str, Any], ledger: int) -> dict[str, Any]:
        asked = params["startLedger"]
        if not 100 <= asked <= ledger:
            words = f"start ledger ({asked}) must be between the oldest ledger: 100 and the latest ledger: {ledger}"
            return error(-32600, words)
        info = {"hash": "", "sequence": asked, "ledgerCloseTime": str(CLOSE_TIME + asked), "headerXdr": "AAAA"}
        return result(ledgers=[info][: params["pagination"]["limit"]], latestLedger=ledger, cursor=str(asked))

    def get_ledger_entries(self, params: dict[str, Any], ledger: int) -> dict[str, Any]:
        asked = [base64.b64decode(key) for key in params["keys"]]
        if len(asked) > 200:
            return error(-32602, f"key count ({len(asked)}) exceeds maximum supported (200)")
        if len(set(asked)) < len(asked):
            return error(-32603, "could not query captive core: http request failed with non-200 status code (404)")
        return result(
            latestLedger=ledger, entries=[entry(key, self.entries[key]) for key in asked if key in self.entries]
        )

    def asked(self, method: str | None = None) -> list[str]:
        """The hosts that were asked, in order."""
        return [call.host for call in self.calls if method in (None, call.method)]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def entry(key: bytes, raw: RawEntry) -> dict[str, Any]:
    shown = {"key": b64(key), "xdr": b64(raw.data), "extXdr": "AAAAAA==", "lastModifiedLedgerSeq": raw.last_modified}
    return shown if raw.live_until is None else shown | {"liveUntilLedgerSeq": raw.live_until}


def result(**fields: Any) -> dict[str, Any]:
    return {"result": fields}


def error(code: int, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def ok(body: dict[str, Any] | list[dict[str, Any]]) -> httpx.Response:
    return raw(json.dumps(body).encode())


def raw(body: bytes, status: int = 200, **headers: str) -> httpx.Response:
    """A response in pieces of 1,000 bytes; an underscore in a header's name means a hyphen."""
    chunks = [body[start : start + 1_000] for start in range(0, len(body), 1_000)]
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, stream=Chunks(chunks), headers=named)


def status(code: int, **headers: str) -> Fault:
    return lambda _call, _right: raw(b"<html>", code, **headers)


def rpc_error(code: int, message: str) -> Fault:
    return lambda _call, right: ok({"jsonrpc": "2.0", "id": right["id"]} | error(code, message))


def raising(problem: Exception) -> Fault:
    def fault(call: Call, right: dict[str, Any]) -> httpx.Response:
        raise problem

    return fault


def body(data: bytes) -> Fault:
    return lambda _call, _right: raw(data)


def altered(alter: Callable[[dict[str, Any]], object]) -> Fault:
    """The right answer after ``alter`` has been at it."""

    def fault(call: Call, right: dict[str, Any]) -> httpx.Response:
        alter(right)
        return ok(right)

    return fault


def unaltered(_call: Call, right: dict[str, Any]) -> httpx.Response:
    """The right answer, to let some requests pass in a script."""
    return ok(right)


def transaction_data(*keys: bytes) -> bytes:
    """SorobanTransactionData with a footprint that reads ``keys``."""
    return struct.pack(">II", 0, len(keys)) + b"".join(keys) + struct.pack(">IIIIq", 0, 1, 2, 3, 4)


def key(number: int) -> bytes:
    """The LedgerKey XDR of contract data under a u32."""
    return struct.pack(">II32sIII", 6, 1, number.to_bytes(32, "big"), 3, number, 1)


def made_entry(number: int, last_modified: int = 500, live_until: int | None = 9_999) -> RawEntry:
    return RawEntry(struct.pack(">IQ", 6, number), last_modified, live_until)
