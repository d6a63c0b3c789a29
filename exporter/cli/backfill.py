"""``exporter backfill``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from exporter.cli.common import FILE, config_option, configuration_of, network_option, reporting
from exporter.console import Console


@click.command()
@click.option("--lake", metavar="URI", required=True, help="The ledger lake: a folder, s3://BUCKET/PREFIX or https://.")
@click.option("--from", "start", metavar="WHEN", help="First day, RFC 3339 time (UTC) or ledger.")
@click.option("--to", "end", metavar="WHEN", help="Up to this day, time or ledger.  [default: its newest]")
@click.option("--every", metavar="DURATION", default="1h", show_default=True, help="A row each 10m, 1h, 1d.")
@click.option("--archive", metavar="URI", help="A history archive to start from.")
@click.option("--trust", type=FILE, help="With --archive: the organisations to trust.  [default: the known ones]")
@click.option("--start-snapshot", type=FILE, help="A ledger snapshot file of all contracts to start from.")
@click.option("--lake-config", metavar="JSON", help="The lake's .config.json, if it has none.")
@click.option(
    "--changes", metavar="URI", default="./lake-changes", show_default=True, help="Where extracted changes are kept."
)
@click.option(
    "--on-gap",
    type=click.Choice(("stop", "skip")),
    default="stop",
    show_default=True,
    help="What to do about missing ledgers.",
)
@click.option("--range-ledgers", type=click.IntRange(1, 1_000_000), help="Ledgers extracted at a time.")
@config_option
@network_option
@click.option("--out", help="The tree: a folder or s3://BUCKET/PREFIX.  [default: ./public]")
@click.option("--workers", type=click.IntRange(1, 256), help="Local processes.  [default: the cores]")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask cluster, for example tcp://10.0.0.1:8786.")
@reporting
def backfill(
    console: Console, config: Path | None, network: str | None, out: str | None, lake: str, **lake_options: Any
) -> None:
    """Add the past to a history from a ledger lake.

    Adds what a run would have published at the last ledger at or before each boundary of --every. The start state comes
    from --archive or --start-snapshot, unless the lake has Soroban's beginning (docs/lake.md). Run an interrupted job
    again to continue it.

    Exit code 0: all are added; 3: some could not be read, the others are added; 7: all are added, but some pool or
    market could not be read.
    """
    from exporter.backfill.lake_command import run_lake_backfill

    settings = configuration_of(config, network, out=out).settings
    sys.exit(run_lake_backfill(settings, lake, console=console, **lake_options))
