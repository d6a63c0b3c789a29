"""Tests of exporter/stores/precompressed.py: a twin is never of other bytes than its file, at no moment."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import exporter.stores.folder
from exporter.check.published_tree import check_tree
from exporter.check.whole import TreeFaultsError
from exporter.errors import ConfigError, ImmutableKeyError
from exporter.localnet.made import MadeNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.stores import open_store
from exporter.stores.folder import FolderStore
from exporter.stores.precompressed import LEAST_BYTES, MARKER, PrecompressedFolderStore, is_twin
from tests.jobs import run, settings_for

LATER = datetime.now(UTC) + timedelta(days=1)
KEYS = ("v1/assets/index.json", "v1/markets.json", "index.html", "v1/pages/a.json", "feed.atom")


def text(word: str) -> bytes:
    return f"{word} ".encode() * LEAST_BYTES


def files(word: str) -> list[tuple[str, bytes]]:
    return [(key, text(f"{word} {key}")) for key in KEYS]


def twins_of(folder: Path) -> dict[str, bytes]:
    """What is in the twins, by the keys of their files."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.gz")}
    return {name[:-3]: gzip.decompress(path.read_bytes()) for name, path in found.items() if is_twin(name)}


def assert_true(folder: Path) -> None:
    """Every twin has a file, and is of its bytes."""
    for key, data in twins_of(folder).items():
        assert (folder / key).read_bytes() == data, key


def test_texts_have_twins(tmp_path: Path) -> None:
    """Texts that are worth it do; what is compressed already, or small, does not; none is listed."""
    store = PrecompressedFolderStore(tmp_path)
    written = store.put_many(
        [*files("old"), ("small.json", b"{}"), ("a.parquet", text("a")), ("b.jsonl.gz", text("b"))]
    )

    assert 8 == written.written
    assert dict(files("old")) == twins_of(tmp_path)
    assert {*KEYS, "small.json", "a.parquet", "b.jsonl.gz"} == {info.key for info in store.list("")}
    assert {"v1/assets/index.json"} == {info.key for info in store.list("v1/assets/")}


def test_the_same_twin_is_not_written_again(tmp_path: Path) -> None:
    """A file that is as it was keeps its twin."""
    store = PrecompressedFolderStore(tmp_path)
    store.put_many(files("old"))
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*.gz")}

    assert 0 == store.put_many(files("old")).written
    assert before == {path: path.stat().st_ino for path in tmp_path.rglob("*.gz")}


def each_step(monkeypatch: pytest.MonkeyPatch, before: Callable[[], None]) -> list[str]:
    """Call something before every change that a store makes to names; gives a list that these are noted in."""
    steps: list[str] = []

    class Watched:
        def __getattr__(self, name: str) -> Any:
            real = getattr(os, name)
            if name not in {"replace", "link", "unlink", "rmdir", "rename"}:
                return real

            def call(*arguments: Any, **options: Any) -> Any:
                steps.append(name)
                before()
                return real(*arguments, **options)

            return call

    monkeypatch.setattr(exporter.stores.folder, "os", Watched())
    return steps


def change(store: FolderStore) -> None:
    """Everything that a run does with files, over files that are there."""
    store.put_many([*files("new")[:2], ("index.html", b"small now")])
    store.put_new_many([("v1/pages/b.json", text("b"))])
    stored = store.get("feed.atom")
    store.swap("feed.atom", text("swapped"), None if stored is None else stored.etag)
    store.delete(["v1/pages/a.json", "v1/pages/none.json"])
    store.remove_leftovers(LATER)


@pytest.mark.parametrize("making", [True, False])
def test_no_twin_is_ever_of_other_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, making: bool) -> None:
    """Wherever a process dies among the steps, every twin that is there fits its file."""
    PrecompressedFolderStore(tmp_path).put_many(files("old"))
    steps = each_step(monkeypatch, lambda: assert_true(tmp_path))
    change(PrecompressedFolderStore(tmp_path, making=making))

    assert {"replace", "unlink"} <= set(steps)
    assert_true(tmp_path)
    wanted = {"v1/assets/index.json", "v1/markets.json", "v1/pages/b.json", "feed.atom"} if making else set()
    assert wanted == set(twins_of(tmp_path))
    assert making is (tmp_path / MARKER).exists()


def test_the_next_run_makes_what_a_crash_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash at any step, then the same once more: all twins are there and true."""
    count = 0
    while True:
        folder = tmp_path / str(count)
        PrecompressedFolderStore(folder).put_many(files("old"))
        left = count

        def die_in_time() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

        died = False
        with monkeypatch.context() as patched:
            each_step(patched, die_in_time)
            try:
                PrecompressedFolderStore(folder).put_many(files("new"))
            except KeyboardInterrupt:
                died = True
        assert_true(folder)
        PrecompressedFolderStore(folder).put_many(files("new"))
        assert dict(files("new")) == twins_of(folder)
        if not died:
            break
        count += 1
    assert count > 2 * len(KEYS)


def test_what_others_left_behind_is_replaced(tmp_path: Path) -> None:
    """A version that knows no twins wrote a file; the next run tells by the checksum that the twin is another's."""
    store = PrecompressedFolderStore(tmp_path)
    store.put_many(files("old"))
    FolderStore(tmp_path).put_many(files("new"))
    (tmp_path / "feed.atom.gz").write_bytes(b"gz")
    store.put_many(files("new"))

    assert dict(files("new")) == twins_of(tmp_path)


def test_a_lost_file_leaves_no_twin(tmp_path: Path) -> None:
    """The sweep removes a twin whose file somebody removed."""
    store = PrecompressedFolderStore(tmp_path)
    store.put_many(files("old"))
    (tmp_path / "index.html").unlink()
    store.remove_leftovers(LATER)

    assert {*KEYS} - {"index.html"} == set(twins_of(tmp_path))


def test_an_immutable_file_keeps_its_bytes(tmp_path: Path) -> None:
    """Other bytes under its key are refused, and leave a true twin or none."""
    store = PrecompressedFolderStore(tmp_path)
    store.put_new("v1/pages/a.json", text("a"))
    with pytest.raises(ImmutableKeyError):
        store.put_new("v1/pages/a.json", text("b"))

    assert text("a") == (tmp_path / "v1/pages/a.json").read_bytes()
    assert_true(tmp_path)


def test_a_folder_with_twins_is_known(tmp_path: Path) -> None:
    """Also where none are to be made any more, which the setting alone would not tell."""
    assert type(open_store(str(tmp_path))) is FolderStore
    open_store(str(tmp_path), precompressed=True).put_many(files("old"))
    store = open_store(str(tmp_path))
    assert {*KEYS} == {info.key for info in store.list("")}
    store.put_many(files("new")[:1])

    assert {*KEYS[1:]} == set(twins_of(tmp_path))
    store.remove_leftovers(LATER)
    assert {} == twins_of(tmp_path)
    assert type(open_store(str(tmp_path))) is FolderStore


def test_a_check_tells_of_what_others_left_behind(tmp_path: Path) -> None:
    """A whole tree is in order with its twins; a twin of other bytes is a fault of its own."""
    folder = tmp_path / "public"
    with running(create_app(MadeNetwork(pools=5))) as url:
        code, _ = run(settings_for(folder, url, output__precompressed=True))
    assert 0 == code
    assert len(twins_of(folder)) > 20
    before = check_tree(str(folder))
    (folder / "v1/assets/index.json.gz").write_bytes(gzip.compress(b"{}"))

    with pytest.raises(TreeFaultsError) as caught:
        check_tree(str(folder))
    assert ["v1/assets/index.json.gz"] == [fault.key for fault in caught.value.faults]
    assert sum(before.files.values()) < sum(path.is_file() for path in folder.rglob("*")) - len(twins_of(folder))


def test_a_bucket_is_refused() -> None:
    """There the CDN compresses, and nothing beside an object is sent for it."""
    with pytest.raises(ConfigError, match=r"output\.precompressed is for a folder"):
        open_store("s3://bucket/prefix", precompressed=True)
