"""An output that has files of somebody else, and no tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import StoreError
from exporter.publishing.published_state import refuse_files_of_others
from exporter.stores.folder import FolderStore
from exporter.tree.families import INTENT_KEY, ROOT_FILES


def refusal(store: FolderStore) -> str:
    """Why the output is refused; empty if it is accepted."""
    try:
        refuse_files_of_others(store)
    except StoreError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ROOT_FILES)
def test_a_file_of_somebody_is_named(tmp_path: Path, name: str) -> None:
    """Each name that a tree has at its root is refused if there is no tree."""
    (tmp_path / name).write_text("mine")

    assert f"has a file {name}, and no tree" in refusal(FolderStore(tmp_path))


@pytest.mark.parametrize("other", ["CNAME", "robots.txt", "v1/mine.txt"])
def test_what_no_run_writes_is_no_reason(tmp_path: Path, other: str) -> None:
    """A file that a run leaves alone may be there, and makes no tree of the files next to it."""
    store = FolderStore(tmp_path)
    (tmp_path / other).parent.mkdir(exist_ok=True)
    (tmp_path / other).write_text("mine")
    alone = refusal(store)
    (tmp_path / "index.html").write_text("mine")

    assert ("", True) == (alone, "has a file index.html" in refusal(store))


def test_a_first_run_that_died_is_no_reason(tmp_path: Path) -> None:
    """The web pages of a first run that died are those of a tree, as its intent says."""
    store = FolderStore(tmp_path)
    store.put_many([("index.html", b"ours"), (INTENT_KEY, b"{}")])
    with_intent = refusal(store)
    store.delete([INTENT_KEY])

    assert ("", True) == (with_intent, "has a file index.html" in refusal(store))
