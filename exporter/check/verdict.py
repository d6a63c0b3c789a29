"""What `exporter check` says: how much was looked at, and everything that is wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

from exporter.check.chain import ChainCheck, check_chain
from exporter.check.published_tree import check_uri
from exporter.check.whole import SHOWN_FAULTS, TreeFaultsError
from exporter.config import Settings
from exporter.console import Console
from exporter.deployments.networks import network_id
from exporter.discovery.memory import Memory, load_memory
from exporter.errors import EXIT_CHECK, EXIT_DONE, StoreError
from exporter.job.reading import OpenSource, open_source
from exporter.numbers.wording import counted
from exporter.stores.store import open_store

SHOWN_DIFFERENCES = 200
SHOWN_WITHOUT = 20


def check_tree(uri: str, sample: int | None, console: Console, answers: Console) -> int:
    """Check a published tree; gives the exit code. Raises as `exporter.check.published_tree.check_uri` does."""
    with console.progress("files") as progress:
        try:
            looked = asyncio.run(check_uri(uri, sample, progress.advance))
        except TreeFaultsError as error:
            failed = error
        else:
            answers.event("checked", "\n".join(("the tree passes its checks", *looked.lines())), **looked.as_dict())
            return EXIT_DONE
    for fault in failed.faults[:SHOWN_FAULTS]:
        answers.event("fault", str(fault), key=fault.key, fault=fault.text)
    more = failed.total - min(failed.total, SHOWN_FAULTS)
    shown = f", of which {SHOWN_FAULTS} are shown" if more else ""
    console.error(f"the tree fails its checks: {counted(failed.total, 'fault')}{shown}", EXIT_CHECK)
    return EXIT_CHECK


def check_on_chain(settings: Settings, snapshot: Path | None, console: Console, answers: Console) -> int:
    """Compare with the contracts' own views; gives the exit code. Raises as `check_chain` does.

    The markets are those that a run into the configured output would find; of it only what earlier runs remembered
    is read, and nothing is written.
    """

    async def run() -> ChainCheck:
        async with open_source(settings, snapshot) as opened:
            return await check_chain(settings, opened, _memory(settings, opened, console))

    check = asyncio.run(run())
    for notice in check.notices:
        console.warning(notice)
    for item in check.differences[:SHOWN_DIFFERENCES]:
        answers.event(
            "difference",
            f"{item.market} {item.pool or 'market'}: {item.field} is {item.ours}, the contract says {item.contract}",
            market=item.market,
            pool=item.pool,
            field=item.field,
            ours=item.ours,
            contract=item.contract,
        )
    for text in check.other_clock[:SHOWN_DIFFERENCES]:
        console.warning(text)
    for failed in check.failed[:SHOWN_DIFFERENCES]:
        pools = " ".join(failed.pools) if len(failed.pools) == 1 else counted(len(failed.pools), "pool")
        console.warning(f"{failed.market} {pools}: {failed.function} could not be compared: {failed.reason}")
    for reason in dict.fromkeys(item.reason for item in check.without):
        markets = [item.market for item in check.without if item.reason == reason]
        shown = ", ".join(markets[:SHOWN_WITHOUT]) + (", ..." if len(markets) > SHOWN_WITHOUT else "")
        console.warning(f"{reason}: {shown}")
    each = ", ".join(f"{name} {count:,}" for name, count in sorted(check.by_protocol.items()) if count)
    summary = (
        f"{counted(check.compared, 'field')} ({each}) of {counted(check.pools, 'pool')} compared with the contracts at "
        f"ledger {check.ledger}: {len(check.differences):,} differ; {counted(len(check.failed), 'call')} failed; "
        f"without a view function: {counted(len(check.without), 'market')}"
    )
    answers.event("compared", summary, **check.as_dict())
    if check.differences:
        console.error("what the exporter computes is not what the contracts say", EXIT_CHECK)
        return EXIT_CHECK
    return EXIT_DONE


def _memory(settings: Settings, opened: OpenSource, console: Console) -> Memory | None:
    """What runs into the configured output remember; None where that cannot be read, which costs only what it has."""
    if not settings.discovery.enabled:
        return None
    try:
        return load_memory(open_store(settings.output.uri), network_id(opened.network.passphrase))
    except StoreError as error:
        console.warning(f"markets that only earlier runs into {settings.output.uri} know are not compared: {error}")
        return None
