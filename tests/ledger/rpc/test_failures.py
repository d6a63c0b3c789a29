"""Every failure has its rule: each error of Stellar RPC, each HTTP status, each exception of httpx."""

from __future__ import annotations

import httpx
import pytest

from exporter.ledger.rpc.failures import (
    HTTPX_ERRORS,
    Action,
    Failure,
    FailureKind,
    classify,
    failure_of,
    part_size,
    rule_for,
    stated_maximum,
)

READ, LEDGERS, HEALTH, NETWORK, SIMULATE = (
    "getLedgerEntries",
    "getLedgers",
    "getHealth",
    "getNetwork",
    "simulateTransaction",
)
CORE = "could not query captive core: "
NOT_FOUND = CORE + "http request failed with non-200 status code (404)"

N, S, G = Action.NEXT, Action.SPLIT, Action.GIVE_UP


def rpc(code: int, text: str, method: str = READ) -> Failure:
    return Failure(FailureKind.RPC, text, method, code)


def http(status: int, method: str = READ) -> Failure:
    return Failure(FailureKind.HTTP, f"HTTP {status}", method, status)


def other(kind: FailureKind) -> Failure:
    return Failure(kind, "words", READ)


def outcomes(failure: Failure, keys: int) -> tuple[Action, Action]:
    """What to do at first, and in the end."""
    return classify(failure, keys, at_last=False), classify(failure, keys, at_last=True)


# failure, and what to do: at first, and when it repeats with nobody else left to ask; for 200 keys, then for one
TABLE = {
    # getLedgerEntries, error by error
    "too many keys": (rpc(-32602, "key count (201) exceeds maximum supported (200)"), (S, S), (G, G)),
    "bad key": (rpc(-32602, "cannot unmarshal key value AAAA at index 3"), (G, G), (G, G)),
    "bad format": (
        rpc(-32602, "got 'x': expected base64, json for optional 'xdrFormat'"),
        (G, G),
        (G, G),
    ),
    "ttl key": (rpc(-32602, "ledger ttl entries cannot be queried directly"), (G, G), (G, G)),
    "no keys": (rpc(-32603, CORE + "no keys specified in request"), (G, G), (G, G)),
    "duplicate keys or no snapshot": (rpc(-32603, NOT_FOUND), (N, S), (N, N)),
    "core slow": (rpc(-32603, CORE + "http request errored: deadline exceeded"), (N, N), (N, N)),
    "non-canonical key": (rpc(-32603, "mismatching key in result"), (S, S), (G, G)),
    "method too slow": (
        rpc(-32001, "request exceeded processing limit threshold"),
        (N, S),
        (N, N),
    ),
    "queue": (
        rpc(-32098, "rpc queue for getLedgerEntries surpassed queue limit of 1000 requests"),
        (N, N),
        (N, N),
    ),
    "panic": (rpc(-32003, "request failed to process due to internal issue"), (N, N), (N, N)),
    "overloaded": (http(503), (N, N), (N, N)),
    "gateway timeout": (http(504), (N, N), (N, N)),
    "server error": (http(500), (N, N), (N, N)),
    "content type": (http(415), (N, N), (N, N)),
    "not POST": (http(405), (N, N), (N, N)),
    # the other codes
    "parse error": (rpc(-32700, "Parse error"), (N, N), (N, N)),
    "invalid request": (rpc(-32600, "Invalid Request"), (N, N), (N, N)),
    "no such method": (rpc(-32601, "no such method"), (N, N), (N, N)),
    "cancelled": (rpc(-32096, "request cancelled"), (N, N), (N, N)),
    "deadline": (rpc(-32097, "deadline exceeded"), (N, N), (N, N)),
    "unknown code": (rpc(-32099, "who knows"), (N, N), (N, N)),
    "gateway limit": (rpc(-32005, "limit exceeded"), (N, N), (N, N)),
    "gateway 429": (rpc(429, "slow down"), (N, N), (N, N)),
    "other internal": (rpc(-32603, "boom"), (N, N), (N, N)),
    "provider's maximum": (rpc(-32602, "too many keys, the plan allows 10"), (S, S), (G, G)),
    # other methods
    "ledger not there yet": (
        rpc(-32600, "start ledger (9) must be between the oldest ledger: 2 and the latest ledger: 8", LEDGERS),
        (N, N),
        (N, N),
    ),
    "ledger gone": (
        rpc(-32600, "start ledger (1) must be between the oldest ledger: 2 and the latest ledger: 8", LEDGERS),
        (N, N),
        (N, N),
    ),
    "lagging": (
        rpc(-32603, "latency (40s) since last known ledger closed is too high (>30s)", HEALTH),
        (N, N),
        (N, N),
    ),
    "404 of another method": (rpc(-32603, NOT_FOUND, SIMULATE), (N, N), (N, N)),
    "simulation refused": (rpc(-32602, "invalid parameters", SIMULATE), (G, G), (G, G)),
    "network refused": (rpc(-32602, "invalid parameters", NETWORK), (N, N), (N, N)),
    "health refused": (rpc(-32602, "key limit exceeded", HEALTH), (N, N), (N, N)),
    # HTTP
    "HTTP 400": (http(400), (N, N), (N, N)),
    "HTTP 401": (http(401), (N, N), (N, N)),
    "HTTP 403": (http(403), (N, N), (N, N)),
    "HTTP 404": (http(404), (N, N), (N, N)),
    "HTTP 408": (http(408), (N, N), (N, N)),
    "HTTP 413": (http(413), (S, S), (N, N)),
    "HTTP 425": (http(425), (N, N), (N, N)),
    "HTTP 429": (http(429), (N, N), (N, N)),
    "HTTP 502": (http(502), (N, N), (N, N)),
    "HTTP 204": (http(204), (N, N), (N, N)),
    # below HTTP
    "connect": (other(FailureKind.CONNECT), (N, N), (N, N)),
    "timeout": (other(FailureKind.TIMEOUT), (N, N), (N, N)),
    "cut": (other(FailureKind.CUT), (N, N), (N, N)),
    "redirect": (other(FailureKind.REDIRECT), (N, N), (N, N)),
    "stale": (other(FailureKind.STALE), (N, N), (N, N)),
    "unusable": (other(FailureKind.UNUSABLE), (N, N), (N, N)),
    "too large": (other(FailureKind.TOO_LARGE), (N, N), (N, N)),
    "unsent": (other(FailureKind.UNSENT), (N, N), (N, N)),
}


@pytest.mark.parametrize("row", TABLE)
def test_every_row_of_the_table(row: str) -> None:
    """Each failure leads to its action, at first and in the end."""
    failure, for_many, for_one = TABLE[row]

    assert for_many == outcomes(failure, 200)
    assert for_one == outcomes(failure, 1)


LASTING = {
    "content type",
    "not POST",
    "invalid request",
    "no such method",
    "ledger gone",
    "network refused",
    "health refused",
    "HTTP 400",
    "HTTP 401",
    "HTTP 403",
    "HTTP 404",
    "HTTP 413",
    "redirect",
    "unsent",
}
BLAMELESS = {
    "too many keys",
    "bad key",
    "bad format",
    "ttl key",
    "no keys",
    "duplicate keys or no snapshot",
    "non-canonical key",
    "no such method",
    "provider's maximum",
    "ledger not there yet",
    "ledger gone",
    "simulation refused",
    "HTTP 413",
}


def test_lasting_failures_are_not_tried_again() -> None:
    """A failure that waiting cannot heal rules its endpoint out for the call; no other failure does."""
    assert LASTING == {row for row, (failure, _, _) in TABLE.items() if rule_for(failure).lasting}


def test_failures_of_the_request_do_not_blame_the_endpoint() -> None:
    """An endpoint is put aside for its own failures, not for those that the request, or the ledger, causes."""
    assert BLAMELESS == {row for row, (failure, _, _) in TABLE.items() if not rule_for(failure).blame}


def test_only_words_of_lag_mark_an_endpoint_as_lagging() -> None:
    """An error of getHealth about its latency, and a health that is not healthy, mark an endpoint as lagging."""
    assert {"lagging", "stale"} == {row for row, (failure, _, _) in TABLE.items() if rule_for(failure).stale}


def test_waits_that_the_failure_calls_for() -> None:
    """A missing snapshot is asked for again after 0.2 to 0.5 s, a ledger not yet there after about half a ledger."""
    waits = {row: wait for row, (failure, _, _) in TABLE.items() if (wait := rule_for(failure).wait_s)}

    assert {"duplicate keys or no snapshot": (0.2, 0.5), "ledger not there yet": (2.0, 4.0)} == waits


@pytest.mark.parametrize(
    ("text", "keys", "size", "stated"),
    [
        ("key count (200) exceeds maximum supported (50)", 200, 50, 50),
        ("key count (200) exceeds maximum supported (200)", 200, 100, 200),
        ("key count (200) exceeds maximum supported (0)", 200, 100, None),
        ("key count (200) exceeds maximum supported (99999999999999)", 200, 100, None),
        ("too many keys", 5, 3, None),
        ("too many keys", 2, 1, None),
    ],
)
def test_a_batch_is_split_at_the_stated_maximum_or_in_halves(
    text: str, keys: int, size: int, stated: int | None
) -> None:
    """A stated maximum is kept to if it is smaller than the batch; otherwise the batch is halved, rounding up."""
    failure = rpc(-32602, text)

    assert size == part_size(failure, keys)
    assert stated == stated_maximum(failure)


def test_a_failure_has_a_name_for_the_report() -> None:
    """The report counts failures by kind, with the code where there is one."""
    assert ["rpc -32603", "http 503", "timeout"] == [
        rpc(-32603, "x").name,
        http(503).name,
        other(FailureKind.TIMEOUT).name,
    ]


def exported_exceptions() -> list[type[Exception]]:
    exported = (getattr(httpx, name) for name in httpx.__all__)
    return [each for each in exported if isinstance(each, type) and issubclass(each, Exception)]


def test_every_httpx_exception_is_caught() -> None:
    """The classes that the client catches cover every exception class of httpx."""
    assert [] == [each for each in exported_exceptions() if not issubclass(each, HTTPX_ERRORS)]


@pytest.mark.parametrize("kind", exported_exceptions(), ids=lambda kind: kind.__name__)
def test_texts_of_httpx_never_get_through(kind: type[Exception]) -> None:
    """The failure has words of its own, since the original's may quote the URL."""
    error = kind.__new__(kind)
    Exception.__init__(error, "https://rpc.example.org/secret")
    failure = failure_of(error)

    assert failure.text.endswith(f"({kind.__name__})")
    assert "secret" not in str(failure)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionResetError("secret"), FailureKind.CUT),
        (httpx.RemoteProtocolError("secret"), FailureKind.CUT),
        (httpx.ConnectError("secret"), FailureKind.CONNECT),
        (httpx.ProxyError("secret"), FailureKind.CONNECT),
        (httpx.UnsupportedProtocol("secret"), FailureKind.UNSENT),
        (httpx.LocalProtocolError("secret"), FailureKind.UNSENT),
        (httpx.InvalidURL("secret"), FailureKind.UNSENT),
        (httpx.DecodingError("secret"), FailureKind.UNUSABLE),
        (TimeoutError("secret"), FailureKind.TIMEOUT),
        (type("NewError", (httpx.ReadTimeout,), {})("secret"), FailureKind.TIMEOUT),
    ],
)
def test_exceptions_are_mapped_by_their_family(error: Exception, kind: FailureKind) -> None:
    """Errors of httpx, of the operating system, and classes derived from these have the kind of their family."""
    failure = failure_of(error)

    assert kind == failure.kind
    assert "secret" not in failure.text
