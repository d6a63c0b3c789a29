"""The embedded Stellar RPC server: JSON-RPC over HTTP POST, as an ASGI application.

It answers as the bridge does that Stellar RPC uses (creachadair/jrpc2): status codes, content types and texts are those
of an unmodified server. A request is at most 512 KiB.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from exporter.localnet.behaviour import Behaviour, Call, Failure
from exporter.localnet.network import LocalNetwork
from exporter.localnet.rpc import INVALID_REQUEST, PARSE_ERROR, Node, Params, RpcError, answer_of

MAX_BODY_BYTES = 512 * 1024


class _HttpFailure(Exception):  # noqa: N818 - it ends a request, and is not an error of the program
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.name)
        self.failure = failure


def create_app(network: LocalNetwork, behaviour: Behaviour | None = None) -> Starlette:
    """The ASGI application that serves a network; ``/`` is the endpoint, ``/node/N`` is one of its nodes."""
    server = _Server(network, behaviour or Behaviour())
    route = Route("/{path:path}", server.respond, methods=["POST"])
    return Starlette(routes=[route], exception_handlers={405: _not_allowed})


async def _not_allowed(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return Response(status_code=405)


class _Server:
    def __init__(self, network: LocalNetwork, behaviour: Behaviour) -> None:
        self.network = network
        self.behaviour = behaviour

    async def respond(self, request: Request) -> Response:
        response = await self._respond(request)
        response.headers["vary"] = "Origin"
        return response

    async def _respond(self, request: Request) -> Response:
        node = self._node(request.url.path)
        if node is None:
            return PlainTextResponse("404 page not found\n", 404)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return PlainTextResponse("content-type must be application/json\n", 415)
        try:
            return await self._response(request, node)
        except _HttpFailure as failed:
            failure = failed.failure
            headers = {} if failure.retry_after is None else {"retry-after": failure.retry_after}
            return Response(failure.body, failure.status, headers=headers)

    def _node(self, path: str) -> int | None:
        if path == "/":
            return self.behaviour.balance()
        if not path.startswith("/node/"):
            return None
        number = path.removeprefix("/node/")
        known = len(self.behaviour.lags)
        return next((node for node in range(known) if number == str(node)), None)

    async def _response(self, request: Request, node: int) -> Response:
        body = await _bounded_body(request)
        if body is None:
            return PlainTextResponse("http: request body too large\n", 500)
        try:
            content = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return PlainTextResponse(f"[{PARSE_ERROR}] invalid request value\n", 500)
        if self.behaviour.latency > 0:
            await asyncio.sleep(self.behaviour.latency)
        self.behaviour.before_request(self.network)
        batch = content if isinstance(content, list) else [content]
        answers = [answer for item in batch if (answer := self._answer(item, node)) is not None]
        if not answers:
            return Response(status_code=204)
        sent = answers if batch is content else answers[0]
        return Response(msgspec.json.encode(sent), media_type="application/json")

    def _answer(self, request: Any, node: int) -> Params | None:
        """The answer to a JSON-RPC request; None to a notification."""
        if not isinstance(request, dict):
            return _error(None, RpcError(PARSE_ERROR, "request is not a JSON object"))
        number, method, params = request.get("id"), request.get("method"), request.get("params")
        if request.get("jsonrpc") != "2.0":
            return _error(number, RpcError(INVALID_REQUEST, "invalid version marker"))
        if not isinstance(method, str) or not method:
            return _error(number, RpcError(INVALID_REQUEST, "empty method name"))
        answer = self._called(number, method, params, node)
        return None if number is None else answer

    def _called(self, number: Any, method: str, params: Any, node: int) -> Params:
        failure = self.behaviour.failure_of(method, node)
        ledger = self.behaviour.ledger_of(node, self.network)
        call = Call(node, method, "ok")
        try:
            if failure is not None and failure.code is not None:
                raise RpcError(failure.code, failure.message)
            if failure is not None:
                call = replace(call, outcome=failure.name)
                raise _HttpFailure(failure)
            result = answer_of(Node(self.network, ledger), method, params)
            if "error" in result:
                call = replace(call, outcome="trap")
            return {"jsonrpc": "2.0", "id": number, "result": result}
        except RpcError as error:
            call = replace(call, outcome=f"error {error.code}")
            return _error(number, error)
        finally:
            self.behaviour.record(call)
            self.behaviour.after_call(self.network)


def _error(number: Any, error: RpcError) -> Params:
    data = {} if error.data is None else {"data": error.data}
    return {"jsonrpc": "2.0", "id": number, "error": {"code": error.code, "message": error.message} | data}


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
