"""Paths that a user names, and one file written to them: replaced, or written into."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from exporter import user_files
from exporter.errors import ConfigError
from exporter.user_files import no_folder, user_path, write_text, writing


@pytest.fixture
def reader(tmp_path: Path) -> tuple[Path, list[bytes], threading.Thread]:
    """A pipe, and a thread that reads from it."""
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    thread = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    thread.start()
    return pipe, read, thread


def test_a_tilde_is_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only in front: a name may hold one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [user_path("~/a"), user_path("~"), user_path("a~b/~")] == [tmp_path / "a", tmp_path, Path("a~b/~")]


def test_an_unknown_home_is_refused() -> None:
    """A home of nobody is an error that says what to write."""
    with pytest.raises(ConfigError, match="this home is not known"):
        user_path("~nobody-has-this-name/a")


def test_a_file_is_replaced_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    """The new content is there, alone."""
    (target := tmp_path / "file").write_text("earlier")
    write_text(target, "new", "--out")
    assert [("file", "new")] == [(path.name, path.read_text()) for path in tmp_path.iterdir()]


def test_a_link_stays_one(tmp_path: Path) -> None:
    """The target of a link is written, even if it does not exist yet."""
    (link := tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(link, "new", "--out")
    assert (True, "new") == (link.is_symlink(), (tmp_path / "file").read_text())


def test_a_failed_block_leaves_the_file(tmp_path: Path) -> None:
    """The earlier file stays, and no temporary file does."""
    (target := tmp_path / "file").write_text("earlier")

    def fail() -> None:
        with writing(target, "--out") as path:
            path.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [("file", "earlier")] == [(path.name, path.read_text()) for path in tmp_path.iterdir()]


def test_a_pipe_gets_the_content(reader: tuple[Path, list[bytes], threading.Thread]) -> None:
    """A pipe is written into, and stays a pipe."""
    pipe, read, thread = reader
    write_text(pipe, "new" * 100_000, "--out")
    thread.join(10)
    assert ([b"new" * 100_000], True) == (read, pipe.is_fifo())


def test_a_pipe_that_nobody_reads_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is bounded."""
    monkeypatch.setattr(user_files, "READER_SECONDS", 0.0)
    os.mkfifo(pipe := tmp_path / "pipe")
    with pytest.raises(ConfigError, match="nobody read the pipe"):
        write_text(pipe, "new", "--out")


def test_a_device_stays_a_device() -> None:
    """A device is written into and stays a device, even for a user who could replace it."""
    write_text(Path("/dev/null"), "new", "--out")
    assert (True, False) == (Path("/dev/null").is_char_device(), Path("/dev/null.prom").exists())


def test_a_dash_is_standard_output(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of that name is made."""
    monkeypatch.chdir(tmp_path)
    write_text(Path("-"), "new", "--out")
    assert (b"new", []) == (capfdbinary.readouterr().out, list(tmp_path.iterdir()))


@pytest.mark.parametrize(("name", "reason"), [("", "Is a directory"), ("no/file", "make its folder first")])
def test_a_target_that_cannot_be_written_is_named(tmp_path: Path, name: str, reason: str) -> None:
    """The error names the target that cannot be written, and the setting that it comes from."""
    with pytest.raises(ConfigError, match=f"--out: cannot write .*{reason}"):
        write_text(tmp_path / name, "new", "--out")


def test_the_root_of_the_file_system_is_no_file() -> None:
    """The root of the file system is refused as a file: it has no name to put a temporary file next to."""
    with pytest.raises(ConfigError, match=r"output\.report: cannot write '/': Is a directory"):
        write_text(Path("/"), "new", "output.report")


def test_a_path_that_cannot_be_a_folder_has_a_reason(tmp_path: Path) -> None:
    """A path is a folder, or there are words for why not, also where the system does not let one look."""
    (tmp_path / "file").write_text("")

    assert "" == no_folder(tmp_path)
    assert ["is not a folder"] * 3 == [no_folder(tmp_path / name) for name in ("file", "nothing", "a\0b")]
    assert "cannot be looked at (File name too long)" == no_folder(tmp_path / ("x" * 5000))
