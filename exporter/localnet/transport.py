"""Calling the embedded RPC server inside the process, without a socket.

A client takes `LocalTransport` as its httpx transport; what happens on a socket when the server drops a connection or
cuts a response off happens here as well: httpx raises ``RemoteProtocolError``.
"""

from __future__ import annotations

import httpx

from exporter.localnet.server import App, ConnectionDroppedError


class LocalTransport(httpx.AsyncBaseTransport):
    """An httpx transport over an application that `create_app` made."""

    def __init__(self, app: App) -> None:
        """Every URL of the client goes to this application."""
        self._transport = httpx.ASGITransport(app)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Run the application for one request."""
        try:
            return await self._transport.handle_async_request(request)
        except ConnectionDroppedError as error:
            raise httpx.RemoteProtocolError(str(error), request=request) from None
