"""Writes the bucket's policy in docs/operations.md from the table of the tree's families: scripts/docs runs it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from exporter.tree.families import FAMILIES

PAGE = Path(__file__).parent.parent / "docs" / "operations.md"
_BLOCK = re.compile(r"(?<=^```json bucket-policy\n).*?(?=^```)", re.MULTILINE | re.DOTALL)
_DISTRIBUTIONS = [
    f"arn:aws:cloudfront::123456789012:distribution/{name}" for name in ("EAPIEXAMPLE", "EMISSINGEXAMPLE")
]


def bucket_policy(bucket: str, prefix: str, distributions: Sequence[str]) -> dict[str, Any]:
    """Who may read what in the bucket.

    All of the tree may be read, so that what a later version adds is there for readers, but for the publisher's own
    records.

    Args:
        bucket: the name of the bucket.
        prefix: what the keys of the tree begin with in it, without slashes at its ends; may be empty.
        distributions: the ARNs of the CloudFront distributions that read it.
    """
    whole = f"arn:aws:s3:::{bucket}"
    tree = f"{whole}/{prefix}/" if prefix else f"{whole}/"
    records = sorted(
        tree + family.prefix + ("*" if family.prefix != family.template else "")
        for family in FAMILIES
        if not family.public
    )
    reader = {"Service": "cloudfront.amazonaws.com"}
    through = {"StringEquals": {"AWS:SourceArn": list(distributions)}}
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "ReadThroughTheDistributions",
                "Effect": "Allow",
                "Principal": reader,
                "Action": "s3:GetObject",
                "Resource": f"{tree}*",
                "Condition": through,
            },
            {
                "Sid": "ButNotThePublishersRecords",
                "Effect": "Deny",
                "Principal": reader,
                "Action": "s3:GetObject",
                "Resource": records,
            },
            {
                "Sid": "OnlyEncryptedConnections",
                "Effect": "Deny",
                "Principal": "*",
                "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"],
                "Resource": [whole, f"{whole}/*"],
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ],
    }


def written(page: str) -> str:
    """The page with the policy made anew."""
    policy = msgspec.json.encode(bucket_policy("markets", "live", _DISTRIBUTIONS))
    text = msgspec.json.format(policy, indent=2).decode() + "\n"
    return _BLOCK.sub(lambda _: text, page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
