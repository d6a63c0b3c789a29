"""``exporter run``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from exporter.cli.common import (
    FILE,
    configuration_of,
    ending,
    log_format_option,
    out_option,
    source_options,
    spare_memory,
)
from exporter.console import Console
from exporter.errors import ConfigError


@click.command()
@source_options
@out_option
@click.option("--archive", "archives", multiple=True, metavar="URI", help="Read a history archive; repeatable.")
@click.option(
    "--checkpoint",
    type=click.IntRange(63, 2**32 - 1),
    metavar="LEDGER",
    help="With --archive: 63, 127, …  [default: the newest that can be proven]",
)
@click.option("--trust", type=FILE, help="With --archive: the organisations to trust.  [default: the known ones]")
@click.option("--bucket-cache", metavar="DIR", help="With --archive: keeps its buckets.  [default: ./archive-buckets]")
@click.option("--report", help="The run report.  [default: run-report.json]")
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
    config: Path | None,
    network: str | None,
    rpc_urls: tuple[str, ...],
    snapshot: Path | None,
    out: str | None,
    archives: tuple[str, ...],
    checkpoint: int | None,
    trust: Path | None,
    bucket_cache: str | None,
    report: str | None,
    dry_run: bool,
    replace_ledger: int | None,
    log_format: str,
    quiet: bool,
) -> None:
    """Read every market at one ledger and publish the tree.

    With --archive the ledger is a checkpoint that enough trusted organisations signed (docs/proofs.md), and prices come
    from the oracles' entries.
    """
    spare_memory()
    console = Console(log_format, stamped=True, quiet=quiet)
    with ending(console):
        settings = configuration_of(config, network, rpc_urls, out, report).settings
        if archives and (snapshot is not None or rpc_urls):
            raise ConfigError("--archive, --snapshot and --rpc-url each say what to read; give one of them")
        if not archives and (checkpoint, trust, bucket_cache) != (None, None, None):
            raise ConfigError("--checkpoint, --trust and --bucket-cache are for --archive, which is not given")
        import exporter
        from exporter.job.from_archive import BUCKET_CACHE, FromArchive

        archive = FromArchive(archives, checkpoint, trust, Path(bucket_cache or BUCKET_CACHE)) if archives else None
        result = exporter.run(
            settings,
            snapshot=snapshot,
            archive=archive,
            dry_run=dry_run,
            replaced_ledger=replace_ledger,
            console=console,
        )
        sys.exit(result.exit_code)
