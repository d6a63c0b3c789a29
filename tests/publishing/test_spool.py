"""Tests of exporter/publishing/publish.py: documents that wait."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import StoreError
from exporter.publishing.publish import Spool
from exporter.tree.files import FileKind, RenderedFile


@given(st.lists(st.binary(max_size=40)))
def test_what_goes_in_comes_out(contents: list[bytes]) -> None:
    """Files come back in order and whole, any number of times."""
    files = [(str(number), data) for number, data in enumerate(contents)]
    with Spool() as spool:
        for key, data in files:
            spool.add(RenderedFile(key, data, FileKind.DOCUMENT))

        assert len(files) == len(spool)
        assert [files, files] == [list(spool), list(spool)]


def test_no_room_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the folder for temporary files cannot be written to, the error names it and says what to do."""
    missing = tmp_path / "missing"
    monkeypatch.setattr(tempfile, "tempdir", str(missing))
    with pytest.raises(StoreError, match=r"missing: No such file or directory.*TMPDIR"):
        Spool()


@pytest.mark.parametrize("lost", [1, 5, 6, 15])
def test_a_spool_that_was_cut_short(lost: int) -> None:
    """A temporary file that lost bytes is noticed, not published."""
    with Spool() as spool:
        spool.add(RenderedFile("a", b"12345", FileKind.DOCUMENT))
        spool._file.truncate(spool._file.tell() - lost)
        with pytest.raises(StoreError, match="was cut short"):
            list(spool)


def test_what_a_file_replaces() -> None:
    """Each key of a file comes with its bytes, and files without a key are passed over."""
    files = [
        RenderedFile("a/index.json", b"1", FileKind.DOCUMENT, replaces=("limit/2.json", "limit/5.json")),
        RenderedFile("b/index.json", b"2", FileKind.DOCUMENT),
        RenderedFile("c/index.json", b"3", FileKind.DOCUMENT, replaces=("limit/2.json",)),
    ]
    with Spool() as spool:
        for file in files:
            spool.add(file)

        assert [("a/limit/2.json", b"1"), ("a/limit/5.json", b"1"), ("c/limit/2.json", b"3")] == [*spool.answered()]
