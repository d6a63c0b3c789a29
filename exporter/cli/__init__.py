"""The command line. What a command does is imported only when it runs, so help is quick."""

from __future__ import annotations

import sys

import click

from exporter import FORMAT, __version__
from exporter.cli.check import check, status
from exporter.cli.common import MainGroup, exit_codes
from exporter.cli.history import backfill, history
from exporter.cli.prove import census, prove, verify
from exporter.cli.run import plan, run
from exporter.cli.serve import demo, edge, localnet, mcp, serve
from exporter.docstrings import restore
from exporter.errors import ExitCode


@click.group(
    cls=MainGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Exact snapshots of every lending market on Soroban, as files.\n\n"
    "A DURATION is a whole number and a unit: 90s, 15m, 2h or 7d.",
    epilog=exit_codes({code: code.meaning for code in ExitCode}),
)
@click.version_option(__version__, prog_name="exporter", message=f"%(prog)s %(version)s, format {FORMAT}")
def main() -> None:
    """Run one of the commands."""


for command in (backfill, census, check, demo, edge, history, localnet, mcp, plan, prove, run, serve, status, verify):
    main.add_command(command)

restore(*(sys.modules[f"{__name__}.{name}"] for name in ("check", "history", "prove", "run", "serve")))
