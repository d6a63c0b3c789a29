"""``exporter plan``."""

from __future__ import annotations

from pathlib import Path

import click

from exporter.cli.common import configuration_of, ending, out_option, source_options
from exporter.console import Console
from exporter.errors import without_keys


@click.command()
@source_options
@out_option
def plan(
    config: Path | None, network: str | None, rpc_urls: tuple[str, ...], snapshot: Path | None, out: str | None
) -> None:
    """Print what a run would read and write."""
    with ending(Console("text")):
        from exporter.job.plan import describe

        for line in describe(configuration_of(config, network, rpc_urls, out), snapshot):
            click.echo(without_keys(line))
