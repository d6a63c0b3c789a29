"""The embedded Stellar RPC server: JSON-RPC over HTTP POST, as an ASGI application.

One request is at most 512 KiB and holds one call. A body that is no JSON-RPC request gets HTTP 500 with the text of
error -32700, as from the bridge that Stellar RPC uses.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Literal

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from exporter.localnet.behaviour import Behaviour, Call, Failure
from exporter.localnet.network import LocalNetwork
from exporter.localnet.rpc import METHOD_NOT_FOUND, METHODS, PARSE_ERROR, Node, Params, RpcError

MAX_BODY_BYTES = 512 * 1024


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: str
    params: Params | None = None


class _HttpFailure(Exception):  # noqa: N818 - it ends a request, and is no error of the program
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.name)
        self.failure = failure


def create_app(network: LocalNetwork, behaviour: Behaviour | None = None) -> Starlette:
    """The ASGI application that serves a network; every path is the endpoint, ``/node/N`` is one of its nodes."""
    server = _Server(network, behaviour or Behaviour())
    return Starlette(routes=[Route("/{path:path}", server.respond, methods=["POST"])])


class _Server:
    def __init__(self, network: LocalNetwork, behaviour: Behaviour) -> None:
        self.network = network
        self.behaviour = behaviour

    async def respond(self, request: Request) -> Response:
        node = self._node(request.url.path)
        if node is None:
            return Response("there is no such node\n", 404)
        try:
            return await self._response(request, node)
        except _HttpFailure as failed:
            failure = failed.failure
            headers = {} if failure.retry_after is None else {"retry-after": failure.retry_after}
            return Response(failure.body, failure.status, headers=headers)

    def _node(self, path: str) -> int | None:
        if not path.startswith("/node/"):
            return self.behaviour.balance()
        number = path.removeprefix("/node/")
        known = len(self.behaviour.lags)
        return next((node for node in range(known) if number == str(node)), None)

    async def _response(self, request: Request, node: int) -> Response:
        body = await _bounded_body(request)
        if body is None:
            return Response("http: request body too large\n", 500)
        try:
            call = msgspec.json.decode(body, type=_Request)
        except (msgspec.DecodeError, RecursionError):
            return Response(f"[{PARSE_ERROR}] invalid request value\n", 500)
        if self.behaviour.latency > 0:
            await asyncio.sleep(self.behaviour.latency)
        self.behaviour.before_request(self.network)
        return Response(msgspec.json.encode(self._answer(call, node)), media_type="application/json")

    def _answer(self, request: _Request, node: int) -> Params:
        """The answer to a JSON-RPC request."""
        method, params = request.method, request.params or {}
        failure = self.behaviour.failure_of(method, node)
        ledger = self.behaviour.ledger_of(node, self.network)
        call = Call(node, method, "ok")
        answer: Params = {"jsonrpc": "2.0", "id": request.id}
        try:
            if failure is not None and failure.code is not None:
                raise RpcError(failure.code, failure.message)
            if failure is not None:
                call = replace(call, outcome=failure.name)
                raise _HttpFailure(failure)
            if method not in METHODS:
                raise RpcError(METHOD_NOT_FOUND, "method not found")
            result = METHODS[method](Node(self.network, ledger), params)
            if "error" in result:
                call = replace(call, outcome="trap")
            answer["result"] = result
        except RpcError as error:
            call = replace(call, outcome=f"error {error.code}")
            answer["error"] = {"code": error.code, "message": error.message}
        finally:
            self.behaviour.record(call)
            self.behaviour.after_call(self.network)
        return answer


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
