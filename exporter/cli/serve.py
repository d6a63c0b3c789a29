"""``exporter serve``."""

from __future__ import annotations

from pathlib import Path

import click

from exporter.cli.common import ending
from exporter.console import Console
from exporter.errors import ConfigError


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
