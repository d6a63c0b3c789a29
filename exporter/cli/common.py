"""Shared parts of the commands: options, loading the configuration, and how a command ends."""

from __future__ import annotations

import functools
import io
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exporter.console import LOG_FORMATS, Console, without_commands
from exporter.durations import DurationRange
from exporter.errors import ConfigError, ExitCode, ExporterError, without_keys
from exporter.standard_output import drop_unwritten, writing_output
from exporter.user_files import user_path

if TYPE_CHECKING:
    from exporter.config import Configuration
    from exporter.past.archive_source import FromArchive

OUTPUT_CLOSED = 128 + signal.SIGPIPE
"""The exit code of a command whose standard output was closed: the one that a shell reports for SIGPIPE."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""What ends a program from outside: a service manager, a container, or a terminal that is closed."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class _File(click.Path):
    """The path of a file. A URL is refused at once, because an error about the file would quote a part of it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if "://" in str(value):
            self.fail("a URL is not a file; give the path of one on this machine", param, ctx)
        try:
            return super().convert(user_path(value), param, ctx)
        except ConfigError as error:
            self.fail(str(error), param, ctx)


class Duration(click.ParamType[timedelta]):
    """A duration with its unit, as configuration keys take it: ``90s``, ``15m``, ``2h``, ``7d``."""

    name = "duration"

    def __init__(self, lowest: str, highest: str, *, unit: str = "ms") -> None:
        self._range = DurationRange(lowest, highest, unit)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        try:
            return self._range.parse(value)
        except ValueError as error:
            self.fail(f"{error}; accepted: {self._range}", param, ctx)


FILE = _File(path_type=Path, dir_okay=False)
WRITTEN_FILE = _File(path_type=Path, dir_okay=False, allow_dash=True)
"""A file to write: ``-`` is standard output, and a pipe or device is written into (`exporter.user_files`)."""


class MainGroup(click.Group):
    """A group of commands whose usage errors quote no URL, because a URL may hold a key.

    A command whose standard output is closed, as by ``head``, ends at once and says nothing, as other programs do. If
    standard output cannot be written for another reason, the command says so. A log that cannot be written stops
    nothing.
    """

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with writing_output():  # help and versions; commands handle their own errors (`ending`)
                return super().main(*args, **kwargs)
        except ConfigError as error:
            with suppress(OSError):
                click.echo(f"error: {error}", err=True)
            sys.exit(error.exit_code)
        finally:
            drop_unwritten()

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        if isinstance(sys.stdout, io.TextIOWrapper):  # a path need not be text, and a locale may lack a character
            sys.stdout.reconfigure(errors="backslashreplace")
        with _keyless(), _until_output_closes():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _keyless(), _until_output_closes():
            return super().invoke(ctx)


@contextmanager
def _keyless() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        error.message = without_keys(error.message)  # type: ignore[misc]  # click declares it as final
        raise


@contextmanager
def _until_output_closes() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        sys.exit(OUTPUT_CLOSED)


def exit_codes(meanings: Mapping[ExitCode, str]) -> str:
    """The end of a command's help: each exit code that it can end with.

    ``meanings`` has the command's own codes, each with its meaning there. Every command can also end with 1 and 2, in
    the words of `exporter.errors.ExitCode`.
    """
    words = {code: code.meaning for code in (ExitCode.UNEXPECTED, ExitCode.CONFIG)} | dict(meanings)
    lines = [f"{code:>4}  {words[code]}" for code in sorted(words)]
    wrapped = (textwrap.fill(line, 78, subsequent_indent=" " * 6) for line in lines)
    return "\b\n" + "\n".join(["Exit codes:", *wrapped])  # \b: click keeps the lines


RUN_CODES: dict[ExitCode, str] = {
    code: code.meaning for code in ExitCode if code not in (ExitCode.REFUTED, ExitCode.UNPROVEN)
}
"""The exit codes of a run. What it published is proven, or refuted, by commands that come after it."""

STORE_WORDS = "the folder or bucket refuses, or what is in it is damaged"
"""The meaning of exit code 10 for a command that reads or writes a tree."""


def options(*parts: Decorator) -> Decorator:
    """Several options as one decorator, in the order in which help shows them."""
    return lambda command: functools.reduce(lambda done, option: option(done), reversed(parts), command)


config_option = click.option("--config", type=FILE, envvar="EXPORTER_CONFIG", help="The configuration, a TOML file.")
pools_option = click.option(
    "--pools",
    type=click.IntRange(1, 100_000),
    help="Number of pools; more than were recorded are copies of Blend's.  [default: those that were recorded]",
)
network_option = click.option("--network", help="mainnet (default), testnet or local.")
source_options = options(
    config_option,
    network_option,
    click.option(
        "--rpc-url", "rpc_urls", multiple=True, metavar="URL", help="A Stellar RPC; repeatable, the preferred first."
    ),
    click.option("--snapshot", type=FILE, help="Read a ledger snapshot file or a run's evidence."),
)

archive_options = options(
    click.option("--archive", "archives", multiple=True, metavar="URI", help="Read a history archive; repeatable."),
    click.option(
        "--checkpoint",
        type=click.IntRange(63, 2**32 - 1),
        metavar="LEDGER",
        help="With --archive: the ledger, 63, 127, …  [default: the newest that can be proven]",
    ),
    click.option("--trust", type=FILE, help="With --archive: the organisations to trust.  [default: the known ones]"),
    click.option(
        "--bucket-cache",
        metavar="DIR",
        help="With --archive: where its buckets are kept.  [default: ./archive-buckets]",
    ),
)
out_option = click.option("--out", help="The output: a folder or s3://BUCKET/PREFIX.  [default: ./public]")
log_format_option = click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default="auto",
    show_default=True,
    help="Format of messages.",
)


def configuration_of(
    config: Path | None,
    network: str | None = None,
    rpc_urls: tuple[str, ...] = (),
    out: str | None = None,
    report: str | None = None,
) -> Configuration:
    """The configuration of a file, the environment and options; an option that was not given changes nothing."""
    from exporter.config import load

    urls = list(rpc_urls) or None
    return load(config, {"network.name": network, "network.rpc_urls": urls, "output.uri": out, "output.report": report})


def archive_of(
    archives: tuple[str, ...], checkpoint: int | None, trust: Path | None, bucket_cache: str | None
) -> FromArchive | None:
    """The archives that `archive_options` name, or None if they name none."""
    if not archives:
        if (checkpoint, trust, bucket_cache) != (None, None, None):
            raise ConfigError("--checkpoint, --trust and --bucket-cache are for --archive, which is not given")
        return None
    from exporter.past.archive_source import BUCKET_CACHE, FromArchive

    return FromArchive(archives, checkpoint, trust, user_path(bucket_cache or BUCKET_CACHE))


def answers_next_to(console: Console) -> Console:
    """A console on standard output for a command's answers: JSON lines if progress is in these, otherwise text."""
    return Console("json" if console.is_json else "text", sys.stdout)


def reporting(command: Callable[..., None]) -> Callable[..., None]:
    """Add --log-format to a command, give it the ``console`` of that format, and end it as `ending` does."""

    @log_format_option
    @functools.wraps(command)
    def run(*, log_format: str, **arguments: Any) -> None:
        console = Console(log_format)
        with ending(console):
            command(console=console, **arguments)

    return run


@contextmanager
def ending(console: Console) -> Iterator[None]:
    """End the command with the exit code of an error inside. Only a bug shows a traceback, which has no whole URL.

    A signal that asks the command to stop ends it like Ctrl-C does, so that it gives up its lease and says that it was
    stopped. A signal that the parent ignores, as ``nohup`` does, stays ignored.
    """
    try:
        with _stop_signals_interrupt():
            yield
    except ExporterError as error:
        console.error(str(error), error.exit_code)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        console.error("stopped from outside; a published tree stays whole", ExitCode.UNEXPECTED)
        sys.exit(ExitCode.UNEXPECTED)
    except BrokenPipeError:
        raise  # `MainGroup` handles it
    except BaseException as error:
        # A panic of Polars is a fault like another, but no `Exception`. Its type is told by name: importing Polars
        # takes long.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if not console.is_json:
            with suppress(OSError):  # a log that cannot be written stops nothing
                click.echo(without_commands(without_keys(traceback.format_exc())), err=True, nl=False)
        console.error(f"unexpected, and a bug: {type(error).__name__}: {error}", ExitCode.UNEXPECTED)
        sys.exit(ExitCode.UNEXPECTED)


@contextmanager
def _stop_signals_interrupt() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` for each of `STOP_SIGNALS` whose default is to kill the process at once."""
    if threading.current_thread() is not threading.main_thread():  # Python sets handlers in no other thread
        yield
        return
    changed = [number for number in STOP_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in changed:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)
