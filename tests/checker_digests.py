"""Writes the digests of the program that checks proofs, and of its lists, in docs/proofs.md: scripts/docs runs it."""

from __future__ import annotations

import re
from pathlib import Path

from exporter.past.archive.trusted_organisations import checker_digests

PAGE = Path(__file__).parent.parent / "docs" / "proofs.md"
_BLOCK = re.compile(r"(?<=^```text digests\n).*?(?=^```)", re.MULTILINE | re.DOTALL)


def written(page: str) -> str:
    """The page with the digests of now, as ``sha256sum`` prints them."""
    return _BLOCK.sub("".join(f"{digest}  {name}\n" for name, digest in checker_digests().items()), page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
