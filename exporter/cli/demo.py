"""``exporter demo``: a whole run against an embedded network of made markets, over HTTP as against any other."""

from __future__ import annotations

import sys
import time

import click

from exporter.cli.common import ending, log_format_option
from exporter.console import Console, own_command

CLOSE_SECONDS = 5
ALULA_MARKETS = 3  # as many as the local network knows
QUIET_LEDGERS = 30 * 86_400 // CLOSE_SECONDS
_FIRST_LEDGER = 65_000_000
_FIRST_TIME = 1_790_000_000


@click.command()
@click.option(
    "--out", default="./public", show_default=True, help="Where the tree goes: a folder or s3://BUCKET/PREFIX."
)
@click.option("--pools", type=click.IntRange(1, 100_000), default=60, show_default=True, help="How many Blend pools.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed makes other markets.")
@click.option("--report", help="The file for the run report.  [default: run-report.json]")
@log_format_option
def demo(out: str, pools: int, seed: int, report: str | None, log_format: str) -> None:
    """Try a run against a made network; needs nothing else.

    Its markets, amounts and prices are made up, and every page says so.
    """
    console = Console(log_format)
    with ending(console):
        import exporter
        from exporter.config import load
        from exporter.localnet.behaviour import Behaviour
        from exporter.localnet.made import SOME, MadeNetwork
        from exporter.localnet.runner import running
        from exporter.localnet.server import create_app

        # The ledger goes with the wall clock, so that a later demo into the same output is of a later ledger. Events
        # are kept for a month, so that the later demo misses none.
        now = int(time.time())
        ledger = _FIRST_LEDGER + (now - _FIRST_TIME) // CLOSE_SECONDS
        made = f"{pools} made Blend pools, {ALULA_MARKETS} Alula markets, and some of every other protocol"
        console.event("demo", f"an embedded network of {made}, at ledger {ledger}", ledger=ledger)
        network = MadeNetwork(
            pools=pools,
            seed=seed,
            start_ledger=ledger,
            start_time=now - now % CLOSE_SECONDS,
            close_seconds=CLOSE_SECONDS,
            window=QUIET_LEDGERS,
            quiet_ledgers=QUIET_LEDGERS,
            alula_markets=ALULA_MARKETS,
            others=SOME,
        )
        with running(create_app(network, Behaviour(advance_every_seconds=CLOSE_SECONDS))) as url:
            flags = {
                "network.name": "local",
                "network.rpc_urls": [url],
                "network.requests_per_second": 1000.0,  # it is this machine that is asked
                "output.uri": out,
                "output.report": report,
            }
            result = exporter.run(load(None, flags, environment={}).settings, console=console)
        look = ("check", out) if "://" in out else ("serve", "--out", out)
        console.event("demo", f"look at it with: {own_command(*look)}")
        sys.exit(result.exit_code)
