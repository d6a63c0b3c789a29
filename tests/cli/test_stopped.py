"""A command that is stopped from outside."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO

import pytest

from exporter.cli.common import STOP_SIGNALS, ending
from exporter.console import Console


@contextmanager
def lease(ended: list[str]) -> Iterator[None]:
    """Something that a command has to give up."""
    try:
        yield
    finally:
        ended.append("lease")


@pytest.fixture(autouse=True)
def _as_python_starts() -> Iterator[None]:
    """The handlers that Python has at first, also if these tests were started by ``nohup``."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in STOP_SIGNALS}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, *STOP_SIGNALS])
def test_a_signal_ends_a_command_in_order(number: signal.Signals) -> None:
    """What the command began is ended, as for Ctrl-C: a lease is given up, for example."""
    log = StringIO()
    ended: list[str] = []
    with pytest.raises(SystemExit) as stopped, ending(Console("text", log)), lease(ended):
        os.kill(os.getpid(), number)
    expected = (1, ["lease"], "error: stopped from outside; a published tree stays whole\n")
    assert expected == (stopped.value.code, ended, log.getvalue())


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_after_a_command_signals_do_what_they_did_before(number: signal.Signals) -> None:
    """The library does not change the handlers of a program that calls it."""
    before = signal.getsignal(number)
    with ending(Console("text", StringIO())):
        pass
    assert before == signal.getsignal(number)


def test_a_signal_that_the_parent_ignores_stays_ignored() -> None:
    """``nohup`` lets a command outlive its terminal."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with ending(Console("text", StringIO())):
        os.kill(os.getpid(), signal.SIGHUP)
