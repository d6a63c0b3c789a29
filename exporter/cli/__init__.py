"""The command line. What a command does is imported only when it runs, so help is quick."""

from __future__ import annotations

import click

from exporter import FORMAT, __version__
from exporter.cli.check import check, status
from exporter.cli.common import KeylessGroup
from exporter.cli.history import backfill, history
from exporter.cli.prove import census, prove, verify
from exporter.cli.run import plan, run
from exporter.cli.serve import demo, edge, localnet, mcp, serve


@click.group(cls=KeylessGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="exporter", message=f"%(prog)s %(version)s, format {FORMAT}")
def main() -> None:
    """Exact snapshots of every lending market on Soroban, as files.

    Exit codes: 0 done or nothing to do; 1 unexpected; 2 usage or configuration; 3 the source failed, lags, or is
    older than what is published; 4 the tree failed its checks and was not published; 5 another writer won; 6 published,
    but the check afterwards failed; 7 published, but something could not be read; 8 not what validators signed; 9 not
    contradicted, but not all is proven.
    """


for command in (backfill, census, check, demo, edge, history, localnet, mcp, plan, prove, run, serve, status, verify):
    main.add_command(command)
