"""Tests of exporter/stores/folder.py: what holds for a folder beyond the promises of every store."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import subprocess
import sys
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import exporter.stores.folder
from exporter.errors import ImmutableKeyError, LostRaceError, StoreError
from exporter.stores.folder import LOCK_NAME, TEMPORARY_PREFIX, FolderStore, make_durable, write_file


def files_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_files_are_under_their_keys(tmp_path: Path) -> None:
    """A key is the path of a file with exactly its bytes, which everybody whom the umask allows can read.

    The folder itself may be reached through a link, as in a directory of releases.
    """
    root = tmp_path / "release"
    root.mkdir()
    (tmp_path / "current").symlink_to(root)
    before = os.umask(0o022)
    try:
        FolderStore(tmp_path / "current").put_many([("v1/a/b.json", b"{}"), ("index.html", b"<p>")])
    finally:
        os.umask(before)

    assert ["index.html", "v1/a/b.json"] == files_below(root)
    assert b"{}" == (root / "v1/a/b.json").read_bytes()
    assert 0o644 == stat.S_IMODE((root / "v1/a/b.json").stat().st_mode)


def test_temporary_and_foreign_files_are_hidden(tmp_path: Path) -> None:
    """A listing shows no temporary file, no lock, nothing under a hidden folder or an impossible key, and no link.

    A pipe is not an object either, and is not waited for.
    """
    store = FolderStore(tmp_path)
    with store.exclusive():
        store.put("v1/a.json", b"{}")
    (tmp_path / "v1" / f"{TEMPORARY_PREFIX}1-2-3").write_bytes(b"half")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_bytes(b"")
    (tmp_path / "a b.txt").write_bytes(b"")
    (tmp_path / "link.json").symlink_to(tmp_path / "v1" / "a.json")
    os.mkfifo(tmp_path / "pipe")

    assert (tmp_path / LOCK_NAME).exists()
    assert ["v1/a.json"] == [info.key for info in store.list("")]
    assert None is store.get("pipe")


def test_leftovers_are_removed_by_age(tmp_path: Path) -> None:
    """Temporary files older than the given time go, with folders that only they kept; younger ones and files stay."""
    store = FolderStore(tmp_path)
    store.put("v1/a.json", b"{}")
    old, young = tmp_path / "v1" / "x" / f"{TEMPORARY_PREFIX}1", tmp_path / "v1" / f"{TEMPORARY_PREFIX}2"
    old.parent.mkdir()
    now = datetime.now(UTC)
    for path, age in ((old, 90), (young, 30), (tmp_path / "v1/a.json", 90)):
        path.touch()
        os.utime(path, times=((now - timedelta(minutes=age)).timestamp(),) * 2)

    store.remove_leftovers(now - timedelta(hours=1))

    assert [f"v1/{TEMPORARY_PREFIX}2", "v1/a.json"] == files_below(tmp_path)
    assert not old.parent.exists()


def test_empty_folders_go_with_their_last_file(tmp_path: Path) -> None:
    """Deleting the last file of a folder removes the folder, and it can be written to again by any process."""
    store, other = FolderStore(tmp_path), FolderStore(tmp_path)
    store.put_many([("v1/m/x/a.json", b"1"), ("v1/m/b.json", b"2")])
    other.put("v1/m/x/c.json", b"3")
    store.delete(["v1/m/x/a.json", "v1/m/x/c.json"])

    assert ["v1/m/b.json"] == files_below(tmp_path)
    assert not (tmp_path / "v1/m/x").exists()
    other.put("v1/m/x/c.json", b"4")  # this process saw the folder before the other one removed it
    store.put_new("v1/m/x/a.json", b"1")
    assert ["v1/m/b.json", "v1/m/x/a.json", "v1/m/x/c.json"] == files_below(tmp_path)


@pytest.mark.parametrize("link_to_folder", [True, False])
def test_links_inside_are_not_followed(tmp_path: Path, link_to_folder: bool) -> None:
    """A link inside the folder is neither written nor read through; what it points to stays as it was."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.json").write_bytes(b"secret")
    root = tmp_path / "public"
    root.mkdir()
    if link_to_folder:
        (root / "v1").symlink_to(outside)
    else:
        (root / "v1").mkdir()
        (root / "v1" / "secret.json").symlink_to(outside / "secret.json")
    store = FolderStore(root)
    with pytest.raises(StoreError, match=r"v1/secret\.json.*symbolic link"):
        store.get("v1/secret.json")
    with pytest.raises((StoreError, ImmutableKeyError), match=r"v1/secret\.json"):
        store.put_new("v1/secret.json", b"other")
    if link_to_folder:
        with pytest.raises(StoreError, match=r"v1/x\.json.*symbolic link"):
            store.put("v1/x.json", b"other")
        with pytest.raises(StoreError, match=r"v1/secret\.json.*symbolic link"):
            store.delete(["v1/secret.json"])
    else:
        store.put("v1/secret.json", b"other")  # replaces the link itself
        assert not (root / "v1" / "secret.json").is_symlink()

    assert {"secret.json": b"secret"} == {path.name: path.read_bytes() for path in outside.iterdir()}


def test_a_file_and_a_folder_of_one_name(tmp_path: Path) -> None:
    """A key below a file and a key that is a folder cannot be written, and the error says what is in the way."""
    store = FolderStore(tmp_path)
    store.put("v1/a", b"1")
    store.put("v1/b/c", b"1")
    with pytest.raises(StoreError, match=r"write v1/a/x: .*a file is in the place of a folder"):
        store.put("v1/a/x", b"1")
    with pytest.raises(StoreError, match=r"write v1/b: .*a folder is in the place of a file"):
        store.put("v1/b", b"1")

    assert None is store.get("v1/a/x")
    assert None is store.get("v1/b")
    assert ["v1/a", "v1/b/c"] == files_below(tmp_path)


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "No space left on device; free space and run again"),
        (errno.EACCES, "Permission denied; the user that runs the exporter needs write access"),
        (errno.EROFS, "Read-only file system; choose another output.uri"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_errors_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str) -> None:
    """An operating system's refusal is said in words, with the key and what to do; nothing half-written stays."""

    def refuse(path: Path, data: bytes) -> None:
        write_file(path, data[: len(data) // 2])
        if data == b"last":
            raise OSError(number, os.strerror(number), path)

    store = FolderStore(tmp_path)
    monkeypatch.setattr(exporter.stores.folder, "write_file", refuse)
    with pytest.raises(StoreError, match=f"cannot write v1/a.json: {advice}"):
        store.put_many([("v1/first.json", b"first"), ("v1/a.json", b"last")])

    assert [] == files_below(tmp_path)


def test_an_immutable_file_that_appears_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another process names first is not replaced: the same bytes count as there, others are an error."""
    store = FolderStore(tmp_path)

    def race(files: Collection[str], _: Collection[Path]) -> None:
        for path, name in zip(files, "ab", strict=False):
            Path(path).with_name(f"{name}.json").write_bytes(b"theirs")

    monkeypatch.setattr(exporter.stores.folder, "make_durable", race)

    assert not store.put_new("a.json", b"theirs")
    with pytest.raises(ImmutableKeyError, match=r"b\.json"):
        store.put_many([("c.json", b"c"), ("b.json", b"ours")], immutable=True)
    assert b"theirs" == (tmp_path / "b.json").read_bytes()
    assert ["a.json", "b.json", "c.json"] == files_below(tmp_path)


def test_bytes_are_durable_before_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file gets its name before its bytes are on the disk, and all names are on the disk at the end."""
    durable: set[str] = set()
    notified: set[Path] = set()
    changed: set[Path] = set()
    """Folders with names that are not on the disk yet."""
    named: list[str] = []
    replace = os.replace

    def note(files: Collection[str], folders: Collection[Path]) -> None:
        durable.update(files)
        notified.update(folders)
        changed.difference_update(folders)

    def noting(temporary: str, path: str) -> None:
        assert Path(temporary).name.startswith(TEMPORARY_PREFIX)
        assert temporary in durable
        changed.add(Path(path).parent)
        named.append(temporary)
        replace(temporary, path)

    monkeypatch.setattr(exporter.stores.folder, "make_durable", note)
    monkeypatch.setattr(os, "replace", noting)
    monkeypatch.setattr(exporter.stores.folder, "BATCH_FILES", 4)
    FolderStore(tmp_path).put_many((f"v1/{number % 3}/{number}", b"1") for number in range(10))

    assert 10 == len(named)
    assert {tmp_path, tmp_path / "v1", *(tmp_path / "v1" / str(number) for number in range(3))} == notified
    assert set() == changed
    FolderStore(tmp_path).put_many(((f"v1/p/{number}", b"1") for number in range(10)), immutable=True)
    assert 20 == len(named)
    assert tmp_path / "v1" / "p" in notified
    assert set() == changed


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("has_syncfs", [True, False])
def test_files_become_durable_singly_when_few_else_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, has_syncfs: bool
) -> None:
    """Files are made durable one by one when they are few or the system has no syncfs, else together."""
    files = [tmp_path / str(number) for number in range(count)]
    for file in files:
        file.write_bytes(b"1")
    if has_syncfs and exporter.stores.folder._sync_file_system() is None:
        pytest.skip("this system has no syncfs")
    if not has_syncfs:
        monkeypatch.setattr(exporter.stores.folder, "_sync_file_system", lambda: None)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    make_durable(files, [tmp_path])

    assert (0 if has_syncfs and count == 100 else count + 1) == len(synced)
    with pytest.raises(FileNotFoundError):
        make_durable([tmp_path / "missing"], [])


def test_a_disk_that_fails_to_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk reports an error while bytes are made durable, no file gets its name."""

    def refuse(files: Collection[Path], folders: Collection[Path]) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    store = FolderStore(tmp_path)
    store.put("v1/a.json", b"old")
    monkeypatch.setattr(exporter.stores.folder, "make_durable", refuse)
    with pytest.raises(StoreError, match=r"make durable 1 files, the first v1/a\.json: Input/output error"):
        store.put("v1/a.json", b"new")

    assert b"old" == (tmp_path / "v1/a.json").read_bytes()
    assert ["v1/a.json"] == files_below(tmp_path)


def test_a_folder_is_left_as_it_was(tmp_path: Path) -> None:
    """A folder that can be written to passes, and one that was not there is not there afterwards; others are named."""
    FolderStore(tmp_path / "a" / "b").try_writing()
    assert [] == list(tmp_path.iterdir())
    (tmp_path / "there").mkdir()
    FolderStore(tmp_path / "there").try_writing()

    assert [] == list((tmp_path / "there").iterdir())
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "public"):
        with pytest.raises(StoreError, match=f"cannot write into {path}"):
            FolderStore(path).try_writing()


def test_trying_does_not_lock(tmp_path: Path) -> None:
    """While one run publishes or begins to, another may try the folder, and the first one loses nothing by it."""
    store = FolderStore(tmp_path)
    with store.exclusive():
        FolderStore(tmp_path).try_writing()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", pytest.fail)
        FolderStore(tmp_path).try_writing()


def test_a_lock_that_cannot_be_opened_is_named_before_a_run(tmp_path: Path) -> None:
    """A lock file that publishing could not open is an error at the beginning, before anything is read."""
    (tmp_path / LOCK_NAME).symlink_to("elsewhere")
    with pytest.raises(StoreError, match="cannot lock "):
        FolderStore(tmp_path).try_writing()


HOLDER = """
import sys, time
from exporter.stores.folder import FolderStore
with FolderStore(sys.argv[1]).exclusive():
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_goes_with_its_process(tmp_path: Path, project_root: Path) -> None:
    """Another process that publishes is noticed at once, by publishing and by a swap; killed, it blocks nobody."""
    store = FolderStore(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path], cwd=project_root, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert "held\n" == holder.stdout.readline()
            with pytest.raises(LostRaceError, match="another process is publishing"), store.exclusive():
                pass
            with pytest.raises(LostRaceError, match="another process is publishing"):
                store.swap("v1/system/status.json", b"{}", None)
        finally:
            holder.kill()
    with store.exclusive():
        store.swap("v1/system/status.json", b"{}", None)

    assert ["v1/system/status.json"] == [info.key for info in store.list("")]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """If the folder of a tree cannot be made, the error names it whole, because the user gave it."""
    (tmp_path / "file").write_bytes(b"")
    store = FolderStore(tmp_path / "file" / "tree")

    with (
        pytest.raises(StoreError, match=re.escape(f"cannot make the folder {tmp_path}/file/tree: ")),
        store.exclusive(),
    ):
        pass
