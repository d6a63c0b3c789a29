"""``exporter verify``."""

from __future__ import annotations

from pathlib import Path

import click

from exporter.cli.common import answers_to, ending, log_format_option
from exporter.cli.prove import proof_options
from exporter.console import Console


@click.command()
@click.argument("uri")
@proof_options
@log_format_option
def verify(uri: str, archives: tuple[str, ...], trust: Path | None, full: bool, log_format: str) -> None:
    """Verify a published tree without trusting whoever published it.

    URI is a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root. Every file is checked, the run is made
    again from its own evidence, and the evidence is held against what the network's validators signed.

    Exit code 0: proven, but for what is said; 8: something is not so, and the first thing is named; 3: the tree or the
    archives cannot be read, or the run's checkpoint cannot be proven yet.
    """
    console, answers = Console(log_format), answers_to(log_format)
    with ending(console):
        from exporter.job.verify import verify_tree

        verified = verify_tree(uri, archives, trust, console, full=full)
        answers.event("verified", "\n".join(verified.lines()), **verified.as_dict())
