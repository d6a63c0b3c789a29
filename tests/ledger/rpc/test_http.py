"""One HTTP exchange against real sockets: bounded in time and size, whatever the server does."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import astuple

import httpx
import pytest

from exporter.errors import AllEndpointsFailedError
from exporter.ledger.rpc.client import RpcSource
from exporter.ledger.rpc.endpoints import RpcLimits, parse_endpoints
from exporter.ledger.rpc.http import HTTPX_ERRORS, AttemptError, Failure, HttpPoster, failure_of, parse_retry_after
from tests.ledger.rpc import fake_rpc as fake
from tests.ledger.rpc.fake_rpc import PASSPHRASE

LIMITS = RpcLimits(max_response_bytes=100_000, request_timeout_s=5)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def post(response: httpx.Response, limits: RpcLimits = LIMITS) -> bytes:
    """Post something to a transport that gives ``response``."""
    (endpoint,) = parse_endpoints(["https://a.example/secret"])
    poster = HttpPoster([endpoint], limits, httpx.MockTransport(lambda _: response))
    try:
        return await poster.post(endpoint, b"{}", 5)
    finally:
        await poster.aclose()


def failed(response: httpx.Response) -> Failure:
    with pytest.raises(AttemptError) as caught:
        asyncio.run(post(response))
    assert [None, None] == [caught.value.__cause__, caught.value.__context__]
    return caught.value.failure


def pieces(data: bytes, size: int = 10_000, encoding: str = "gzip") -> httpx.Response:
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    return httpx.Response(200, stream=fake.Chunks(chunks), headers={"Content-Encoding": encoding})


# Compression ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_gzip_is_undone(size: int) -> None:
    """A compressed answer is the same answer, however it is cut into pieces."""
    data = json.dumps(list(range(9_000))).encode()
    response = pieces(gzip.compress(data), size, "GZip")

    assert data == asyncio.run(post(response))


def test_a_compression_bomb_costs_bounded_memory() -> None:
    """An answer that unpacks to 64 MiB is dropped at the limit; a piece of the connection unpacks to 17 MB at most."""
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join([*(packer.compress(bytes(1 << 24)) for _ in range(4)), packer.flush()])
    response = pieces(bomb, 1 << 14)
    tracemalloc.start()
    try:
        failure = failed(response)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert "the answer is larger than 100,000 bytes (max_response_bytes)" == failure.text
    assert 50_000_000 > peak


def test_broken_gzip_is_unusable() -> None:
    """Damaged data is not an answer; what a cut one lacks is missed by who decodes it."""
    assert ("unusable answer", "the answer's compression is broken (DecodingError)") == astuple(
        failed(pieces(b"not gzip at all"))
    )[:2]


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip"])
def test_a_compression_not_asked_for_is_unusable(encoding: str) -> None:
    """Only gzip is asked for, and once, so nothing else is undone."""
    failure = failed(pieces(gzip.compress(b"{}"), encoding=encoding))

    assert "the answer has a compression that was not asked for" == failure.text


# Statuses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 308])
def test_redirects_are_not_followed(status: int) -> None:
    """A redirect is a failure that says what to do, and does not show where it leads."""
    failure = failed(httpx.Response(status, headers={"Location": "https://b.example/secret"}))

    assert f"HTTP {status}, a redirect, which is not followed: put the final address into rpc_urls" == failure.text
    assert (f"http {status}", True) == (failure.name, failure.lasting)


LASTING = (400, 401, 403, 404, 405, 413)


@pytest.mark.parametrize("status", [201, 204, *LASTING, 408, 425, 429, 500, 502, 503, 504])
def test_any_status_but_200_is_a_failure(status: int) -> None:
    """Only HTTP 200 has an answer; the body of any other is not read. A wrong URL, key or method does not pass."""
    failure = failed(httpx.Response(status, stream=fake.Chunks([b"secret"], RuntimeError("was read"))))

    assert (status, status in LASTING) == (failure.code, failure.lasting)
    assert failure.text.startswith(f"HTTP {status}")
    assert "secret" not in failure.text


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0),
        ("7", 7),
        (" 120 ", 120),
        ("9" * 5_000, None),
        ("1.5", None),
        ("Mon, 01 Jan 2035 00:00:00 GMT", None),
    ],
)
def test_retry_after_is_seconds(value: str | None, seconds: float | None) -> None:
    """Retry-After is read in seconds, and anything else is as if it were not there."""
    assert seconds == parse_retry_after(value)


# Real sockets --------------------------------------------------------------------------------------------------


async def serving(serve: Serve, ask: Callable[[str], Awaitable[None]]) -> None:
    """Run ``ask`` with the URL of a server on this machine that treats each connection by ``serve``."""
    handlers: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has left, or the test is over
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        await ask(f"http://127.0.0.1:{port}/secret-path?key=secret-query")
    finally:
        server.close()
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> dict[str, object]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.decode().split("\r\n") if line.lower().startswith("content-length"))
    request: dict[str, object] = json.loads(await reader.readexactly(length))
    return request


def answer_to(request: dict[str, object]) -> bytes:
    result = {"passphrase": PASSPHRASE, "status": "healthy", "latestLedger": 1_000}
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


async def well(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        body = answer_to(await read_request(reader))
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()


async def hanging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    await asyncio.sleep(60)


async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(HEAD + b"Content-Length: 1000000\r\n\r\n")
    while True:  # each byte comes well within any time-out of a single read
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
        await writer.drain()


async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    body = answer_to(await read_request(reader))
    writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body[: len(body) // 2])
    await writer.drain()


SERVERS: dict[Serve, tuple[str, str]] = {
    dripping: (r"no complete answer within 0.3 s|timed out", "timeout"),
    endless: (r"larger than 100,000 bytes", "answer too large"),
    cut: (r"the connection broke", "connection cut"),
}


@pytest.mark.parametrize("serve", SERVERS, ids=lambda serve: serve.__name__)
def test_a_bad_server_costs_bounded_time(serve: Serve) -> None:
    """A server that drips, never ends, or breaks off costs no more than the bounds allow, and is named."""
    words, kind = SERVERS[serve]
    # Only a server that keeps one waiting is waited for; on a busy machine any of the others may take its time.
    timeout, bound = (0.3, 20) if kind == "timeout" else (30, 30)
    limits = RpcLimits(
        max_response_bytes=100_000,
        request_timeout_s=timeout,
        attempts=2,
        backoff_base_s=0.01,
        requests_per_second=1_000,
    )

    async def ask(url: str) -> None:
        async with RpcSource([url], PASSPHRASE, limits=limits) as source:
            started = time.perf_counter()
            with pytest.raises(AllEndpointsFailedError, match=words) as caught:
                await source.tip()
            assert bound > time.perf_counter() - started
            (errors,) = source.counters.errors.values()
            assert {kind} == set(errors)
            assert 2 == errors[kind]
            assert "secret" not in str(caught.value)
            assert 500_000 > source.counters.bytes_received

    asyncio.run(serving(serve, ask))


def test_a_good_server_answers_next_to_a_hanging_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client speaks HTTP to a real server, without a proxy of the environment; a hanging one is left in time."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def with_both(bad_url: str) -> None:
        async def ask(good_url: str) -> None:
            limits = RpcLimits(request_timeout_s=0.3)
            async with RpcSource([bad_url, good_url], PASSPHRASE, limits=limits) as source:
                assert [1_000, 1_000] == [await source.tip(), await source.tip()]
                assert {"getHealth": 2, "getNetwork": 2} == dict(source.counters.requests)

        await serving(well, ask)

    asyncio.run(serving(hanging, with_both))


# Exceptions ----------------------------------------------------------------------------------------------------


def exported_exceptions() -> list[type[Exception]]:
    exported = (getattr(httpx, name) for name in httpx.__all__)
    return [each for each in exported if isinstance(each, type) and issubclass(each, Exception)]


@pytest.mark.parametrize("kind", [*exported_exceptions(), OSError, TimeoutError], ids=lambda kind: kind.__name__)
def test_texts_of_httpx_never_get_through(kind: type[Exception]) -> None:
    """Every exception class of httpx is caught, and has words of our own, since the original's may quote the URL."""
    error = kind.__new__(kind)
    Exception.__init__(error, "https://rpc.example.org/secret")
    failure = failure_of(error)

    assert issubclass(kind, (*HTTPX_ERRORS, OSError))
    assert failure.text.endswith(f"({kind.__name__})")
    assert "secret" not in str(failure)


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ConnectionResetError("x"), "connection cut"),
        (httpx.RemoteProtocolError("x"), "connection cut"),
        (httpx.ProxyError("x"), "connect"),
        (httpx.UnsupportedProtocol("x"), "request not sendable"),
        (type("NewError", (httpx.ReadTimeout,), {})("x"), "timeout"),
    ],
)
def test_exceptions_are_named_by_their_family(error: Exception, name: str) -> None:
    """Errors of httpx, of the operating system, and classes derived from these have the name of their family."""
    assert name == failure_of(error).name
