"""A bucket that speaks S3 over HTTP, logs every call, and can fail or hang at any one of them, or lose its client.

Strongly consistent, like the real ones: a write that was answered is seen by every later read. It speaks what a store
uses: PUT, GET, HEAD, POST ?delete, LIST version 2, ``If-Match`` and ``If-None-Match``. It checks no signature; the
access key says which client a call comes from::

    with WireBucket() as bucket:
        bucket.disturb("alice", 7, Reset(after=True), more=2) # her calls 7 to 9 (from 0) take effect without an answer
        bucket.kill("alice", 7)                               # call 7 is the last that takes effect

A test that holds ``bucket.lock`` stops the bucket from serving anything.
"""

from __future__ import annotations

import hashlib
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.etree import ElementTree

from msgspec import Struct, field

from exporter.stores.store import Clock, utc_now

BUCKET = "bucket"
READS = frozenset({"GET", "HEAD", "LIST"})
LONGEST_HANG = 300.0
"""Seconds after which even a call that is never answered ends, so that no test hangs."""

_XML = {"Content-Type": "application/xml"}
_CODES = {404: "NoSuchKey", 412: "PreconditionFailed", 429: "TooManyRequests", 503: "SlowDown"}


class Answer(Struct, frozen=True):
    """The call has no effect and is answered with this status; with ``writes``, only if it would change something."""

    status: int
    code: str = ""
    writes: bool = False


class Reset(Struct, frozen=True):
    """The connection is reset, before or after the call took effect; with ``hangs`` not before the client gives up."""

    after: bool = False
    hangs: bool = False


class Cut(Struct, frozen=True):
    """The call takes effect, and its answer breaks off in the middle."""


class Stall(Struct, frozen=True):
    """The call waits for an event (or the longest hang), then goes on as if nothing had been; ``reached`` is set."""

    until: threading.Event
    reached: threading.Event = field(default_factory=threading.Event)


Fault = Answer | Reset | Cut | Stall

PASSING: dict[str, Fault] = {
    "refused with 503": Answer(503),
    "refused with 500": Answer(500),
    "refused with 409": Answer(409, "ConditionalRequestConflict", writes=True),
    "reset": Reset(),
    "answer lost": Reset(after=True),
    "answer cut off": Cut(),
    "no answer": Reset(hangs=True),
    "no answer, done": Reset(after=True, hangs=True),
}
"""Faults that a publisher does not notice if they happen once."""


class Call(Struct):
    """One call: who made it, what on which key (or prefix), how it was answered, and when it came."""

    client: str
    operation: str
    key: str
    status: int = 0
    at: float = 0.0


class Stored(Struct, frozen=True):
    """An object: its bytes, when it was written, and the headers it was written with, in small letters."""

    data: bytes
    modified: datetime
    headers: Mapping[str, str]

    @property
    def etag(self) -> str:
        """MD5, as for every object that was put in one part."""
        return hashlib.md5(self.data, usedforsecurity=False).hexdigest()


class Reply(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


def error(status: int, code: str = "") -> Reply:
    code = code or _CODES.get(status, "InternalError")
    return Reply(status, _XML, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())


def names(tag: str, etag: str) -> bool:
    """Whether the condition of a write is met."""
    return tag.strip('"') == etag


class WireBucket:
    """See the module's docstring. A context manager; the server lives while it is entered.

    ``clock`` gives the modification times and the ``Date`` of the answers; a call takes ``latency`` seconds at least.
    """

    def __init__(self, clock: Clock = utc_now, latency: float = 0.0) -> None:
        self.objects: dict[str, Stored] = {}
        self.calls: list[Call] = []
        self.lock = threading.RLock()
        self._ended = threading.Condition(self.lock)
        self._at_work = Counter[str]()
        self._clock, self._latency = clock, latency
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
        for connection in list(self._server.connections):  # wakes up every thread that waits for a client
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        self._thread.join(10)

    @property
    def endpoint(self) -> str:
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
            self._faults |= {(client, number): fault for number in range(position, position + more + 1)}

    def disturb_next(self, client: str, fault: Fault, *, more: int = 0) -> None:
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
        with self.lock:
            return [call for call in self.calls if call.client == client]

    def sent(self, operation: str = "PUT") -> list[str]:
        """The keys below ``p/`` that calls of a kind named, lease aside."""
        named = [call.key for call in self.calls if call.operation == operation]
        return [key.removeprefix("p/") for key in named if ".exporter" not in key]

    def data(self) -> dict[str, bytes]:
        """The objects below ``p/``, without the lease."""
        return {key.removeprefix("p/"): stored.data for key, stored in self.objects.items() if ".exporter" not in key}

    def serve(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[Reply | None, bool]:
        """Answer a call, None without an answer; the second value says to break the answer off in the middle."""
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        bucket, _, key = unquote(parts.path).removeprefix("/").partition("/")
        operation = {"GET": "LIST", "POST": "DELETE MANY"}.get(method, method) if not key else method
        client = headers.get("authorization", "").partition("Credential=")[2].partition("/")[0]
        call = Call(client, operation, key or query.get("prefix", ""), at=time.monotonic())
        with self.lock:
            position = self._counts.get(client, 0)
            self._counts[client] = position + 1
            self.calls.append(call)
            fault = self._faults.pop((client, position), None)
            if not isinstance(fault, Stall):
                self._at_work[client] += 1

        def answer() -> Reply:
            with self.lock:
                if bucket != BUCKET:
                    return error(404, "NoSuchBucket")
                return self._answer(operation, key, query, headers, body)

        try:
            return self._serve(call, fault, answer)
        finally:
            if not isinstance(fault, Stall):
                with self._ended:
                    self._at_work[client] -= 1
                    self._ended.notify_all()

    def is_quiet(self, client: str, seconds: float) -> bool:
        """Whether, within a number of seconds, all calls of a client end, except those that meet a `Stall`."""
        with self._ended:
            return self._ended.wait_for(lambda: not self._at_work[client], seconds)

    def _serve(self, call: Call, fault: Fault | None, answer: Callable[[], Reply]) -> tuple[Reply | None, bool]:
        time.sleep(self._latency)
        if isinstance(fault, Answer) and not (fault.writes and call.operation in READS):
            call.status = fault.status
            return error(fault.status, fault.code), False
        if isinstance(fault, Stall):
            fault.reached.set()
            deadline = time.monotonic() + LONGEST_HANG
            while not fault.until.wait(0.02) and time.monotonic() < deadline and not self._closing.is_set():
                pass
        if not isinstance(fault, Reset) or fault.after:
            reply = answer()
            call.status = reply.status
            if not isinstance(fault, Reset):
                return reply, isinstance(fault, Cut)
        if fault.hangs:
            self._closing.wait(LONGEST_HANG)
        return None, False

    def date(self) -> str:
        """The ``Date`` of an answer."""
        return format_datetime(self._clock().astimezone(UTC), usegmt=True)

    def _answer(
        self, operation: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Reply:
        present = self.objects.get(key)
        match operation:
            case "GET" | "HEAD":
                if present is None:
                    return error(404)
                modified = format_datetime(present.modified, usegmt=True)
                more = {
                    "ETag": f'"{present.etag}"',
                    "Last-Modified": modified,
                    "Content-Length": str(len(present.data)),
                }
                return Reply(200, {**present.headers, **more}, present.data)
            case "PUT":
                digest = headers.get("x-amz-content-sha256", "")
                if len(digest) == 64 and digest != hashlib.sha256(body).hexdigest():
                    return error(400, "XAmzContentSHA256Mismatch")
                if headers.get("if-none-match") == "*" and present is not None:
                    return error(412)
                if "if-match" in headers and (present is None or not names(headers["if-match"], present.etag)):
                    return error(404 if present is None else 412)
                kept = {
                    name: value
                    for name, value in headers.items()
                    if name in ("content-type", "cache-control", "content-encoding") or name.startswith("x-amz-meta-")
                }
                stored = self.objects[key] = Stored(body, self._clock(), kept)
                return Reply(200, {"ETag": f'"{stored.etag}"'})
            case "DELETE MANY":
                root = ElementTree.fromstring(body)
                gone = [element.text or "" for element in root.iter() if element.tag.rpartition("}")[2] == "Key"]
                if len(gone) > 1000:
                    return error(400, "MalformedXML")
                for each in gone:
                    self.objects.pop(each, None)
                return Reply(200, _XML, b"<DeleteResult></DeleteResult>")
            case "LIST":
                return self._list(query)
        return error(501, "NotImplemented")

    def _list(self, query: Mapping[str, str]) -> Reply:
        """Folders of a listing with a delimiter are left out: no store looks at them."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        start = unquote(query.get("continuation-token", ""))
        found = [
            key
            for key in sorted(self.objects)
            if key > start and key.startswith(prefix) and not (delimiter and delimiter in key[len(prefix) :])
        ]
        entries = [
            f"<Contents><Key>{quote(key)}</Key><LastModified>{stored.modified.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
            f"</LastModified><ETag>&quot;{stored.etag}&quot;</ETag><Size>{len(stored.data)}</Size></Contents>"
            for key, stored in ((key, self.objects[key]) for key in found[:1000])
        ]
        token = f"<NextContinuationToken>{quote(found[999])}</NextContinuationToken>" if len(found) > 1000 else ""
        truncated = f"<IsTruncated>{str(bool(token)).lower()}</IsTruncated>{token}"
        body = f"<ListBucketResult><EncodingType>url</EncodingType>{truncated}{''.join(entries)}</ListBucketResult>"
        return Reply(200, _XML, body.encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, bucket: WireBucket) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bucket = bucket
        self.connections: set[socket.socket] = set()

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
        reply, cut = self.server.bucket.serve(self.command, self.path, headers, body)
        if reply is not None:
            sent = {"Content-Length": str(len(reply.body)), "Date": self.server.bucket.date(), **reply.headers}
            lines = [f"HTTP/1.1 {reply.status} ", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
            data = "\r\n".join(lines).encode() + (b"" if self.command == "HEAD" else reply.body)
            self.wfile.write(data[: len(data) // 2] if cut else data)
            self.wfile.flush()
        if reply is None or cut:
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    do_GET = do_HEAD = do_PUT = do_POST = _serve  # noqa: N815 - the names that the base class calls
