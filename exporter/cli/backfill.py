"""``exporter backfill``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from exporter.cli.common import FILE, config_option, configuration_of, ending, log_format_option, network_option
from exporter.console import Console
from exporter.errors import EXIT_DONE, EXIT_SOURCE, EXIT_UNREAD, ConfigError

SHOWN = 20
"""So many failed files, or files with unread markets, are named."""


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH...]")
@click.option(
    "--lake", metavar="URI", help="Instead of files, a ledger lake: a folder, s3://BUCKET/PREFIX or https://."
)
@click.option("--tables", type=click.Path(path_type=Path), help="Instead, a folder of tables that others extracted.")
@click.option("--from", "start", metavar="WHEN", help="With --lake: from this day, RFC 3339 time (UTC) or ledger on.")
@click.option("--to", "end", metavar="WHEN", help="With --lake: up to this day, time or ledger.  [default: its newest]")
@click.option("--every", metavar="DURATION", help="With --lake: a row each 10m, 1h, 1d.  [default: 1h]")
@click.option("--archive", metavar="URI", help="With --lake: a history archive, whose checkpoint is the start.")
@click.option("--start-snapshot", type=FILE, help="With --lake: a ledger snapshot file of all contracts as the start.")
@click.option("--lake-config", metavar="JSON", help="What the lake's .config.json would say, where it has none.")
@click.option("--changes", metavar="URI", help="Where extracted changes are kept.  [default: ./lake-changes]")
@click.option("--on-gap", type=click.Choice(("stop", "skip")), help="With --lake: missing ledgers.  [default: stop]")
@click.option("--range-ledgers", type=click.IntRange(1, 1_000_000), help="With --lake: ledgers extracted at a time.")
@config_option
@network_option
@click.option("--out", help="The tree whose history is added to: a folder or s3://BUCKET/PREFIX.  [default: ./public]")
@click.option("--workers", type=click.IntRange(1, 256), help="Processes of this machine.  [default: its cores]")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask cluster instead, for example tcp://10.0.0.1:8786.")
@log_format_option
def backfill(
    paths: tuple[Path, ...], config: Path | None, network: str | None, out: str | None, workers: int | None,
    scheduler: str | None, log_format: str, lake: str | None, tables: Path | None, **lake_options: Any,
) -> None:  # fmt: skip
    """Add the past to a history: from ledger snapshot files, or from a ledger lake.

    PATH is a file as `stellar snapshot create` writes it, or a folder of such files (.json). Each is one ledger; order
    and number of workers make no difference. Prices are those that the file's own entries tell.

    With --lake there is no PATH: the changes of every market are taken out of the network's own past (SEP-54) and
    replayed, and what a run would have published goes into the history, for the last ledger at or before each boundary
    of --every. The state to begin with comes from --archive or --start-snapshot, unless the lake has Soroban's
    beginning (docs/lake.md). --tables is a folder with such changes that others extracted: contract_data, ttl and
    history_ledgers, as Parquet or as JSON lines.

    What was added before is not done again, so a job that was interrupted is begun again as it was.

    Exit code 0: all are in the history; 3: some could not be read, the others are in; 7: all are in, but some pool or
    market could not be read.
    """
    console = Console(log_format)
    with ending(console):
        from exporter.backfill.executors import started
        from exporter.backfill.job import backfill, find_files
        from exporter.errors import counted
        from exporter.stores import open_store

        settings = configuration_of(config, network, out=out).settings
        if lake is not None or tables is not None:
            from exporter.backfill.lake_command import run_lake_backfill

            if paths:
                raise ConfigError("--lake takes no files; add these with a command of their own")
            sys.exit(run_lake_backfill(settings, lake, workers, scheduler, console, tables=tables, **lake_options))
        given = [name for name, value in lake_options.items() if value is not None]
        if given or not paths:
            raise ConfigError(
                "name the ledger snapshot files to add, or a ledger lake with --lake"
                + (f"; --{given[0].replace('_', '-')} is for a lake" if given else "")
            )
        start, at_once = started(workers, scheduler)
        files = find_files(paths)
        store = open_store(settings.output.uri, precompressed=settings.output.precompressed)
        store.try_writing()  # before the work that would be lost
        with console.step("backfill", f"adding {counted(len(files), 'file')}") as facts:
            with console.progress("files", len(files)) as progress:
                result = backfill(store, settings, files, start, at_once=at_once, on_file=progress.advance)
            facts.update(files=len(files), added=result.added, known=result.known, empty=result.empty)
            facts.update(failed=len(result.failed), rows=result.rows)

        for name, problem in sorted(result.failed.items())[:SHOWN]:
            console.warning(f"{name} was not added: {problem}", file=name)
        surprises = {
            name: unknown
            for name, places in sorted(result.unread.items())
            if (unknown := [place for place in places if not settings.may_be_unread(place)])
        }
        for name, places in list(surprises.items())[:SHOWN]:
            console.warning(f"{name}: could not be read, of its markets and pools: {', '.join(places[:SHOWN])}")
        sys.exit(EXIT_SOURCE if result.failed else EXIT_UNREAD if surprises else EXIT_DONE)
