"""``exporter mcp``."""

from __future__ import annotations

import click

from exporter.cli.common import ending
from exporter.console import Console


@click.command()
@click.argument("uri")
def mcp(uri: str) -> None:
    """Answer an assistant's questions about a tree (Model Context Protocol).

    URI: a folder, s3://BUCKET/PREFIX or the http(s) URL of a tree's root. An assistant starts the server, which speaks
    on standard input and output. Needs the extra mcp.

    Exit code 0: the client ended; 2: the URI is not of a tree, or the extra is missing; 3: nothing is published there.
    """
    with ending(Console("text")):
        from exporter.serve.assistant_server import serve

        serve(uri)
