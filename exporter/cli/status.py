"""``exporter status``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from exporter.cli.common import answers_to, ending, log_format_option
from exporter.console import Console
from exporter.errors import EXIT_DONE, EXIT_SOURCE


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
    console, answers = Console(log_format), answers_to(log_format)
    with ending(console):
        import asyncio

        import msgspec

        from exporter.check.freshness import describe, judge, read_status

        found, now = asyncio.run(read_status(uri)), datetime.now(UTC)
        problems = judge(found, now, max_lag, max_age, grace)
        facts = {"fresh": not problems, "age_seconds": found.age(now), "problems": problems}
        answers.event("status", describe(found, now), **facts, **msgspec.to_builtins(found))
        for problem in problems:
            console.error(problem, EXIT_SOURCE)
        sys.exit(EXIT_SOURCE if problems else EXIT_DONE)
