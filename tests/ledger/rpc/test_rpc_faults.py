"""Under any schedule of faults the client gives the right data, or an error, within its bounds; and keeps secrets."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import traceback
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import AllEndpointsFailedError, ExporterError
from exporter.ledger.rpc.client import RpcSource
from exporter.ledger.rpc.endpoints import RpcLimits
from exporter.ledger.source import ContractCall
from tests.ledger.rpc import fake_rpc as fake
from tests.ledger.rpc.fake_rpc import PASSPHRASE, Call, FakeRpc, VirtualClock, key, made_entry

HOSTS = ("a.example", "b.example", "c.example")
CALL = ContractCall("CAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAD2KM", "decimals")

# Nothing of these is data, whatever the method.
FAULTS: list[fake.Fault] = [
    fake.raising(httpx.ConnectError("x")),
    fake.raising(httpx.ReadTimeout("x")),
    fake.raising(httpx.RemoteProtocolError("x")),
    *(fake.status(code) for code in (301, 400, 408, 413, 429, 500, 502, 503, 504)),
    fake.status(429, retry_after="3"),
    fake.status(503, retry_after="100000"),
    *(fake.rpc_error(code, "words") for code in (-32700, -32600, -32601, -32602, -32603, -32001, -32003, -32098, 7)),
    fake.body(b"<html>"),
    fake.body(b"{}"),
    fake.altered(lambda right: right.update(id=0)),
    fake.altered(lambda right: right.pop("result", None)),
    fake.altered(lambda right: right.update(padding="x" * 40_000)),
]

schedules = st.lists(st.just(fake.unaltered) | st.sampled_from(FAULTS), max_size=25)


@given(
    schedule=st.fixed_dictionaries(dict.fromkeys(HOSTS, schedules)),
    network=st.fixed_dictionaries({host: st.lists(st.sampled_from(FAULTS), max_size=3) for host in HOSTS}),
    endpoints=st.integers(1, 3),
    count=st.integers(1, 500),
    present=st.sets(st.integers(0, 499), max_size=30),
    ledgers=st.fixed_dictionaries({host: st.integers(600, 1_000) for host in HOSTS}),
    in_flight=st.integers(1, 4),
)
def test_faults_never_give_wrong_data(
    schedule: dict[str, list[fake.Fault]],
    network: dict[str, list[fake.Fault]],
    endpoints: int,
    count: int,
    present: set[int],
    ledgers: dict[str, int],
    in_flight: int,
) -> None:
    """A read is complete and right, each answer as its endpoint has it, or an error; requests and time are bounded."""
    clock = VirtualClock()
    rpc = FakeRpc(
        entries={key(number): made_entry(number) for number in present},
        ledgers=ledgers,
        clock=clock.clock,
        turns=1,
    )
    for host in HOSTS:
        rpc.faults[host].extend(schedule[host])
        rpc.network_faults[host].extend(network[host])
    limits = RpcLimits(
        requests_per_second=1_000,
        max_in_flight=in_flight,
        total_deadline_s=60,
        attempts=3,
        max_response_bytes=30_000,
    )
    urls = [f"https://{host}" for host in HOSTS[:endpoints]]
    keys = [key(number) for number in range(count)]

    async def main() -> None:
        async with RpcSource(urls, PASSPHRASE, limits=limits, transport=rpc, timing=clock.timing()) as source:
            try:
                answers = await source.read_entries(keys)
            except AllEndpointsFailedError:
                return
            finally:
                calls = (count + 199) // 200
                demands = sum(map(len, (*schedule.values(), *network.values())))  # at most; they cost no attempt
                assert (calls + 1) * limits.attempts * endpoints + demands >= len(rpc.calls)
                assert in_flight >= rpc.most_in_flight
                assert (calls + 1) * limits.total_deadline_s >= clock.now - 5_000
        assert keys == [name for answer in answers for name in answer.asked]
        for answer in answers:
            assert ledgers[answer.endpoint] == answer.ledger
            assert {name: rpc.entries[name] for name in answer.asked if name in rpc.entries} == answer.entries

    asyncio.run(main())


# Secrets -------------------------------------------------------------------------------------------------------

HEADERS = {"Authorization": "Bearer SECRETbearer-1a2b3c", "X-Api-Key": "SECRETheader"}
USER, PASSWORD, PATH, QUERY = "SECRETuser", "SECRETpass", "SECRETpath", "SECRETquery"
SECRET_URL = f"https://{USER}:{PASSWORD}@rpc.example.org/v1/{PATH}/rpc?apikey={QUERY}"


def echo(call: Call) -> str:
    """Everything of the request that a server could quote."""
    return f"{SECRET_URL} {call.request.url} {call.request.url.raw_path!r} {call.request.headers['authorization']}"


def echoing_status(code: int) -> fake.Fault:
    return lambda call, _: fake.raw(echo(call).encode(), code, location=str(call.request.url), x_echo=echo(call))


def echoing_error(code: int) -> fake.Fault:
    def fault(call: Call, right: dict[str, Any]) -> httpx.Response:
        problem = {"code": code, "message": echo(call), "data": echo(call)}
        return fake.ok({"jsonrpc": "2.0", "id": right["id"], "error": problem})

    return fault


def echoing_exception(kind: type[httpx.TransportError]) -> fake.Fault:
    def fault(call: Call, right: dict[str, Any]) -> httpx.Response:
        raise kind(echo(call), request=call.request)

    return fault


def echoing_result(**fields: str) -> fake.Fault:
    """The right result with some fields set to the echo."""
    return lambda call, right: fake.altered(lambda each: each["result"].update({name: echo(call) for name in fields}))(
        call, right
    )


def no_connect(call: Call, right: dict[str, Any]) -> httpx.Response:
    raise OSError(echo(call))


ECHOES: list[fake.Fault] = [
    *(echoing_status(code) for code in (301, 400, 401, 404, 413, 429, 500, 503)),
    *(echoing_error(code) for code in (-32602, -32603, -32601, -32600, -32003, 1)),
    *(echoing_exception(kind) for kind in (httpx.ConnectError, httpx.ReadTimeout, httpx.RemoteProtocolError)),
    echoing_exception(httpx.UnsupportedProtocol),
    no_connect,
    lambda call, _: fake.raw(echo(call).encode()),
    lambda call, right: fake.raw(json.dumps({echo(call): right, "id": echo(call)}).encode()),
    echoing_result(latestLedger=""),
    echoing_result(status="", error="", passphrase=""),
]


def leaks(text: str) -> list[str]:
    encoded = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    return [secret for secret in ("secret", encoded.lower()[:20]) if secret in text.lower()]


@pytest.mark.parametrize("during", ["the call", "the check of the network"])
@pytest.mark.parametrize("echoed", range(len(ECHOES)))
def test_no_secret_of_a_url_gets_out(echoed: int, during: str, caplog: pytest.LogCaptureFixture) -> None:
    """A key in path, query or user information is in no log record, error, traceback, counter or answer."""
    for name in (None, "httpx", "httpcore", "httpcore.http11", "httpcore.connection", "asyncio", "exporter"):
        caplog.set_level(logging.DEBUG, logger=name)
    said: list[object] = []
    causes: list[BaseException | None] = []
    clock = VirtualClock()
    rpc = FakeRpc(entries={key(0): made_entry(0)})
    script = rpc.faults if during == "the call" else rpc.network_faults
    limits = RpcLimits(attempts=2)

    async def main() -> None:
        source = RpcSource([SECRET_URL], PASSPHRASE, limits=limits, transport=rpc, timing=clock.timing())
        async with source:
            for ask in (
                source.tip,
                lambda: source.read_entries([key(0), key(1)]),
                lambda: source.close_time(500),
                lambda: source.simulate(CALL),
            ):
                script["rpc.example.org"].clear()
                script["rpc.example.org"].extend(40 * [ECHOES[echoed]])
                try:
                    said.append(await ask())
                except ExporterError as error:
                    said.append("".join(traceback.format_exception(error)))
                    causes.extend((error.__cause__, error.__context__))
            said.extend((source.counters.as_dict(), repr(vars(source)), source.endpoints))

    asyncio.run(main())

    authorizations = {call.request.headers["authorization"] for call in rpc.calls}
    assert {f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"} == authorizations
    assert {f"/v1/{PATH}/rpc?apikey={QUERY}".encode()} == {call.request.url.raw_path for call in rpc.calls}
    assert {None} >= set(causes)
    assert [] == leaks(repr(said))
    assert [] == [record for record in caplog.records if leaks(record.getMessage() + repr(vars(record)))]


def echo_of_headers(call: Call) -> str:
    return " ".join(f"{name}: {value}; {json.dumps(value)}" for name, value in call.request.headers.items())


@pytest.mark.parametrize(
    "fault",
    [
        lambda call, right: fake.ok(
            right | {"result": None, "error": {"code": -32603, "message": echo_of_headers(call)}}
        ),
        lambda call, _: fake.raw(echo_of_headers(call).encode(), 401, x_echo=echo_of_headers(call)),
        lambda call, right: fake.raising(httpx.ConnectError(echo_of_headers(call), request=call.request))(call, right),
        lambda call, right: fake.altered(
            lambda each: each["result"].update(status="", error=echo_of_headers(call), passphrase=echo_of_headers(call))
        )(call, right),
        fake.unaltered,
    ],
)
def test_no_secret_of_a_header_gets_out(fault: fake.Fault, caplog: pytest.LogCaptureFixture) -> None:
    """Headers go with every request to their endpoint, and into no log record, error, traceback, counter or answer."""
    caplog.set_level(logging.DEBUG)
    rpc, clock = FakeRpc(entries={key(0): made_entry(0)}), VirtualClock()
    said: list[object] = []

    async def main() -> None:
        source = RpcSource(
            ["https://rpc.example.org/v1"],
            PASSPHRASE,
            headers=HEADERS,
            limits=RpcLimits(attempts=2),
            transport=rpc,
            timing=clock.timing(),
        )
        async with source:
            for ask in (source.tip, lambda: source.read_entries([key(0)]), lambda: source.simulate(CALL)):
                for script in (rpc.faults, rpc.network_faults):
                    script["rpc.example.org"].extend(20 * [fault])
                try:
                    said.append(await ask())
                except ExporterError as error:
                    said.append("".join(traceback.format_exception(error)))
            said.extend((source.counters.as_dict(), source.endpoints, repr(source._endpoints)))

    asyncio.run(main())

    for name, value in HEADERS.items():
        assert {value} == {call.request.headers[name] for call in rpc.calls}
    assert [] == leaks(repr(said))
    assert [] == [record for record in caplog.records if leaks(record.getMessage())]
