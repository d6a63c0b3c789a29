"""``exporter localnet``."""

from __future__ import annotations

from typing import Any

import click

from exporter.cli.common import FILE, ending, pools_option
from exporter.console import Console


@click.command()
@pools_option
@click.option("--seed", type=int, default=1, show_default=True, help="Each seed moves the markets differently.")
@click.option("--start-ledger", type=click.IntRange(1, 4_000_000_000), help="The first ledger.")
@click.option("--snapshot", type=FILE, help="Serve a ledger snapshot file.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free port.")
@click.option(
    "--advance-every-seconds",
    type=click.FloatRange(0.01, 3600),
    help="Seconds between ledgers.",
)
@click.option("--advance-every-requests", type=click.IntRange(1), help="Calls between ledgers.")
@click.option("--latency", type=click.FloatRange(0, 60), default=0, help="Seconds to wait before each answer.")
@click.option(
    "--lag", "lags", type=click.IntRange(0, 1000), multiple=True, help="A node this many ledgers behind; repeatable."
)
@click.option("--fail-rate", type=click.FloatRange(0, 1), default=0, help="The share of requests that fail.")
def localnet(host: str, port: int, **options: Any) -> None:
    """Serve a recorded network, or a ledger snapshot file, as a Stellar RPC."""
    with ending(Console("text")):
        from exporter.localnet.runner import serve_network

        serve_network(host, port, click.echo, **options)
