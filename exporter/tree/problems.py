"""Problem documents (RFC 9457): what a client receives when no file answers its request.

`type` is always ``about:blank``, for which RFC 9457 (4.2.1) says that `title` is the phrase of the HTTP status.
`detail` says what is wrong with the request, and what is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated
from urllib.parse import unquote

import msgspec
from msgspec import Meta

PHRASES: Mapping[int, str] = {
    200: "OK",
    304: "Not Modified",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    414: "URI Too Long",
    416: "Range Not Satisfiable",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
"""The phrases of the statuses that the API answers with (RFC 9110, 15).

Python's own table changes with its version, but the same run must give the same bytes under every version.
"""

MAX_REPEATED_CHARACTERS = 60
"""A detail repeats at most this many characters of a client's own value."""


_PLACES = {"index": "Overview"} | {name: name.capitalize() for name in ("markets", "tokens", "pools", "data")}
_PLACES |= {"api": "API", "about": "About"}
MISSING_PAGE_ASSETS = (
    "<link rel=icon href=/static/icon.svg><link rel=stylesheet href=/static/site.css>"
    "<script src=/static/site.js></script>"
)
MISSING_PAGE = (
    '<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">'
    '<meta name=description content="No page has this address.">'
    f"<title>No such page</title>{MISSING_PAGE_ASSETS}<body data-root=/><header class=top><div class=bar>"
    '<a class=mark href=/><img src=/static/icon.svg alt="" width=24><span>Soroban lending markets</span></a><nav><ul>'
    + "".join(f"<li><a href=/{name}.html>{title}</a>" for name, title in _PLACES.items())
    + "</ul></nav></div></header><main><h1>No such page</h1><p>The address is mistyped, or this page no longer exists. "
    "Search above, or go to <a href=/>the overview</a>.</main>"
)
"""The whole page that a browser gets with 404. A rule at the edge sends it itself, and has little room for it.

Its links are those of a tree at the root of its host, because the page answers for addresses of any depth.
"""


def is_site_path(path: str) -> bool:
    """Whether a path, as it was sent, belongs to the site. There a 404 is `MISSING_PAGE`, elsewhere it is a problem."""
    first, slash, _ = path.removeprefix("/").partition("/")
    # The file of /v1 counts as /v1, because CloudFront cannot distinguish the two.
    return unquote(first) not in (("v1",) if slash else ("v1", "v1.json"))


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A problem document (RFC 9457), sent as `application/problem+json` with the status it names."""

    type: Annotated[str, Meta(description="A URI reference for the kind of problem.", examples=["about:blank"])]
    title: Annotated[str, Meta(description="The phrase of the HTTP status.", examples=["Not Found"])]
    status: Annotated[int, Meta(ge=400, le=599, description="The HTTP status.", examples=[404])]
    detail: Annotated[str, Meta(description="What is wrong with this request, and what is accepted.")]


def problem(status: int, detail: str) -> Problem:
    """The problem document of an HTTP status. Raises `KeyError` for a status that the API never answers with."""
    return Problem(type="about:blank", title=PHRASES[status], status=status, detail=detail)


def invalid_parameter(name: str, value: str, accepted: str) -> Problem:
    """The problem (400) of a parameter whose value is not accepted."""
    shown = value if len(value) <= MAX_REPEATED_CHARACTERS else value[:MAX_REPEATED_CHARACTERS] + "..."
    return problem(400, f"{name} must be {accepted}; got '{shown}'.")


OTHER_QUESTIONS = "/v1/tokens?symbol= has a token's address, and /v1/latest.csv every pool to sort and filter."
LISTS_EVERYTHING = "it has none, and lists everything."


def not_a_parameter(name: str, path: str, accepted: Sequence[str]) -> Problem:
    """The problem (400) of a name that looks like one of our filters, orders or pages, and is not one of this path."""
    others = f"its parameters are {', '.join(accepted)}. {OTHER_QUESTIONS}" if accepted else LISTS_EVERYTHING
    return problem(400, f"{name} is not a parameter of {path}: {others}")


def not_found(detail: str = "There is nothing at this path. /v1 lists what there is.") -> Problem:
    """The problem (404) of a URL at which nothing is published."""
    return problem(404, detail)


METHODS = "GET, HEAD, OPTIONS"

MAX_URL_LENGTH = 8192
"""The most bytes that path and query may have together, which is CloudFront's bound."""

METHOD_NOT_ALLOWED = problem(405, f"This is a read-only API; the methods are {METHODS}.")
URL_TOO_LONG = problem(414, f"A URL may have {MAX_URL_LENGTH} bytes at most.")
UNAVAILABLE = problem(503, "The files cannot be reached at the moment. Try again in a minute.")

GENERIC_PROBLEMS = (
    problem(400, "A parameter or a name in the path has a value that is not accepted."),
    not_found(),
    METHOD_NOT_ALLOWED,
    URL_TOO_LONG,
    problem(416, "No byte of the range is in the file."),
    problem(500, "The request could not be answered."),
    UNAVAILABLE,
)
"""The problems that are files of the tree, for platforms that answer an error with a file; one for each status.

Each says what is true of every request with that status, because a platform cannot put a client's value into a file.
"""

UNKNOWN_CURSOR = not_found(
    "No page has this cursor: it never existed, or the run it belongs to is past its retention time. "
    "Begin again without a cursor."
)
UNKNOWN_BUCKET_PAGE = not_found("No page of a history has this cursor. Begin again without a cursor.")
MUTUALLY_EXCLUSIVE = problem(
    400,
    "On /v1/pools, market and token each stand alone: leave out protocol, status and the other one. /v1/assets takes "
    "market and token together.",
)


def unknown_market(market: str) -> Problem:
    """The problem (404) of a valid market address that the published run does not have."""
    return not_found(f"The market {market} is not part of the published run. /v1/markets lists those that are.")


def unknown_pool(market: str, pool: str) -> Problem:
    """The problem (404) of a valid market and pool that the published run does not have."""
    shown = pool if len(pool) <= MAX_REPEATED_CHARACTERS else pool[:MAX_REPEATED_CHARACTERS] + "..."
    return not_found(
        f"The published run has no pool {shown} in market {market}. /v1/assets lists those that it has, and "
        "/v1/system/status those that could not be read."
    )


def unknown_symbol(symbol: str) -> Problem:
    """The problem (404) of a symbol, in lower case, that no token of the published run has."""
    return not_found(f"No token of the published run has the symbol {symbol}. /v1/tokens lists all.")


def unknown_protocol(name: str) -> Problem:
    """The problem (404) of a protocol's name, in lower case, that is none of those that are covered."""
    return not_found(f"No protocol is called {name}. /v1/protocols lists those that are covered.")


def unknown_token(address: str) -> Problem:
    """The problem (404) of a valid token address that the published run does not have."""
    return not_found(f"No pool of the published run has the token {address}. /v1/tokens lists those that it has.")


def encode_problem(document: Problem) -> bytes:
    """The bytes of a problem document, which are compact UTF-8 JSON."""
    return msgspec.json.encode(document)
