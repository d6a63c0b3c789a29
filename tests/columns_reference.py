"""Writes the table of columns in docs/history.md from `exporter.tree.pools`: scripts/docs runs it."""

from __future__ import annotations

import re
from pathlib import Path

from exporter.tables import COLUMNS

PAGE = Path(__file__).parent.parent / "docs" / "history.md"
_TABLE = re.compile(r"(?<=^\| column \| type \| meaning \|\n\|---\|---\|---\|\n)(\|.*\n)+", re.MULTILINE)


def written(page: str) -> str:
    """The page with the table as the columns have it."""
    rows = (
        f"| `{column.name}` | {column.type}{'?' if column.nullable else ''} | {column.meaning} |\n"
        for column in COLUMNS
    )
    text, count = _TABLE.subn(lambda _: "".join(rows), page)
    assert 1 == count
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
