"""A failed request to an RPC endpoint: what is counted, shown, and done about it.

There is one general answer to a failure: ask the next endpoint, and after a growing wait the same ones again. Only
those that repetition cannot help (`Failure.lasting`) end an endpoint's part in a call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import httpx

UNUSABLE: Final = "unusable answer"
"""The name of a failure: not JSON, not as documented, or contradicting itself."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed request.

    ``name`` is what the report counts by, such as ``timeout``, ``http 503`` or ``rpc -32603``. ``text`` says it in
    words: our own, or an RPC's message, which must be cleaned before it is shown. ``code`` is an HTTP status or a
    JSON-RPC code. ``lasting`` failures will not go away within one call; those of the request rather than its endpoint
    are not to ``blame`` on it for later calls.
    """

    name: str
    text: str
    code: int | None = None
    lasting: bool = False
    blame: bool = True
    retry_after_s: float | None = None


class AttemptError(Exception):
    """One request failed; the client turns this into its next step and never lets it out."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


HTTPX_ERRORS: Final = (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, httpx.StreamError)
_UNSENT: Final = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL)


def failure_of(error: Exception) -> Failure:
    """The failure that an exception of the HTTP client, or of the operating system below it, represents.

    Its text has the name of the exception and never the original's text, which may quote the URL.
    """
    if isinstance(error, (TimeoutError, httpx.TimeoutException)):
        name, text = "timeout", "timed out"
    elif isinstance(error, (httpx.ConnectError, httpx.ProxyError)):
        name, text = "connect", "cannot connect (name, address, port, TLS certificate or proxy)"
    elif isinstance(error, _UNSENT):
        name, text = "request not sendable", "the request cannot be sent"
    elif isinstance(error, httpx.DecodingError):
        name, text = UNUSABLE, "the answer's compression is broken"
    else:
        name, text = "connection cut", "the connection broke, or the server does not speak HTTP"
    return Failure(name, f"{text} ({type(error).__name__})", lasting=isinstance(error, _UNSENT))
