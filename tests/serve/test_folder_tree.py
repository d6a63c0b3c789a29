"""A published tree opened for reading: what is found, what is refused, and what renaming under a reader does."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.serve import folder_tree as tree_module
from exporter.serve.folder_tree import CHUNK_BYTES, FileResponse, Tree, byte_range, etag_matches
from exporter.tree.documents import encode
from tests.render.rendering import system_status

POINTER = "v1/system/status.json"


def put(root: Path, key: str, data: bytes) -> Path:
    """Replace a file as publishing does: by renaming another one over it."""
    path = root / key
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".tmp-{path.name}")
    temporary.write_bytes(data)
    return temporary.replace(path)


def read(tree: Tree, key: str) -> bytes | None:
    """The content of a key, or None."""
    opened = tree.open(key)
    if opened is None:
        return None
    with opened.file as file:
        return file.read()


def etag(tree: Tree, key: str) -> str:
    """The ETag of a key that exists."""
    opened = tree.open(key)
    assert opened is not None
    opened.file.close()
    return opened.etag


def test_page_sizes_come_from_the_pointer(tmp_path: Path) -> None:
    """The sizes are those that the published run names, ascending, and follow it when it changes."""
    tree = Tree(tmp_path)
    assert tree.page_sizes() is None

    put(tmp_path, POINTER, encode(system_status(page_sizes=[5, 1, 2], default_page_size=5)))
    assert (1, 2, 5) == tree.page_sizes()

    put(tmp_path, POINTER, encode(system_status(page_sizes=[1], default_page_size=1)))
    assert (1,) == tree.page_sizes()


def test_a_later_pointer_may_say_more(tmp_path: Path) -> None:
    """Unknown fields of the pointer are ignored, as any client must."""
    put(tmp_path, POINTER, b'{"format":1,"page_sizes":[1,50],"default_page_size":50,"new":{}}')

    assert (1, 50) == Tree(tmp_path).page_sizes()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"{}",
        b'{"page_sizes":[],"default_page_size":50}',
        b'{"page_sizes":[2],"default_page_size":2}',
        b'{"page_sizes":[1],"default_page_size":50}',
        b'{"page_sizes":[1,"50"],"default_page_size":1}',
        b'{"page_sizes":[1,-5],"default_page_size":1}',
    ],
)
def test_an_unusable_pointer_is_not_a_run(tmp_path: Path, data: bytes) -> None:
    """A pointer that cannot be read, or whose sizes cannot serve every limit, counts as none."""
    put(tmp_path, POINTER, data)

    assert Tree(tmp_path).page_sizes() is None


def test_etags_are_of_the_content(tmp_path: Path) -> None:
    """The ETag is strong, the beginning of the content's SHA-256, and the size is the file's."""
    put(tmp_path, "a.json", b"abc")
    opened = Tree(tmp_path).open("a.json")
    assert opened is not None

    with opened.file as file:
        assert b"abc" == file.read()
    assert f'"{hashlib.sha256(b"abc").hexdigest()[:32]}"' == opened.etag
    assert 3 == opened.size


def test_remembered_digests_follow_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest of a large file is computed once, and again when the file is replaced."""
    monkeypatch.setattr(tree_module, "LARGE_FILE", 3)
    tree = Tree(tmp_path)
    put(tmp_path, "a.json", b"abc")
    first = etag(tree, "a.json")
    computed: list[str] = []
    file_digest = hashlib.file_digest

    def counted(file: object, name: str) -> object:
        computed.append(name)
        return file_digest(file, name)  # type: ignore[arg-type]

    monkeypatch.setattr(hashlib, "file_digest", counted)
    assert first == etag(tree, "a.json")
    assert [] == computed

    put(tmp_path, "a.json", b"xyz")
    assert first != etag(tree, "a.json")
    assert ["sha256"] == computed


def test_remembered_digests_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many large files are asked for, only this many digests are kept."""
    monkeypatch.setattr(tree_module, "LARGE_FILE", 0)
    monkeypatch.setattr(tree_module, "REMEMBERED_DIGESTS", 2)
    tree = Tree(tmp_path)
    for name in ("a", "b", "c", "d"):
        put(tmp_path, f"{name}.json", name.encode())
        assert f'"{hashlib.sha256(name.encode()).hexdigest()[:32]}"' == etag(tree, f"{name}.json")

    assert 2 == len(tree._digests)


def test_an_open_file_stays_whole_while_it_is_replaced(tmp_path: Path) -> None:
    """Who has opened a file reads the old one to its end, though a new one has its name by then."""
    tree = Tree(tmp_path)
    put(tmp_path, "a.json", b"old and longer")
    opened = tree.open("a.json")
    assert opened is not None
    with opened.file as file:
        start = file.read(3)
        put(tmp_path, "a.json", b"new")
        assert b"old and longer" == start + file.read()

    assert b"new" == read(tree, "a.json")


@pytest.mark.parametrize("key", ["nothing.json", "v1", "a.json/b.json", "a" * 300, "/".join(["a"] * 3000), "a\0b"])
def test_what_is_not_a_file_is_absent(tmp_path: Path, key: str) -> None:
    """Folders, files below files, and names that the file system refuses are simply not there."""
    put(tmp_path, "v1/b.json", b"")
    put(tmp_path, "a.json", b"")

    assert Tree(tmp_path).open(key) is None


def test_links_may_not_leave_the_folder(tmp_path: Path) -> None:
    """A link is followed inside the folder only; outside, in a circle or into nothing it is not there."""
    root = tmp_path / "public"
    put(tmp_path, "secret.json", b"secret")
    put(tmp_path, "outside/b.json", b"secret")
    put(root, "a.json", b"abc")
    for name, target in [
        ("inside.json", "a.json"),
        ("up.json", "../secret.json"),
        ("absolute.json", str(tmp_path / "secret.json")),
        ("folder", "../outside"),
        ("dangling.json", "nothing"),
        ("circle.json", "circle.json"),
        ("sibling.json", "../public-too.json"),
    ]:
        (root / name).symlink_to(target)
    put(tmp_path, "public-too.json", b"secret")
    tree = Tree(root)

    assert b"abc" == read(tree, "inside.json")
    for key in ("up.json", "absolute.json", "folder/b.json", "dangling.json", "circle.json", "sibling.json"):
        assert tree.open(key) is None


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    """A tree may be named by a link, and follow it when it is turned to another folder."""
    put(tmp_path, "one/a.json", b"1")
    put(tmp_path, "two/a.json", b"2")
    link = tmp_path / "public"
    link.symlink_to("one")
    tree = Tree(link)
    assert b"1" == read(tree, "a.json")

    link.unlink()
    link.symlink_to("two")
    assert b"2" == read(tree, "a.json")


def test_what_is_not_a_plain_file_is_absent(tmp_path: Path) -> None:
    """A pipe is not opened, which could wait for ever."""
    os.mkfifo(tmp_path / "pipe.json")

    assert Tree(tmp_path).open("pipe.json") is None


def test_a_folder_that_does_not_exist_has_nothing(tmp_path: Path) -> None:
    """A tree that is not there yet has no run and no file."""
    tree = Tree(tmp_path / "nothing")

    assert tree.page_sizes() is None
    assert tree.open("a.json") is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ("bytes=0-0", range(1)),
        ("bytes=0-9", range(10)),
        ("bytes=0-99", range(10)),
        ("bytes=4-", range(4, 10)),
        ("bytes=-4", range(6, 10)),
        ("bytes=-99", range(10)),
        ("Bytes=0-0", range(1)),
        (" bytes=0-0 ", range(1)),
        # No byte of the file is among these.
        ("bytes=10-", range(10, 10)),
        ("bytes=10-20", range(10, 10)),
        ("bytes=-0", range(10, 10)),
        # These cannot be understood, or ask for more than one range, and may be ignored.
        ("bytes=5-4", None),
        ("bytes=-", None),
        ("bytes=0-1,4-5", None),
        ("bytes=a-b", None),
        ("bytes=0-1\n", range(2)),
        ("bytes=\u0660-", None),
        ("items=0-1", None),
        ("bytes=" + "9" * 5000 + "-", None),
    ],
)
def test_ranges(header: str | None, expected: range | None) -> None:
    """A range header gives the positions it asks for, nothing when it is ignored, or none of the file."""
    assert expected == byte_range(header, 10)


@pytest.mark.parametrize("header", ["bytes=0-", "bytes=0-0", "bytes=-1"])
def test_an_empty_file_has_no_range(header: str) -> None:
    """No range of an empty file can be sent."""
    part = byte_range(header, 0)

    assert part is not None
    assert not part


@given(st.text(max_size=30), st.integers(0, 1000))
def test_ranges_stay_inside_the_file(text: str, size: int) -> None:
    """Whatever the header says, no position outside the file is read."""
    for header in (text, f"bytes={text}"):
        part = byte_range(header, size)
        if part:
            assert 0 <= part.start < part.stop <= size
            assert 1 == part.step


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, False),
        ("", False),
        ('"abc"', True),
        ('W/"abc"', True),
        ('"x", "abc"', True),
        ('"x",W/"abc" ', True),
        ("*", True),
        ('"x"', False),
        ("abc", False),
        ('"ABC"', False),
    ],
)
def test_etags_match_weakly(header: str | None, expected: bool) -> None:
    """If-None-Match names an ETag alone, in a list, weakly, or all of them by a star."""
    assert expected is etag_matches(header, '"abc"')


def sent(response: FileResponse, method: str = "GET") -> list[dict[str, Any]]:
    """The messages that a response sends."""
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(response({"type": "http", "method": method}, receive, send))
    return messages


def test_large_parts_are_sent_in_pieces() -> None:
    """A part of a large file is read piece by piece, and the file is closed after it."""
    content = bytes(range(256)) * (CHUNK_BYTES // 64)
    file = io.BytesIO(content)
    messages = sent(FileResponse(file, 3, len(content) - 5, 206, {"etag": '"a"'}))

    assert content[3:-2] == b"".join(message["body"] for message in messages[1:])
    assert CHUNK_BYTES == max(len(message["body"]) for message in messages[1:])
    assert [True] * (len(messages) - 2) + [False] == [message["more_body"] for message in messages[1:]]
    assert (206, str(len(content) - 5).encode()) == (
        messages[0]["status"],
        dict(messages[0]["headers"])[b"content-length"],
    )
    assert file.closed


def test_head_sends_no_bytes() -> None:
    """HEAD says the length and sends nothing."""
    file = io.BytesIO(b"abc")
    messages = sent(FileResponse(file, 0, 3, 200, {}), "HEAD")

    assert b"3" == dict(messages[0]["headers"])[b"content-length"]
    assert [b""] == [message["body"] for message in messages[1:]]
    assert file.closed


def test_the_file_is_closed_when_the_client_is_gone() -> None:
    """A client that goes away in the middle leaves no open file behind."""
    file = io.BytesIO(bytes(10 * CHUNK_BYTES))
    response = FileResponse(file, 0, 10 * CHUNK_BYTES, 200, {})

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise OSError("connection lost")

    with pytest.raises(OSError, match="connection lost"):
        asyncio.run(response({"type": "http", "method": "GET"}, receive, send))
    assert file.closed
