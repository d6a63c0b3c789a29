"""``exporter serve``, ``exporter edge`` and ``exporter mcp``: a published tree for readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from exporter.cli.common import config_option, configuration_of, ending
from exporter.console import Console
from exporter.errors import ConfigError

if TYPE_CHECKING:
    from exporter.serve.edge import Platform


@click.command()
@click.option("--out", default="./public", show_default=True, help="The folder of a published tree.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any free port.")
def serve(out: str, host: str, port: int) -> None:
    """Preview a published tree over HTTP."""
    with ending(Console("text")):
        from exporter.serve.preview import run_server

        if "://" in out:
            raise ConfigError("--out: serve shows a folder; copy the tree of a bucket into one (docs/operations.md)")
        run_server(Path(out), host, port, lambda host, port: click.echo(f"serving {out} at http://{host}:{port}/"))


@click.command()
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
        for path in write_edge(Path(out), render_edge(platform, settings, root=root, origin=origin)):
            click.echo(path)


@click.command()
@click.argument("uri")
def mcp(uri: str) -> None:
    """Answer an assistant's questions about a tree (Model Context Protocol).

    URI: a folder, s3://BUCKET/PREFIX or the http(s) URL of a tree's root. An assistant starts the server, which speaks
    on standard input and output. Needs the extra mcp.

    Exit code 0: the client ended; 2: the URI is not of a tree, or the extra is missing; 3: nothing is published there.
    """
    with ending(Console("text")):
        from exporter.serve.assistant import serve

        serve(uri)
