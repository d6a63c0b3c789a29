"""The embedded Stellar RPC server over HTTP, in a thread. Its texts are those of an unmodified server."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import msgspec
import uvicorn
from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from exporter.errors import ConfigError
from exporter.localnet.network import LocalNetwork
from exporter.localnet.rpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    SNAPSHOT_NOT_FOUND,
    Node,
    Result,
    RpcError,
    answer_of,
)

MAX_BODY_BYTES = 512 * 1024
_MAX_CATCH_UP_SECONDS = 0.5
_START_SECONDS = _STOP_SECONDS = 10.0


class _UnavailableError(Exception):
    """A request is answered with HTTP 503 and without a body."""


class Behaviour(Struct):
    """The behaviour of a server, which may change while it runs. By default one node answers, and no ledger closes.

    Attributes:
        lags: a node for each number, which is that many ledgers behind the chain. ``/node/N`` is node N. ``/`` asks one
            node after the other, so its latest ledger goes backwards if the lags differ.
        latency: how many seconds pass before a request is looked at.
        fail_rate: the part of requests that fail, half of them with HTTP 503, and half with the error -32603.
        advance_every_requests: the chain closes a ledger each time that this many calls were made.
        advance_every_seconds: the chain closes a ledger each time that this many seconds have passed.
        seed: decides which requests fail.
        clock: a function that returns the seconds of a clock.
        broken: the error of every call of a method at a node.
        counts: the number of calls so far, by method.
    """

    lags: tuple[int, ...] = (0,)
    latency: float = 0.0
    fail_rate: float = 0.0
    advance_every_requests: int | None = None
    advance_every_seconds: float | None = None
    seed: int = 1
    clock: Callable[[], float] = time.monotonic
    broken: dict[tuple[str, int], RpcError] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


def create_app(network: LocalNetwork, behaviour: Behaviour | None = None) -> Starlette:
    """The ASGI application that serves a network. ``/`` is the endpoint, and ``/node/N`` is one of its nodes."""
    server = _Server(network, behaviour or Behaviour())
    paths = ("/", *(f"/node/{node}" for node in range(len(server.behaviour.lags))))
    routes = [Route(path, server.respond, methods=["POST"]) for path in paths]
    return Starlette(routes=routes, exception_handlers={404: _not_found, 405: _not_allowed})


async def _not_found(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return PlainTextResponse("404 page not found\n", 404, {"vary": "Origin"})


async def _not_allowed(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return Response(status_code=405)


class _Server:
    def __init__(self, network: LocalNetwork, behaviour: Behaviour) -> None:
        self.network, self.behaviour = network, behaviour
        self._random = Random(behaviour.seed)
        self._next_node = 0
        self._closed_at: float | None = None

    async def respond(self, request: Request) -> Response:
        response = await self._response(request)
        response.headers["vary"] = "Origin"
        return response

    async def _response(self, request: Request) -> Response:
        _, _, number = request.url.path.partition("/node/")
        node = int(number or self._next_node)
        if not number:
            self._next_node = (node + 1) % len(self.behaviour.lags)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return PlainTextResponse("content-type must be application/json\n", 415)
        body = await request.body()
        if len(body) > MAX_BODY_BYTES:
            return PlainTextResponse("http: request body too large\n", 500)
        try:
            content = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return PlainTextResponse(f"[{PARSE_ERROR}] invalid request value\n", 500)
        if self.behaviour.latency > 0:
            await asyncio.sleep(self.behaviour.latency)
        if self.behaviour.advance_every_seconds is not None:
            self._catch_up(self.behaviour.advance_every_seconds)
        requests = content if isinstance(content, list) else [content]
        try:
            answers = [answer for item in requests if (answer := self._answer(item, node)) is not None]
        except _UnavailableError:
            return Response(status_code=503)
        if not answers:
            return Response(status_code=204)
        answer_body = answers if len(answers) > 1 else answers[0]  # a batch of one gets no list from the real one, too
        return Response(msgspec.json.encode(answer_body), media_type="application/json")

    def _catch_up(self, seconds: float) -> None:
        """Close the ledgers that are due since the last request. This takes half a second at most."""
        now = self.behaviour.clock()
        if self._closed_at is None:
            self._closed_at = now
        due = int((now - self._closed_at) / seconds)
        self._closed_at += due * seconds
        for _ in range(due):
            self.network.advance()
            if self.behaviour.clock() - now > _MAX_CATCH_UP_SECONDS:
                self._closed_at = self.behaviour.clock()
                break

    def _answer(self, request: Any, node: int) -> Result | None:
        number = request.get("id") if isinstance(request, dict) else None
        try:
            answer = {"jsonrpc": "2.0", "id": number, "result": self._result(request, node)}
        except RpcError as error:
            data = {} if error.data is None else {"data": error.data}
            return {"jsonrpc": "2.0", "id": number, "error": {"code": error.code, "message": error.message} | data}
        return None if number is None else answer

    def _result(self, request: Any, node: int) -> Result:
        """The result of a request. Raises `RpcError` if it has none."""
        if not isinstance(request, dict):
            raise RpcError(PARSE_ERROR, "request is not a JSON object")
        method = request.get("method")
        if request.get("jsonrpc") != "2.0":
            raise RpcError(INVALID_REQUEST, "invalid version marker")
        if not isinstance(method, str) or not method:
            raise RpcError(INVALID_REQUEST, "empty method name")
        behaviour, chain = self.behaviour, self.network.chain
        ledger = max(chain.latest - behaviour.lags[node], chain.oldest)
        try:
            if error := behaviour.broken.get((method, node)):
                raise error
            if behaviour.fail_rate and self._random.random() < behaviour.fail_rate:
                raise _UnavailableError if self._random.randrange(2) else RpcError(INTERNAL_ERROR, SNAPSHOT_NOT_FOUND)
            return answer_of(Node(self.network, ledger), method, request.get("params"))
        finally:
            behaviour.counts[method] += 1
            if behaviour.advance_every_requests and behaviour.counts.total() % behaviour.advance_every_requests == 0:
                self.network.advance()


@contextmanager
def running(app: ASGIApp, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve an application in a thread while the block runs, and yield its URL.

    Raises `OSError` if the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        host.encode("idna")
    except UnicodeError:
        raise OSError(errno.EINVAL, "this cannot be the name of a host") from None
    with socket.create_server((host, port), family=family, backlog=1024) as listener:
        # Connections inherit this option. Without it, every answer on a kept-alive connection waits 40 ms. asyncio sets
        # it only for sockets that name their protocol, which this one does not.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
            timeout_keep_alive=120,  # Stellar RPC closes no idle connection, and uvicorn would after 5 s
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="localnet", daemon=True)
        thread.start()
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not server.started and thread.is_alive() and time.monotonic() < deadline:
                time.sleep(0.005)
            if not server.started:
                raise OSError("the embedded RPC server did not start")
            yield f"http://{f'[{host}]' if family == socket.AF_INET6 else host}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(_STOP_SECONDS)


def serve(app: ASGIApp, host: str, port: int, say: Callable[[str], None]) -> None:
    """Serve until interrupted. ``say`` is called with the URL. Raises `ConfigError` if the address cannot be used."""
    try:
        with running(app, host=host, port=port) as url:
            say(url)
            while True:  # Event.wait() would go on after Ctrl-C, because of Polars' signal handler
                time.sleep(3600)
    except OSError as error:
        problem = f"cannot listen on --host {host} --port {port}: {error.strerror or error}; give another --port"
        raise ConfigError(problem) from None
