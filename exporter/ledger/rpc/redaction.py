"""Keeps the keys that endpoint URLs may hold out of every message and log.

A URL's path, query and user information are secrets, and so are the headers of its requests. The messages of an RPC or
of the HTTP library may echo them. So each such message passes through a `Redactor` before it becomes part of an error
or a report.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from exporter.errors import printable

REPLACEMENT: Final = "[endpoint]"
MESSAGE_LENGTH: Final = 300
"""The most characters of somebody else's message that an error of ours may quote."""

# Number of characters of a text that are searched; without a limit, a hostile answer would cost time.
_SEARCHED_LENGTH: Final = 16_384
# A shorter piece of a path ("v1", "rpc") is not a secret, and replacing it would garble innocent texts.
_SHORTEST_PIECE: Final = 4
_LONGEST_WORD: Final = 20

# These loggers write request lines with the URL, headers with the credentials, and answers' headers that may echo both.
_HTTP_LOGGERS: Final = (
    *("httpx", "httpcore", "httpcore.connection", "httpcore.http11", "httpcore.http2"),
    *("httpcore.proxy", "httpcore.socks"),
)


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING


def quiet_http_loggers() -> None:
    """Stop the HTTP libraries from logging requests, by a filter: configuring logging could reset a level."""
    for name in _HTTP_LOGGERS:
        logging.getLogger(name).addFilter(_is_warning)  # adding the same filter again changes nothing


class Redactor:
    """A filter of texts. It replaces every secret part of some URLs, and of some values of headers."""

    def __init__(self, urls: Iterable[str], header_values: Iterable[str] = ()) -> None:
        pieces = {piece for url in urls for piece in _secret_pieces(url)}
        pieces |= {piece for value in header_values for piece in _pieces_of_a_header(value)}
        longest_first = sorted(pieces, key=lambda piece: (-len(piece), piece))
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)", re.IGNORECASE)

    def clean(self, text: str) -> str:
        """The text, fit for an error or a report: one line of at most `MESSAGE_LENGTH` characters, without secrets."""
        text = self._pattern.sub(REPLACEMENT, printable(text[:_SEARCHED_LENGTH]))
        return text if len(text) <= MESSAGE_LENGTH else text[: MESSAGE_LENGTH - 1].rstrip() + "…"


def _secret_pieces(url: str) -> set[str]:
    """The secret parts of a URL, in each form in which a message may echo them."""
    try:
        parts = urlsplit(url)
    except ValueError:  # not a URL at all; it is refused elsewhere, and even then must not be shown
        return {url}
    user_information = parts.netloc.rpartition("@")[0]
    fields = [field.partition("=") for field in parts.query.split("&")]
    pieces = {url, parts.path.rstrip("/"), parts.query, *(value or name for name, _, value in fields)}
    pieces |= {*user_information.split(":"), *filter(_looks_like_a_key, parts.path.split("/"))}
    pieces.add(base64.b64encode(unquote(user_information).encode()).decode())  # as the Authorization header has it
    pieces = {piece for piece in pieces if len(piece) >= _SHORTEST_PIECE}
    # Servers echo a URL decoded, or encoded once more.
    return pieces | {unquote(piece) for piece in pieces} | {quote(piece, safe="") for piece in pieces}


def _pieces_of_a_header(value: str) -> set[str]:
    """The secret parts of a header's value: all of it, and those of its words that look like a key.

    A plain word such as "Bearer" is no secret, so it stays readable in a message.
    """
    parts = re.split(r"[\s,;=]+", value)
    pieces = {value, *filter(_looks_like_a_key, parts)}
    for part in parts:
        with suppress(ValueError):  # what Basic authentication has: user and password
            pieces |= {*base64.b64decode(part, validate=True).decode().split(":")}
    pieces = {piece for piece in pieces if len(piece) >= _SHORTEST_PIECE}
    return pieces | {quote(piece, safe="") for piece in pieces} | {json.dumps(piece)[1:-1] for piece in pieces}


def _looks_like_a_key(segment: str) -> bool:
    """Whether a part of a path may be a key. A plain word such as "soroban" is none, and stays readable."""
    return len(segment) >= _LONGEST_WORD or any(each.isdigit() or each.isupper() for each in segment)
