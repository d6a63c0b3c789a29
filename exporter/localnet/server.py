"""The embedded Stellar RPC server: JSON-RPC over HTTP POST, as an ASGI application.

One request is at most 512 KiB and holds one call. A body that is no JSON-RPC request gets HTTP 500 with the text of
error -32700, as from the bridge that Stellar RPC uses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import httpx
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from exporter.localnet.behaviour import Behaviour, Call, Failure
from exporter.localnet.network import LocalNetwork
from exporter.localnet.rpc import METHOD_NOT_FOUND, METHODS, PARSE_ERROR, Node, Params, RpcError

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 512 * 1024


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: str
    params: Params | None = None


class ConnectionDroppedError(ConnectionError):
    """The application closes the connection; the runner and the in-process transport know what to do."""


class _HttpFailure(Exception):  # noqa: N818 - it ends a request, and is no error of the program
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.name)
        self.failure = failure


def create_app(network: LocalNetwork, behaviour: Behaviour | None = None) -> App:
    """The ASGI application that serves a network; every path is the endpoint, ``/node/N`` is one of its nodes."""
    server = _Server(network, behaviour or Behaviour())

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            request = Request(scope, receive)
            await server.respond(request, scope, receive, send)

    return app


async def _lifespan(receive: Receive, send: Send) -> None:
    for _ in range(2):  # startup, then shutdown
        message = await receive()
        await send({"type": f"{message['type']}.complete"})


class _Server:
    def __init__(self, network: LocalNetwork, behaviour: Behaviour) -> None:
        self.network = network
        self.behaviour = behaviour

    async def respond(self, request: Request, scope: Message, receive: Receive, send: Send) -> None:
        node = self._node(request.url.path)
        truncated = False
        if node is None:
            response = Response("there is no such node\n", 404)
        else:
            try:
                response, truncated = await self._response(request, node)
            except _HttpFailure as failed:
                response = _failed_response(failed.failure)
        if not truncated:
            await response(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
        await send({"type": "http.response.body", "body": response.body[: len(response.body) // 2], "more_body": True})
        raise ConnectionDroppedError("the response was truncated on demand")

    def _node(self, path: str) -> int | None:
        if not path.startswith("/node/"):
            return self.behaviour.balance()
        number = path.removeprefix("/node/")
        known = len(self.behaviour.lags)
        return next((node for node in range(known) if number == str(node)), None)

    async def _response(self, request: Request, node: int) -> tuple[Response, bool]:
        """The response, and whether it is to be cut off."""
        if request.method != "POST":
            return Response(status_code=405, headers={"accept-post": "application/json"}), False
        body = await _bounded_body(request)
        if body is None:
            return Response("http: request body too large\n", 500), False
        try:
            call = msgspec.json.decode(body, type=_Request)
        except (msgspec.DecodeError, RecursionError):
            return Response(f"[{PARSE_ERROR}] invalid request value\n", 500), False
        if self.behaviour.latency > 0:
            await asyncio.sleep(self.behaviour.latency)
        self.behaviour.before_request(self.network)
        answer, truncated = self._answer(call, node)
        return Response(msgspec.json.encode(answer), media_type="application/json"), truncated

    def _answer(self, request: _Request, node: int) -> tuple[Params, bool]:
        """The answer to a JSON-RPC request, and whether it is to be cut off."""
        method, params = request.method, request.params or {}
        failure = self.behaviour.failure_of(method, node)
        ledger = self.behaviour.ledger_of(node, self.network)
        call = Call(node, method, "ok")
        answer: Params = {"jsonrpc": "2.0", "id": request.id}
        try:
            if failure is not None and failure.code is not None:
                raise RpcError(failure.code, failure.message)
            if failure is not None and not failure.truncated:
                call = replace(call, outcome=failure.name)
                raise _HttpFailure(failure)
            if method not in METHODS:
                raise RpcError(METHOD_NOT_FOUND, "method not found")
            result = METHODS[method](Node(self.network, ledger), params)
            if "error" in result:
                call = replace(call, outcome="trap")
            if failure is not None:
                call = replace(call, outcome=failure.name)
            answer["result"] = result
        except RpcError as error:
            call = replace(call, outcome=f"error {error.code}")
            answer["error"] = {"code": error.code, "message": error.message}
        finally:
            self.behaviour.record(call)
            self.behaviour.after_call(self.network)
        return answer, failure is not None and failure.truncated


async def _bounded_body(request: Request) -> bytes | None:
    """The body, or None when it is longer than the server reads."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            return None
        parts.append(part)
    return b"".join(parts)


def _failed_response(failure: Failure) -> Response:
    if failure.dropped:
        raise ConnectionDroppedError("the connection was dropped on demand")
    headers = {} if failure.retry_after is None else {"retry-after": failure.retry_after}
    return Response(failure.body, failure.status, headers=headers)


class LocalTransport(httpx.AsyncBaseTransport):
    """An httpx transport over an application that `create_app` made: a client inside the process, without a socket.

    What happens on a socket when the server drops a connection or cuts a response off happens here as well: httpx
    raises ``RemoteProtocolError``.
    """

    def __init__(self, app: App) -> None:
        self._transport = httpx.ASGITransport(app)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._transport.handle_async_request(request)
        except ConnectionDroppedError as error:
            raise httpx.RemoteProtocolError(str(error), request=request) from None
