"""The trees that all readers read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.localnet.server import running
from exporter.serve.preview import create_app
from exporter.stores.folder import FolderStore
from tests.history.frames import manifest_of
from tests.readers.trees import Row, extreme_tree, rows_of
from tests.render.whole_tree import publish_tree


@pytest.fixture(scope="package")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree that the job itself published: two days, the first of which was compacted."""
    folder = tmp_path_factory.mktemp("published") / "public"
    publish_tree(folder, "blend", runs=5, pages=False)
    names = [file.key.rpartition("/")[2] for file in manifest_of(FolderStore(folder)).files]
    assert [True, False, False] == ["-" in name for name in names]  # compacted, and two runs of the second day
    assert len(list((folder / "history").rglob("*.parquet"))) > len(names)  # what is superseded is still there
    return folder


@pytest.fixture(scope="package")
def published_rows(published: Path) -> list[Row]:
    """Every row of that tree."""
    return rows_of(published)


@pytest.fixture(scope="package")
def url(published: Path) -> Iterator[str]:
    """The published tree, served by `exporter serve`."""
    with running(create_app(published)) as address:
        yield address


@pytest.fixture
def extremes(tmp_path: Path) -> tuple[Path, list[Row]]:
    """A history of four days with the largest numbers and nulls, and its rows as they were before they were written."""
    return tmp_path / "public", extreme_tree(tmp_path / "public")


@pytest.fixture(
    params=["duckdb", "polars", *(pytest.param(name, marks=pytest.mark.slow) for name in ("pandas", "pyspark"))]
)
def reader(request: pytest.FixtureRequest) -> str:
    """Each reader that computes."""
    name: str = request.param
    return name
