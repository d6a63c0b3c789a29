"""Writes the bucket's policy in docs/operations.md from the table of the tree's families: scripts/docs runs it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from exporter.tree.policy import bucket_policy

PAGE = Path(__file__).parent.parent / "docs" / "operations.md"
_BLOCK = re.compile(r"(?<=^```json bucket-policy\n).*?(?=^```)", re.MULTILINE | re.DOTALL)
_DISTRIBUTIONS = [
    f"arn:aws:cloudfront::123456789012:distribution/{name}" for name in ("EAPIEXAMPLE", "EMISSINGEXAMPLE")
]


def written(page: str) -> str:
    """The page with the policy made anew."""
    policy = msgspec.json.encode(bucket_policy("markets", "live", _DISTRIBUTIONS))
    text = msgspec.json.format(policy, indent=2).decode() + "\n"
    return _BLOCK.sub(lambda _: text, page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
