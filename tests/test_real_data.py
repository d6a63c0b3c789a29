"""Fetching the public originals of the real data, from an HTTP server on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.real_data import LIST, FetchError, Original, fetch, originals

SOURCE = "owner/repository/0123/file.json"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server of raw files with the folder that it serves."""
    folder = tmp_path / "mirror"
    (folder / SOURCE).parent.mkdir(parents=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    thread.join()
    server.server_close()


def original_of(data: bytes, source: str = SOURCE, place: str = "set/file.json") -> Original:
    """The line of a list for these bytes."""
    return Original(hashlib.sha256(data).hexdigest(), len(data), source, place)


def test_a_file_is_fetched_once_and_verified(mirror: tuple[str, Path], tmp_path: Path) -> None:
    """A file goes to its place; one that lies there whole is not asked for again, a damaged one is replaced."""
    url, served = mirror
    (served / SOURCE).write_bytes(b"{}\n")
    wanted, folder = [original_of(b"{}\n")], tmp_path / "real"

    assert ["set/file.json: fetched, 3 bytes"] == list(fetch(wanted, folder, url))
    assert b"{}\n" == (folder / "set/file.json").read_bytes()
    (folder / "set/file.json").write_bytes(b"{]\n")
    assert ["set/file.json: fetched, 3 bytes"] == list(fetch(wanted, folder, url))
    (served / SOURCE).unlink()
    assert ["set/file.json: is there"] == list(fetch(wanted, folder, url))


@pytest.mark.parametrize(
    ("served", "reason"),
    [
        pytest.param(b"{]\n", "is not the file that the list means", id="other bytes"),
        pytest.param(b"{}", "is not the file that the list means", id="cut short"),
        pytest.param(b"{}\n" * 1000, "more than the 3 bytes", id="longer"),
        pytest.param(None, "HTTP status 404", id="missing"),
    ],
)
def test_another_file_is_refused(mirror: tuple[str, Path], tmp_path: Path, served: bytes | None, reason: str) -> None:
    """What is not the listed file is named, and nothing of it stays in the folder."""
    url, folder = mirror
    if served is not None:
        (folder / SOURCE).write_bytes(served)

    with pytest.raises(FetchError, match=f"{SOURCE}.*{reason}"):
        list(fetch([original_of(b"{}\n")], tmp_path / "real", url))
    assert [] == list((tmp_path / "real").rglob("*.*"))


def test_no_server_is_an_error(tmp_path: Path) -> None:
    """A server that cannot be reached is named."""
    with pytest.raises(FetchError, match=r"http://127\.0\.0\.1:1/owner.*ConnectError"):
        list(fetch([original_of(b"x")], tmp_path, "http://127.0.0.1:1"))


def test_only_https_leaves_the_machine(tmp_path: Path) -> None:
    """A base URL without TLS is refused before anything is asked."""
    with pytest.raises(FetchError, match="only https"):
        list(fetch([original_of(b"x")], tmp_path, "http://example.com"))


@pytest.mark.parametrize(
    "line",
    [
        "0" * 64 + " 1 owner/repository/0123/file",
        "00 1 owner/repository/0123/file place",
        "0" * 64 + " x owner/repository/0123/file place",
        "0" * 64 + " 99999999999 owner/repository/0123/file place",
        "0" * 64 + " 1 owner/repository/0123/file ../place",
        "0" * 64 + " 1 owner/repository/0123/file /place",
        "0" * 64 + " 1 owner/../file place",
    ],
)
def test_a_bad_line_is_named(line: str) -> None:
    """A list's line of another form, beyond the bound or out of the folder is refused by its number."""
    with pytest.raises(FetchError, match="line 2: "):
        originals(f"# a list\n{line}\n")


def test_the_list_pins_each_file() -> None:
    """Every listed file is at a commit by its full hash, and no two go to one place."""
    listed = originals(LIST.read_text(encoding="utf-8"))

    assert len(listed) > 0
    assert [] == [one.source for one in listed if len(one.source.split("/")[2]) != 40]
    assert len(listed) == len({one.place for one in listed})
