"""``exporter status``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from exporter.cli.common import answers_to, ending, log_format_option
from exporter.console import Console
from exporter.errors import EXIT_DONE, EXIT_SOURCE

if TYPE_CHECKING:
    from exporter.check.freshness import Bounds


@click.command()
@click.argument("uri")
@click.option(
    "--max-age",
    type=click.IntRange(1, 31_536_000),
    metavar="SECONDS",
    help="Stale when older than this.",
)
@click.option(
    "--grace",
    type=click.IntRange(0, 31_536_000),
    metavar="SECONDS",
    help="How late a run may be.  [default: the interval]",
)
@click.option(
    "--max-lag",
    type=click.IntRange(1, 31_536_000),
    metavar="SECONDS",
    default=3600,
    show_default=True,
    help="How old the ledger may be when published.",
)
@log_format_option
def status(uri: str, max_age: int | None, grace: int | None, max_lag: int, log_format: str) -> None:
    """Report how fresh a tree is; fail when it is stale.

    URI: a folder, s3://BUCKET/PREFIX or the http(s) URL of a tree's root. A run is stale after
    schedule.interval_minutes and --grace, or, without an interval, after a day.

    Exit code 0: fresh; 3: stale, of a ledger that was old when published, missing, or unreadable.
    """
    console = Console(log_format)
    with ending(console):
        from exporter.check.freshness import Bounds

        sys.exit(report_status(uri, Bounds(max_age, grace, max_lag), console, answers_to(log_format)))


def report_status(
    uri: str, bounds: Bounds, console: Console, answers: Console, *, now: Callable[[], datetime] | None = None
) -> int:
    """Read the pointer of a tree and judge it; gives the exit code: 0 when the run is fresh, 3 when it is not.

    Raises `ConfigError` and `SourceError` as `read_status` does.
    """
    import asyncio

    import msgspec

    from exporter.check.freshness import age, describe, judge, read_status

    status = asyncio.run(read_status(uri))
    moment = datetime.now(UTC) if now is None else now()
    problems = judge(status, bounds, moment)
    facts = msgspec.to_builtins(status)
    answers.event(
        "status",
        describe(status, moment),
        fresh=not problems,
        age_seconds=age(status, moment),
        problems=problems,
        **facts,
    )
    for problem in problems:
        console.error(problem, EXIT_SOURCE)
    return EXIT_SOURCE if problems else EXIT_DONE
