"""How a file of the tree is sent: its content type and how long it may be cached, by its key.

Errors are never cached longer than the shortest-lived success.
"""

from __future__ import annotations

from exporter.tree.families import ERROR
from exporter.tree.files import FileKind
from exporter.tree.problems import METHODS

CONTENT_TYPES = {
    "atom": "application/atom+xml; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "gz": "application/gzip",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
    "png": "image/png",
    "py": "text/x-python; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}

PROBLEM_CONTENT_TYPE = "application/problem+json"

ERRORS_FOLDER = ERROR.prefix
"""Where the problem documents are that platforms answer errors with."""

EVERY_ANSWER = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "Accept-Ranges, Content-Length, Content-Range, ETag",
    "x-content-type-options": "nosniff",
}
"""Headers of every answer, errors among them: a web page of any origin may read all of it."""

PREFLIGHT = {
    "access-control-allow-methods": METHODS,
    "access-control-allow-headers": "If-None-Match, Range",
    "access-control-max-age": "86400",
    "allow": METHODS,
}

ERROR_CACHE_CONTROL = "public, max-age=5"
"""For errors that say something about the URL (400, 404)."""

UNCACHED = "no-store"
"""For errors that say something about the moment or the single request (405, 414, 416, 5xx)."""

_CACHE_CONTROL = {
    FileKind.PAGE: "public, max-age=31536000, immutable",
    FileKind.HISTORY: "public, max-age=31536000, immutable",
    FileKind.DOCUMENT: "public, max-age=30",
    FileKind.STATUS: "public, max-age=5, must-revalidate",
}


def content_type(key: str) -> str | None:
    """The content type of a key, or None where its extension is not part of the tree."""
    name = key.rpartition("/")[2]
    _, dot, extension = name.rpartition(".")
    if key.startswith(ERRORS_FOLDER) and extension == "json":
        return PROBLEM_CONTENT_TYPE
    return CONTENT_TYPES.get(extension) if dot else None


def cache_control(kind: FileKind) -> str:
    """The ``Cache-Control`` value for a class of object."""
    return _CACHE_CONTROL[kind]
