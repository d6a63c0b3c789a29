"""A published tree opened for reading: what is found, what is refused, and what renaming under a reader does."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from exporter.serve import folder_tree as tree_module
from exporter.serve.folder_tree import Tree
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
    put(tmp_path, POINTER, b'{"page_sizes":[1,50],"default_page_size":50,"new":{}}')

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
def test_an_unusable_pointer_is_no_run(tmp_path: Path, data: bytes) -> None:
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
    """The digest of a large file is computed once, and anew when the file is replaced."""
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
    """However many large files are asked for, only so many digests are kept."""
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
def test_what_is_no_file_is_absent(tmp_path: Path, key: str) -> None:
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
