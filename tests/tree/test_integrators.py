"""docs/integrators.md: every field that it sends a reader to is in real documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.audit.trees import keys, read, summaries
from tests.render.whole_tree import publish_tree

_ROW = re.compile(r"^(?P<theirs>[^|\n]+) \| (?P<ours>[^|\n]+) \|(?P<why>[^|\n]*)$", re.MULTILINE)
_SPAN = re.compile(r"`([a-z_.]+)`")


@pytest.fixture(scope="module")
def rows(project_root: Path) -> list[re.Match[str]]:
    """The rows of the page's tables, without heads."""
    text = (project_root / "docs" / "integrators.md").read_text(encoding="utf-8")
    return [row for row in _ROW.finditer(text) if row["ours"] not in ("here", "---") and "---" not in row["theirs"]]


def _values(document: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Each field of a document by its path, down to lists."""
    for name, value in document.items():
        yield before + name, value
        if isinstance(value, dict):
            yield from _values(value, f"{before}{name}.")


def test_every_field_of_ours_is_in_real_documents(rows: list[re.Match[str]], tmp_path: Path) -> None:
    """Each path that the page names is in the documents of pools and markets, and null at most in some of them."""
    publish_tree(tmp_path)
    files = read(tmp_path)
    pools = [json.loads(files[key]) for key in keys(files, "v1/assets/C") if key.count("/") == 3]
    markets = json.loads(files["v1/markets.json"])["data"]
    insured = [json.loads(files[key])["backstop"] for key in summaries(files)]
    documents = (
        *(("", pool) for pool in pools),
        *(("markets.", market) for market in markets),
        *(("backstop.", backstop) for backstop in insured if backstop is not None),
    )
    found = [item for before, document in documents for item in _values(document, before)]
    names = {name for row in rows for name in _SPAN.findall(row["ours"])}

    assert len(rows) > 100
    assert set() == names - {name for name, _ in found}
    assert {"app_url"} == names - {
        name for name, value in found if value is not None
    }  # no network of one machine has apps


def test_every_row_has_a_field(rows: list[re.Match[str]]) -> None:
    """Each row of the tables names a field; what has none is in the list under the table."""
    assert [] == [row["theirs"] for row in rows if not _SPAN.search(row["ours"])]
