"""The embedded RPC server on a real socket: in a thread next to a client, or until somebody stops it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from exporter.errors import ConfigError

_START_SECONDS = _STOP_SECONDS = 10.0


@contextmanager
def running(app: ASGIApp, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve an application in a thread while the block runs; gives its URL. Raises OSError for a port that is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=1024) as listener:
        # Connections inherit it; without it each answer on a kept-alive connection waits 40 ms (asyncio sets it only
        # for sockets that were made with IPPROTO_TCP).
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
    """Serve until interrupted; ``say`` receives the URL first. Raises `ConfigError` for an unusable address."""
    try:
        with running(app, host=host, port=port) as url:
            say(url)
            while True:  # not Event.wait(), which Polars' handler of signals lets go on after Ctrl-C
                time.sleep(3600)
    except OSError as error:
        raise ConfigError(f"--host {host} --port {port} cannot be had: {error.strerror or error}") from None
