"""docs/integrators.md: every field that it sends a reader to exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from exporter.tree.documents import MarketBackstop
from exporter.tree.pools import AssetDetail

_ROW = re.compile(r"^(?P<theirs>[^|\n]+) \| (?P<ours>[^|\n]+) \|(?P<why>[^|\n]*)$", re.MULTILINE)
_SPAN = re.compile(r"`([a-z_.]+)`")


def _paths(model: type[msgspec.Struct], before: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(model):
        yield before + field.encode_name
        for part in (field.type, *get_args(field.type)):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                yield from _paths(part, f"{before}{field.encode_name}.")


@pytest.fixture(scope="module")
def rows(project_root: Path) -> list[re.Match[str]]:
    """The rows of the page's tables, without heads."""
    text = (project_root / "docs" / "integrators.md").read_text(encoding="utf-8")
    return [row for row in _ROW.finditer(text) if row["ours"] not in ("here", "---") and "---" not in row["theirs"]]


def test_every_field_of_ours_is_there(rows: list[re.Match[str]]) -> None:
    """What the page names is a field of a pool's document, by its path, or of a market's backstop."""
    known = {*_paths(AssetDetail), *_paths(MarketBackstop, "backstop.")}

    assert len(rows) > 100
    assert [] == [name for row in rows for name in _SPAN.findall(row["ours"]) if name not in known]


def test_every_row_has_a_field(rows: list[re.Match[str]]) -> None:
    """Each row of the tables names a field; what has none is in the list under the table."""
    assert [] == [row["theirs"] for row in rows if not _SPAN.search(row["ours"])]


def test_every_part_of_the_vocabulary_is_named(rows: list[re.Match[str]]) -> None:
    """The fields that all protocols share are somebody's field each, but for those that nobody else has."""
    named = {name for row in rows for name in _SPAN.findall(" ".join(row.groups()))}
    parts = ("operations.", "liquidity.", "risk.")
    shared = {path for path in _paths(AssetDetail) if path.startswith(parts) and not path.startswith("risk.spokes")}

    assert {
        "operations.can_reason",
        "operations.pool_status_meaning",
        "liquidity.available_to_supply",
        "liquidity.available_to_supply_usd_cents",
        "liquidity.min_first_supply",
        "risk.risk_scope",
    } == shared - named
