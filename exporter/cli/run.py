"""``exporter run``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from exporter.cli.common import configuration_of, ending, log_format_option, out_option, source_options
from exporter.console import Console


@click.command()
@source_options
@out_option
@click.option("--report", help="The file for the run report.  [default: run-report.json]")
@click.option("--dry-run", is_flag=True, help="Do everything but publish.")
@click.option(
    "--replace-ledger",
    type=click.IntRange(1, 2**32 - 1),
    metavar="LEDGER",
    help="Publish although this ledger stands published: one that the network never had.",
)
@log_format_option
def run(
    config: Path | None, network: str | None, rpc_urls: tuple[str, ...], snapshot: Path | None, out: str | None,
    report: str | None, dry_run: bool, replace_ledger: int | None, log_format: str,
) -> None:  # fmt: skip
    """Read every market at one ledger and publish the tree."""
    console = Console(log_format)
    with ending(console):
        settings = configuration_of(config, network, rpc_urls, out, report).settings
        import exporter

        result = exporter.run(
            settings, snapshot=snapshot, dry_run=dry_run, replaced_ledger=replace_ledger, console=console
        )
        sys.exit(result.exit_code)
