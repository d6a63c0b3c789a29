"""docs/api.md says what the API is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec import Struct

from exporter.history.time_buckets import BUCKETS
from exporter.render.openapi import DESCRIBED, PROBLEMS
from exporter.tree.documents import HistoryBucket, TotalsBucket

TEXT = (Path(__file__).parent.parent.parent / "docs" / "api.md").read_text(encoding="utf-8")


def column(heading: str, number: int = 0) -> list[str]:
    """One column of the table under a heading."""
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    table = section.partition("---|---")[2].partition("\n\n")[0].splitlines()[1:]
    return [line.split(" | ")[number] for line in table]


def test_every_route_is_documented() -> None:
    """The table of documents has each route of the description, in its own order."""
    assert sorted(f"`{path}`" for path, _, _ in DESCRIBED) == sorted(column("Documents"))


def test_every_parameter_is_documented() -> None:
    """Each query parameter is documented with its route."""
    described = dict(zip(column("Documents"), column("Documents", 1), strict=True))
    for path, _, operation in DESCRIBED:
        for name in operation.query:
            assert f"`?{name.removeprefix('history_').removeprefix('day_')}=`" in described[f"`{path}`"]


def test_every_status_is_documented() -> None:
    """The table of errors has each status that a problem can have."""
    assert sorted({str(problem.status) for problem in PROBLEMS.values()}) == column("Errors")


@pytest.mark.parametrize(
    ("model", "heading"), [(HistoryBucket, "Buckets of a history"), (TotalsBucket, "Totals in buckets")]
)
def test_every_field_of_a_bucket_is_documented(model: type[Struct], heading: str) -> None:
    """The table of a bucket has all its fields but the two times, which the text names."""
    documented = [name for cell in column(heading) for name in re.findall(r"`(\w+)`", cell)]

    assert sorted(model.__struct_fields__[2:]) == sorted(documented)
    assert all(f"`{name}`" in TEXT for name in model.__struct_fields__[:2])


def test_buckets_are_documented() -> None:
    """The lengths of the buckets, of a page, and of the newest document are those in the code."""
    for bucket in BUCKETS:
        assert f"`{bucket.name}` ({bucket.pages * bucket.page_buckets})" in TEXT
    assert [36, 48, 48, 48] == [bucket.page_buckets for bucket in BUCKETS]
    assert "A page covers 36 buckets of `5m` and 48 of the others" in " ".join(TEXT.split())
