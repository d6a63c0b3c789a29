"""``exporter status``."""

from __future__ import annotations

import sys

import click

from exporter.cli.common import answers_to, ending, log_format_option
from exporter.console import Console


@click.command()
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
    with ending(console):
        from exporter.check.freshness import Bounds, tell_status

        sys.exit(tell_status(uri, Bounds(max_age, grace, max_lag), console, answers_to(log_format)))
