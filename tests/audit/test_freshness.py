"""Whether a published run is as fresh as it promised: judged from the status document, wherever the tree is."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from starlette.responses import Response, StreamingResponse

from exporter import FORMAT
from exporter.audit import freshness
from exporter.audit.freshness import JudgedStatus, judge, read_status
from exporter.cli import main
from exporter.errors import CheckError, SourceError
from exporter.localnet.server import running
from exporter.stores import tree_sources
from exporter.tree.documents import timestamp
from exporter.tree.families import STATUS_KEY

PUBLISHED = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOUR, DAY = 3_600, 86_400


def status_document(**changes: Any) -> dict[str, Any]:
    """A status document as a run of every half hour writes it."""
    return {
        "run_id": "55261759-0123456789ab",
        "format": FORMAT,
        "observed_ledger": 55_261_759,
        "ledger_close_time": "2026-11-21T11:59:00Z",
        "generated_at": "2026-11-21T12:00:00Z",
        "next_expected_at": "2026-11-21T12:30:00Z",
        "pool_count": 57,
        "unread_count": 1,
        "unpriced_count": 4,
        **changes,
    }


def write(folder: Path, content: Mapping[str, Any] | bytes) -> str:
    """Publish a status document, and nothing else; gives the folder's name."""
    path = folder / STATUS_KEY
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return str(folder)


def read(uri: str) -> JudgedStatus:
    return asyncio.run(read_status(uri))


def problems(
    after: float, *, max_lag: int = HOUR, max_age: int | None = None, grace: int | None = None, **changes: Any
) -> list[str]:
    """The faults of a run, this many seconds after it was published."""
    status = msgspec.convert(status_document(**changes), JudgedStatus)
    limits = (None if seconds is None else timedelta(seconds=seconds) for seconds in (max_age, grace))
    return judge(status, PUBLISHED + timedelta(seconds=after), timedelta(seconds=max_lag), *limits)


@pytest.mark.parametrize(
    ("given", "seconds", "said"),
    [
        ({}, HOUR, "stale"),  # what it promised, and as long again
        ({"grace": 60}, 1860, "stale"),
        ({"max_age": 600, "grace": 9999}, 600, "stale"),
        ({"next_expected_at": None}, DAY, "the published run is stale: a newer one is due since 2026-11-22T12:00:00Z"),
    ],
)
def test_how_long_a_run_is_fresh(given: dict[str, Any], seconds: int, said: str) -> None:
    """A run is fresh up to the second at which a newer one should be published, and stale from the next one on."""
    assert [] == problems(seconds, **given)
    assert [True] == [said in problem for problem in problems(seconds + 1, **given)]


def test_clocks_and_rpcs_that_are_wrong() -> None:
    """A run published just now is stale when its ledger was old already; so is one from minutes in the future."""
    old: dict[str, Any] = {"ledger_close_time": "2026-11-21T10:59:59Z"}

    assert [True] == ["the RPC lags" in problem for problem in problems(0, **old)]
    assert [] == problems(0, max_lag=3601, **old)
    assert [] == problems(-300)
    assert [True] == ["one of the two clocks" in problem for problem in problems(-360)]
    assert [] == problems(10 * DAY, next_expected_at="9999-12-31T23:59:59Z")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        status_document(generated_at="yesterday"),
        status_document(generated_at="2026-11-21T12:00:00"),  # of no time zone
        status_document(generated_at="0001-01-01T00:00:00+14:00"),  # before the first year, in UTC
        status_document(generated_at="2026-02-30T12:00:00Z"),
        status_document(generated_at="9000-01-01T00:00:00Z", next_expected_at="1970-01-01T00:00:00Z"),
        status_document(pool_count="57"),
        {key: value for key, value in status_document().items() if key != "observed_ledger"},
    ],
)
def test_no_status_document(tmp_path: Path, content: Mapping[str, Any] | bytes) -> None:
    """Anything else in its place ends with the error of a source, which names the file."""
    with pytest.raises(SourceError, match=STATUS_KEY):
        read(write(tmp_path, content))


@pytest.mark.parametrize(
    ("code", "said"), [(403, "nothing is published"), (302, "redirect"), (401, "401"), (503, "503")]
)
def test_a_server_without_a_tree(code: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has no status document, leads elsewhere or fails every time is the error of a source."""
    monkeypatch.setattr(tree_sources, "RETRY_SECONDS", 0.001)
    answer = Response(status_code=code, headers={"location": "http://127.0.0.1:9/"})
    with running(answer) as url, pytest.raises(SourceError, match=said):
        read(url)


def test_a_server_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body without an end is read up to a bound; one that does not come is waited for up to another."""
    monkeypatch.setattr(freshness, "MAX_STATUS_BYTES", 100_000)
    endless = StreamingResponse(repeat(b" " * 65_536))
    with running(endless) as url, pytest.raises(CheckError, match="larger than 100000"):
        read(url)

    monkeypatch.setattr(freshness, "READING_SECONDS", 0.2)
    gone = threading.Event()
    silent = StreamingResponse(iter(lambda: b"x" if gone.wait(5) else b"", b"x"))
    with running(silent) as url:
        with pytest.raises(SourceError, match="did not come within"):
            read(url)
        gone.set()


def test_the_exit_code_of_the_command_is_the_verdict(tmp_path: Path) -> None:
    """The command prints the line on standard output and the reason on standard error; its exit code is the verdict."""
    now = int(datetime.now(UTC).timestamp())
    published, expected = timestamp(now - 2 * 3600), timestamp(now - 90 * 60)
    times = {"ledger_close_time": published, "generated_at": published, "next_expected_at": expected}
    uri = write(tmp_path / "tree", status_document(**times))

    stale, as_json = (CliRunner().invoke(main, ["status", uri, *more]) for more in ((), ("--log-format", "json")))
    excused = CliRunner().invoke(main, ["status", uri, "--max-age", "10000s"])
    nothing, unknown = (CliRunner().invoke(main, ["status", name]) for name in (str(tmp_path), "ftp://markets.example"))
    answer = json.loads(as_json.stdout)

    assert (3, 0, 3, 2) == (stale.exit_code, excused.exit_code, nothing.exit_code, unknown.exit_code)
    assert re.fullmatch(
        r"run 55261759-0123456789ab: ledger 55261759, closed \S+Z; published \S+Z, 2 hours( \d seconds?)? ago; "
        r"next expected \S+Z; 57 pools, 1 unread, 4 unpriced\n",
        stale.stdout,
    )
    assert stale.stderr.startswith("error: ")
    assert ("", True) == (excused.stderr, "nothing is published" in nothing.stderr)
    assert (False, True, 55_261_759, 57) == (
        answer["fresh"],
        2 * HOUR <= answer["age_seconds"] < 2 * HOUR + 60,
        *(answer[name] for name in ("observed_ledger", "pool_count")),
    )
    assert [True] == ["stale" in problem for problem in answer["problems"]]
