"""Which object of a bucket answers an extensionless path: a copy of a document under exactly the path's name.

A folder behind nginx finds ``v1/markets.json`` for ``/v1/markets`` by a rule. A bare bucket has no rules, so there the
document also stands under the key ``v1/markets``, with the same bytes, content type and cache lifetime.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.api.headers import POINTER_KEY, kind_of
from exporter.api.routes import BUCKET_NAMES, DEFAULT_BUCKET, EMPTY_PAGE_KEY, Served, route
from exporter.files import FileKind

_ROOT = "v1/"
_BEHIND_QUERIES = ("v1/assets/limit/", "v1/assets/market/", "v1/assets/token/", EMPTY_PAGE_KEY)
"""Documents that a query string picks; they have no path of their own."""
_RECORDS = ("v1/runs/", "v1/system/")
"""The publisher's own records; the pointer alone is public."""
_WITH_EXTENSION = frozenset({"v1/openapi.json"})
"""Documents whose public path is their key."""


def alias_of(key: str) -> str | None:
    """Give the key under which a document stands once more, or None when its public path is none of this kind.

    It is the path without a query string that `exporter.api.routes.route` answers with the document.
    """
    if key != POINTER_KEY and (
        kind_of(key) is not FileKind.DOCUMENT
        or not key.startswith(_ROOT)
        or key.startswith((*_BEHIND_QUERIES, *_RECORDS))
        or key in _WITH_EXTENSION
    ):
        return None
    for path in _paths(key):
        answer = route(f"/{path}", "", (1,))
        if isinstance(answer, Served) and key in answer.keys:
            return path
    return None


def is_alias(key: str) -> bool:
    """Say whether a key can only be that of an alias: below ``v1/``, and without an extension."""
    return key.startswith(_ROOT) and "." not in key.rpartition("/")[2]


def _paths(key: str) -> Iterator[str]:
    """The paths without an extension that could lead to a document."""
    folder, _, name = key.rpartition("/")
    if name == "index.json":
        yield folder
    elif folder.endswith("/history") and name.removesuffix(".json") in BUCKET_NAMES:
        if name == f"{DEFAULT_BUCKET}.json":  # the other buckets are behind ?bucket=
            yield folder
    elif name.endswith(".json"):
        yield key.removesuffix(".json")
