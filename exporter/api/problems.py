"""Problem documents (RFC 9457): what a client is told when no file answers its request.

`type` is always ``about:blank``, for which RFC 9457 (4.2.1) makes `title` the phrase of the HTTP status; what
is particular to the request stands in `detail`, in words that say what is accepted.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

SHOWN_CHARACTERS = 60
"""How much of a client's own value a detail repeats."""


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A problem document (RFC 9457), sent as `application/problem+json` with the status it names."""

    type: Annotated[str, Meta(description="A URI reference for the kind of problem.", examples=["about:blank"])]
    title: Annotated[str, Meta(description="The phrase of the HTTP status.", examples=["Not Found"])]
    status: Annotated[int, Meta(ge=400, le=599, description="The HTTP status.", examples=[404])]
    detail: Annotated[str, Meta(description="What is wrong with this request, and what is accepted.")]


def problem(status: int, detail: str) -> Problem:
    """The problem document of an HTTP status. ValueError for a number that is no HTTP status."""
    return Problem(type="about:blank", title=HTTPStatus(status).phrase, status=status, detail=detail)


def invalid_parameter(name: str, value: str, accepted: str) -> Problem:
    """400: a parameter has a value that is not accepted."""
    shown = value if len(value) <= SHOWN_CHARACTERS else value[:SHOWN_CHARACTERS] + "..."
    return problem(400, f"{name} must be {accepted}; got '{shown}'.")


def not_found(detail: str = "There is nothing at this path. The documents begin at /v1/assets.") -> Problem:
    """404: nothing is published at the URL."""
    return problem(404, detail)


def unknown_cursor() -> Problem:
    """404: no page has the cursor that was asked for."""
    return not_found(
        "No page has this cursor: it never existed, or the run it belongs to is past its retention time. "
        "Begin again without a cursor."
    )


def unknown_market(market: str) -> Problem:
    """404: a well-formed market address of which the published run knows nothing."""
    return not_found(f"The market {market} is not part of the published run. /v1/markets lists those that are.")


def unknown_pool(market: str, pool: str) -> Problem:
    """404: a well-formed market and pool of which the published run knows nothing."""
    shown = pool if len(pool) <= SHOWN_CHARACTERS else pool[:SHOWN_CHARACTERS] + "..."
    return not_found(
        f"The published run has no pool {shown} in market {market}. /v1/assets lists those that it has, and "
        "/v1/system/status those that could not be read."
    )


def unknown_token(address: str) -> Problem:
    """404: a well-formed token address of which the published run knows nothing."""
    return not_found(f"No pool of the published run has the token {address}. /v1/assets lists those that it has.")


def unknown_bucket_page() -> Problem:
    """404: no page of a history has the cursor that was asked for."""
    return not_found("No page of a history has this cursor. Begin again without a cursor.")


def nothing_published(detail: str) -> Problem:
    """503: the tree holds no run that can be served."""
    return problem(503, detail)


def encode_problem(document: Problem) -> bytes:
    """The bytes of a problem document: compact UTF-8 JSON."""
    return msgspec.json.encode(document)
