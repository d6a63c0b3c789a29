"""The public API, as docs/library.md shows it."""

from __future__ import annotations

import asyncio
import doctest
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

import exporter
from exporter.errors import ConfigError, SourceError
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import create_app, running
from tests.job_runs import settings_for
from tests.localnet.recorded import only

pytestmark = pytest.mark.usefixtures("without_pages")

PAGE = Path(__file__).parent.parent / "docs" / "library.md"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A recorded network as the environment names it, to a program in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXPORTER_NETWORK", "local")
    monkeypatch.setenv("EXPORTER_REQUESTS_PER_SECOND", "10000")
    with running(create_app(RecordedNetwork())) as url:
        yield url


def test_the_example_runs_unchanged_at_one_ledger(url: str) -> None:
    """The example runs unchanged against a network, and all of its result is of one ledger."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {"RPC_URL": url}
    exec(example, names)

    tables, history = names["tables"], names["history"].collect()
    assert (0, True) == (names["result"].exit_code, names["result"].published)
    assert names["result"].ledger == names["certificate"].ledger == tables.ledger
    assert names["result"].report == json.loads(Path("run-report.json").read_text())
    shared = ["market", "pool", "total_supplied", "borrow_apy_bps"]
    assert [tuple(map(str, row)) for row in tables.pools.select(shared).rows()] == [
        tuple(map(str, row)) for row in history.sort("market", "pool").select(shared).rows()
    ]


def test_the_examples_of_the_docstrings(url: str) -> None:
    """Each example gives what it says, in this order; ``rpc_url`` is that of a recorded network."""
    order = ("load_settings", "run", "RunResult", "read", "LedgerTables", "check_tree", "CheckSummary", "scan_history")
    runner = doctest.DocTestRunner()
    names: dict[str, Any] = {**{name: getattr(exporter, name) for name in exporter.__all__}, "rpc_url": url}
    for name in order:
        text = getattr(exporter, name).__doc__ or ""
        test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
        assert test.examples, name
        runner.run(test, clear_globs=False)
        names = test.globs

    assert 0 == runner.failures


def test_every_name_is_there() -> None:
    """Each public name can be had and is in the stub; tests/test_wheel.py sees that nothing heavy is imported."""
    stub = (Path(exporter.__file__).parent / "__init__.pyi").read_text()
    assert set(exporter.__all__) == set(re.findall(r"import (\w+) as \1$", stub, re.MULTILINE))
    assert all(getattr(exporter, name) is not None for name in exporter.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        getattr(exporter, "nothing")  # noqa: B009 - a type checker knows that it is not there


OTHER_MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "source of another type": (lambda: exporter.read(cast("str", b"https://key.example.org")), "of type bytes; give"),
    "no source": (lambda: exporter.read(""), "an empty text; give the URL"),
    "settings as a dict": (
        lambda: exporter.read("x", cast("Any", {})),
        "of type dict; give what exporter.",
    ),
    "nothing to read": (
        lambda: exporter.read("https://rpc.example.org", exporter.load_settings(None, {"discovery.enabled": False})),
        "discovery.enabled is false, and markets names no market",
    ),
}


@pytest.mark.parametrize("mistake", OTHER_MISTAKES)
def test_mistakes_of_callers(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a caller gives by mistake is a `ConfigError` that says what to give, and quotes no source."""
    monkeypatch.chdir(tmp_path)
    call, text = OTHER_MISTAKES[mistake]

    with pytest.raises(ConfigError) as caught:
        call()
    assert text in str(caught.value)
    assert "key.example.org" not in str(caught.value)


@pytest.mark.parametrize("function", ["read", "run", "check_tree", "scan_history"])
def test_a_function_that_blocks_is_refused_in_an_event_loop(function: str, tmp_path: Path) -> None:
    """In a running event loop each function says how to call it instead, and has done nothing."""

    async def notebook() -> None:
        arguments = (
            (exporter.load_settings(None, {"output.uri": str(tmp_path / "out")}),) if function == "run" else ("x",)
        )
        getattr(exporter, function)(*arguments)

    with pytest.raises(ConfigError, match=rf"await asyncio\.to_thread\(exporter\.{function}, \.\.\.\)"):
        asyncio.run(notebook())
    assert [] == list(tmp_path.iterdir())


def page_then_silence() -> ASGIApp:
    """A server that is no RPC: it answers the first request with a web page, and the others never."""
    page = iter([HTMLResponse("<!doctype html><title>Welcome</title>")])

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        response = next(page, None)
        if response is not None:
            await response(scope, receive, send)
            return
        while (await receive())["type"] != "http.disconnect":
            pass

    return answer


def test_a_deadline_says_what_failed_before_it() -> None:
    """If the time of a reading is over, the error says how requests to each endpoint failed until then.

    Waits before tries are random. If all requests failed at once, all tries could end before the deadline.
    """
    settings = exporter.load_settings(None, {"network.name": "local", "network.read_deadline": "1s"})

    with running(page_then_silence()) as url, pytest.raises(SourceError) as caught:
        exporter.read(url, settings)
    assert re.search(
        r"network\.read_deadline = 1s;.*; 127\.0\.0\.1:\d+ failed: unusable answer \(\dx\)$", str(caught.value)
    )


def test_a_lazy_selection_gives_the_right_rows(tmp_path: Path) -> None:
    """A lazy selection by time, ledger, column or row gives the right rows; a damaged file is refused."""
    network = RecordedNetwork(close_seconds=86_400)
    ledgers = []
    with running(create_app(network)) as url:
        settings = settings_for(tmp_path, url, output__report=str(tmp_path / "report.json"), **only("k2"))
        for _ in range(3):
            ledgers.append(exporter.run(settings).ledger)
            network.advance()
    everything = exporter.scan_history(str(tmp_path)).collect()

    assert 3 * 4 == everything.height
    assert [
        *exporter.scan_history(str(tmp_path), start=str(ledgers[1])).collect()["observed_ledger"].unique().sort()
    ] == ledgers[1:]
    days = everything["ledger_close_time"].dt.date().unique().sort()
    first = exporter.scan_history(str(tmp_path), end=str(days[1])).collect()
    assert everything.filter(everything["observed_ledger"] == ledgers[0]).equals(first)
    assert (
        everything.head(6).select("pool").equals(exporter.scan_history(str(tmp_path)).head(6).select("pool").collect())
    )
    largest = max(tmp_path.glob("history/**/*.parquet"))
    largest.write_bytes(largest.read_bytes()[:-1] + b"x")
    with pytest.raises(Exception, match="does not have the bytes that the manifest gives"):
        exporter.scan_history(str(tmp_path)).collect()
    with pytest.raises(exporter.ExporterError, match="is not a folder"):
        exporter.scan_history(str(tmp_path / "nowhere"))
