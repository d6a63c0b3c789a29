"""A whole run against an embedded network of made markets, over HTTP as against any other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from exporter.config import load
from exporter.console import Console, own_command
from exporter.localnet.behaviour import Behaviour
from exporter.localnet.made import SOME, MadeNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app

CLOSE_SECONDS = 5
ALULA_MARKETS = 3  # as many as the local network knows
QUIET_LEDGERS = 30 * 86_400 // CLOSE_SECONDS
_FIRST_LEDGER = 65_000_000
_FIRST_TIME = 1_790_000_000


def run_demo(out: str, pools: int, seed: int, report: str | None, console: Console, execute: Callable[..., int]) -> int:
    """Run the job against a made network; gives the exit code of the run.

    The network's ledger goes with the wall clock, so that a later demo into the same output is of a later ledger. It
    keeps the events of a month, so that the later demo misses none.
    """
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
        flags: dict[str, Any] = {
            "network.name": "local",
            "network.rpc_urls": [url],
            "network.requests_per_second": 1000.0,  # it is this machine that is asked
            "output.uri": out,
            "output.report": report,
        }
        code = execute(load(None, flags, environment={}).settings, console)
    look = ("check", out) if "://" in out else ("serve", "--out", out)
    console.event("demo", f"look at it with: {own_command(*look)}")
    return code
