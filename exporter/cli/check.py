"""The commands ``exporter check`` and ``exporter status``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exporter.cli.common import (
    STORE_WORDS,
    Duration,
    answers_next_to,
    configuration_of,
    exit_codes,
    reporting,
    source_options,
)
from exporter.console import Console
from exporter.errors import ConfigError, ExitCode, pluralize

if TYPE_CHECKING:
    from exporter.audit.on_chain import ChainCheck

MAX_NAMED_DIFFERENCES = 200
MAX_NAMED_MARKETS = 20


@click.command(
    epilog=exit_codes(
        {
            ExitCode.DONE: "no fault",
            ExitCode.SOURCE: "nothing is published there, or it cannot be read",
            ExitCode.CHECK: "standard output names the faults, or what differs",
            ExitCode.STORE: STORE_WORDS,
        }
    )
)
@click.argument("uri", required=False)
@click.option("--sample", type=click.IntRange(1, 1_000_000), help="Check only this many files of each kind.")
@click.option("--on-chain", is_flag=True, help="Compare the numbers with the contracts' getters.")
@source_options
@click.option("--out", help="With --on-chain: a tree, whose remembered markets are compared, too.")
@reporting
def check(
    console: Console, uri: str | None, sample: int | None, on_chain: bool, snapshot: Path | None, **configured: Any
) -> None:
    """Check a published tree, or the exporter's own numbers.

    URI: a folder, s3://BUCKET/PREFIX or the http(s) URL of a tree's root. Reads every file of the published run,
    follows every link and cursor, and renders the run again from its evidence. Every file must come out byte for byte,
    except lists of history files that were compacted since.

    With --on-chain and no URI, reads the listed markets (all markets, if none is listed) and compares them with the
    contracts' getters at the same ledger. --config, --network, --rpc-url, --snapshot and --out only apply to this.
    """
    if on_chain is (uri is not None):
        raise ConfigError(
            "name the tree to check (a folder, s3://BUCKET/PREFIX or a URL), or give --on-chain and no URI"
        )
    if uri is not None:
        sys.exit(_report_tree(uri, sample, console))
    import asyncio

    from exporter.audit.on_chain import check_chain
    from exporter.job.sources import RpcEndpoints, StoredLedger

    source = RpcEndpoints() if snapshot is None else StoredLedger(snapshot)
    sys.exit(_report_chain(asyncio.run(check_chain(configuration_of(**configured).settings, source)), console))


def _report_tree(uri: str, sample: int | None, console: Console) -> int:
    import exporter
    from exporter.publishing.faults import MAX_SHOWN_FAULTS

    answers = answers_next_to(console)
    try:
        with console.progress("files") as progress:
            summary = exporter.check_tree(uri, sample, progress.advance)
    except exporter.TreeFaultsError as failed:
        for fault in failed.faults[:MAX_SHOWN_FAULTS]:
            answers.event("fault", str(fault), key=fault.key, fault=fault.text)
        shown = f", of which {MAX_SHOWN_FAULTS} are shown" if len(failed.faults) > MAX_SHOWN_FAULTS else ""
        console.error(f"the tree fails its checks: {pluralize(len(failed.faults), 'fault')}{shown}", ExitCode.CHECK)
        return ExitCode.CHECK
    answers.event("checked", "\n".join(("the tree passes its checks", *summary.lines())), **summary.as_dict())
    return ExitCode.DONE


def _report_chain(check: ChainCheck, console: Console) -> int:
    from msgspec import structs

    answers = answers_next_to(console)
    for notice in check.notices:
        console.warning(notice)
    for item in check.differences[:MAX_NAMED_DIFFERENCES]:
        answers.event(
            "difference",
            f"{item.market} {item.pool or 'market'}: {item.field} is {item.ours}, the contract says {item.contract}",
            **structs.asdict(item),
        )
    for text in check.other_clock[:MAX_NAMED_DIFFERENCES]:
        console.warning(text)
    for failed in check.failed[:MAX_NAMED_DIFFERENCES]:
        console.warning(f"{failed.market} {failed.pool}: {failed.function} could not be compared: {failed.reason}")
    for reason in dict.fromkeys(item.reason for item in check.without):
        markets = [item.market for item in check.without if item.reason == reason]
        shown = ", ".join(markets[:MAX_NAMED_MARKETS]) + (", ..." if len(markets) > MAX_NAMED_MARKETS else "")
        console.warning(f"{reason}: {shown}")
    each = ", ".join(f"{name} {count:,}" for name, count in sorted(check.by_protocol.items()) if count)
    summary = (
        f"{pluralize(check.compared, 'field')} ({each}) of {pluralize(check.pools, 'pool')} compared with contracts "
        f"at ledger {check.ledger}: {len(check.differences):,} differ; {pluralize(len(check.failed), 'call')} failed; "
        f"without a getter: {pluralize(len(check.without), 'market')}; "
        f"{pluralize(check.both.compared, 'call')} of readers answered from entries, too, "
        f"and {len(check.both.without):,} could not be computed from entries"
    )
    answers.event("compared", summary, **check.as_dict())
    if check.differences:
        console.error("what the exporter computes is not what the contracts say", ExitCode.CHECK)
        return ExitCode.CHECK
    return ExitCode.DONE


@click.command(
    epilog=exit_codes(
        {
            ExitCode.DONE: "fresh",
            ExitCode.SOURCE: "stale, of a ledger that was old when published, missing, or unreadable",
            ExitCode.CHECK: "the status document is too large to be one",
            ExitCode.STORE: STORE_WORDS,
        }
    )
)
@click.argument("uri")
@click.option("--max-age", type=Duration("1s", "365d"), help="Stale when older than this.")
@click.option("--grace", type=Duration("0s", "365d"), help="How late the next run may be.  [default: the interval]")
@click.option(
    "--max-lag",
    type=Duration("1s", "365d"),
    default="1h",
    show_default=True,
    help="How old the ledger may have been when it was published.",
)
@reporting
def status(console: Console, uri: str, max_age: timedelta | None, grace: timedelta | None, max_lag: timedelta) -> None:
    """Report how fresh a tree is; fail when it is stale.

    URI: a folder, s3://BUCKET/PREFIX or the http(s) URL of a tree's root. A run is stale after
    schedule.interval and --grace, or, without an interval, after a day.
    """
    import asyncio

    import msgspec

    from exporter.audit.freshness import describe, judge, read_status

    published, now = asyncio.run(read_status(uri)), datetime.now(UTC)
    problems = judge(published, now, max_lag, max_age, grace)
    facts = {"fresh": not problems, "age_seconds": published.age(now), "problems": problems}
    answers_next_to(console).event("status", describe(published, now), **facts, **msgspec.to_builtins(published))
    for problem in problems:
        console.error(problem, ExitCode.SOURCE)
    sys.exit(ExitCode.SOURCE if problems else ExitCode.DONE)
