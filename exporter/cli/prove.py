"""The commands ``exporter prove``, ``verify`` and ``census``, which compare runs with history archives."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from exporter.audit.unproven import Unproven, UnprovenReason
from exporter.cli.common import (
    FILE,
    STORE_WORDS,
    Duration,
    answers_next_to,
    archive_of,
    archive_options,
    config_option,
    configuration_of,
    exit_codes,
    network_option,
    options,
    reporting,
)
from exporter.console import Console
from exporter.errors import ConfigError, ExitCode
from exporter.standard_output import write_line

proof_options = options(
    click.option(
        "--archive",
        "archives",
        multiple=True,
        metavar="URI",
        help="A history archive: a folder, https:// or s3://; repeatable.  [default: the organisations']",
    ),
    click.option("--trust", type=FILE, help="The organisations to trust.  [default: the known ones]"),
    click.option(
        "--deadline",
        type=Duration("1s", "1d"),
        default="5m",
        show_default=True,
        help="Limit for reading the archives.",
    ),
    click.option("--full", is_flag=True, help="Look up entries in all buckets (10 GB on mainnet)."),
)


def _reasons(_ctx: click.Context, _param: click.Parameter, value: str) -> frozenset[UnprovenReason]:
    names = [name.strip() for name in value.split(",")] if value else []
    unknown = [name for name in names if name not in set(UnprovenReason)]
    if unknown:
        raise click.BadParameter(f"unknown reason {unknown[0]!r}; expected some of {', '.join(UnprovenReason)}")
    return frozenset(map(UnprovenReason, names))


allow_option = click.option(
    "--allow-unproven",
    "allowed",
    default="",
    metavar="REASONS",
    callback=_reasons,
    help="Unproven reasons to accept, separated by commas (docs/proofs.md).",
)


def report_unproven(answers: Console, unproven: Unproven, allowed: frozenset[UnprovenReason]) -> int:
    """Print what is not proven, and which reasons were allowed. Returns the exit code."""
    code = unproven.exit_code(allowed)
    if allowed:
        answers.event("allowed", f"allowed as unproven: {', '.join(sorted(allowed))}", allowed=sorted(allowed))
    for reason, line in unproven.lines(allowed):
        answers.event("unproven", line, reason=reason, **unproven.facts(reason), allowed=reason in allowed)
    return code


@click.command(
    epilog=exit_codes(
        {
            ExitCode.DONE: "all is proven, or allowed not to be",
            ExitCode.SOURCE: "nothing is published there, or the archives cannot be read",
            ExitCode.CHECK: "a file of the tree is not what it must be",
            ExitCode.LOST_RACE: ExitCode.LOST_RACE.meaning,
            ExitCode.REFUTED: "a run's evidence is not the network's state: publish nothing more from that RPC",
            ExitCode.UNPROVEN: ExitCode.UNPROVEN.meaning,
            ExitCode.STORE: ExitCode.STORE.meaning,
        }
    )
)
@click.argument("uri")
@proof_options
@allow_option
@reporting
def prove(
    console: Console, uri: str, allowed: frozenset[UnprovenReason], deadline: timedelta, **proof_arguments: Any
) -> None:
    """Prove published runs by what validators signed.

    URI: a folder or s3://BUCKET/PREFIX. Compares each run's evidence with the next checkpoint of the history archives
    and adds the proofs to the tree. A run can be proven about twelve minutes later.
    """
    from msgspec import structs

    from exporter.audit.prove import prove as prove_runs
    from exporter.stores import open_store

    answers = answers_next_to(console)
    result = prove_runs(open_store(uri), console=console, deadline=deadline.total_seconds(), **proof_arguments)
    for proof in result.added:
        answers.event(
            "proven",
            f"run {proof.run_id}: checkpoint {proof.checkpoint}, which {proof.organisations_signed} of "
            f"{proof.organisations_trusted} organisations signed, proves {proof.confirmed} of {proof.entries} entries",
            **structs.asdict(proof),
        )
    for run_id, reason in result.waiting.items():
        answers.event("waiting", f"run {run_id}: {reason}", run_id=run_id, reason=reason)
    if not result.added and not result.waiting:
        answers.event("nothing_to_do", "nothing to do: every run that can be proven is proven")
    sys.exit(report_unproven(answers, result.unproven, allowed))


@click.command(
    epilog=exit_codes(
        {
            ExitCode.DONE: "all is proven, or allowed not to be",
            ExitCode.CONFIG: "the command is not accepted, or another version of the exporter made the tree",
            ExitCode.SOURCE: "nothing is published there, the tree or the archives cannot be read, the run's "
            "checkpoint cannot be proven yet, or the run is older than --max-age",
            ExitCode.REFUTED: "something is wrong, and the first thing is named",
            ExitCode.UNPROVEN: ExitCode.UNPROVEN.meaning,
            ExitCode.STORE: STORE_WORDS,
        }
    )
)
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
@click.option("--max-age", type=Duration("1s", "365d", unit="s"), help="End with 3 if the ledger is older, such as 2h.")
@allow_option
@reporting
def verify(
    console: Console,
    uri: str,
    max_age: timedelta | None,
    allowed: frozenset[UnprovenReason],
    deadline: timedelta,
    **verify_arguments: Any,
) -> None:
    """Verify a tree without trusting its publisher.

    URI: a folder, s3://BUCKET/PREFIX or the http(s) URL of a tree's root. Checks every file, repeats runs from their
    evidence, and compares that with what validators signed.
    """
    from exporter.audit.verified import refuse_old
    from exporter.audit.verify import verify_tree

    answers = answers_next_to(console)
    verified = verify_tree(uri, console=console, deadline=deadline.total_seconds(), **verify_arguments)
    answers.event("verified", "\n".join(verified.lines()), **verified.as_dict())
    code = report_unproven(answers, verified.unproven, allowed)
    refuse_old(verified, None if max_age is None else int(max_age.total_seconds()))
    sys.exit(code)


@click.command(
    epilog=exit_codes(
        {
            ExitCode.DONE: "printed, or added to the tree",
            ExitCode.SOURCE: "nothing is published there, or the archive or the tree cannot be read",
            ExitCode.LOST_RACE: ExitCode.LOST_RACE.meaning,
            ExitCode.REFUTED: "the run left out a market that it should have read",
            ExitCode.STORE: ExitCode.STORE.meaning,
        }
    )
)
@config_option
@network_option
@archive_options
@click.option("--out", help="A tree to compare with and to add the census to.  [default: print it]")
@reporting
def census(
    console: Console, config: Path | None, network: str | None, out: str | None, **archive_arguments: Any
) -> None:
    """List lending contracts that a run did not read.

    Reads every contract of a proven checkpoint (docs/discovery.md).
    """
    settings, answers = configuration_of(config, network).settings, answers_next_to(console)
    from msgspec import structs

    from exporter.audit.census import take_census
    from exporter.stores import open_store
    from exporter.tree.documents import encode

    archive = archive_of(**archive_arguments)
    if archive is None:
        raise ConfigError("--archive: name the history archive to read")
    taken = take_census(settings, archive, None if out is None else open_store(out), console)
    if out is None:
        write_line(encode(taken).decode())
        return
    for item in taken.unread:
        protocol = f" of {item.protocol}" if item.protocol else ""
        answers.event(
            "unread",
            f"{item.kind}{protocol}: {item.address}: {item.reason}: {item.detail}",
            **structs.asdict(item),
        )
    answers.event(
        "census",
        f"checkpoint {taken.checkpoint}: {taken.contract_count} contracts, {taken.unread_count} unread ones that lend",
        checkpoint=taken.checkpoint,
        contracts=taken.contract_count,
        unread=taken.unread_count,
        counts=taken.counts,
    )
