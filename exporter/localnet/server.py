"""The embedded Stellar RPC server over HTTP POST, as an ASGI application; texts are an unmodified server's."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from exporter.localnet.behaviour import Behaviour, UnavailableError
from exporter.localnet.network import LocalNetwork
from exporter.localnet.rpc import INVALID_REQUEST, PARSE_ERROR, Node, Result, RpcError, answer_of

MAX_BODY_BYTES = 512 * 1024


def create_app(network: LocalNetwork, behaviour: Behaviour | None = None) -> Starlette:
    """The ASGI application that serves a network; ``/`` is the endpoint, ``/node/N`` is one of its nodes."""
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
        self.network = network
        self.behaviour = behaviour

    async def respond(self, request: Request) -> Response:
        response = await self._response(request)
        response.headers["vary"] = "Origin"
        return response

    async def _response(self, request: Request) -> Response:
        _, _, number = request.url.path.partition("/node/")
        node = int(number) if number else self.behaviour.balance()
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
        self.behaviour.before_request(self.network)
        batch = content if isinstance(content, list) else [content]
        try:
            answers = [answer for item in batch if (answer := self._answer(item, node)) is not None]
        except UnavailableError:
            return Response(status_code=503)
        if not answers:
            return Response(status_code=204)
        sent = answers if batch is content else answers[0]
        return Response(msgspec.json.encode(sent), media_type="application/json")

    def _answer(self, request: Any, node: int) -> Result | None:
        number = request.get("id") if isinstance(request, dict) else None
        try:
            answer = {"jsonrpc": "2.0", "id": number, "result": self._called(request, node)}
        except RpcError as error:
            data = {} if error.data is None else {"data": error.data}
            return {"jsonrpc": "2.0", "id": number, "error": {"code": error.code, "message": error.message} | data}
        return None if number is None else answer

    def _called(self, request: Any, node: int) -> Result:
        if not isinstance(request, dict):
            raise RpcError(PARSE_ERROR, "request is not a JSON object")
        method = request.get("method")
        if request.get("jsonrpc") != "2.0":
            raise RpcError(INVALID_REQUEST, "invalid version marker")
        if not isinstance(method, str) or not method:
            raise RpcError(INVALID_REQUEST, "empty method name")
        ledger = self.behaviour.ledger_of(node, self.network)
        try:
            self.behaviour.fail(method, node)
            return answer_of(Node(self.network, ledger), method, request.get("params"))
        finally:
            self.behaviour.after_call(method, self.network)
