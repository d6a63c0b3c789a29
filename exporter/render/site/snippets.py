"""The snippets that the page of downloads shows: runnable files with one placeholder, the address of the tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from exporter.render.site.templates import template_folder

PLACEHOLDER = "{{ base_url }}"
"""Stands for the address of the tree's root, without a slash at its end: a URL, or the path of a folder."""

EXAMPLE_BASE = "https://markets.example.org"
"""What a page shows before its script puts the address in from which it was loaded."""

_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "duckdb.sql": "DuckDB",
        "polars.py": "Polars",
        "pandas.py": "pandas",
        "pyspark.py": "PySpark",
        "curl.sh": "curl",
        "fetch.mjs": "JavaScript",
    }
)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A snippet: its file name, its title, and its text in the pieces between the placeholders."""

    name: str
    title: str
    pieces: tuple[str, ...]


@cache
def snippets() -> tuple[Snippet, ...]:
    """All snippets, in the order in which they are shown."""
    folder = template_folder() / "snippets"
    return tuple(
        Snippet(name, title, tuple((folder / f"{name}.j2").read_text("utf-8").rstrip("\n").split(PLACEHOLDER)))
        for name, title in _TITLES.items()
    )


def snippet_text(name: str, base_url: str) -> str:
    """A snippet as it runs against a tree: ``name`` as in ``duckdb.sql``, ``base_url`` without a slash at its end."""
    return base_url.join(next(snippet.pieces for snippet in snippets() if snippet.name == name)) + "\n"
