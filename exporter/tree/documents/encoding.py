"""The bytes of documents, the tokens of pages, and times as documents write them."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from functools import lru_cache

import msgspec

PAGE_TOKEN_LENGTH = 22
"""The number of characters of a page's token, which is the first 132 bits of the SHA-256 of the page's bytes."""

_ENCODER = msgspec.json.Encoder()


def encode(document: object) -> bytes:
    """The bytes of a document: compact UTF-8 JSON with the fields in the model's order, and no newline at the end."""
    return _ENCODER.encode(document)


def page_token(data: bytes) -> str:
    """The token of a page file. It names the page by its content, so it always means the same bytes."""
    return token_of(hashlib.sha256(data).digest())


def token_of(digest: bytes) -> str:
    """The token of the page file with this SHA-256."""
    return base64.urlsafe_b64encode(digest)[:PAGE_TOKEN_LENGTH].decode("ascii")


@lru_cache(maxsize=1 << 13)
def timestamp(seconds: int) -> str:
    """A time (unix seconds) as documents write it: RFC 3339, UTC, to the second, with a Z."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
