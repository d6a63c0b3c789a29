"""Writes the table of columns in docs/history.md from `exporter.tree.pools`: scripts/docs runs it."""

from __future__ import annotations

import re
from pathlib import Path

from exporter.tables import COLUMNS, Column

PAGE = Path(__file__).parent.parent / "docs" / "history.md"
_TABLE = re.compile(r"(?<=^column \| type \| meaning\n---\|---\|---\n)(.+\n)+", re.MULTILINE)
_SAID_ABOVE = re.compile(
    r", in token base units|, floor to basis points|,? times 10\^\w+|, a strkey|; null when (?:unknown|not known)"
)
"""Units and nulls that the page explains above the table."""


def written(page: str) -> str:
    """The page with the table as the columns have it."""
    text, count = _TABLE.subn(lambda _: "".join(map(_row, COLUMNS)), page)
    assert 1 == count
    return text


def _row(column: Column) -> str:
    meaning = _SAID_ABOVE.sub("", column.meaning)
    short = meaning.replace("; null without a valid price", "")
    null = ("?" if meaning == short else "??") if column.nullable else ""
    return f"`{column.name}` | {column.type}{null} | {short}\n"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
