"""The problem documents as files of the tree, for platforms that answer an error with a file of the host.

They say what is true of every request with that status: a platform cannot put a client's own value into a file.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.api.headers import ERRORS_FOLDER, METHODS
from exporter.api.problems import Problem, encode_problem, not_found, problem
from exporter.files import FileKind, RenderedFile

MAX_URL_LENGTH = 8192
"""Bytes of path and query together; CloudFront's bound."""

INVALID = problem(400, "A parameter or a name in the path has a value that is not accepted.")
METHOD_NOT_ALLOWED = problem(405, f"This is a read-only API; the methods are {METHODS}.")
URL_TOO_LONG = problem(414, f"A URL may have {MAX_URL_LENGTH} bytes at most.")
RANGE_NOT_SATISFIABLE = problem(416, "No byte of the range is in the file.")
FAILED = problem(500, "The request could not be answered.")
UNAVAILABLE = problem(503, "The files cannot be reached at the moment. Try again in a minute.")


def generic_problems() -> tuple[Problem, ...]:
    """One problem for each status that a platform may answer with, ascending."""
    return (INVALID, not_found(), METHOD_NOT_ALLOWED, URL_TOO_LONG, RANGE_NOT_SATISFIABLE, FAILED, UNAVAILABLE)


def error_key(status: int) -> str:
    """The key of the problem document for an HTTP status."""
    return f"{ERRORS_FOLDER}{status}.json"


def render_errors() -> Iterator[RenderedFile]:
    """The problem documents. They are the same in every run."""
    for document in generic_problems():
        yield RenderedFile(error_key(document.status), encode_problem(document), FileKind.DOCUMENT)
