"""The commands ``exporter history`` (list, compact, rebuild, export) and ``exporter backfill``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exporter.cli.common import (
    FILE,
    STORE_WORDS,
    WRITTEN_FILE,
    Duration,
    answers_next_to,
    config_option,
    configuration_of,
    exit_codes,
    network_option,
    options,
    reporting,
)
from exporter.console import Console
from exporter.errors import ConfigError, ExitCode, pluralize

if TYPE_CHECKING:
    from exporter.history.export import Selection
    from exporter.tree.documents import HistoryManifest


READ_CODES = {
    ExitCode.DONE: "done",
    ExitCode.SOURCE: "the tree cannot be read, or has no history",
    ExitCode.CHECK: "a file is not what the history's manifest says",
    ExitCode.STORE: STORE_WORDS,
}
WRITE_CODES = {
    ExitCode.DONE: "done, or nothing to do",
    ExitCode.SOURCE: "the tree cannot be read, or has no history",
    ExitCode.CHECK: "a file is not what the history's manifest says; nothing was published",
    ExitCode.LOST_RACE: ExitCode.LOST_RACE.meaning,
    ExitCode.STORE: ExitCode.STORE.meaning,
}


@click.group()
def history() -> None:
    """List, compact, rebuild and export a published tree's Parquet history."""


span_options = options(
    click.option("--from", "start", metavar="WHEN", help="First day, RFC 3339 time (UTC) or ledger."),
    click.option("--to", "end", metavar="WHEN", help="Before this day or time, or up to this ledger."),
)


def _selection(start: str | None, end: str | None, market: str | None = None, token: str | None = None) -> Selection:
    from exporter.history.export import Selection, parse_moment

    return Selection(parse_moment(start, "--from"), parse_moment(end, "--to"), market, token)


def _manifest(uri: str) -> HistoryManifest:
    import asyncio

    from exporter.history.export import read_manifest
    from exporter.stores.tree_sources import open_tree

    async def read() -> HistoryManifest:
        async with open_tree(uri) as source:
            return await read_manifest(source)

    return asyncio.run(read())


@history.command("list", epilog=exit_codes(READ_CODES))
@click.argument("uri")
@span_options
@reporting
def list_(console: Console, uri: str, start: str | None, end: str | None) -> None:
    """List the files of the history.

    URI: a folder, s3://BUCKET/PREFIX or the http(s) URL of a tree's root.
    """
    answers = answers_next_to(console)
    files = _selection(start, end).files(_manifest(uri).files)
    if not answers.is_json:
        answers.event("head", f"{'first ledger':>12} {'last ledger':>12} {'rows':>12} {'bytes':>14}  key")
    for file in files:
        line = f"{file.first_ledger:>12} {file.last_ledger:>12} {file.rows:>12,} {file.bytes:>14,}  {file.key}"
        answers.event("file", line, **{name: getattr(file, name) for name in file.__struct_fields__})
    rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    total = f"{pluralize(len(files), 'file')}, {pluralize(rows, 'row')}, {pluralize(size, 'byte')}"
    answers.event("total", total, files=len(files), rows=rows, bytes=size)


@history.command(epilog=exit_codes(WRITE_CODES))
@click.argument("uri")
@click.option(
    "--months",
    type=click.IntRange(0, 1200),
    default=2,
    show_default=True,
    help="Whole months that keep a file for each day.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@reporting
def compact(console: Console, uri: str, months: int, dry_run: bool) -> None:
    """Join the files of each closed day and older month.

    URI: a folder or s3://BUCKET/PREFIX. A run does this unless history.compact is false. The joined files stay for
    output.retention.
    """
    from exporter.publishing.compaction import compact_history, plan_compaction
    from exporter.stores import open_store
    from exporter.stores.held_store import hold

    manifest, store, answers = _manifest(uri), open_store(uri), answers_next_to(console)
    if dry_run:
        pieces = plan_compaction(manifest, months)
        for piece in pieces:
            text = f"{piece.folder}: {pluralize(len(piece.files), 'file')}, {pluralize(piece.rows, 'row')}"
            answers.event("piece", text, folder=piece.folder, files=len(piece.files), rows=piece.rows)
        answers.event("total", f"{pluralize(len(pieces), 'file')} would be written", files=len(pieces))
        return
    with console.step("compact", "compacting the history") as facts:
        with hold(store) as held:
            done = compact_history(held, months=months)
        before, after = (sum(file.bytes for file in files) for files in (done.joined, done.files))
        facts.update(files_before=len(done.joined), files_after=len(done.files), bytes_before=before, bytes_after=after)


@history.command(epilog=exit_codes(WRITE_CODES))
@click.argument("uri")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@reporting
def rebuild(console: Console, uri: str, dry_run: bool) -> None:
    """Make v1/history.json again from the Parquet files.

    URI: a folder or s3://BUCKET/PREFIX. Use it if the manifest was lost, or is older than the tree. Names every file
    and what becomes of it; none is removed.
    """
    from exporter.publishing.rebuild import Fate, rebuild_history
    from exporter.stores import open_store

    answers = answers_next_to(console)
    with console.step("rebuild", "rebuilding the history's manifest") as facts:
        rebuilt = rebuild_history(open_store(uri), dry_run=dry_run)
        facts.update(files=len(rebuilt.manifest.files), rows=sum(file.rows for file in rebuilt.manifest.files))
    for each in rebuilt.findings:
        by = {Fate.REPLACED: " by ", Fate.LEFT_OUT: ": ", Fate.RESTORED: ": "}.get(each.fate, "")
        text = f"{each.key} {each.fate}{by}{each.because}"
        answers.event("file", text, key=each.key, fate=each.fate.value, because=each.because)
    count, newest = pluralize(len(rebuilt.manifest.files), "file"), rebuilt.manifest.observed_ledger
    done = "would be named" if dry_run else "are named"
    answers.event("total", f"{count} {done}, up to ledger {newest}", files=len(rebuilt.manifest.files), ledger=newest)


@history.command(epilog=exit_codes(READ_CODES))
@click.argument("uri")
@click.option("--out", required=True, type=WRITTEN_FILE, help="The file to write; - is standard output.")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(("parquet", "csv", "arrow")),
    help="Format of the file.  [default: by its ending]",
)
@span_options
@click.option("--market", help="Only pools of this market (C...).")
@click.option("--token", help="Only pools of this token (C...).")
@click.option("--raw", is_flag=True, help="CSV: put no ' in front of formulas.")
@reporting
def export(console: Console, uri: str, out: Path, file_format: str | None, raw: bool, **selected: Any) -> None:
    """Write part of the history into one file: Parquet, CSV or Arrow.

    URI: a folder, s3://BUCKET/PREFIX or the http(s) URL of a tree's root. Amounts are exact:
    decimal(38,0), in CSV plain digits. Every file is compared with its digest.

    In CSV, a text that a spreadsheet would run as a formula gets a ' in front, unless --raw is given.
    """
    import asyncio

    from exporter.history.export import export_history, read_manifest
    from exporter.stores.tree_sources import open_tree

    endings = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow", ".feather": "arrow"}
    chosen = file_format or endings.get(out.suffix)
    if chosen is None:
        raise ConfigError(
            f"--out: the ending of {out.name} names no format; give --format, or an ending of .parquet, .csv or .arrow"
        )
    if raw and chosen != "csv":
        raise ConfigError(f"--raw is for CSV only: {chosen} holds every text as it is")
    selection = _selection(**selected)

    async def work() -> None:
        async with open_tree(uri) as source:
            manifest = await read_manifest(source)
            with console.step("export", f"writing {out}") as facts, console.progress("files") as progress:
                done = await export_history(source, manifest, selection, out, chosen, raw=raw, on_file=progress.advance)
                facts.update(rows=done.rows, files=done.files)

    asyncio.run(work())


@click.command(
    epilog=exit_codes(
        {
            ExitCode.DONE: "all are added",
            ExitCode.SOURCE: "some could not be read; the others are added",
            ExitCode.LOST_RACE: ExitCode.LOST_RACE.meaning,
            ExitCode.UNREAD: "all are added, but some pool or market could not be read",
            ExitCode.STORE: ExitCode.STORE.meaning,
        }
    )
)
@click.option("--lake", metavar="URI", required=True, help="The ledger lake: a folder, s3://BUCKET/PREFIX or https://.")
@click.option("--from", "start", metavar="WHEN", help="First day, RFC 3339 time (UTC) or ledger.")
@click.option("--to", "end", metavar="WHEN", help="Up to this day, time or ledger.  [default: its newest]")
@click.option(
    "--every",
    type=Duration("1m", "365d", unit="s"),
    default="1h",
    show_default=True,
    help="Time between rows, such as 10m or 1d.",
)
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
@click.option("--range-ledgers", type=click.IntRange(1, 1_000_000), help="Number of ledgers extracted at a time.")
@config_option
@network_option
@click.option("--out", help="The tree: a folder or s3://BUCKET/PREFIX.  [default: ./public]")
@click.option("--workers", type=click.IntRange(1, 256), help="Number of local processes.  [default: the cores]")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask cluster, for example tcp://10.0.0.1:8786.")
@reporting
def backfill(
    console: Console, config: Path | None, network: str | None, out: str | None, lake: str, **lake_options: Any
) -> None:
    """Add the past to a history from a ledger lake.

    Adds what a run would have published at the last ledger at or before each boundary of --every. The start state comes
    from --archive or --start-snapshot, unless the lake goes back to Soroban's beginning (docs/lake.md). If the command
    was interrupted, run it again to continue.
    """
    from exporter.past.backfill.lake_command import run_lake_backfill

    settings = configuration_of(config, network, out=out).settings
    sys.exit(run_lake_backfill(settings, lake, console=console, **lake_options))
