"""The commands that are about the history: list, compact, export; and backfill."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from exporter.cli.common import FILE, finish, load_configuration, log_format_option
from exporter.console import Console
from exporter.errors import ConfigError


@click.group()
def history() -> None:
    """List, compact and export a published tree's Parquet history."""


def _selects(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of the commands that look at a part of the history."""
    for option in reversed(
        (
            click.option("--from", "start", metavar="WHEN", help="From this day, RFC 3339 time (UTC) or ledger on."),
            click.option("--to", "end", metavar="WHEN", help="To before this day or time, or up to this ledger."),
        )
    ):
        command = option(command)
    return command


def _selection(start: str | None, end: str | None, market: str | None = None, token: str | None = None) -> Any:
    from exporter.history.export import Moment, Selection, parse_moment

    first, last = (
        Moment() if text is None else parse_moment(text, option) for option, text in (("--from", start), ("--to", end))
    )
    return Selection(first, last, market, token)


@history.command("list")
@click.argument("uri")
@_selects
@log_format_option
def list_(uri: str, start: str | None, end: str | None, log_format: str) -> None:
    """Say which files the history has.

    URI is a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root.
    """
    console = Console(log_format)

    def work() -> int:
        from exporter.history.command import list_history

        answers = Console("json" if log_format == "json" else "text", sys.stdout)
        return list_history(uri, _selection(start, end), answers)

    finish(console, work)


@history.command()
@click.argument("uri")
@click.option(
    "--months",
    type=click.IntRange(0, 1200),
    default=2,
    show_default=True,
    help="Leave this many whole months as a file for each day; earlier ones become a file each.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@log_format_option
def compact(uri: str, months: int, dry_run: bool, log_format: str) -> None:
    """Make one file of each closed day and of each older month.

    URI is a folder or s3://BUCKET/PREFIX. A run does this by itself unless history.compact is false. The files that
    are no longer named stay for output.retention_hours, until a sweep.
    """
    console = Console(log_format)

    def work() -> int:
        from exporter.history.command import compact as compact_command

        answers = Console("json" if log_format == "json" else "text", sys.stdout)
        return compact_command(uri, months, dry_run, console, answers)

    finish(console, work)


@history.command()
@click.argument("uri")
@click.option("--out", required=True, type=FILE, help="The file to write.")
@click.option(
    "--format", "form", type=click.Choice(("parquet", "csv", "arrow")), help="[default: by the file's ending]"
)
@_selects
@click.option("--market", help="Only pools of this market (C...).")
@click.option("--token", help="Only pools of this token (C...).")
@click.option("--raw", is_flag=True, help="CSV: leave texts as they are that a spreadsheet would run as a formula.")
@log_format_option
def export(
    uri: str, out: Path, form: str | None, start: str | None, end: str | None, market: str | None, token: str | None,
    raw: bool, log_format: str,
) -> None:  # fmt: skip
    """Write a part of the history into one file: Parquet, CSV or Arrow.

    URI is a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root. Amounts stay exact: decimal(38,0), in
    CSV plain digits. Every file that is read is compared with its digest in the history's manifest.

    Names of tokens and markets are whatever their contracts say. In CSV, a text that a spreadsheet would run as a
    formula gets a ' in front; --raw leaves it as it is.
    """
    console = Console(log_format)

    def work() -> int:
        from exporter.history.command import export as export_command

        endings = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow", ".feather": "arrow"}
        chosen = form or endings.get(out.suffix)
        if chosen is None:
            raise ConfigError(f"--out: the ending of {out.name} names no format; give --format, or .parquet or .csv")
        if raw and chosen != "csv":
            raise ConfigError(f"--raw is for CSV only: {chosen} holds every text as it is")
        return export_command(uri, _selection(start, end, market, token), out, chosen, console, raw=raw)

    finish(console, work)


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option("--config", "config_path", type=FILE, envvar="EXPORTER_CONFIG", help="A TOML file.")
@click.option("--network", help="mainnet (default), testnet or local.")
@click.option("--out", help="The tree whose history is added to: a folder or s3://BUCKET/PREFIX.  [default: ./public]")
@click.option("--workers", type=click.IntRange(1, 256), help="Processes of this machine.  [default: its cores]")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask cluster instead, for example tcp://10.0.0.1:8786.")
@log_format_option
def backfill(
    paths: tuple[Path, ...], config_path: Path | None, network: str | None, out: str | None, workers: int | None,
    scheduler: str | None, log_format: str,
) -> None:  # fmt: skip
    """Add ledger snapshot files to a history.

    PATH is a file as `stellar snapshot create` writes it, or a folder of such files (.json). Each is one ledger; order
    and number of workers make no difference. What was added before is not done again, so a job that was interrupted is
    begun again as it was. Snapshots have no contract code, so prices are null.

    Exit code 0: all are in the history; 3: some files could not be read, the others are in; 7: all are in, but some
    pool or market could not be read.
    """
    console = Console(log_format)

    def work() -> int:
        from exporter.backfill.command import run_backfill

        configuration = load_configuration(config_path, network__name=network, output__uri=out)
        return run_backfill(configuration.settings, paths, workers, scheduler, console)

    finish(console, work)
