"""What ``exporter localnet`` does: make or load a network, and serve it until interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from exporter.errors import ConfigError
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.localnet.behaviour import Behaviour
from exporter.localnet.made import DEFAULT_START_LEDGER, MadeNetwork
from exporter.localnet.made_protocols import NONE, SOME
from exporter.localnet.network import LocalNetwork, snapshot_network
from exporter.localnet.runner import serve_forever
from exporter.localnet.server import create_app


def serve_network(
    host: str,
    port: int,
    say: Callable[[str], None],
    *,
    pools: int,
    alula_markets: int,
    other_protocols: bool,
    seed: int,
    start_ledger: int | None,
    snapshot: Path | None,
    advance_every_seconds: float | None,
    advance_every_requests: int | None,
    latency: float,
    lags: tuple[int, ...],
    fail_rate: float,
) -> None:
    """Serve until the process is interrupted. ``say`` is told one line, with the URL, before the first request.

    Raises `SnapshotFileError` for a bad file and `ConfigError` for an address that cannot be had.
    """
    network: LocalNetwork
    if snapshot is not None:
        network = snapshot_network(LedgerSnapshot.load(snapshot))
    else:
        network = MadeNetwork(
            pools=pools,
            alula_markets=alula_markets,
            others=SOME if other_protocols else NONE,
            seed=seed,
            start_ledger=start_ledger or DEFAULT_START_LEDGER,
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
