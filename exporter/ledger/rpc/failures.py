"""What can go wrong with one request to an RPC endpoint, and what to do about it.

`classify` is the table of docs/rpc.md, "Failures", and of what gateways in front of an RPC answer. It knows four
things to do: ask the same endpoint again after a moment, ask another endpoint, split the batch of keys, or give up
because the request itself is wrong.
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
        """What the report counts it under, such as ``timeout``, ``http 503`` or ``rpc -32603``."""
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
    """What to do after a failed request."""

    RETRY = "ask the same endpoint again after a moment"
    NEXT_ENDPOINT = "ask another endpoint; after a moment the same one, if there is no other"
    SPLIT = "cut the batch of keys into smaller ones"
    GIVE_UP = "the request itself is wrong"


@dataclass(frozen=True, slots=True)
class Situation:
    """What `classify` needs to know in addition to the failure.

    ``keys`` is how many ledger keys the failed request names; ``repeats`` how often this endpoint has failed it in
    the same way before; ``others`` whether another endpoint has not been asked at all yet.
    """

    keys: int = 0
    repeats: int = 0
    others: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table: what to do at first, when it happens again, and when nobody else is left to ask.

    ``single`` replaces a split of what cannot be split. ``lasting`` failures will not go away within one call.
    ``blame`` puts the endpoint aside for later calls too; ``stale`` marks it as lagging. ``wait_s`` is the range of
    the wait before asking again, where the usual growing one does not fit.
    """

    first: Action
    again: Action
    exhausted: Action
    single: Action = Action.NEXT_ENDPOINT
    lasting: bool = False
    blame: bool = True
    stale: bool = False
    wait_s: tuple[float, float] | None = None


_NEXT: Final = Action.NEXT_ENDPOINT
ELSEWHERE: Final = Rule(_NEXT, _NEXT, _NEXT)
BLIP: Final = Rule(Action.RETRY, _NEXT, _NEXT)
NEVER_HERE: Final = Rule(_NEXT, _NEXT, _NEXT, lasting=True)
NO_SUCH_METHOD: Final = Rule(_NEXT, _NEXT, _NEXT, lasting=True, blame=False)
LAGGING: Final = Rule(_NEXT, _NEXT, _NEXT, blame=False, wait_s=(2.0, 4.0))  # about half a ledger each time
STALE: Final = Rule(_NEXT, _NEXT, _NEXT, stale=True)
TOO_SLOW: Final = Rule(_NEXT, _NEXT, Action.SPLIT)
TOO_BIG: Final = Rule(Action.SPLIT, Action.SPLIT, Action.SPLIT, lasting=True, blame=False)
TOO_MANY_KEYS: Final = Rule(Action.SPLIT, Action.SPLIT, Action.SPLIT, single=Action.GIVE_UP, blame=False)
SOME_KEY: Final = TOO_MANY_KEYS  # one of the keys is wrong, and splitting finds out which
REFUSED: Final = Rule(Action.GIVE_UP, Action.GIVE_UP, Action.GIVE_UP, single=Action.GIVE_UP, blame=False)
# The same words for a ledger that is not there for a moment, which passes, and for a key that it chokes on.
NOT_FOUND: Final = Rule(Action.RETRY, _NEXT, Action.SPLIT, blame=False, wait_s=(0.2, 0.5))

_READ: Final = "getLedgerEntries"
_LEDGERS: Final = "getLedgers"
_EVENTS: Final = "getEvents"
_WITHOUT_PARAMETERS: Final = ("getHealth", "getNetwork")  # so that "invalid parameters" says nothing of the request
_MAXIMUM: Final = re.compile(r"\(\d+\) exceeds maximum supported \((\d{1,9})\)")
_LIMIT_WORDS: Final = re.compile(r"exceed|too many|at most|maximum", re.IGNORECASE)
_RANGE: Final = re.compile(r"\((\d{1,10})\) must be between the oldest ledger: (\d{1,10}) and")

_RULES_BY_KIND: Final[dict[FailureKind, Rule]] = {
    FailureKind.CONNECT: ELSEWHERE,
    FailureKind.TIMEOUT: ELSEWHERE,
    FailureKind.CUT: BLIP,  # most often an idle connection that the server had closed
    FailureKind.REDIRECT: NEVER_HERE,
    FailureKind.STALE: STALE,
    FailureKind.UNUSABLE: ELSEWHERE,
    FailureKind.TOO_LARGE: ELSEWHERE,
    FailureKind.UNSENT: NEVER_HERE,
}
_RULES_BY_STATUS: Final[dict[int, Rule]] = {
    408: BLIP,  # request timeout
    413: TOO_BIG,
    425: BLIP,  # too early
    429: ELSEWHERE,  # with the endpoint held for as long as it demands
}
_RULES_BY_CODE: Final[dict[int, Rule]] = {
    -32700: BLIP,  # says our JSON is broken: it was damaged on the way
    -32600: NEVER_HERE,
    -32601: NO_SUCH_METHOD,
    -32602: REFUSED,
    -32603: BLIP,  # core slow, and whatever else is internal
    -32001: TOO_SLOW,
    -32003: ELSEWHERE,  # a panic
    -32096: ELSEWHERE,  # cancelled, deadline exceeded, queue limit
    -32097: ELSEWHERE,
    -32098: ELSEWHERE,
    429: ELSEWHERE,  # gateways put their rate limits into JSON-RPC errors, too
    -32005: ELSEWHERE,
}
RATE_LIMITS: Final = frozenset({429, -32005})
"""Codes, of HTTP or JSON-RPC, by which an endpoint asks for fewer requests."""


def rule_for(failure: Failure) -> Rule:
    """The row of the table that a failure falls under."""
    if failure.kind is FailureKind.HTTP:
        status = failure.code or 0
        # Any other 4xx says that the URL, the key or the method is not accepted there.
        return _RULES_BY_STATUS.get(status, NEVER_HERE if 400 <= status < 500 else ELSEWHERE)
    if failure.kind is FailureKind.RPC:
        return _rpc_rule(failure)
    return _RULES_BY_KIND[failure.kind]


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
    return _RULES_BY_CODE.get(code, BLIP)


def classify(failure: Failure, situation: Situation) -> Action:
    """What to do after ``failure``."""
    rule = rule_for(failure)
    if situation.repeats == 0:
        action = rule.first
    else:
        action = rule.again if situation.others else rule.exhausted
    return rule.single if action is Action.SPLIT and situation.keys < 2 else action


def part_size(failure: Failure, keys: int) -> int:
    """How many keys each part of a batch may have that must be split: the stated maximum, or half of them."""
    stated = stated_maximum(failure)
    return stated if stated is not None and stated < keys else (keys + 1) // 2


def stated_maximum(failure: Failure) -> int | None:
    """The most keys for one request, where the failure states it."""
    found = _MAXIMUM.search(failure.text) if failure.kind is FailureKind.RPC else None
    return int(found[1]) or None if found else None


# Every exception class of httpx; a test compares this with what httpx exports. The texts of the originals are
# never used, since they may quote the URL.
HTTPX_FAILURES: Final[dict[type[Exception], tuple[FailureKind, str]]] = {
    httpx.ConnectTimeout: (FailureKind.TIMEOUT, "timed out while connecting"),
    httpx.ReadTimeout: (FailureKind.TIMEOUT, "timed out while waiting for the answer"),
    httpx.WriteTimeout: (FailureKind.TIMEOUT, "timed out while sending the request"),
    httpx.PoolTimeout: (FailureKind.TIMEOUT, "timed out while waiting for a free connection"),
    httpx.TimeoutException: (FailureKind.TIMEOUT, "timed out"),
    httpx.ConnectError: (FailureKind.CONNECT, "cannot connect (name, address, port or TLS certificate)"),
    httpx.ReadError: (FailureKind.CUT, "the connection broke while the answer was read"),
    httpx.WriteError: (FailureKind.CUT, "the connection broke while the request was sent"),
    httpx.CloseError: (FailureKind.CUT, "the connection broke while it was closed"),
    httpx.NetworkError: (FailureKind.CUT, "the connection broke"),
    httpx.RemoteProtocolError: (FailureKind.CUT, "the connection was closed early, or the server does not speak HTTP"),
    httpx.LocalProtocolError: (FailureKind.UNSENT, "the request is not valid HTTP"),
    httpx.ProtocolError: (FailureKind.CUT, "HTTP was violated"),
    httpx.ProxyError: (FailureKind.CONNECT, "the HTTP proxy of the environment refuses the connection"),
    httpx.UnsupportedProtocol: (FailureKind.UNSENT, "the scheme of the URL is not supported"),
    httpx.TransportError: (FailureKind.CUT, "the transport failed"),
    httpx.DecodingError: (FailureKind.UNUSABLE, "the answer's compression is broken"),
    httpx.TooManyRedirects: (FailureKind.REDIRECT, "redirects without end"),
    httpx.RequestError: (FailureKind.CUT, "the request failed"),
    httpx.HTTPStatusError: (FailureKind.UNUSABLE, "an HTTP error status"),
    httpx.HTTPError: (FailureKind.CUT, "HTTP failed"),
    httpx.InvalidURL: (FailureKind.UNSENT, "the URL is not valid"),
    httpx.CookieConflict: (FailureKind.UNUSABLE, "the answer's cookies contradict each other"),
    httpx.StreamConsumed: (FailureKind.UNUSABLE, "the answer was read twice"),
    httpx.StreamClosed: (FailureKind.CUT, "the answer was closed while it was read"),
    httpx.ResponseNotRead: (FailureKind.UNUSABLE, "the answer was not read"),
    httpx.RequestNotRead: (FailureKind.UNSENT, "the request was not read"),
    httpx.StreamError: (FailureKind.UNUSABLE, "the answer could not be read"),
}
HTTPX_ERRORS: Final = (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, httpx.StreamError)


def failure_of(error: Exception) -> Failure:
    """The failure that an exception of the HTTP client, or of the operating system below it, represents."""
    for kind_of_error in type(error).__mro__:
        if kind_of_error in HTTPX_FAILURES:
            kind, text = HTTPX_FAILURES[kind_of_error]
            return Failure(kind, text)
    if isinstance(error, TimeoutError):
        return Failure(FailureKind.TIMEOUT, "timed out")
    return Failure(FailureKind.CUT, f"the connection failed ({type(error).__name__})")
