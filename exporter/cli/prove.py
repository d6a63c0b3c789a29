"""``exporter prove`` and its options."""

from __future__ import annotations

from pathlib import Path

import click

from exporter.cli.common import FILE, answers_to, ending, log_format_option, options
from exporter.console import Console

proof_options = options(
    click.option(
        "--archive", "archives", multiple=True, metavar="URI",
        help="A history archive: a folder, https:// or s3://; repeatable.  [default: those of the organisations]",
    ),
    click.option(
        "--trust", type=FILE, help="The organisations to trust.  [default: those that are known for the network]"
    ),
    click.option(
        "--full", is_flag=True, help="Look every entry up in all buckets (10 GB on mainnet), not in the newest alone."
    ),
)  # fmt: skip


@click.command()
@click.argument("uri")
@proof_options
@log_format_option
def prove(uri: str, archives: tuple[str, ...], trust: Path | None, full: bool, log_format: str) -> None:
    """Prove the runs published at URI by what the network's validators signed.

    URI is a folder or s3://BUCKET/PREFIX. The entries that each run left as its evidence are held against the next
    checkpoint of the network's history archives, and the proofs are added to the tree. A checkpoint can be proven
    when the next one is there, so the newest run is proven some twelve minutes after it at the latest.

    Exit code 0: every run is proven, or has to wait; 3: the archives cannot be read; 8: a run's evidence is not the
    state of the network. Then the RPC lied: publish nothing more from it.
    """
    console, answers = Console(log_format), answers_to(log_format)
    with ending(console):
        from exporter.job.prove import prove as prove_runs
        from exporter.stores import open_store

        result = prove_runs(open_store(uri), archives, trust, console, full=full)
        for proof in result.added:
            answers.event(
                "proven",
                f"run {proof.run_id}: checkpoint {proof.checkpoint}, which {proof.organisations_signed} of "
                f"{proof.organisations_trusted} organisations signed, proves {proof.confirmed} of {proof.entries} "
                f"entries; {proof.changed_since} were changed before it, {proof.not_looked_up} not looked up",
                run_id=proof.run_id, checkpoint=proof.checkpoint, entries=proof.entries, confirmed=proof.confirmed,
            )  # fmt: skip
        for run_id, reason in result.waiting.items():
            answers.event("waiting", f"run {run_id}: {reason}", run_id=run_id, reason=reason)
        if not result.added and not result.waiting:
            answers.event("nothing_to_do", "nothing to do: every run that can be proven is")
