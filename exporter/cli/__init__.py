"""The command line: thin commands; what they do is imported only when they run, so that help is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from exporter import __version__
from exporter.cli.common import FILE, KeylessGroup, finish, load_configuration, log_format_option
from exporter.cli.history import backfill, history
from exporter.console import Console
from exporter.errors import EXIT_UNEXPECTED, ConfigError, ExporterError
from exporter.ledger.rpc.redaction import without_keys


def _reads(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that reads a ledger by a configuration."""
    for option in reversed(
        (
            click.option("--config", "config_path", type=FILE, envvar="EXPORTER_CONFIG", help="A TOML file."),
            click.option("--network", help="mainnet (default), testnet or local."),
            click.option("--rpc-url", "rpc_urls", multiple=True, metavar="URL", help="A Stellar RPC; repeatable."),
            click.option("--snapshot", type=FILE, help="Read a ledger snapshot file instead of an RPC."),
        )
    ):
        command = option(command)
    return command


def _shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that also has an output."""
    return _reads(
        click.option("--out", help="Where the tree goes: a folder or s3://BUCKET/PREFIX.  [default: ./public]")(command)
    )


@click.group(cls=KeylessGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="exporter")
def main() -> None:
    """Exact snapshots of every lending market on Soroban, as files.

    Exit codes: 0 done or nothing to do; 1 unexpected; 2 usage or configuration; 3 the source failed, lags, or is
    older than what is published; 4 the rendered tree failed its checks and was not published; 5 another writer won;
    6 published, but the check afterwards failed; 7 published, but something could not be read.
    """


@main.command()
@_shared
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
    config_path: Path | None, network: str | None, rpc_urls: tuple[str, ...], out: str | None, snapshot: Path | None,
    report: str | None, dry_run: bool, replace_ledger: int | None, log_format: str,
) -> None:  # fmt: skip
    """Read every market at one ledger and publish the tree."""
    console = Console(log_format)

    def work() -> int:
        configuration = load_configuration(
            config_path, network__name=network, network__rpc_urls=list(rpc_urls) or None, output__uri=out,
            output__report=report,
        )  # fmt: skip
        options = {"snapshot": snapshot, "dry_run": dry_run, "replaced_ledger": replace_ledger}
        return _execute(configuration.settings, console, **options)

    finish(console, work)


def _execute(settings: Any, console: Console, **options: Any) -> int:
    """A run with its report begun before and finished after whatever happens."""
    from exporter.job.report import RunReport
    from exporter.job.run import execute, prepare

    report = RunReport(Path(settings.output.report), command="run")
    try:
        code = execute(prepare(settings, console, report, **options))
    except ExporterError as error:
        report.finish(error.exit_code, str(error))
        if report.problem is not None:
            console.warning(report.problem)
        raise
    except BaseException as error:
        report.finish(EXIT_UNEXPECTED, f"{type(error).__name__}: {error}")
        raise
    report.finish(code)
    if report.problem is not None:
        console.warning(report.problem)
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
        from exporter.job.plan import describe

        configuration = load_configuration(
            config_path, network__name=network, network__rpc_urls=list(rpc_urls) or None, output__uri=out
        )
        for line in describe(configuration, snapshot):
            click.echo(without_keys(line))
        return 0

    finish(console, work)


@main.command()
@click.argument("uri", required=False)
@click.option(
    "--sample", type=click.IntRange(1, 1_000_000), help="Look at this many files of each kind instead of at all."
)
@click.option("--on-chain", is_flag=True, help="Instead of a tree, check the numbers against the contracts' own views.")
@_reads
@click.option(
    "--out", help="With --on-chain: a tree (folder or s3://BUCKET/PREFIX); what runs into it found is compared, too."
)
@log_format_option
def check(
    uri: str | None, sample: int | None, on_chain: bool, config_path: Path | None, network: str | None,
    rpc_urls: tuple[str, ...], snapshot: Path | None, out: str | None, log_format: str,
) -> None:  # fmt: skip
    """Check a published tree, or the exporter's own numbers.

    URI is a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root. Every file of the published run is read,
    every link and cursor followed, every sum and digest computed again; with --sample only some, and one walk over all
    pools.

    With --on-chain there is no URI: markets are read as `exporter run` reads them, and their contracts are asked for
    the same numbers at the same ledger. --config, --network, --rpc-url, --snapshot and --out are for that.

    Exit code 0: all is well, and something was looked at; 4: something is wrong, and standard output names it; 3: it
    cannot be read.
    """
    console = Console(log_format)
    answers = Console("json" if log_format == "json" else "text", sys.stdout)

    def work() -> int:
        from exporter.check.verdict import check_on_chain, check_tree

        if on_chain is (uri is not None):
            raise ConfigError(
                "name the tree to check (a folder, s3://BUCKET/PREFIX or a URL), or give --on-chain and no URI"
            )
        if uri is not None:
            return check_tree(uri, sample, console, answers)
        configuration = load_configuration(
            config_path, network__name=network, network__rpc_urls=list(rpc_urls) or None, output__uri=out
        )
        return check_on_chain(configuration.settings, snapshot, console, answers)

    finish(console, work)


@main.command()
@click.option(
    "--out", default="./public", show_default=True, help="Where the tree goes: a folder or s3://BUCKET/PREFIX."
)
@click.option("--pools", type=click.IntRange(1, 100_000), default=60, show_default=True, help="How many Blend pools.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed makes other markets.")
@click.option("--report", help="The file for the run report.  [default: run-report.json]")
@log_format_option
def demo(out: str, pools: int, seed: int, report: str | None, log_format: str) -> None:
    """Try a run against a made network; needs nothing else.

    Its markets, amounts and prices are made up, and every page says so.
    """
    console = Console(log_format)

    def work() -> int:
        from exporter.cli.demo import run_demo

        code: int = run_demo(out, pools, seed, report, console, _execute)
        return code

    finish(console, work)


@main.command()
@click.option(
    "--out", default="./public", show_default=True, help="The folder of a published tree; of a bucket, a copy of it."
)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any free port.")
def serve(out: str, host: str, port: int) -> None:
    """Preview a published tree over HTTP, with all query parameters."""
    console = Console("text")

    def work() -> int:
        from exporter.serve.preview import run_server

        if "://" in out:
            raise ConfigError("--out: serve shows a folder; copy the tree of a bucket into one (docs/operations.md)")
        run_server(Path(out), host, port, lambda host, port: click.echo(f"serving {out} at http://{host}:{port}/"))
        return 0

    finish(console, work)


@main.command()
@click.argument("uri")
@click.option(
    "--max-age",
    type=click.IntRange(1, 31_536_000),
    metavar="SECONDS",
    help="Stale when older than this, whatever the run promised.",
)
@click.option("--grace", type=click.IntRange(0, 31_536_000), metavar="SECONDS", help="How late the next run may be.")
@click.option(
    "--max-lag",
    type=click.IntRange(1, 31_536_000),
    metavar="SECONDS",
    default=3600,
    show_default=True,
    help="How old the ledger may have been when it was published.",
)
@log_format_option
def status(uri: str, max_age: int | None, grace: int | None, max_lag: int, log_format: str) -> None:
    """Say how fresh a published tree is; fail when it is stale.

    URI is a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root; only its status document is read. A run
    that was published with schedule.interval_minutes promises a newer one after that time, and as scheduled runs are
    often late, --grace is as long again unless it is given.

    Exit code 0: fresh; 3: stale, published of a ledger that was old already, missing, or unreadable; 2: the run
    promises nothing, and there is no --max-age.
    """
    console = Console(log_format)
    answers = Console("json" if log_format == "json" else "text", sys.stdout)

    def work() -> int:
        from exporter.check.freshness import Bounds, tell_status

        return tell_status(uri, Bounds(max_age, grace, max_lag), console, answers)

    finish(console, work)


@main.command()
@click.argument("platform", type=click.Choice(("nginx", "cloudfront", "cloudflare")))
@click.option("--config", "config_path", type=FILE, envvar="EXPORTER_CONFIG", help="A TOML file.")
@click.option("--root", help="nginx: the folder of the tree.  [default: output.uri]")
@click.option(
    "--origin", metavar="URL", help="cloudflare: the URL that the tree's files are below, instead of a bound bucket."
)
@click.option("--out", default="./edge", show_default=True, help="The folder to write into.")
def edge(platform: str, config_path: Path | None, root: str | None, origin: str | None, out: str) -> None:
    """Write the rule that serves query strings from files.

    It is for nginx, CloudFront or Cloudflare Workers. The rule holds the configured page sizes: write it again, and put
    it in place, when these change. docs/edge.md says how, and what each platform cannot do.
    """
    console = Console("text")

    def work() -> int:
        from exporter.serve.edge import render_edge, write_edge

        settings = load_configuration(config_path).settings
        for path in write_edge(Path(out), render_edge(platform, settings, root=root, origin=origin)):
            click.echo(path)
        return 0

    finish(console, work)


@main.command()
@click.option("--pools", type=click.IntRange(1, 100_000), default=60, show_default=True, help="How many Blend pools.")
@click.option(
    "--alula-markets", type=click.IntRange(0, 3), default=3, show_default=True, help="How many Alula markets."
)
@click.option(
    "--other-protocols/--no-other-protocols",
    default=True,
    show_default=True,
    help="Some markets of every other protocol, too.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed makes other markets.")
@click.option("--start-ledger", type=click.IntRange(1, 4_000_000_000), help="The first ledger of the made network.")
@click.option("--snapshot", type=FILE, help="Serve a ledger snapshot file instead of a made network.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free port.")
@click.option(
    "--advance-every-seconds",
    type=click.FloatRange(0.01, 3600),
    help="Close a ledger each time this many seconds have passed.",
)
@click.option(
    "--advance-every-requests", type=click.IntRange(1), help="Close a ledger each time this many calls have come."
)
@click.option("--latency", type=click.FloatRange(0, 60), default=0, help="Seconds to wait before each answer.")
@click.option(
    "--lag", "lags", type=click.IntRange(0, 1000), multiple=True, help="A node this many ledgers behind; repeatable."
)
@click.option("--fail-rate", type=click.FloatRange(0, 1), default=0, help="The share of requests that fail.")
def localnet(host: str, port: int, **options: Any) -> None:
    """Serve a made network, or a ledger snapshot file, as a Stellar RPC."""
    console = Console("text")

    def work() -> int:
        from exporter.localnet.command import serve_network

        serve_network(host, port, lambda line: click.echo(line), **options)
        return 0

    finish(console, work)


main.add_command(history)
main.add_command(backfill)


if __name__ == "__main__":
    main()
