"""The embedded RPC server on a real socket: in a thread next to a client, or until somebody stops it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from exporter.errors import ConfigError
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.localnet.behaviour import Behaviour
from exporter.localnet.network import LocalNetwork, snapshot_network
from exporter.localnet.player import DEFAULT_START_LEDGER, RecordedNetwork, copies_for
from exporter.localnet.server import create_app

_START_SECONDS = 10.0
_STOP_SECONDS = 10.0


@contextmanager
def running(app: ASGIApp, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve an application in a thread while the block runs; gives its URL. Port 0 is any free port.

    Raises OSError when the address cannot be had.
    """
    with _listening(host, port) as listener:
        server = _server(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="localnet", daemon=True)
        thread.start()
        try:
            _wait_until(lambda: server.started or not thread.is_alive(), _START_SECONDS)
            if not server.started:
                raise OSError("the embedded RPC server did not start")
            yield url_of(listener)
        finally:
            server.should_exit = True
            thread.join(_STOP_SECONDS)


def serve_forever(
    app: ASGIApp, *, host: str = "127.0.0.1", port: int = 8000, on_start: Callable[[str], None] | None = None
) -> None:
    """Serve an application until the process is interrupted; ``on_start`` receives the URL before the first request.

    Raises OSError when the address cannot be had.
    """
    with _listening(host, port) as listener:
        if on_start is not None:
            on_start(url_of(listener))
        _server(app).run(sockets=[listener])


def url_of(listener: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=1024)
    # Connections inherit it; without it each answer on a kept-alive connection waits 40 ms (asyncio sets it only for
    # sockets that were made with IPPROTO_TCP).
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)


def _server(app: ASGIApp) -> uvicorn.Server:
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
    return uvicorn.Server(config)


def serve_network(
    host: str,
    port: int,
    say: Callable[[str], None],
    *,
    pools: int,
    seed: int,
    start_ledger: int | None,
    snapshot: Path | None,
    advance_every_seconds: float | None,
    advance_every_requests: int | None,
    latency: float,
    lags: tuple[int, ...],
    fail_rate: float,
) -> None:
    """The command ``exporter localnet``: serve the recording or a file until the process is interrupted.

    ``say`` receives one line, with the URL, before the first request. Raises `SnapshotFileError` for a bad
    file and `ConfigError` for an address that cannot be had.
    """
    network: LocalNetwork
    if snapshot is not None:
        network = snapshot_network(LedgerSnapshot.load(snapshot))
    else:
        network = RecordedNetwork(
            copies=copies_for(pools), seed=seed, start_ledger=start_ledger or DEFAULT_START_LEDGER
        )
    behaviour = Behaviour(
        lags=lags or (0,),
        latency=latency,
        fail_rate=fail_rate,
        advance_every_seconds=advance_every_seconds,
        advance_every_requests=advance_every_requests,
        seed=seed,
    )
    app = create_app(network, behaviour)
    line = f"serving ledger {network.chain.latest} of {network.passphrase!r} as a Stellar RPC at"
    try:
        serve_forever(app, host=host, port=port, on_start=lambda url: say(f"{line} {url}"))
    except OSError as error:
        raise ConfigError(f"--host {host} --port {port} cannot be had: {error.strerror or error}") from None
