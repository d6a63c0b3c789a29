"""The commands ``exporter run`` and ``exporter plan``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from exporter.cli.common import (
    RUN_CODES,
    STORE_WORDS,
    archive_of,
    archive_options,
    configuration_of,
    ending,
    exit_codes,
    log_format_option,
    out_option,
    source_options,
)
from exporter.console import Console, without_commands
from exporter.errors import ConfigError, ExitCode, without_keys
from exporter.standard_output import write_line


@click.command(epilog=exit_codes(RUN_CODES))
@source_options
@out_option
@archive_options
@click.option("--report", help="Where the run report is written; - is standard output.  [default: run-report.json]")
@click.option("--dry-run", is_flag=True, help="Do everything but publish.")
@click.option(
    "--replace-ledger",
    type=click.IntRange(1, 2**32 - 1),
    metavar="LEDGER",
    help="Undo the wrong run at this ledger and every later one.",
)
@log_format_option
@click.option("--quiet", is_flag=True, help="Print only warnings and errors, for cron.")
def run(
    log_format: str, quiet: bool, snapshot: Path | None, dry_run: bool, replace_ledger: int | None, **arguments: Any
) -> None:
    """Read every market at one ledger and publish the tree.

    With --archive the ledger is a checkpoint that enough trusted organisations signed (docs/proofs.md), and prices come
    from the oracles' entries.
    """
    console = Console(log_format, stamped=True, quiet=quiet)
    with ending(console):
        archive = archive_of(*(arguments.pop(name) for name in ("archives", "checkpoint", "trust", "bucket_cache")))
        if archive is not None and (snapshot is not None or arguments["rpc_urls"]):
            raise ConfigError("--archive, --snapshot and --rpc-url each say what to read; give one of them")
        import exporter

        result = exporter.run(
            configuration_of(**arguments).settings,
            snapshot=snapshot,
            archive=archive,
            dry_run=dry_run,
            replaced_ledger=replace_ledger,
            console=console,
        )
        sys.exit(result.exit_code)


@click.command(epilog=exit_codes({ExitCode.DONE: "printed", ExitCode.STORE: STORE_WORDS}))
@source_options
@out_option
def plan(snapshot: Path | None, **configured: Any) -> None:
    """Print what a run would read and write."""
    with ending(Console("text")):
        from exporter.job.plan import describe

        for line in describe(configuration_of(**configured), snapshot):
            write_line(without_commands(without_keys(line)))
