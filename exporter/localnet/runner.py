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
    try:
        with running(create_app(network, behaviour), host=host, port=port) as url:
            say(f"serving ledger {network.chain.latest} of {network.passphrase!r} as a Stellar RPC at {url}")
            while True:  # not Event.wait(), which Polars' handler of signals lets go on after Ctrl-C
                time.sleep(3600)
    except OSError as error:
        raise ConfigError(f"--host {host} --port {port} cannot be had: {error.strerror or error}") from None
