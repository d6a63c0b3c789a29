"""The command line: thin commands; what they do is imported only when they run, so that help is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from exporter import __version__
from exporter.console import LOG_FORMATS, Console
from exporter.errors import EXIT_UNEXPECTED, ExporterError

_FILE = click.Path(path_type=Path, dir_okay=False)


def _shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that every command which works with a configuration has."""
    for option in reversed(
        (
            click.option("--config", "config_path", type=_FILE, envvar="EXPORTER_CONFIG", help="A TOML file."),
            click.option("--network", help="mainnet (default), testnet or local."),
            click.option("--rpc-url", "rpc_urls", multiple=True, metavar="URL", help="A Stellar RPC; repeatable."),
            click.option("--out", help="Where the tree goes: a folder.  [default: ./public]"),
            click.option("--snapshot", type=_FILE, help="Read a ledger snapshot file instead of an RPC."),
        )
    ):
        command = option(command)
    return command


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
@click.option("--out", default="./public", show_default=True, help="The folder to publish into.")
@click.option("--pools", type=click.IntRange(1, 100_000), default=60, show_default=True, help="How many pools to make.")
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
@click.option("--pools", type=click.IntRange(1, 100_000), default=60, show_default=True, help="How many pools to make.")
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


if __name__ == "__main__":
    main()
