"""What all commands of the command line share: options, loading the configuration, and how a command ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from exporter.console import LOG_FORMATS, Console
from exporter.errors import EXIT_UNEXPECTED, ExporterError
from exporter.ledger.rpc.redaction import without_keys


class _File(click.Path):
    """The path of a file. A URL is refused at once: a part of it would otherwise be named as the file's name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if "://" in str(value):
            self.fail("a URL is no file; give the path of one on this machine", param, ctx)
        return super().convert(value, param, ctx)


FILE = _File(path_type=Path, dir_okay=False)


class KeylessGroup(click.Group):
    """A group whose usage errors show no URL that was put where another value belongs: it may hold a key."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _keyless():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _keyless():
            return super().invoke(ctx)


@contextmanager
def _keyless() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        error.message = without_keys(error.message)  # type: ignore[misc]  # final for those who read it
        raise


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
