"""A published tree that the tests of this folder look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.render.whole_tree import publish_tree


@pytest.fixture(scope="package")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published tree of all protocols."""
    folder = tmp_path_factory.mktemp("tree")
    publish_tree(folder)
    return folder
