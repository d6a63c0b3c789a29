"""Whether a store can be published to is found out before a run reads, and leaves nothing behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from exporter.errors import ConfigError, StoreError
from exporter.stores.folder import FolderStore
from exporter.stores.s3_store import S3Store
from tests.s3.bucket_objects import BUCKET
from tests.s3.faults import Answer
from tests.s3.wire_bucket import WireBucket
from tests.stores.s3_servers import wire_store


def test_a_folder_is_left_as_it_was(tmp_path: Path) -> None:
    """A folder that can be written to passes; one that was not there is not there afterwards."""
    FolderStore(tmp_path / "a" / "b").try_writing()
    assert [] == list(tmp_path.iterdir())
    (tmp_path / "there").mkdir()
    FolderStore(tmp_path / "there").try_writing()

    assert [] == list((tmp_path / "there").iterdir())


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    """Where a file is in place of the folder, or of one above it, the error names the output."""
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "public"):
        with pytest.raises(StoreError, match=f"cannot write into {path}"):
            FolderStore(path).try_writing()


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_folder_that_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """No leave to write, a disk that is read-only and one that is full are said before anything is read."""

    def refuse(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("exporter.stores.folder.os.open", refuse)
    with pytest.raises(StoreError, match=f"cannot write into {tmp_path}: {os.strerror(code)}; "):
        FolderStore(tmp_path).try_writing()


def test_a_publisher_at_work_is_not_a_failure(tmp_path: Path, bucket: WireBucket, alice: S3Store, bob: S3Store) -> None:
    """Whoever publishes now may be done when the run has read."""
    with FolderStore(tmp_path).exclusive():
        FolderStore(tmp_path).try_writing()
    with alice.exclusive():
        bob.try_writing()

    assert [] == list(bob.list(""))
    assert bucket.calls


def test_a_bucket_that_is_not_there_or_refuses(bucket: WireBucket, alice: S3Store) -> None:
    """A bucket that does not exist, or may not be written to, is named."""
    missing = wire_store(bucket, "alice", "no-such-bucket")
    with pytest.raises((ConfigError, StoreError), match="no-such-bucket"):
        missing.try_writing()
    missing.close()
    bucket.forget()
    bucket.disturb_next("alice", Answer(403, "AccessDenied", writes=True), more=9)
    with pytest.raises(StoreError, match=f"{BUCKET}.*allow s3:PutObject"):
        alice.try_writing()
