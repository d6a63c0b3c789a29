"""The trees that all readers read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.readers.snippets import Ask, Worker, other_python, skip_without_java
from tests.readers.trees import Row, extreme_tree, manifest_of, rows_of
from tests.readers.worker import answer
from tests.render.whole_tree import publish_tree


@pytest.fixture(scope="package")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree as the job itself publishes it: two days, of which the first was compacted on the way."""
    folder = tmp_path_factory.mktemp("published") / "public"
    publish_tree(folder, "blend", runs=5)
    names = [file.key.rpartition("/")[2] for file in manifest_of(folder).files]
    assert [True, False, False] == ["-" in name for name in names]  # compacted, and two runs of the second day
    assert len(list((folder / "history").rglob("*.parquet"))) > len(names)  # what is superseded is still there
    return folder


@pytest.fixture(scope="package")
def published_rows(published: Path) -> list[Row]:
    """Every row of that tree."""
    return rows_of(published)


@pytest.fixture(scope="package")
def extremes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """A tree with the largest numbers and nulls, and its rows as they were before they were written."""
    folder = tmp_path_factory.mktemp("extremes") / "public"
    return folder, extreme_tree(folder)


@pytest.fixture(scope="package")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """The Python that has pandas and PySpark; no test of it runs where scripts/test-readers did not make it."""
    with other_python(tmp_path_factory.mktemp("others")) as process:
        yield process


@pytest.fixture(
    params=["duckdb", "polars", *(pytest.param(name, marks=pytest.mark.slow) for name in ("pandas", "pyspark"))]
)
def reader(request: pytest.FixtureRequest) -> str:
    """Each reader that computes; one that needs Java is left out where there is none."""
    skip_without_java(request.param)
    name: str = request.param
    return name


@pytest.fixture
def ask(reader: str, request: pytest.FixtureRequest) -> Ask:
    """As `worker.answer`, by the Python that has the reader."""
    if reader in ("duckdb", "polars"):
        return answer
    others: Worker = request.getfixturevalue("others")
    return others.anything
