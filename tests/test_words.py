"""The words of the project: how many there are in its documentation, and which ones nobody would say to a colleague."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_citations import text_files

WORDS = 35_000
"""The most words that all Markdown files together may have: docs, README, changelog, contributing. As `wc -w` counts:
everything between two spaces, in generated tables, too."""

AVOIDED = {
    r"\banew\b": "again",
    r"\bof the moment\b": "current",
    r"\b(?:one|none|neither|each) of both\b": "one of the two",
    r"\bis none of\b": "is not in",
    r"\b(?:is|are|was|were) otherwise\b": "differs",
    r"\bstands?\b(?![- ]ins?\b)|\bstood\b|\bstanding\b(?! order)": "is, exists, is published",
    r"\btells?\b(?!\()|\btold\b|\btelling\b": "reports, prints, says",
    r"\bbesides?\b": "next to, in addition to",
    r"\bmade (?:network|market|state|oracle|chain)s?\b": "recorded, simulated",
    r"\bmade again\b": "recomputed, re-rendered",
    r"\bbreath\b|\bshel(?:f|ves)\b": "batch; closed bucket",
    r"(?<!there )\bis no (?!longer\b|more\b)": "is not a",
    r"\bso (?:many|often)\b": "at most, up to",
    r"\b(?:that|what|which) (?:is|are) (?-i:none)\b": "invalid, is not a ...",
}
"""What vocabulary to avoid, as patterns, and what to say."""


def test_the_documentation_is_short(project_root: Path) -> None:
    """All Markdown files together have at most as many words as somebody may want to read."""
    counted = {str(path): len(text.split()) for path, text in text_files(project_root) if path.suffix == ".md"}

    assert sum(counted.values()) <= WORDS, sorted(counted.items(), key=lambda item: -item[1])[:10]


@pytest.mark.parametrize("pattern", AVOIDED)
def test_avoided_words(project_root: Path, pattern: str) -> None:
    """No file has words that the project avoids."""
    word = re.compile(pattern, re.IGNORECASE)
    found = [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}; say {AVOIDED[pattern]}"
        for path, text in text_files(project_root)
        for match in word.finditer(text.replace("_", " "))  # names of functions have words, too
    ]

    assert [] == found
