"""What all commands of the command line share: options, loading the configuration, and how a command ends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from exporter.console import LOG_FORMATS, Console
from exporter.errors import EXIT_UNEXPECTED, ExporterError

FILE = click.Path(path_type=Path, dir_okay=False)

log_format_option = click.option(
    "--log-format", type=click.Choice(LOG_FORMATS), default="auto", show_default=True, help="How progress is told."
)


def finish(console: Console, work: Callable[[], int]) -> None:
    """Run a command's work and exit with its code; errors raised on purpose are told in a line."""
    try:
        code = work()
    except ExporterError as error:
        console.error(str(error), error.exit_code)
        code = error.exit_code
    except KeyboardInterrupt:
        console.error("interrupted; what was published before still stands", EXIT_UNEXPECTED)
        code = EXIT_UNEXPECTED
    sys.exit(code)


def load_configuration(config_path: Path | None, **flags: Any) -> Any:
    """The configuration of a file, the environment and flags; ``network__name`` stands for network.name."""
    from exporter.config import load

    return load(config_path, {key.replace("__", "."): value for key, value in flags.items()})
