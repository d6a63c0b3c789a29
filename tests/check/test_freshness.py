"""Whether a published run is as fresh as it promised: judged from the pointer, wherever the tree is."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from exporter import FORMAT
from exporter.check import freshness
from exporter.check.freshness import Bounds, PublishedStatus, judge
from exporter.cli import main
from exporter.cli.status import report_status
from exporter.console import Console
from exporter.errors import ConfigError, SourceError
from exporter.localnet.runner import running
from exporter.stores import tree_sources
from exporter.tree.families import POINTER_KEY

PUBLISHED = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def pointer(**changes: Any) -> dict[str, Any]:
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
    """Publish a pointer, and nothing else; gives the folder's name."""
    path = folder / POINTER_KEY
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return str(folder)


def tell(uri: str, after: timedelta, bounds: Bounds | None = None, log_format: str = "text") -> tuple[int, str, str]:
    """Exit code, standard output and standard error at a time after the publishing."""
    output, error = io.StringIO(), io.StringIO()
    code = report_status(
        uri,
        bounds or Bounds(),
        Console(log_format, error),
        Console(log_format, output),
        now=lambda: PUBLISHED + after,
    )
    return code, output.getvalue(), error.getvalue()


def test_a_fresh_run(tmp_path: Path) -> None:
    """A fresh run is reported in one line, with exit code 0 and nothing on standard error."""
    code, said, complaints = tell(write(tmp_path, pointer()), timedelta(minutes=10))

    assert (0, "") == (code, complaints)
    assert (
        "run 55261759-0123456789ab: ledger 55261759, closed 2026-11-21T11:59:00Z; published 2026-11-21T12:00:00Z, "
        "10 minutes ago; next expected 2026-11-21T12:30:00Z; 57 pools, 1 unread, 4 unpriced\n"
    ) == said


@pytest.mark.parametrize(
    ("bounds", "seconds"),
    [
        (Bounds(), 3600),  # what it promised, and as long again
        (Bounds(grace=0), 1800),
        (Bounds(grace=60), 1860),
        (Bounds(max_age=600), 600),
        (Bounds(max_age=600, grace=9999), 600),
    ],
)
def test_how_long_a_run_is_fresh(tmp_path: Path, bounds: Bounds, seconds: int) -> None:
    """A run is fresh up to the second at which a newer one should be published, and stale from the next one on."""
    uri = write(tmp_path, pointer())
    last, too_late = (tell(uri, timedelta(seconds=after), bounds) for after in (seconds, seconds + 1))

    assert (0, 3) == (last[0], too_late[0])
    assert "stale" in too_late[2]


def test_a_stale_run_is_still_reported(tmp_path: Path) -> None:
    """As JSON, the answer has every fact next to the verdict, and the reasons."""
    code, said, _ = tell(write(tmp_path, pointer()), timedelta(hours=3), log_format="json")
    answer = json.loads(said)

    assert 3 == code
    assert (False, 3 * 3600, 55_261_759, 57, 1, 4) == tuple(
        answer[key]
        for key in ("fresh", "age_seconds", "observed_ledger", "pool_count", "unread_count", "unpriced_count")
    )
    assert [True] == ["stale" in problem for problem in answer["problems"]]


def test_an_rpc_that_lags(tmp_path: Path) -> None:
    """A run published just now is stale when its ledger was old already."""
    uri = write(tmp_path, pointer(ledger_close_time="2026-11-21T10:59:59Z"))

    code, _, complaints = tell(uri, timedelta(0))

    assert (3, True) == (code, "the RPC lags" in complaints)
    assert 0 == tell(uri, timedelta(0), Bounds(max_lag=3601))[0]


def test_a_run_from_the_future(tmp_path: Path) -> None:
    """A clock that is minutes off is tolerated; more is reported, because staleness could not be."""
    uri = write(tmp_path, pointer())

    assert (0, 3) == (tell(uri, -timedelta(minutes=5))[0], tell(uri, -timedelta(minutes=6))[0])
    assert "clock" in tell(uri, -timedelta(minutes=6))[2]


def test_a_run_that_promises_nothing(tmp_path: Path) -> None:
    """Without an interval a run is fresh for a day, or for as long as --max-age says."""
    uri = write(tmp_path, pointer(next_expected_at=None))
    day = timedelta(days=1)

    assert (0, 3) == (tell(uri, day)[0], tell(uri, day + timedelta(seconds=1))[0])
    assert "the published run is stale" in tell(uri, 679 * day)[2]
    assert (0, 3) == (
        tell(uri, timedelta(0), Bounds(max_age=1))[0],
        tell(uri, timedelta(hours=1), Bounds(max_age=1))[0],
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<!doctype html>",
        b"[]",
        b"\xff\xfe",
        pointer(generated_at="yesterday"),
        pointer(generated_at="2026-11-21T12:00:00"),  # of no time zone
        pointer(next_expected_at="2026-11-21T11:00:00Z"),
        pointer(pool_count="57"),
        {key: value for key, value in pointer().items() if key != "observed_ledger"},
    ],
)
def test_no_status_document(tmp_path: Path, content: Mapping[str, Any] | bytes) -> None:
    """Anything else in its place ends with the error of a source, which names the file."""
    with pytest.raises(SourceError, match=POINTER_KEY) as caught:
        tell(write(tmp_path, content), timedelta(0))
    assert 3 == caught.value.exit_code


def test_nothing_published(tmp_path: Path) -> None:
    """A folder without a pointer, or none at all, ends with the error of a source."""
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(SourceError, match="nothing is published"):
            tell(str(folder), timedelta(0))


def test_times_at_the_end_of_the_calendar(tmp_path: Path) -> None:
    """A promise beyond the last year is kept for ever, without a crash."""
    uri = write(tmp_path, pointer(next_expected_at="9999-12-31T23:59:59Z"))

    assert 0 == tell(uri, timedelta(days=10))[0]


@given(
    interval=st.integers(0, 10_000_000),
    grace=st.none() | st.integers(0, 10_000_000),
    after=st.integers(0, 40_000_000),
    lag=st.integers(-1000, 10_000),
    max_lag=st.integers(1, 10_000),
)
def test_the_verdict_is_the_definition(interval: int, grace: int | None, after: int, lag: int, max_lag: int) -> None:
    """For all times a run is fresh exactly when neither its age nor its lag is above what is allowed."""
    run = PublishedStatus(
        run_id="1-a",
        observed_ledger=1,
        ledger_close_time=PUBLISHED - timedelta(seconds=lag),
        generated_at=PUBLISHED,
        next_expected_at=PUBLISHED + timedelta(seconds=interval),
        pool_count=0,
        unread_count=0,
        unpriced_count=0,
    )
    allowed = interval + (interval if grace is None else grace)
    problems = judge(run, Bounds(grace=grace, max_lag=max_lag), PUBLISHED + timedelta(seconds=after))

    assert (after > allowed) + (lag > max_lag) == len(problems)


@pytest.mark.parametrize("end", ["/markets", "/markets/"])
def test_over_http(end: str) -> None:
    """The URL of a tree's root is enough, with or without a slash at its end, and the key is asked for below it."""

    async def published(scope: Scope, receive: Receive, send: Send) -> None:
        found = scope["path"] == "/markets/v1/system/status.json"
        await JSONResponse(pointer(), 200 if found else 404)(scope, receive, send)

    with running(published) as url:
        assert 0 == tell(url + end, timedelta(0))[0]


@pytest.mark.parametrize(
    ("code", "said"),
    [(404, "nothing is published"), (403, "nothing is published"), (302, "redirect"), (401, "401"), (503, "503")],
)
def test_a_server_without_a_tree(code: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has no pointer, leads elsewhere or fails every time is the error of a source."""
    monkeypatch.setattr(tree_sources, "RETRY_SECONDS", 0.001)
    answer = Response(status_code=code, headers={"location": "http://127.0.0.1:9/"})
    with running(answer) as url, pytest.raises(SourceError, match=said):
        tell(url, timedelta(0))


def test_a_server_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body without an end is read up to a bound; one that does not come is waited for up to another."""
    monkeypatch.setattr(freshness, "MAX_POINTER_BYTES", 100_000)
    with (
        running(StreamingResponse(repeat(b" " * 65_536))) as url,
        pytest.raises(SourceError, match="larger than 100000"),
    ):
        tell(url, timedelta(0))

    monkeypatch.setattr(freshness, "READING_SECONDS", 0.2)
    gone = threading.Event()
    silent = StreamingResponse(iter(lambda: b"x" if gone.wait(5) else b"", b"x"))
    with running(silent) as url:
        with pytest.raises(SourceError, match="did not come within"):
            tell(url, timedelta(0))
        gone.set()


def test_a_url_with_a_secret() -> None:
    """A URL with a password in it is refused, and the password is not repeated."""
    with pytest.raises(ConfigError) as caught:
        tell("https://user:hunter2@markets.example", timedelta(0))
    assert "hunter2" not in str(caught.value)


def test_the_command(tmp_path: Path) -> None:
    """On the command line: the verdict is the exit code, the line is on standard output, the reason on the other."""
    now = datetime.now(UTC).replace(microsecond=0)
    times = {
        "ledger_close_time": (now - timedelta(hours=2)).isoformat(),
        "generated_at": (now - timedelta(hours=2)).isoformat(),
        "next_expected_at": (now - timedelta(hours=1, minutes=30)).isoformat(),
    }
    uri = write(tmp_path, pointer(**times))

    stale = CliRunner().invoke(main, ["status", uri])
    excused = CliRunner().invoke(main, ["status", uri, "--max-age", "10000"])
    unknown = CliRunner().invoke(main, ["status", "ftp://markets.example"])

    assert (3, 0, 2) == (stale.exit_code, excused.exit_code, unknown.exit_code)
    assert (True, True) == (stale.stdout.startswith("run 55261759"), stale.stderr.startswith("error: "))
    assert "" == excused.stderr
