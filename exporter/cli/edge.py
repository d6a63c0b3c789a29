"""``exporter edge``."""

from __future__ import annotations

from pathlib import Path

import click

from exporter.cli.common import config_option, configuration_of, ending
from exporter.console import Console


@click.command()
@click.argument("platform", type=click.Choice(("nginx", "cloudfront", "cloudflare")))
@config_option
@click.option("--root", help="nginx: the folder of the tree.  [default: output.uri]")
@click.option("--origin", metavar="URL", help="cloudflare: the URL of the tree's files instead of a bound bucket.")
@click.option("--out", default="./edge", show_default=True, help="The output folder.")
def edge(platform: str, config: Path | None, root: str | None, origin: str | None, out: str) -> None:
    """Write the rule that maps query strings to files.

    The rule holds the configured page sizes: write and install it again when these change (docs/edge.md).
    """
    with ending(Console("text")):
        from exporter.serve.edge import render_edge, write_edge

        settings = configuration_of(config).settings
        for path in write_edge(Path(out), render_edge(platform, settings, root=root, origin=origin)):
            click.echo(path)
