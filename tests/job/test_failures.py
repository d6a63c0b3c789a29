"""The drill of docs/failures.md: each failure is produced, and ends as the page says."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from exporter.errors import ExitCode, ExporterError
from exporter.localnet.player import DEFAULT_START_LEDGER, RecordedNetwork
from exporter.localnet.server import create_app, running
from exporter.stores import open_store
from exporter.stores.folder import write_file
from tests.jobs import NOW, run, settings_for
from tests.s3.wire_bucket import Answer, WireBucket

PAGE = (Path(__file__).parents[2] / "docs" / "failures.md").read_text()
DRILL = {
    name: (int(code), message)
    for name, code, message in re.findall(r"^([^|\n]+) \| (\d+) \| `([^`]+)`$", PAGE.partition("## The drill")[2], re.M)
}
POINTER = "v1/system/status.json"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A network that has a later ledger than the tree that was published from it."""
    network, out = RecordedNetwork(), tmp_path_factory.mktemp("drill") / "out"
    with running(create_app(network)) as url:
        run(settings_for(out, url))
        network.advance()
        yield url, out


def attempt(out: Path | str, url: str, *, days: int = 0, **flags: Any) -> tuple[int, str]:
    """The exit code of a run, and its message or what it said."""
    said, now = io.StringIO(), NOW + timedelta(days=days)
    try:
        return run(settings_for(None, url, output__uri=str(out), **flags), now=now, said=said)[0], said.getvalue()
    except ExporterError as error:
        return error.exit_code, str(error)


def edited(path: Path, **changes: object) -> None:
    path.write_bytes(msgspec.json.encode(msgspec.json.decode(path.read_bytes()) | changes))


def locked(out: Path, url: str) -> tuple[int, str]:
    with open_store(str(out)).exclusive():
        return attempt(out, url)


def below(out: Path, url: str) -> tuple[int, str]:
    edited(out / POINTER, observed_ledger=4_000_000_000)
    return attempt(out, url)


def unfinished(out: Path, url: str) -> tuple[int, str]:
    edited(out / "v1/system/intent.json", observed_ledger=4_000_000_000)
    return attempt(out, url)


def stale(out: Path, _: str) -> tuple[int, str]:
    """A day after its prices were written, the network closes a ledger without new ones."""
    network = RecordedNetwork(start_ledger=DEFAULT_START_LEDGER + 20, close_seconds=86_400)
    network.close()
    with running(create_app(network)) as later:
        return attempt(out, later)


def full(out: Path, url: str) -> tuple[int, str]:
    """The disk has room for some files of the run."""
    left = iter(range(20))

    def write(path: Path, data: bytes) -> None:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_file(path, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("exporter.stores.folder.write_file", write)
        return attempt(out, url)


def damaged(name: str) -> Callable[[Path, str], tuple[int, str]]:
    def act(out: Path, url: str) -> tuple[int, str]:
        (out / name).write_text("{")
        return attempt(out, url)

    return act


def without(pattern: str) -> Callable[[Path, str], tuple[int, str]]:
    def act(out: Path, url: str) -> tuple[int, str]:
        for path in list(out.glob(pattern)):
            path.unlink()
        return attempt(out, url)

    return act


def bucket(status: int, code: str) -> Callable[[Path, str], tuple[int, str]]:
    def act(_: Path, url: str) -> tuple[int, str]:
        with WireBucket() as bucket, pytest.MonkeyPatch.context() as patch:
            for key, value in bucket.environment("drill").items():
                patch.setenv(key, value)
            bucket.disturb("drill", 0, Answer(status, code, writes=code == "QuotaExceeded"), more=200)
            return attempt("s3://bucket/live", url)

    return act


FAILURES: dict[str, Callable[[Path, str], tuple[int, str]]] = {
    "no RPC answers": lambda out, _: attempt(out, "http://127.0.0.1:9"),
    "the RPC is of another network": lambda out, url: attempt(out / "new", url, network__passphrase="Other"),
    "the output is of another network": lambda out, _: attempt(out, "http://127.0.0.1:9", network__passphrase="Other"),
    "the RPC is frozen, or the clock is wrong": lambda out, url: attempt(out, url, days=1, network__max_ledger_age=900),
    "the RPC is behind": below,
    "another publisher is at work": locked,
    "the pointer is damaged": damaged(POINTER),
    "a run at a later ledger did not finish": unfinished,
    "the history's manifest is damaged": damaged("v1/history.json"),
    "the history's manifest is missing": without("v1/history.json"),
    "a Parquet file of the history is missing": without("history/pools/**/*.parquet"),
    "all oracles are stale": stale,
    "the disk is full": full,
    "the bucket denies writing": bucket(403, "AccessDenied"),
    "the bucket is gone": bucket(404, "NoSuchBucket"),
    "the bucket is full": bucket(403, "QuotaExceeded"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_ends_as_the_page_says(name: str, published: tuple[str, Path], tmp_path: Path) -> None:
    """Each failure has the exit code and the message of the page, and readers keep what was published."""
    url, out = published
    shutil.copytree(out, tmp_path / "out")
    before = (tmp_path / "out" / POINTER).read_bytes()
    code, message = FAILURES[name](tmp_path / "out", url)

    assert (DRILL[name][0], True) == (code, DRILL[name][1] in message), message
    if (
        code not in (ExitCode.PUBLISHED_CHECK, ExitCode.UNREAD)
        and "pointer" not in name
        and name != "the RPC is behind"
    ):
        assert before == (tmp_path / "out" / POINTER).read_bytes()


def test_the_drill_has_every_failure() -> None:
    """The page lists the failures that are tested here, and no others."""
    assert DRILL.keys() == FAILURES.keys()
