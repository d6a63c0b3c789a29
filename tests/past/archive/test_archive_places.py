"""Tests of where archives are kept: over HTTP, kept buckets, and several archives for each other."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.config import load
from exporter.errors import ArchiveError, ArchiveFileMissingError, ConfigError, SourceError
from exporter.ledger.codec.scval_encode import u32
from exporter.past.archive import archive_places
from exporter.past.archive.archive_files import bucket_name
from exporter.past.archive.archive_places import Answering, Archives, Deadline, RemoteFiles, forget_other_buckets
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.past.archive_source import FromArchive, open_archive_state
from exporter.past.backfill.start_state import archive_start
from tests.past.archive.simulated_archive import META, ONE, SimulatedArchive, live, time_to_live
from tests.s3.wire_bucket import BUCKET, Stored, WireBucket

CONTENT = [META, live(ONE, u32(1)), time_to_live(ONE, 900)]


@contextmanager
def serving(folder: Path, breaks_after: Sequence[int] = ()) -> Iterator[tuple[str, list[int]]]:
    """A web server of a folder's files, and from which bytes on buckets were asked for.

    The first answers with a bucket break off after these numbers of bytes.
    """
    left, starts = list(breaks_after), list[int]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = folder / self.path.removeprefix("/prefix/")
            content = path.read_bytes() if path.is_file() else b""
            start = int(self.headers.get("Range", "bytes=0-")[6:].split("-")[0])
            self.send_response(404 if not content else 206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.end_headers()
            end = len(content)
            if "bucket" in self.path:
                starts.append(start)
                end = start + left.pop(0) if left else end
            self.wfile.write(content[start:end])

        def log_message(self, *arguments: object) -> None:
            pass

    with listening(Handler) as address:
        yield f"{address}/prefix", starts


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a web server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def made(tmp_path: Path) -> SimulatedArchive:
    return SimulatedArchive(tmp_path / "archive", [CONTENT[1:]])


def content_of(archive: HistoryArchive) -> list[bytes]:
    """The records of all buckets of the checkpoint, verified."""
    return [record for digest in archive.checkpoint(127).live[:1] for record in archive.bucket(digest)]


def test_a_bucket_is_fetched_once_and_continued_where_it_broke_off(
    made: SimulatedArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fetched parts of a bucket are not fetched again, even by a later job, and a whole bucket is not asked for."""
    kept = tmp_path / "kept"
    name = bucket_name(made.digests[0])
    with serving(made.folder, [20, 20, 20]) as (address, starts):
        monkeypatch.setattr(archive_places, "CHUNK_BYTES", 1)
        monkeypatch.setattr(archive_places, "TRIES", 1)
        with pytest.raises(ArchiveError, match="cannot be fetched"):
            content_of(Archives.open([address], kept).each[0])
        monkeypatch.setattr(archive_places, "TRIES", 2)
        for _ in range(2):
            assert CONTENT == content_of(Archives.open([address], kept).each[0])

    assert [0, 20, 40, 60] == starts
    assert [name.rpartition("/")[2]] == [path.name for path in kept.iterdir()]


def test_a_copy_with_another_content_is_not_kept(made: SimulatedArchive, tmp_path: Path) -> None:
    """A bucket that is not its digest's, damaged or too large leaves nothing behind; the next archive is tried."""
    name, kept = bucket_name(made.digests[0]), tmp_path / "kept"
    good = (made.folder / name).read_bytes()
    other = SimulatedArchive(tmp_path / "other", [CONTENT[1:]])
    with serving(other.folder) as (wrong, _), serving(made.folder) as (right, _):
        archives = Archives.open([wrong, right], kept)
        for content, said in (
            (gzip.compress(b"\x80\0\0\0", mtime=0), "has the SHA-256"),
            (good[:-9], "ends too early"),
            (b"no", "is not gzip"),
        ):
            other.put(name, content)
            with pytest.raises(ArchiveError, match=rf"127\.0\.0\.1: .*{said}"):
                content_of(archives.each[0])
            assert [] == list(kept.iterdir())
            assert CONTENT == archives.first(content_of)
            for path in kept.iterdir():
                path.unlink()
        with pytest.raises(ArchiveError, match="more than the 9 bytes"):
            RemoteFiles(right, bucket_folder=kept).open(name, 9)
        with pytest.raises(ArchiveError, match="more than the 9 bytes"):
            RemoteFiles(right).open(name, 9)


def test_buckets_that_no_list_has_any_more_are_removed(tmp_path: Path) -> None:
    """Kept and begun ones of these digests stay, the others go, and no other file is touched."""
    old, new = bytes([1] * 32), bytes([2] * 32)
    for name in (*(f"bucket-{digest.hex()}.xdr.gz{end}" for digest in (old, new) for end in ("", ".ab.part")), "mine"):
        (tmp_path / name).touch()
    forget_other_buckets(tmp_path, [new])

    left = {f"bucket-{new.hex()}.xdr.gz", f"bucket-{new.hex()}.xdr.gz.ab.part", "mine"}
    assert left == {path.name for path in tmp_path.iterdir()}


def test_what_is_wrong_with_each_archive_is_said(made: SimulatedArchive, tmp_path: Path) -> None:
    """A file is missing only if all archives lack it; an address of no archive is refused."""
    empty = SimulatedArchive(tmp_path / "empty", [])
    archives = Archives.open([str(made.folder), str(empty.folder)], tmp_path / "kept")

    assert 127 == archives.newest()
    with pytest.raises(ArchiveFileMissingError, match=r"archive archive: history.* is missing; history archive empty"):
        archives.first(partial(HistoryArchive.checkpoint, ledger=191))
    empty.write_state({"version": 9})
    (made.folder / ".well-known" / "stellar-history.json").unlink()
    with pytest.raises(ArchiveError, match=r"is missing; .* value 9") as error:
        archives.newest()
    assert not isinstance(error.value, ArchiveFileMissingError)
    with pytest.raises(ConfigError, match="ftp:// is not an address of a history archive"):
        Archives.open(["ftp://example.org"], tmp_path / "kept")


def test_an_archive_is_read_out_of_a_bucket(
    made: SimulatedArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An s3:// address is one of an archive, by the credentials of the environment."""
    with WireBucket() as bucket:
        for path in (path for path in made.folder.rglob("*") if path.is_file()):
            name = f"test-archive/{path.relative_to(made.folder)}"
            bucket.objects[name] = Stored(path.read_bytes(), datetime.now(UTC), {})
        for name, value in bucket.environment("reader").items():
            monkeypatch.setenv(name, value)
        archives = Archives.open([f"s3://{BUCKET}/test-archive"], tmp_path / "kept")

        assert CONTENT == archives.first(content_of)
        with pytest.raises(ArchiveFileMissingError, match=r"has no file history/00/00/00/history-000000bf\.json"):
            archives.first(lambda archive: archive.checkpoint(191))


@pytest.fixture
def slow_server() -> Iterator[str]:
    """A server that never answers a request; under /drip it sends a byte of a large file now and then.

    Under /closed it ends the connection.
    """
    ended = threading.Event()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/drip"):
                self.send_response(200)
                self.send_header("Content-Length", "1000000")
                self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
                self.end_headers()
            while not self.path.startswith("/closed") and not ended.wait(0.05):
                if self.path.startswith("/drip"):
                    with suppress(OSError):
                        self.wfile.write(b"{")

        def log_message(self, *arguments: object) -> None:
            pass

    with listening(Slow) as address:
        yield address
        ended.set()


@contextmanager
def failing(fault: str) -> Iterator[str]:
    """A server that brings no whole file."""
    ended = threading.Event()

    class Failing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if fault == "silent":
                ended.wait(300)
                return
            self.send_response(500 if fault == "error" else 200)
            self.send_header("Content-Length", "0" if fault == "error" else "1000000")
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.end_headers()
            if fault == "truncated":
                self.wfile.write(b"{" * 1000)
            while fault == "drip" and not ended.wait(0.02):
                with suppress(OSError):
                    self.wfile.write(b"{")

        def log_message(self, *arguments: object) -> None:
            pass

    with listening(Failing) as address:
        yield address
        ended.set()


@pytest.mark.parametrize("path", ["silent", "drip", "closed"])
def test_all_reading_ends_at_the_deadline(
    slow_server: str, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many archives never finish an answer, reading ends, and no earlier than at the deadline."""
    monkeypatch.setattr(archive_places, "FIRST_PAUSE_SECONDS", 60)
    began = monotonic()
    deadline = Deadline(0.4, "a setting")
    archives = Archives.open([f"{slow_server}/{path}/{number}" for number in range(4)], tmp_path, deadline)

    with pytest.raises(ArchiveError, match=r"^reading history archives took longer than a setting = 400ms; raise it$"):
        archives.newest()
    with pytest.raises(ArchiveError, match="took longer than a setting"):
        archives.first(lambda archive: archive.checkpoint(127))

    assert 0.4 <= monotonic() - began


@dataclass
class Hanging:
    """Stands in for archives that never answer, with the clock by which each request costs the time that it is given.

    ``requests`` has the first letter of the archive's address, and the seconds, of each.
    """

    monkeypatch: pytest.MonkeyPatch
    now: float = 0.0
    requests: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.monkeypatch.setattr(archive_places, "open_place", self.open)
        self.monkeypatch.setattr(archive_places, "monotonic", lambda: self.now)
        self.monkeypatch.setattr(archive_places, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def open(self, uri: str, _kind: str, *, verified: bool, seconds: float) -> tuple[Any, str]:
        def get(_name: str, *, options: object) -> Any:
            self.requests.append((uri[0], seconds))
            self.sleep(seconds)
            raise TimeoutError

        return SimpleNamespace(get=get), uri


def test_trying_archives_in_turn_takes_no_longer_than_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many never answer, requests and pauses together end at the deadline."""
    hanging = Hanging(monkeypatch)
    archives = Archives.open([f"{name}://" for name in "abcd"], tmp_path, Deadline(100.0))

    with pytest.raises(ArchiveError, match="took longer than the deadline = 100s"):
        archives.newest()
    assert 100 == pytest.approx(hanging.now)
    assert set("abcd") == {name for name, _ in hanging.requests}


def test_one_that_hangs_costs_its_patience_where_another_may_have_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patience is `PATIENCE_SECONDS`, or a quarter of the time left; the last archive has the time of a request."""
    hanging = Hanging(monkeypatch)
    archives = Archives.open(["a://", "b://"], tmp_path, Deadline(40.0))

    with pytest.raises(ArchiveError, match="took longer than the deadline"):
        archives.first(lambda archive: archive.checkpoint(127))
    assert [("a", 10.0), ("b", pytest.approx(30.0))] == hanging.requests

    later = Hanging(monkeypatch)
    archives = Archives.open(["a://", "b://"], tmp_path, Deadline(1_000.0))
    with pytest.raises(ArchiveError, match="cannot be fetched"):
        archives.first(lambda archive: archive.checkpoint(127))
    patience, longest = archive_places.PATIENCE_SECONDS, archive_places.REQUEST_SECONDS
    assert [("a", patience), *[("b", longest)] * archive_places.TRIES] == later.requests


@pytest.mark.parametrize("fault", ["silent", "drip", "error", "truncated"])
def test_an_archive_that_fails_is_asked_no_more_while_another_answers(
    made: SimulatedArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Files that it does not bring come from the other archive, and it costs its patience once."""
    monkeypatch.setattr(archive_places, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(archive_places, "FIRST_PAUSE_SECONDS", 0.001)
    asked, place_of = list[str](), RemoteFiles._place

    def counted(self: RemoteFiles, seconds: float) -> Any:
        asked.append(self._uri)
        return place_of(self, seconds)

    with failing(fault) as bad, serving(made.folder) as (good, _):
        archives = Archives.open([bad, good], tmp_path / "kept")
        monkeypatch.setattr(RemoteFiles, "_place", counted)
        contents = [archives.first(content_of) for _ in range(2)]
        newest, once = archives.newest(), asked.count(bad)
        archives.first(lambda archive: archive.checkpoint(127))

    assert ([CONTENT, CONTENT], 127) == (contents, newest)
    assert 1 <= once == asked.count(bad) <= archive_places.TRIES


def test_the_last_archive_that_answers_is_asked_with_patience(made: SimulatedArchive, tmp_path: Path) -> None:
    """An archive that failed is asked again if no other is left."""
    with serving(made.folder, breaks_after=(0,) * archive_places.TRIES) as (good, _):
        answering = Answering(2)
        first, second = RemoteFiles(good, answering=answering), RemoteFiles("http://127.0.0.1:1/", answering=answering)
        answering.record_answer(first, ArchiveError("it failed"))
        with pytest.raises(ArchiveError, match="it failed"):
            HistoryArchive(first).newest()
        answering.record_answer(second, ArchiveError("it failed, too"))

        assert 127 == HistoryArchive(first).newest()


def test_a_run_and_a_backfill_bound_the_reading_of_archives(slow_server: str, tmp_path: Path) -> None:
    """Runs and backfills take the time for archives from the setting that bounds the reading of an RPC."""
    values = {"network.name": "testnet", "network.read_deadline": "1s"}
    settings = load(None, values, environment={}).settings
    message = r"took longer than network\.read_deadline = 1s"

    with (
        pytest.raises(SourceError, match=message),
        open_archive_state(settings, FromArchive((f"{slow_server}/silent",), bucket_cache=tmp_path)),
    ):
        pass
    with pytest.raises(SourceError, match=message):
        archive_start(f"{slow_server}/drip", 1_000, settings.passphrase, settings.network.read_deadline.total_seconds())
