"""The embedded Stellar RPC server: JSON-RPC over HTTP POST, as an ASGI application.

The HTTP side follows the bridge that Stellar RPC uses: POST of
``application/json`` only, at most 512 KiB, a JSON array as a batch (whose answer is an array in the same order, or a
lone object when there is one answer), 204 when nothing but notifications came. A body that is no JSON at all gets
HTTP 500 with the text of error -32700; JSON that is not a request object gets that error as an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from typing import Any, TypeAlias

import httpx
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from exporter.localnet.behaviour import Behaviour, Call, Failure
from exporter.localnet.network import LocalNetwork
from exporter.localnet.rpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    METHODS,
    PARSE_ERROR,
    Node,
    Params,
    RpcError,
)

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 512 * 1024
_FIELDS = {"jsonrpc", "id", "method", "params"}


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
        media_type, _, rest = request.headers.get("content-type", "").partition(";")
        if media_type.strip().lower() != "application/json":
            return Response("content-type must be application/json\n", 415), False
        if "charset" in rest.lower() and not rest.lower().replace('"', "").strip().endswith(("utf-8", "utf8")):
            return Response("invalid content-type charset\n", 415), False
        body = await _bounded_body(request)
        if body is None:
            return Response("http: request body too large\n", 500), False
        try:
            document = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return Response(f"[{PARSE_ERROR}] invalid request value\n", 500), False
        if self.behaviour.latency > 0:
            await asyncio.sleep(self.behaviour.latency)
        self.behaviour.before_request(self.network)
        cut: list[Failure] = []
        calls = document if isinstance(document, list) else [document]
        answers = [answer for call in calls if (answer := self._answer(call, node, cut)) is not None]
        if not answers:
            return Response(status_code=204), False
        content = msgspec.json.encode(answers[0] if len(answers) == 1 else answers)
        return Response(content, media_type="application/json"), bool(cut)

    def _answer(self, document: Any, node: int, cut: list[Failure]) -> Params | None:
        """The answer to one JSON-RPC request, or None to a notification."""
        identifier = document.get("id") if isinstance(document, dict) else None
        try:
            method, params = _checked(document)
        except RpcError as error:
            return _error_answer(identifier if _is_id(identifier) else None, error)
        failure = self.behaviour.failure_of(method, node)
        ledger = self.behaviour.ledger_of(node, self.network)
        call = Call(node, method, *_detail(method, params), ledger, "ok")
        answer: Params
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
                cut.append(failure)
            answer = {"jsonrpc": "2.0", "id": identifier, "result": result}
        except RpcError as error:
            call = replace(call, outcome=f"error {error.code}")
            answer = _error_answer(identifier, error)
        finally:
            self.behaviour.record(call)
            self.behaviour.after_call(self.network)
        return None if identifier is None else answer


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


def _checked(document: Any) -> tuple[str, Params]:
    """The method and parameters of a request object, or the error that the bridge gives."""
    if not isinstance(document, dict):
        raise RpcError(PARSE_ERROR, "request is not a JSON object")
    method, params = document.get("method", ""), document.get("params")
    if not _is_id(document.get("id")):
        raise RpcError(INVALID_REQUEST, "invalid request ID")
    if document.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "invalid version marker")
    if not isinstance(method, str):
        raise RpcError(PARSE_ERROR, "invalid method name")
    if not isinstance(params, dict | list | None):
        raise RpcError(INVALID_REQUEST, "parameters must be array or object")
    if not method:
        raise RpcError(INVALID_REQUEST, "empty method name")
    if set(document) - _FIELDS:
        raise RpcError(INVALID_REQUEST, "extra fields in request")
    if isinstance(params, list):
        raise RpcError(INVALID_PARAMS, "array parameters are not supported")
    return method, params or {}


def _is_id(identifier: Any) -> bool:
    return isinstance(identifier, str | int | float | None) and not isinstance(identifier, bool)


def _detail(method: str, params: Params) -> tuple[int, str]:
    """How many keys a call has, and what it asks in a few words."""
    keys = params.get("keys")
    if method == "getLedgerEntries" and isinstance(keys, list):
        return len(keys), f"{len(keys)} keys"
    shown = {name: value for name, value in params.items() if not isinstance(value, str) or len(value) <= 40}
    return 0, str(shown)[:120] if shown else ""


def _error_answer(identifier: Any, error: RpcError) -> Params:
    return {"jsonrpc": "2.0", "id": identifier, "error": {"code": error.code, "message": error.message}}


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
