"""``exporter mcp``."""

from __future__ import annotations

import click

from exporter.cli.common import ending
from exporter.console import Console


@click.command()
@click.argument("uri")
def mcp(uri: str) -> None:
    """Answer an assistant's questions about a published tree, by the Model Context Protocol.

    URI is a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root. The server speaks on standard input and
    output until its client ends; an assistant starts it. Needs the extra mcp.

    Exit code 0: the client ended; 2: the URI is of no tree, or the extra is missing; 3: nothing is published there.
    """
    with ending(Console("text")):
        from exporter.serve.assistant_server import serve

        serve(uri)
