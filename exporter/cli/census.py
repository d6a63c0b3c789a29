"""``exporter census``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from exporter.cli.common import (
    answers_to,
    archive_of,
    archive_options,
    config_option,
    configuration_of,
    ending,
    log_format_option,
    network_option,
    spare_memory,
)
from exporter.console import Console
from exporter.errors import ConfigError


@click.command()
@config_option
@network_option
@archive_options
@click.option("--out", help="Compare with the run there, and add to its tree.  [default: print]")
@log_format_option
def census(
    config: Path | None,
    network: str | None,
    out: str | None,
    log_format: str,
    **archive_given: Any,
) -> None:
    """List lending contracts that a run did not read.

    Reads every contract of a proven checkpoint (docs/discovery.md).
    """
    spare_memory()
    console, answers = Console(log_format), answers_to(log_format)
    with ending(console):
        settings = configuration_of(config, network).settings
        from exporter.job.census import census as take
        from exporter.stores import open_store
        from exporter.tree.documents import encode

        given = archive_of(**archive_given)
        if given is None:
            raise ConfigError("--archive: name the history archive to read")
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
