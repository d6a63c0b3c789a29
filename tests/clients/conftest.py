"""The tree that all clients walk, and the API's description as a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedded import serving
from tests.render.whole_tree import publish_tree


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published tree of all protocols, of three runs."""
    folder = tmp_path_factory.mktemp("clients") / "public"
    publish_tree(folder)
    return folder


@pytest.fixture(scope="session")
def url(tree: Path) -> Iterator[str]:
    with serving("serve", "--out", str(tree)) as address:
        yield address
