"""``exporter census``."""

from __future__ import annotations

from pathlib import Path

import click

from exporter.cli.common import (
    FILE,
    answers_to,
    config_option,
    configuration_of,
    ending,
    log_format_option,
    network_option,
    spare_memory,
)
from exporter.console import Console


@click.command()
@config_option
@network_option
@click.option(
    "--archive", "archives", multiple=True, required=True, metavar="URI", help="A history archive; repeatable."
)
@click.option(
    "--checkpoint",
    type=click.IntRange(63, 2**32 - 1),
    metavar="LEDGER",
    help="63, 127, …  [default: the newest that can be proven]",
)
@click.option("--trust", type=FILE, help="The organisations to trust.  [default: the known ones]")
@click.option("--bucket-cache", metavar="DIR", help="Keeps the archive's buckets.  [default: ./archive-buckets]")
@click.option("--out", help="Compare with the run there, and add to its tree.  [default: print]")
@log_format_option
def census(
    config: Path | None,
    network: str | None,
    archives: tuple[str, ...],
    checkpoint: int | None,
    trust: Path | None,
    bucket_cache: str | None,
    out: str | None,
    log_format: str,
) -> None:
    """List lending contracts that a run did not read.

    Reads every contract of a proven checkpoint (docs/discovery.md).
    """
    spare_memory()
    console, answers = Console(log_format), answers_to(log_format)
    with ending(console):
        settings = configuration_of(config, network).settings
        from exporter.job.census import census as take
        from exporter.job.from_archive import BUCKET_CACHE, FromArchive
        from exporter.stores import open_store
        from exporter.tree.documents import encode

        given = FromArchive(archives, checkpoint, trust, Path(bucket_cache or BUCKET_CACHE))
        found = take(settings, given, None if out is None else open_store(out), console)
        if out is None:
            click.echo(encode(found).decode())
            return
        for item in found.unread:
            named = f" of {item.protocol}" if item.protocol else ""
            answers.event(
                "unread",
                f"{item.kind}{named}: {item.address}: {item.reason}: {item.detail}",
                address=item.address,
                kind=item.kind,
                protocol=item.protocol,
                reason=item.reason,
            )
        answers.event(
            "census",
            f"checkpoint {found.checkpoint}: {found.contract_count} contracts, "
            f"{found.unread_count} unread ones that lend",
            checkpoint=found.checkpoint,
            contracts=found.contract_count,
            unread=found.unread_count,
            counts=found.counts,
        )
