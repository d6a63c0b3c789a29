"""A published tree over HTTP: histories and Parquet files, and the rate models of all protocols."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.check.checker import TreeChecker
from exporter.check.public_urls import links_of
from exporter.tree.files import RenderedFile
from tests.render.whole_tree import publish_tree


def test_renderers_say_where_their_pages_lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The links that a run lists of a page are those that are found in its HTML, for every pool of all protocols."""
    pages: list[RenderedFile] = []
    look = TreeChecker.add_rendered

    def kept(checker: TreeChecker, file: RenderedFile) -> None:
        if file.links is not None:
            pages.append(file)
        look(checker, file)

    monkeypatch.setattr(TreeChecker, "add_rendered", kept)
    publish_tree(tmp_path, runs=2)

    assert {page.key for page in pages} >= {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("pools/*/*.html")
    }
    for page in pages:
        assert set(links_of(page.key, page.data)) == set(page.links or ()), page.key
        assert len(page.links or ()) > 20
