"""A bucket that speaks S3 over HTTP, logs every call, and can fail or hang at any one of them, or lose its client.

Strongly consistent, like the real ones: a write that was answered is seen by every later read. It speaks what a store
uses: PUT, GET, HEAD, POST ?delete, LIST version 2, ``If-Match``, ``If-None-Match``, and single-level bucket requests.
It checks no signature; the access key says which client a call comes from::

    with WireBucket() as bucket:
        bucket.disturb("alice", 7, Reset(after=True), more=2) # her calls 7 to 9 (from 0) take effect without an answer
        bucket.kill("alice", 7)                               # call 7 is the last that takes effect

A test that holds ``bucket.lock`` stops the bucket from serving anything.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NoReturn
from urllib.parse import parse_qs, unquote, urlsplit

from exporter.stores.store import Clock, utc_now
from tests.s3.bucket_objects import CODES, Objects, Reply, Stored, error, operation_of
from tests.s3.faults import Answer, Cut, Fault, Hang, Reset, Stall

READS = frozenset({"GET", "HEAD", "LIST", "BUCKET"})
LONGEST_HANG = 30.0
"""Seconds after which even a call that is never answered ends, so that no test hangs."""


@dataclass(slots=True)
class Call:
    """One call: who made it, what on which key (or prefix), and how it was answered."""

    client: str
    operation: str
    key: str
    status: int = 0
    at: float = 0.0
    """When it came, by a clock that only moves forward."""


class _DropError(Exception):
    """The connection ends without an answer."""


class WireBucket:
    """See the module's docstring. A context manager; the server lives while it is entered.

    Args:
        clock: gives the modification times and the ``Date`` of the answers.
        latency: how many seconds each call takes at least.
    """

    def __init__(self, clock: Clock = utc_now, latency: float = 0.0) -> None:
        self._latency = latency
        self._objects = Objects(clock)
        self.calls: list[Call] = []
        self.lock = threading.RLock()
        self._clock = clock
        self._counts: dict[str, int] = {}
        self._faults: dict[tuple[str, int], Fault] = {}
        self._closing = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="bucket", daemon=True)

    def __enter__(self) -> WireBucket:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.close_connections()
        self._server.server_close()
        self._thread.join(10)

    @property
    def objects(self) -> dict[str, Stored]:
        """What is in the bucket, by key."""
        return self._objects.by_key

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def environment(self, client: str) -> dict[str, str]:
        """The environment variables with which a client of this name finds the bucket."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": client,
            "AWS_SECRET_ACCESS_KEY": "unchecked",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def disturb(self, client: str, position: int, fault: Fault, *, more: int = 0) -> None:
        """Let a call of a client, and this many after it, meet a fault."""
        with self.lock:
            for number in range(position, position + more + 1):
                self._faults[client, number] = fault

    def disturb_next(self, client: str, fault: Fault, *, more: int = 0) -> None:
        """Let the next call of a client, and this many after it, meet a fault."""
        with self.lock:
            self.disturb(client, self._counts.get(client, 0), fault, more=more)

    def kill(self, client: str, position: int) -> None:
        """Let a client be as dead after a call took effect: none that follows has one."""
        self.disturb(client, position, Reset(), more=10_000)
        self.disturb(client, position, Reset(after=True))

    def calm(self) -> None:
        """Forget the faults that are still to come."""
        with self.lock:
            self._faults.clear()

    def forget(self) -> None:
        """Forget the calls that were made, and the faults; positions are counted from 0 again."""
        with self.lock:
            self.calls.clear()
            self._counts.clear()
            self._faults.clear()

    def calls_of(self, client: str) -> list[Call]:
        """What one client asked, in order."""
        with self.lock:
            return [call for call in self.calls if call.client == client]

    def sent(self, operation: str = "PUT") -> list[str]:
        """The keys below ``p/`` that calls of a kind named, lease aside."""
        return [
            call.key.removeprefix("p/")
            for call in self.calls
            if call.operation == operation and ".exporter" not in call.key
        ]

    def data(self) -> dict[str, bytes]:
        """What is below ``p/``, but for the lease."""
        return {key.removeprefix("p/"): stored.data for key, stored in self.objects.items() if ".exporter" not in key}

    # -- serving --------------------------------------------------------------------------------------------------

    def serve(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[Reply, bool]:
        """Answer a call; the second value says to break the answer off in the middle.

        Raises:
            _DropError: there is no answer.
        """
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        bucket, _, key = unquote(parts.path).removeprefix("/").partition("/")
        operation = operation_of(method, key, query)
        call = Call(_client_of(headers), operation, key or query.get("prefix", ""), at=time.monotonic())
        with self.lock:
            position = self._counts.get(call.client, 0)
            self._counts[call.client] = position + 1
            self.calls.append(call)
            fault = self._faults.pop((call.client, position), None)
        time.sleep(self._latency)
        if isinstance(fault, Answer) and not (fault.writes and operation in READS):
            call.status = fault.status
            return error(fault.status, fault.code or CODES.get(fault.status, "InternalError"), key), False
        if isinstance(fault, Stall):
            self._wait_for(fault)
        if isinstance(fault, Reset | Hang) and not fault.after:
            self._drop(fault)
        with self.lock:
            reply = self._objects.answer(operation, bucket, key, query, headers, body)
        call.status = reply.status
        if isinstance(fault, Reset | Hang) and fault.after:
            self._drop(fault)
        return reply, isinstance(fault, Cut)

    def _wait_for(self, stall: Stall) -> None:
        stall.reached.set()
        deadline = time.monotonic() + LONGEST_HANG
        while not stall.until.wait(0.02) and time.monotonic() < deadline and not self._closing.is_set():
            pass

    def _drop(self, fault: Reset | Hang) -> NoReturn:
        if isinstance(fault, Hang):
            self._closing.wait(LONGEST_HANG)
        raise _DropError

    def date(self) -> str:
        """The ``Date`` of an answer."""
        return format_datetime(self._clock().astimezone(UTC), usegmt=True)


def _client_of(headers: Mapping[str, str]) -> str:
    """Whose access key a call is signed with; readers do not sign."""
    _, _, credential = headers.get("authorization", "").partition("Credential=")
    return credential.partition("/")[0] or "reader"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, bucket: WireBucket) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bucket = bucket
        self.connections: set[socket.socket] = set()

    def close_connections(self) -> None:
        """Wake up every thread that waits for a client."""
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that was killed is the daily business here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    connection: socket.socket
    wbufsize = -1

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def handle_expect_100(self) -> bool:
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def _serve(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length") or 0))
        try:
            reply, cut = self.server.bucket.serve(self.command, self.path, headers, body)
        except _DropError:
            self._reset()
            return
        lines = [f"HTTP/1.1 {reply.status} {CODES.get(reply.status, 'OK')}", f"Date: {self.server.bucket.date()}"]
        reply.headers.setdefault("Content-Length", str(len(reply.body)))
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode()
        data = head if self.command == "HEAD" else head + reply.body
        self.wfile.write(data[: len(data) // 2] if cut else data)
        self.wfile.flush()
        if cut:
            self._reset()

    def _reset(self) -> None:
        """End the connection with a reset."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    do_GET = do_HEAD = do_PUT = do_POST = _serve  # noqa: N815 - the names that the base class calls
