"""RPC endpoints: their URLs, and one HTTP exchange, bounded in time and size, whatever the server does."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import math
import tracemalloc
import zlib
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import ConfigError
from exporter.ledger.rpc import endpoints
from exporter.ledger.rpc.client import RpcSource
from exporter.ledger.rpc.endpoints import (
    HTTPX_ERRORS,
    AttemptError,
    Endpoint,
    Failure,
    RpcLimits,
    failure_of,
    http_client,
    parse_endpoints,
    parse_retry_after,
    post,
)
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import create_app, running
from tests.ledger.rpc import fake_rpc as fake

LIMITS = RpcLimits(max_response_bytes=100_000, request_timeout_s=5)

# URLs ----------------------------------------------------------------------------------------------------------


NUMBERED = ("https://a.example/1", "https://b.example", "https://a.example/2", "https://a.example:81/")


@pytest.mark.parametrize(
    ("urls", "labels"),
    [
        (["https://rpc.example.org"], ["rpc.example.org"]),
        (["https://user:secret@RPC.example.org/secret?key=secret"], ["rpc.example.org"]),
        (["https://rpc.example.org:443/"], ["rpc.example.org"]),
        (["https://rpc.example.org:8443/secret"], ["rpc.example.org:8443"]),
        (["http://127.0.0.1:8000"], ["127.0.0.1:8000"]),
        (["http://[::1]:8000/"], ["[::1]:8000"]),
        (["https://bücher.example/"], ["xn--bcher-kva.example"]),
        (NUMBERED, ["a.example#1", "b.example", "a.example#2", "a.example:81"]),
    ],
)
def test_an_endpoint_is_named_by_host_and_port(urls: Sequence[str], labels: list[str]) -> None:
    """The label is the host, an unusual port, a number if endpoints share both, and nothing else."""
    assert labels == [endpoint.label for endpoint in parse_endpoints(urls)]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "must be a URL with a host"),
        ("https://rpc.example.org/ secret", "must be a URL with a host"),
        ("https:///secret", "must be a URL with a host"),
        ("https://rpc.example.org:secret/", "must be a URL with a host"),
        ("https://rpc.example.org/\x7fsecret", "must be a URL with a host"),
        ("ftp://rpc.example.org/secret", "must be a URL with a host"),
        ("https://rpc.example.org/#secret", "has a fragment"),
        ("https://rpc.example.org/" + "secret" * 500, "must be a URL with a host"),
        ("http://user:secret@rpc.example.org/secret", r"\(rpc.example.org\) uses http://, which anybody"),
        ("http://127.0.0.1.example.org/secret", "uses http://, which anybody"),
    ],
)
def test_a_bad_url_is_named_by_position(url: str, problem: str) -> None:
    """A URL that cannot be used is refused by its position in rpc_urls, and not quoted, not even in a cause."""
    with pytest.raises(ConfigError, match=rf"^rpc_urls\[1\] .*{problem}") as caught:
        parse_endpoints(["https://rpc.example.org", url])

    assert "secret" not in str(caught.value)
    assert None is caught.value.__cause__
    assert None is caught.value.__context__


@pytest.mark.parametrize("urls", [[], "https://rpc.example.org", ["https://rpc.example.org"] * 17])
def test_the_list_of_urls_is_bounded(urls: list[str]) -> None:
    """There must be a list of 1 to 16 URLs; one string is not taken for a list of characters."""
    with pytest.raises(ConfigError, match="rpc_urls must be a list of 1 to 16 URLs"):
        parse_endpoints(urls)


def test_a_second_has_as_many_calls_as_the_rate() -> None:
    """The first calls of a second need not wait for each other, and unused turns do not add up."""
    (endpoint,) = parse_endpoints(["https://a.example"])
    waits = [endpoint.reserve(now, 3.0) for now in (10, 10, 10, 10, 50, 50.25, 50.5, 50.5)]

    assert [0, 0, 0, 1, 0, 0, 0, 0.5] == waits


def test_an_endpoint_that_wanted_fewer_requests_gets_them_evenly() -> None:
    """After a demand for fewer requests each call, also in a batch, has the time that the rate leaves for it."""
    (endpoint,) = parse_endpoints(["https://a.example"])
    endpoint.most_per_second = 4.0
    waits = [endpoint.reserve(10, 8.0, calls) for calls in (1, 1, 3, 1)]

    assert [0, 0.25, 0.5, 1.25] == waits


@given(
    st.sampled_from([0.3, 1.0, 2.5, 8.0]),
    st.lists(st.tuples(st.floats(0, 2), st.integers(1, 8)), min_size=1, max_size=40),
)
def test_no_second_has_more_calls_than_the_rate(rate: float, asked: list[tuple[float, int]]) -> None:
    """However requests come, no second has more calls than the rate; at a rate below 1, no longer time has two."""
    (endpoint,) = parse_endpoints(["https://a.example"])
    at_once = max(1, int(rate))
    now, turns = 0.0, list[float]()
    for pause, calls in asked:
        now += pause
        count = min(calls, at_once)
        turns += [now + endpoint.reserve(now, rate, count)] * count

    assert sorted(turns) == turns
    seconds = max(1.0, 1 / rate)
    assert all(later - turn >= seconds - 1e-9 for turn, later in zip(turns, turns[at_once:], strict=False))


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_a_rate_that_is_no_number_above_zero_is_refused(rate: float) -> None:
    """Such a rate is a fault of the configuration, and no error of arithmetic later."""
    with pytest.raises(ConfigError, match="is no rate: give a number above 0"):
        RpcLimits(requests_per_second=rate)


def test_a_rate_too_slow_for_the_deadline_is_refused() -> None:
    """A rate at which a call could not even begin within its deadline is a fault of the configuration."""
    with pytest.raises(ConfigError, match=r"requests_per_second = 0\.02 is too slow for max_in_flight = 4"):
        RpcLimits(requests_per_second=0.02, max_in_flight=4, total_deadline_s=100)


# One exchange --------------------------------------------------------------------------------------------------


async def posted(response: httpx.Response) -> bytes:
    """Post something to a transport that gives ``response``."""
    (endpoint,) = parse_endpoints(["https://a.example/secret"])
    async with http_client([endpoint], LIMITS, httpx.MockTransport(lambda _: response)) as client:
        return await post(client, endpoint, b"{}", 5, LIMITS)


def failed(response: httpx.Response) -> Failure:
    with pytest.raises(AttemptError) as caught:
        asyncio.run(posted(response))
    assert [None, None] == [caught.value.__cause__, caught.value.__context__]
    return caught.value.failure


def pieces(data: bytes, size: int = 10_000, encoding: str = "gzip") -> httpx.Response:
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    return httpx.Response(200, stream=fake.Chunks(chunks), headers={"Content-Encoding": encoding})


def test_gzip_is_undone() -> None:
    """A compressed answer is the same answer, however it is cut into pieces."""
    data = json.dumps(list(range(9_000))).encode()

    assert data == asyncio.run(posted(pieces(gzip.compress(data), 7, "GZip")))


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


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (pieces(b"not gzip at all"), "the answer's compression is broken (DecodingError)"),
        (pieces(gzip.compress(b"{}"), encoding="br"), "the answer has a compression that was not asked for"),
        (pieces(gzip.compress(b"{}"), encoding="gzip, gzip"), "the answer has a compression that was not asked for"),
    ],
)
def test_broken_or_other_compression_is_unusable(response: httpx.Response, text: str) -> None:
    """Only gzip is asked for, and once; what a cut answer lacks is missed by who decodes it."""
    failure = failed(response)

    assert ("unusable answer", text) == (failure.name, failure.text)


LASTING = (301, 308, 400, 401, 404, 413)


@pytest.mark.parametrize("status", [201, *LASTING, 408, 429, 500, 503])
def test_any_status_but_200_is_a_failure(status: int) -> None:
    """Only HTTP 200 has an answer; no other body is read, and a redirect's target is not shown."""
    body = fake.Chunks([b"secret"], RuntimeError("was read"))
    failure = failed(httpx.Response(status, stream=body, headers={"Location": "https://b.example/secret"}))

    assert (f"http {status}", status, status in LASTING) == (failure.name, failure.code, failure.lasting)
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


async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An answer whose every byte comes well within any time-out of a single read."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
    with suppress(ConnectionError), closing(writer):
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)


def test_a_good_server_answers_next_to_a_dripping_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client speaks HTTP to real servers, without a proxy of the environment; a slow one is left in time.

    The HTTP libraries' own loggers, at DEBUG, say nothing of a request that goes through them.
    """
    for name in ("httpx", "httpcore", "httpcore.http11", "httpcore.connection"):
        caplog.set_level(logging.DEBUG, logger=name)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    network = RecordedNetwork()

    async def ask(good_url: str) -> None:
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        bad_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/path?key=secret"
        async with RpcSource([good_url], network.passphrase) as source:
            await source.tip()  # the first answer takes the longest

        async def post(
            http: httpx.AsyncClient, endpoint: Endpoint, body: bytes, _timeout_s: float, limits: RpcLimits
        ) -> bytes:
            """The slow server has a moment, and the good one all the time that a busy machine needs."""
            seconds = 0.2 if str(endpoint.url).startswith(bad_url) else 60
            return await endpoints.post(http, endpoint, body, seconds, limits)

        monkeypatch.setattr("exporter.ledger.rpc.client.post", post)
        async with RpcSource([bad_url, good_url], network.passphrase) as source:
            assert [network.chain.latest] * 2 == [await source.tip(), await source.tip()]
            assert {"getLedgerEntries": 2, "getNetwork": 2} == dict(source.counters.requests)
            assert [{"timeout": 1}] == list(source.counters.errors.values())
        server.close()

    with running(create_app(network)) as url:
        asyncio.run(ask(url))

    assert [] == [record for record in caplog.records if record.name.startswith(("httpx", "httpcore"))]


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


def test_one_burst_slows_down_once() -> None:
    """Refusals of requests that were under way together count as one, and an endpoint is never asked too rarely."""
    (endpoint,) = parse_endpoints(["https://a.example"])
    for asked_at, now in ((0, 10), (1, 11), (9, 12)):
        endpoint.hold(asked_at, now, 5, 4)
    assert pytest.approx(2.8) == endpoint.most_per_second
    assert 17 == endpoint.held_until
    for later in range(100, 200, 5):
        endpoint.hold(later, later + 1, 5, 4)
    assert pytest.approx(0.2) == endpoint.most_per_second


# Headers -------------------------------------------------------------------------------------------------------


def test_headers_go_to_their_endpoint() -> None:
    """Headers without a host go to the endpoints of the one host there is; else each host gets its own."""
    one = parse_endpoints(["https://a.example/1", "https://a.example:444"], {"X-Key": "v"})
    two = parse_endpoints(
        ["https://a.example", "https://b.example:444"], {"A.example": {"K": "a"}, "b.example:444": {"K": "b"}}
    )

    assert [{"X-Key": "v"}] * 2 == [each.headers for each in one]
    assert [{"K": "a"}, {"K": "b"}] == [each.headers for each in two]


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Key": "SECRET\n"},
        {"X-Key": "SECRETä"},
        {"X-Key": " SECRET"},
        {"X-Key": ""},
        {"X Key SECRET": "v"},
        {"Host": "SECRET"},
        {"content-length": "5"},
        {"SECRET.example": {"X-Key": "v"}},
    ],
)
def test_headers_that_cannot_be_sent(headers: dict[str, Any]) -> None:
    """A header that cannot be sent, or is for nobody, is refused without a word of it."""
    with pytest.raises(ConfigError, match=r"network\.rpc_headers") as caught:
        parse_endpoints(["https://a.example"], headers)
    assert "SECRET" not in str(caught.value)


def test_a_key_goes_to_no_other_provider() -> None:
    """If there are several hosts, each header says for which it is."""
    with pytest.raises(ConfigError, match="several hosts"):
        parse_endpoints(["https://a.example", "https://b.example"], {"X-Key": "v"})
