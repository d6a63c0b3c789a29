"""``exporter verify``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from exporter.cli.common import answers_to, ending, log_format_option
from exporter.cli.prove import allow_option, proof_options, report_unproven
from exporter.console import Console
from exporter.job.unproven import Reason


def _seconds(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Seconds of a duration such as 30m, 2h or 1d; a number alone is of minutes."""
    if value is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,5})([mhd]?)", value, re.ASCII)
    if found is None:
        raise click.BadParameter(f"expected minutes, or a duration such as 30m, 2h or 1d, but found {value!r}")
    return int(found[1]) * {"h": 3600, "d": 86_400}.get(found[2], 60)


@click.command()
@click.argument("uri")
@proof_options
@click.option("--complete", is_flag=True, help="Also see that no market was left out (reads all buckets).")
@click.option(
    "--earlier",
    type=click.IntRange(0, 1000),
    default=5,
    show_default=True,
    metavar="RUNS",
    help="Earlier runs to verify, if their evidence is in the tree.",
)
@click.option(
    "--max-age",
    callback=_seconds,
    metavar="AGE",
    help="End with 3 if the ledger is older: 30m, 2h, 1d, or minutes.",
)
@allow_option
@log_format_option
def verify(
    uri: str,
    archives: tuple[str, ...],
    trust: Path | None,
    deadline: float,
    full: bool,
    complete: bool,
    earlier: int,
    max_age: int | None,
    allowed: frozenset[Reason],
    log_format: str,
) -> None:
    """Verify a tree without trusting its publisher.

    URI: a folder, s3://BUCKET/PREFIX or the http(s) URL of a tree's root. Checks every file, repeats runs from their
    evidence, and compares that with what validators signed.

    Exit code 0: all is proven, or allowed not to be; 3: the tree or the archives cannot be read, the run's checkpoint
    cannot be proven yet, or the run is older than --max-age; 8: something is wrong, and the first thing is named; 9:
    not contradicted, but not all is proven.
    """
    console, answers = Console(log_format), answers_to(log_format)
    with ending(console):
        from exporter.job.verify import refuse_old, verify_tree

        verified = verify_tree(
            uri, archives, trust, console, full=full, complete=complete, deadline=deadline, earlier=earlier
        )
        answers.event("verified", "\n".join(verified.lines()), **verified.as_dict())
        code = report_unproven(answers, verified.unproven, allowed)
        refuse_old(verified, max_age)
        sys.exit(code)
