"""The command line: thin commands; what they do is imported only when they run, so that help is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from exporter import __version__
from exporter.console import LOG_FORMATS, Console
from exporter.errors import EXIT_UNEXPECTED, ConfigError, ExporterError

_FILE = click.Path(path_type=Path, dir_okay=False)


def _reads(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that reads a ledger by a configuration."""
    for option in reversed(
        (
            click.option("--config", "config_path", type=_FILE, envvar="EXPORTER_CONFIG", help="A TOML file."),
            click.option("--network", help="mainnet (default), testnet or local."),
            click.option("--rpc-url", "rpc_urls", multiple=True, metavar="URL", help="A Stellar RPC; repeatable."),
            click.option("--snapshot", type=_FILE, help="Read a ledger snapshot file instead of an RPC."),
        )
    ):
        command = option(command)
    return command


def _shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that also has an output."""
    return _reads(click.option("--out", help="Where the tree goes: a folder.  [default: ./public]")(command))


_log_format = click.option(
    "--log-format", type=click.Choice(LOG_FORMATS), default="auto", show_default=True, help="How progress is told."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="exporter")
def main() -> None:
    """Exact snapshots of every lending market on Soroban, as files.

    Exit codes: 0 done or nothing to do; 1 unexpected; 2 usage or configuration; 3 the source failed, lags, or is
    older than what is published; 4 the rendered tree failed its checks and was not published; 5 another writer won;
    6 published, but the check afterwards failed; 7 published, but something could not be read.
    """


def _finish(console: Console, work: Callable[[], int]) -> None:
    """Run a command's work and exit with its code; errors raised on purpose are told in a line."""
    try:
        code = work()
    except ExporterError as error:
        console.error(str(error), error.exit_code)
        code = error.exit_code
    except KeyboardInterrupt:
        console.error("interrupted; what was published before still stands", EXIT_UNEXPECTED)
        code = EXIT_UNEXPECTED
    sys.exit(code)


def _load(config_path: Path | None, **flags: Any) -> Any:
    from exporter.config import load

    return load(config_path, {key.replace("__", "."): value for key, value in flags.items()})


@main.command()
@_shared
@click.option("--report", help="Where the run report goes.  [default: run-report.json]")
@click.option("--dry-run", is_flag=True, help="Do everything but publish.")
@_log_format
def run(
    config_path: Path | None, network: str | None, rpc_urls: tuple[str, ...], out: str | None, snapshot: Path | None,
    report: str | None, dry_run: bool, log_format: str,
) -> None:  # fmt: skip
    """Read every market at one ledger and publish the tree."""
    console = Console(log_format)

    def work() -> int:
        configuration = _load(
            config_path, network__name=network, network__rpc_urls=list(rpc_urls) or None, output__uri=out,
            output__report=report,
        )  # fmt: skip
        return _execute(configuration.settings, console, snapshot=snapshot, dry_run=dry_run)

    _finish(console, work)


def _execute(settings: Any, console: Console, **options: Any) -> int:
    """A run with its report begun before and finished after whatever happens."""
    from exporter.pipeline import execute, prepare
    from exporter.report import RunReport

    report = RunReport(Path(settings.output.report), command="run")
    try:
        code = execute(prepare(settings, console, report, **options))
    except ExporterError as error:
        report.finish(error.exit_code, str(error))
        raise
    except BaseException as error:
        report.finish(EXIT_UNEXPECTED, f"{type(error).__name__}: {error}")
        raise
    report.finish(code)
    if code:
        console.warning("published, but not everything could be read; the status document names what", exit_code=code)
    return code


@main.command()
@_shared
def plan(
    config_path: Path | None, network: str | None, rpc_urls: tuple[str, ...], out: str | None, snapshot: Path | None
) -> None:
    """Say what a run would read and write, without doing either."""
    console = Console("text")

    def work() -> int:
        from exporter.plan import describe

        configuration = _load(
            config_path, network__name=network, network__rpc_urls=list(rpc_urls) or None, output__uri=out
        )
        for line in describe(configuration, snapshot):
            click.echo(line)
        return 0

    _finish(console, work)


@main.command()
@click.argument("uri", required=False)
@click.option("--sample", type=click.IntRange(1, 1_000_000), help="Look at so many files of each kind, not at all.")
@click.option("--on-chain", is_flag=True, help="Instead of a tree, check the numbers against the contracts' own views.")
@_reads
@_log_format
def check(
    uri: str | None, sample: int | None, on_chain: bool, config_path: Path | None, network: str | None,
    rpc_urls: tuple[str, ...], snapshot: Path | None, log_format: str,
) -> None:  # fmt: skip
    """Check a published tree, or the exporter's own numbers.

    URI is a folder, or the http(s) URL of a tree's root. Every file of the published run is read, every link and
    cursor followed, every sum and digest computed again; with --sample only some, and one walk over all pools. With
    --on-chain there is no URI: markets are read as by run, and their contracts asked for the same numbers at the same
    ledger; --config, --network, --rpc-url and --snapshot are for that.

    Exit code 0: all is well, and something was looked at; 4: not so, with everything that is wrong on standard
    output; 3: it cannot be read.
    """
    console = Console(log_format)
    answers = Console("json" if log_format == "json" else "text", sys.stdout)

    def work() -> int:
        from exporter.check.command import check_on_chain, check_tree

        if on_chain is (uri is not None):
            raise ConfigError("name the tree to check (a folder or a URL), or give --on-chain and no URI")
        if uri is not None:
            return check_tree(uri, sample, console, answers)
        configuration = _load(config_path, network__name=network, network__rpc_urls=list(rpc_urls) or None)
        return check_on_chain(configuration.settings, snapshot, console, answers)

    _finish(console, work)


@main.command()
@click.option("--out", default="./public", show_default=True, help="The folder to publish into.")
@click.option("--pools", type=click.IntRange(1, 100_000), default=60, show_default=True, help="How many Blend pools.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed makes other markets.")
@click.option("--report", help="Where the run report goes.  [default: run-report.json]")
@_log_format
def demo(out: str, pools: int, seed: int, report: str | None, log_format: str) -> None:
    """Run against an embedded network of made markets; needs nothing else."""
    console = Console(log_format)

    def work() -> int:
        from exporter.demo import run_demo

        code: int = run_demo(out, pools, seed, report, console, _execute)
        return code

    _finish(console, work)


@main.command()
@click.option("--out", default="./public", show_default=True, help="The folder of a published tree.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any free port.")
def serve(out: str, host: str, port: int) -> None:
    """Preview a published tree over HTTP, with all query parameters."""
    console = Console("text")

    def work() -> int:
        from exporter.api.serve import run_server

        run_server(Path(out), host, port, lambda host, port: click.echo(f"serving {out} at http://{host}:{port}/"))
        return 0

    _finish(console, work)


@main.command()
@click.argument("uri")
@click.option("--max-age", type=click.IntRange(1, 31_536_000), metavar="SECONDS", help="Instead of what it promised.")
@click.option("--grace", type=click.IntRange(0, 31_536_000), metavar="SECONDS", help="How late the next run may be.")
@click.option(
    "--max-lag",
    type=click.IntRange(1, 31_536_000),
    metavar="SECONDS",
    default=3600,
    show_default=True,
    help="How old the ledger may have been when it was published.",
)
@_log_format
def status(uri: str, max_age: int | None, grace: int | None, max_lag: int, log_format: str) -> None:
    """Say how fresh a published tree is, and fail when it is older than it promised.

    URI is a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root; only its status document is read. A run
    that was published with schedule.interval_minutes promises a newer one after that time, and as scheduled runs are
    often late, --grace is as long again unless it is given.

    Exit code 0: fresh; 3: stale, of a ledger that was old already, missing, or not to be read; 2: the run promises
    nothing, and there is no --max-age.
    """
    console = Console(log_format)
    answers = Console("json" if log_format == "json" else "text", sys.stdout)

    def work() -> int:
        from exporter.status import Bounds, tell_status

        return tell_status(uri, Bounds(max_age, grace, max_lag), console, answers)

    _finish(console, work)


@main.command()
@click.argument("platform", type=click.Choice(("nginx", "cloudfront", "cloudflare")))
@click.option("--config", "config_path", type=_FILE, envvar="EXPORTER_CONFIG", help="A TOML file.")
@click.option("--root", help="nginx: the folder of the tree.  [default: output.uri]")
@click.option("--origin", metavar="URL", help="cloudflare: where the keys of the tree are, instead of a bound bucket.")
@click.option("--out", default="./edge", show_default=True, help="The folder to write into.")
def edge(platform: str, config_path: Path | None, root: str | None, origin: str | None, out: str) -> None:
    """Write the rule that serves query strings from files: for nginx, CloudFront or Cloudflare.

    The rule holds the configured page sizes: write it again, and put it in place, when these change. docs/edge.md says
    how, and what each platform cannot do.
    """
    console = Console("text")

    def work() -> int:
        from exporter.edge import render_edge, write_edge

        settings = _load(config_path).settings
        for path in write_edge(Path(out), render_edge(platform, settings, root=root, origin=origin)):
            click.echo(path)
        return 0

    _finish(console, work)


@main.command()
@click.option("--pools", type=click.IntRange(1, 100_000), default=60, show_default=True, help="How many Blend pools.")
@click.option("--alula-markets", type=click.IntRange(0, 3), default=3, show_default=True, help="How many of Alula's.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed makes other markets.")
@click.option("--start-ledger", type=click.IntRange(1, 4_000_000_000), help="The first ledger of the made network.")
@click.option("--snapshot", type=_FILE, help="Serve a ledger snapshot file instead of a made network.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free port.")
@click.option("--advance-every-seconds", type=click.FloatRange(0.01, 3600), help="Close a ledger so often.")
@click.option("--advance-every-requests", type=click.IntRange(1), help="Close a ledger after so many calls.")
@click.option("--latency", type=click.FloatRange(0, 60), default=0, help="Seconds before a request is looked at.")
@click.option("--lag", "lags", type=click.IntRange(0, 1000), multiple=True, help="A node so many ledgers behind.")
@click.option("--fail-rate", type=click.FloatRange(0, 1), default=0, help="The share of requests that fail.")
def localnet(host: str, port: int, **options: Any) -> None:
    """Serve a made network, or a ledger snapshot file, as a Stellar RPC."""
    console = Console("text")

    def work() -> int:
        from exporter.localnet.command import serve_network

        serve_network(host, port, lambda line: click.echo(line), **options)
        return 0

    _finish(console, work)


@main.group()
def history() -> None:
    """The Parquet history of a published tree: list its files, compact them, export a part."""


def _selects(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of the commands that look at a part of the history."""
    for option in reversed(
        (
            click.option("--from", "start", metavar="WHEN", help="A day, an RFC 3339 time (UTC), or a ledger."),
            click.option("--to", "end", metavar="WHEN", help="Before this day or time; up to this ledger."),
        )
    ):
        command = option(command)
    return command


def _selection(start: str | None, end: str | None, market: str | None = None, token: str | None = None) -> Any:
    from exporter.history.selection import Moment, Selection, parse_moment

    first, last = (
        Moment() if text is None else parse_moment(text, option) for option, text in (("--from", start), ("--to", end))
    )
    return Selection(first, last, market, token)


@history.command("list")
@click.argument("uri")
@_selects
@_log_format
def list_(uri: str, start: str | None, end: str | None, log_format: str) -> None:
    """Say which files the history has.

    URI is a folder, s3://bucket/prefix, or the http(s) URL of a tree's root.
    """
    console = Console(log_format)

    def work() -> int:
        from exporter.history.command import list_history

        answers = Console("json" if log_format == "json" else "text", sys.stdout)
        return list_history(uri, _selection(start, end), answers)

    _finish(console, work)


@history.command()
@click.argument("uri")
@click.option(
    "--months", type=click.IntRange(0, 1200), default=2, show_default=True,
    help="So many whole months stay in a file a day; those before become a file each.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@_log_format
def compact(uri: str, months: int, dry_run: bool, log_format: str) -> None:
    """Make one sorted file of each closed day, and of each month long past.

    URI is a folder or s3://bucket/prefix. A run does this by itself unless history.compact is false. The files that
    are no longer named stay for output.retention_hours, until a sweep.
    """
    console = Console(log_format)

    def work() -> int:
        from exporter.history.command import compact as compact_command

        answers = Console("json" if log_format == "json" else "text", sys.stdout)
        return compact_command(uri, months, dry_run, console, answers)

    _finish(console, work)


@history.command()
@click.argument("uri")
@click.option("--out", required=True, type=_FILE, help="The file to write.")
@click.option(
    "--format", "form", type=click.Choice(("parquet", "csv", "arrow")), help="[default: by the file's ending]"
)
@_selects
@click.option("--market", help="Only pools of this market (C...).")
@click.option("--token", help="Only pools of this token (C...).")
@_log_format
def export(
    uri: str, out: Path, form: str | None, start: str | None, end: str | None, market: str | None, token: str | None,
    log_format: str,
) -> None:  # fmt: skip
    """Write a part of the history into one file: Parquet, CSV or Arrow.

    URI is a folder, s3://bucket/prefix, or the http(s) URL of a tree's root. Amounts stay exact: decimal(38,0), in
    CSV plain digits. Every file that is read is compared with its digest in the history's manifest.
    """
    console = Console(log_format)

    def work() -> int:
        from exporter.history.command import export as export_command

        endings = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow", ".feather": "arrow"}
        chosen = form or endings.get(out.suffix)
        if chosen is None:
            raise ConfigError(f"--out: the ending of {out.name} names no format; give --format, or .parquet or .csv")
        return export_command(uri, _selection(start, end, market, token), out, chosen, console)

    _finish(console, work)


@main.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option("--config", "config_path", type=_FILE, envvar="EXPORTER_CONFIG", help="A TOML file.")
@click.option("--network", help="mainnet (default), testnet or local.")
@click.option("--out", help="The output whose history is added to.  [default: ./public]")
@click.option("--workers", type=click.IntRange(1, 256), help="Processes of this machine.  [default: its cores]")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask cluster instead, for example tcp://10.0.0.1:8786.")
@_log_format
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

        configuration = _load(config_path, network__name=network, output__uri=out)
        return run_backfill(configuration.settings, paths, workers, scheduler, console)

    _finish(console, work)


if __name__ == "__main__":
    main()
