"""A plain JSON-RPC client for the tests of the embedded server, in the process and without a socket."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import httpx

from exporter.ledger.rpc.wire import invocation_envelope
from exporter.ledger.source import ContractCall
from exporter.localnet.network import LocalNetwork
from exporter.localnet.server import Behaviour, create_app


class LocalRpc:
    """Calls a server over a network; ``behaviour`` is the server's."""

    def __init__(self, network: LocalNetwork, behaviour: Behaviour | None = None) -> None:
        self.network = network
        self.behaviour = behaviour or Behaviour()
        self._app = create_app(network, self.behaviour)

    def post(self, content: bytes, path: str = "/", **headers: str) -> httpx.Response:
        return self.request("POST", content, path, {"content-type": "application/json"} | headers)

    def request(self, method: str, content: bytes, path: str, headers: dict[str, str]) -> httpx.Response:
        async def send() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(self._app), base_url="http://localnet"
            ) as client:
                return await client.request(method, path, content=content, headers=headers)

        return asyncio.run(send())

    def answer(self, method: str, params: Any = None, path: str = "/") -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": 7, "method": method}
        if params is not None:
            request["params"] = params
        response = self.post(httpx.Request("POST", "http://localnet", json=request).content, path)
        assert 200 == response.status_code, response.text
        answer: dict[str, Any] = response.json()
        assert ("2.0", 7) == (answer["jsonrpc"], answer["id"])
        return answer

    def result(self, method: str, path: str = "/", **params: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.answer(method, params or None, path)["result"]
        return result

    def error(self, method: str, params: Any = None) -> tuple[int, str]:
        error = self.answer(method, params)["error"]
        return error["code"], error["message"]

    def simulate(self, contract: str, function: str, *arguments: Any, **params: Any) -> dict[str, Any]:
        transaction = text(invocation_envelope(ContractCall(contract, function, arguments)))
        return self.result("simulateTransaction", transaction=transaction, **params)


def text(content: bytes) -> str:
    """Base64, as XDR travels."""
    return base64.b64encode(content).decode()
