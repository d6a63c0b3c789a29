"""Keeping endpoint URLs, which may hold keys, out of every message and log.

A URL's path, query and user information are secrets. What others say (error messages of an RPC, of the HTTP
library) may echo them, so it passes through a `Redactor` before it becomes part of an error or a report.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from exporter.errors import printable

REPLACEMENT: Final = "[endpoint]"
MESSAGE_LENGTH: Final = 300
"""Characters of somebody else's message that an error of ours may quote."""

# Longer texts are cut to this before they are searched, so that a hostile answer costs no time.
_SEARCHED_LENGTH: Final = 16_384
# A shorter piece of a path ("v1", "rpc") is not a secret, and replacing it would garble innocent texts.
_SHORTEST_PIECE: Final = 4
_LONGEST_WORD: Final = 20

# These log request lines with the URL, headers with the credentials, and answers' headers that may echo either.
_HTTP_LOGGERS: Final = (
    "httpx",
    "httpcore",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
)


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING


def quiet_http_loggers() -> None:
    """Stop the HTTP libraries from logging requests, by a filter: configuring logging could reset a level."""
    for name in _HTTP_LOGGERS:
        logging.getLogger(name).addFilter(_is_warning)  # adding the same filter again changes nothing


class Redactor:
    """Replaces everything secret about some URLs wherever it occurs in a text."""

    def __init__(self, urls: Iterable[str]) -> None:
        pieces = {piece for url in urls for piece in _secret_pieces(url)}
        self._longest = max(map(len, pieces), default=0)
        longest_first = sorted(pieces, key=lambda piece: (-len(piece), piece))
        self._pattern = re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE) if pieces else None

    def __repr__(self) -> str:
        return "Redactor()"

    def clean(self, text: str) -> str:
        """The text fit for an error or a report: one line, at most `MESSAGE_LENGTH` characters, nothing secret."""
        cut = len(text) > _SEARCHED_LENGTH
        text = printable(text[:_SEARCHED_LENGTH])
        if self._pattern is not None:
            text = self._pattern.sub(REPLACEMENT, text)
            if cut:  # the cut may have left the first half of a secret at the end, which no longer matches
                text = text[: max(0, len(text) - self._longest)]
        return text if len(text) <= MESSAGE_LENGTH else text[: MESSAGE_LENGTH - 1].rstrip() + "…"


def _secret_pieces(url: str) -> set[str]:
    try:
        parts = urlsplit(url)
        user, password = parts.username or "", parts.password or ""
    except ValueError:  # not a URL at all; it is refused elsewhere, and even then must not be shown
        return {url} if url else set()
    user_information = parts.netloc.rpartition("@")[0]
    whole = {url, url.rstrip("/"), parts.path, parts.path.rstrip("/"), parts.query, user_information}
    if parts.query:
        whole.add(f"{parts.path}?{parts.query}")
    if user_information:  # as the Authorization header has it
        whole.add(base64.b64encode(unquote(user_information).encode()).decode())
    small = {user, password, *filter(_looks_like_a_key, parts.path.split("/"))}
    for field in parts.query.split("&"):
        name, _, value = field.partition("=")
        small |= {field, value or name}
    pieces = {piece for piece in whole if len(piece) > 1}
    pieces |= {piece for piece in small if len(piece) >= _SHORTEST_PIECE}
    # Servers echo a URL decoded, or encoded once more.
    return pieces | {unquote(piece) for piece in pieces} | {quote(piece, safe="") for piece in pieces}


def _looks_like_a_key(segment: str) -> bool:
    """Whether a part of a path is more than a word: "soroban" by itself must stay readable in a message."""
    return len(segment) >= _LONGEST_WORD or any(each.isdigit() or each.isupper() for each in segment)
