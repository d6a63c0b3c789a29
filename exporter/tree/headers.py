"""The headers with which a file of the tree is sent: its content type, and how long it may be cached.

An error is never cached longer than the file with the shortest lifetime.
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
    "xml": "application/xml",
}

PROBLEM_CONTENT_TYPE = "application/problem+json"

ERRORS_FOLDER = ERROR.prefix
"""The folder of the problem documents with which platforms answer errors."""

EVERY_ANSWER = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "Accept-Ranges, Content-Length, Content-Range, ETag",
    "x-content-type-options": "nosniff",
}
"""The headers of every answer and of every error. They let a web page of any origin read them."""

PREFLIGHT = {
    "access-control-allow-methods": METHODS,
    "access-control-allow-headers": "If-None-Match, Range",
    "access-control-max-age": "86400",
    "allow": METHODS,
}

ERROR_CACHE_CONTROL = "public, max-age=5"
"""The cache lifetime of errors that concern the URL (400, 404)."""

UNCACHED = "no-store"
"""The cache lifetime of errors that concern the moment or one request (405, 414, 416, 5xx)."""

_CACHE_CONTROL = {
    FileKind.PAGE: "public, max-age=31536000, immutable",
    FileKind.HISTORY: "public, max-age=31536000, immutable",
    FileKind.DOCUMENT: "public, max-age=30",
    FileKind.STATUS: "public, max-age=5, must-revalidate",
}


def content_type(key: str) -> str | None:
    """The content type of a file, by its key. None if no file of the tree has such an extension."""
    name = key.rpartition("/")[2]
    _, dot, extension = name.rpartition(".")
    if key.startswith(ERRORS_FOLDER) and extension == "json":
        return PROBLEM_CONTENT_TYPE
    return CONTENT_TYPES.get(extension) if dot else None


def cache_control(kind: FileKind) -> str:
    """The value of ``Cache-Control`` for a kind of file."""
    return _CACHE_CONTROL[kind]
