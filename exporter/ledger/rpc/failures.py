"""Failures of one request to an RPC endpoint, and what to do about each.

`classify` is the table of docs/rpc.md, "Failures", and of what gateways in front of an RPC answer. It knows three
things to do: ask another endpoint (and after a moment the same one again), split the batch of keys, or give up because
the request itself is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

import httpx

from exporter.errors import EndpointError


class FailureKind(StrEnum):
    """How a request failed; with the code, where there is one, it is what the report counts by."""

    CONNECT = "connect"  # never reached the endpoint
    TIMEOUT = "timeout"
    CUT = "connection cut"  # reached it, then the connection broke
    HTTP = "http"  # an HTTP status other than 200
    REDIRECT = "redirect"
    RPC = "rpc"  # a JSON-RPC error
    STALE = "stale"  # says of itself that it is not healthy
    UNUSABLE = "unusable answer"  # not JSON, not as documented, or contradicting itself
    TOO_LARGE = "answer too large"
    UNSENT = "request not sendable"  # the HTTP client refuses to send it


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed request.

    ``text`` says it in words: our own, or an RPC's message, which must be cleaned before it is shown.
    """

    kind: FailureKind
    text: str
    method: str = ""  # of the request; set by the client
    code: int | None = None  # HTTP status or JSON-RPC code
    retry_after_s: float | None = None  # what the endpoint demands

    @property
    def name(self) -> str:
        """The name of a failure in the report, such as ``timeout``, ``http 503`` or ``rpc -32603``."""
        return self.kind.value if self.code is None else f"{self.kind.value} {self.code}"

    def __str__(self) -> str:
        text = f"error {self.code}: {self.text}" if self.kind is FailureKind.RPC else self.text
        return f"{text} (in getNetwork)" if self.method == "getNetwork" else text


class AttemptError(EndpointError):
    """One request failed; the client turns this into its next step and never lets it out."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class Action(Enum):
    """The next step after a failed request."""

    NEXT = "ask another endpoint, and after a moment the same one"
    SPLIT = "cut the batch of keys into smaller ones"
    GIVE_UP = "the request itself is wrong"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table: what to do, and what the failure says of its endpoint.

    ``splits_at_last`` is for batches that fail at the same endpoint again when nobody else is left to ask.
    ``lasting`` failures will not go away within one call. ``blame`` puts the endpoint aside for later calls too;
    ``stale`` marks it as lagging. ``wait_s`` is the range of the wait before asking again, where the usual growing one
    does not fit.
    """

    action: Action = Action.NEXT
    splits_at_last: bool = False
    lasting: bool = False
    blame: bool = True
    stale: bool = False
    wait_s: tuple[float, float] | None = None


ELSEWHERE: Final = Rule()
NEVER_HERE: Final = Rule(lasting=True)
NO_SUCH_METHOD: Final = Rule(lasting=True, blame=False)
LAGGING: Final = Rule(blame=False, wait_s=(2.0, 4.0))  # about half a ledger each time
STALE: Final = Rule(stale=True)
TOO_SLOW: Final = Rule(splits_at_last=True)
TOO_BIG: Final = Rule(Action.SPLIT, lasting=True, blame=False)
TOO_MANY_KEYS: Final = Rule(Action.SPLIT, blame=False)
SOME_KEY: Final = TOO_MANY_KEYS  # one of the keys is wrong, and splitting finds out which
REFUSED: Final = Rule(Action.GIVE_UP, blame=False)
# The same words for a ledger that is not there for a moment, which passes, and for a key that it chokes on.
NOT_FOUND: Final = Rule(splits_at_last=True, blame=False, wait_s=(0.2, 0.5))

_READ: Final = "getLedgerEntries"
_LEDGERS: Final = "getLedgers"
_EVENTS: Final = "getEvents"
_WITHOUT_PARAMETERS: Final = ("getHealth", "getNetwork")  # so that "invalid parameters" says nothing of the request
_MAXIMUM: Final = re.compile(r"\(\d+\) exceeds maximum supported \((\d{1,9})\)")
_LIMIT_WORDS: Final = re.compile(r"exceed|too many|at most|maximum", re.IGNORECASE)
_RANGE: Final = re.compile(r"\((\d{1,10})\) must be between the oldest ledger: (\d{1,10}) and")

_RULES_BY_KIND: Final = {
    FailureKind.REDIRECT: NEVER_HERE,
    FailureKind.UNSENT: NEVER_HERE,
    FailureKind.STALE: STALE,
}
_PASSING: Final = frozenset({408, 425, 429})
"""Of the HTTP statuses from 400 to 499. Any other says that the URL, the key or the method is not accepted there."""
_RULES_BY_CODE: Final = {
    -32600: NEVER_HERE,
    -32601: NO_SUCH_METHOD,
    -32602: REFUSED,
    -32001: TOO_SLOW,
}
RATE_LIMITS: Final = frozenset({429, -32005})
"""Codes, of HTTP or JSON-RPC, by which an endpoint asks for fewer requests."""


def rule_for(failure: Failure) -> Rule:
    """The row of the table that a failure falls under."""
    if failure.kind is FailureKind.HTTP:
        if failure.code == 413:
            return TOO_BIG
        return NEVER_HERE if 400 <= (failure.code or 0) < 500 and failure.code not in _PASSING else ELSEWHERE
    if failure.kind is FailureKind.RPC:
        return _rpc_rule(failure)
    return _RULES_BY_KIND.get(failure.kind, ELSEWHERE)


def _rpc_rule(failure: Failure) -> Rule:
    method, code, text = failure.method, failure.code or 0, failure.text
    if method == _READ and code == -32602 and _LIMIT_WORDS.search(text):
        return TOO_MANY_KEYS
    if method == _READ and code == -32603:
        if re.search(r"\b404\b", text):
            return NOT_FOUND
        if "mismatching key" in text:
            return SOME_KEY
        if "no keys specified" in text:
            return REFUSED
    if method == _LEDGERS and code == -32600:
        asked_and_oldest = _RANGE.search(text)
        pruned = asked_and_oldest is not None and int(asked_and_oldest[1]) < int(asked_and_oldest[2])
        return NO_SUCH_METHOD if pruned else LAGGING
    if method == _EVENTS and code in (-32600, -32602):  # out of its range, or a filter that it does not know
        return NO_SUCH_METHOD
    if method == "getHealth" and code == -32603 and "latency" in text:
        return STALE
    if code == -32602 and method in _WITHOUT_PARAMETERS:
        return NEVER_HERE
    return _RULES_BY_CODE.get(code, ELSEWHERE)


def classify(failure: Failure, keys: int, *, at_last: bool) -> Action:
    """The next step after a failure of a request that names this many keys.

    ``at_last``: the endpoint has failed it before, and there is none that was not asked.
    """
    rule = rule_for(failure)
    if rule.action is Action.SPLIT and keys < 2:
        return Action.NEXT if rule.lasting else Action.GIVE_UP
    if rule.splits_at_last and at_last and keys > 1:
        return Action.SPLIT
    return rule.action


def part_size(failure: Failure, keys: int) -> int:
    """How many keys each part of a batch may have that must be split: the stated maximum, or half of them."""
    stated = stated_maximum(failure)
    return stated if stated is not None and stated < keys else (keys + 1) // 2


def stated_maximum(failure: Failure) -> int | None:
    """The most keys for one request, where the failure states it."""
    found = _MAXIMUM.search(failure.text) if failure.kind is FailureKind.RPC else None
    return int(found[1]) or None if found else None


_KINDS_OF_ERRORS: Final[tuple[tuple[type[Exception], FailureKind], ...]] = (
    (TimeoutError, FailureKind.TIMEOUT),
    (httpx.TimeoutException, FailureKind.TIMEOUT),
    (httpx.ConnectError, FailureKind.CONNECT),
    (httpx.ProxyError, FailureKind.CONNECT),
    (httpx.UnsupportedProtocol, FailureKind.UNSENT),
    (httpx.LocalProtocolError, FailureKind.UNSENT),
    (httpx.InvalidURL, FailureKind.UNSENT),
    (httpx.DecodingError, FailureKind.UNUSABLE),
)
_WORDS: Final = {
    FailureKind.TIMEOUT: "timed out",
    FailureKind.CONNECT: "cannot connect (name, address, port, TLS certificate or proxy)",
    FailureKind.UNSENT: "the request cannot be sent",
    FailureKind.UNUSABLE: "the answer's compression is broken",
    FailureKind.CUT: "the connection broke, or the server does not speak HTTP",
}
HTTPX_ERRORS: Final = (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, httpx.StreamError)


def failure_of(error: Exception) -> Failure:
    """The failure that an exception of the HTTP client, or of the operating system below it, represents.

    Its text has the name of the exception and never the original's text, which may quote the URL.
    """
    kind = next((kind for errors, kind in _KINDS_OF_ERRORS if isinstance(error, errors)), FailureKind.CUT)
    return Failure(kind, f"{_WORDS[kind]} ({type(error).__name__})")
