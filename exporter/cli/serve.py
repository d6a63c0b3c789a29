"""The commands ``serve``, ``edge``, ``mcp`` (for a published tree), ``demo`` and ``localnet`` (a recorded network)."""

from __future__ import annotations

import math
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exporter.cli.common import (
    FILE,
    RUN_CODES,
    STORE_WORDS,
    Duration,
    config_option,
    configuration_of,
    ending,
    exit_codes,
    pools_option,
    reporting,
)
from exporter.console import Console, own_command
from exporter.errors import ConfigError, ExitCode
from exporter.standard_output import write_line
from exporter.user_files import user_path

if TYPE_CHECKING:
    from exporter.serve.edge import Platform


class _Share(click.FloatRange):
    """A number from 0 to 1. ``nan`` is refused, which is neither below nor above a bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if math.isnan(number := super().convert(value, param, ctx)):
            self.fail(f"{value} is not a number from 0 to 1", param, ctx)
        return number


_SHARE = _Share(0, 1)


@click.command(epilog=exit_codes({ExitCode.DONE: "the server was stopped"}))
@click.option("--out", default="./public", show_default=True, help="The folder of a published tree.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any free port.")
def serve(out: str, host: str, port: int) -> None:
    """Preview a published tree over HTTP."""
    with ending(Console("text")):
        from exporter.serve.preview import run_server

        if "://" in out:
            raise ConfigError("--out: serve shows a folder; copy the tree of a bucket into one (docs/operations.md)")
        run_server(user_path(out), host, port, lambda host, port: write_line(f"serving {out} at http://{host}:{port}/"))


@click.command(epilog=exit_codes({ExitCode.DONE: "written"}))
@click.argument("platform", type=click.Choice(("nginx", "cloudfront", "cloudflare")))
@config_option
@click.option("--root", help="nginx: the folder of the tree.  [default: output.uri]")
@click.option("--origin", metavar="URL", help="cloudflare: the URL of the tree's files instead of a bound bucket.")
@click.option("--out", default="./edge", show_default=True, help="The output folder.")
def edge(platform: Platform, config: Path | None, root: str | None, origin: str | None, out: str) -> None:
    """Write the rule that maps query strings to files.

    The rule holds the configured page sizes: write and install it again when these change (docs/edge.md).
    """
    with ending(Console("text")):
        from exporter.serve.edge import render_edge, write_edge

        settings = configuration_of(config).settings
        for path in write_edge(user_path(out), render_edge(platform, settings, root=root, origin=origin)):
            write_line(str(path))


@click.command(
    epilog=exit_codes(
        {
            ExitCode.DONE: "the client ended",
            ExitCode.CONFIG: "the URI is not of a tree, or the extra is missing",
            ExitCode.SOURCE: "nothing is published there, or it cannot be read",
            ExitCode.STORE: STORE_WORDS,
        }
    )
)
@click.argument("uri")
def mcp(uri: str) -> None:
    """Answer an assistant's questions about a tree (Model Context Protocol).

    URI: a folder, s3://BUCKET/PREFIX or the http(s) URL of a tree's root. The assistant starts this
    command itself, and talks to it on standard input and output. It needs the extra "lending-markets-exporter[mcp]".
    """
    with ending(Console("text")):
        from exporter.serve.assistant import serve

        serve(uri)


@click.command(epilog=exit_codes(RUN_CODES))
@click.option("--out", default="./public", show_default=True, help="The output: a folder or s3://BUCKET/PREFIX.")
@pools_option
@click.option("--seed", type=int, default=1, show_default=True, help="Each seed moves the markets differently.")
@click.option(
    "--past",
    type=Duration("0d", "365d", unit="d"),
    default="40d",
    show_default=True,
    help="The length of a new output's history.",
)
@click.option("--report", help="Where the run report is written; - is standard output.  [default: run-report.json]")
@reporting
def demo(console: Console, out: str, pools: int | None, seed: int, past: timedelta, report: str | None) -> None:
    """Try a run against a recorded network.

    The markets were recorded and then changed at random, as every page says. If the output is new, it also gets a
    history.
    """
    from exporter.localnet.demo import run_demo

    result = run_demo(console, out, pools=pools, seed=seed, past=past, report=report)
    look = ("check", out) if "://" in out else ("serve", "--out", out)
    console.event("demo", f"view it with: {own_command(*look)}")
    sys.exit(result.exit_code)


@click.command(epilog=exit_codes({ExitCode.DONE: "the server was stopped", ExitCode.SOURCE: "the file cannot be read"}))
@pools_option
@click.option("--seed", type=int, default=1, show_default=True, help="Each seed moves the markets differently.")
@click.option("--start-ledger", type=click.IntRange(1, 4_000_000_000), help="The first ledger.")
@click.option("--snapshot", type=FILE, help="Serve a ledger snapshot file.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free port.")
@click.option("--advance-every", type=Duration("10ms", "1h"), help="Time between ledgers.")
@click.option("--advance-every-requests", type=click.IntRange(1), help="Number of calls between ledgers.")
@click.option(
    "--latency",
    type=Duration("0s", "1m"),
    default="0s",
    show_default=True,
    help="Time before each answer, such as 200ms.",
)
@click.option(
    "--lag",
    "lags",
    type=click.IntRange(0, 1000),
    multiple=True,
    help="Add a node that is this many ledgers behind; repeatable.",
)
@click.option("--fail-rate", type=_SHARE, default=0, help="The share of requests that fail.")
def localnet(
    host: str,
    port: int,
    pools: int | None,
    seed: int,
    start_ledger: int | None,
    snapshot: Path | None,
    lags: tuple[int, ...],
    advance_every: timedelta | None,
    latency: timedelta,
    **behaviour: Any,
) -> None:
    """Serve a recorded network, or a ledger snapshot file, as a Stellar RPC.

    The markets that --pools adds are copies, which no list has. A run reads a tenth as many pools of such markets as of
    listed ones, but at least 20. To read all of them, name each in [[markets]]; this command prints their addresses.
    """
    with ending(Console("text")):
        from exporter.ledger.snapshot_file import LedgerSnapshot
        from exporter.localnet.network import LocalNetwork, snapshot_network
        from exporter.localnet.player import DEFAULT_START_LEDGER, RecordedNetwork, copies_for
        from exporter.localnet.server import Behaviour, create_app, serve

        network: LocalNetwork
        if snapshot is not None:
            network = snapshot_network(LedgerSnapshot.load(snapshot))
        else:
            start = start_ledger or DEFAULT_START_LEDGER
            network = RecordedNetwork(copies=copies_for(pools), seed=seed, start_ledger=start)
            for market in network.copies:
                write_line(f'[[markets]]\nprotocol = "blend"\naddress = "{market}"\n')
        server_behaviour = Behaviour(
            lags=lags or (0,),
            seed=seed,
            advance_every_seconds=None if advance_every is None else advance_every.total_seconds(),
            latency=latency.total_seconds(),
            **behaviour,
        )
        app = create_app(network, server_behaviour)
        what = f"ledger {network.chain.latest} of {network.passphrase!r}"
        serve(app, host, port, lambda url: write_line(f"serving {what} as a Stellar RPC at {url}"))
