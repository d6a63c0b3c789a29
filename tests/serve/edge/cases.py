"""The cases that every rule must pass, and what is expected: `exporter.tree.routes` and the files are the judge."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_plus

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from exporter.tree.families import EMPTY_PAGE_KEY, kind_of
from exporter.tree.headers import ERROR_CACHE_CONTROL, UNCACHED, cache_control, content_type
from exporter.tree.problems import (
    MAX_URL_LENGTH,
    METHOD_NOT_ALLOWED,
    MISSING_PAGE,
    URL_TOO_LONG,
    Problem,
    is_site_path,
)
from exporter.tree.routes import Served, route
from tests.render.rendering import SIZES
from tests.serve import test_preview as test_serve
from tests.tree import test_routes

ORIGIN = {"origin": "https://example.org"}


class Case(Struct, frozen=True):
    """One request: the URL is path and query as they are sent."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The path, still percent-encoded."""
        return self.url.partition("?")[0]

    @property
    def query(self) -> str:
        """The part of the URL after the question mark."""
        return self.url.partition("?")[2]


class Answer(Struct, frozen=True):
    """The answer; names of headers are lower case. ``asked`` is the URL as the platform tidied it up."""

    status: int
    headers: dict[str, str]
    body: bytes
    asked: str | None = None


class Expected(Struct, frozen=True):
    """A file of the tree, or a problem."""

    status: int
    key: str | None = None
    detail: str | None = None


def expected(case: Case, root: Path) -> Expected:
    """The API's answer to a request without conditions, for a tree in a folder."""
    if case.method == "OPTIONS":
        return Expected(204)
    if case.method not in ("GET", "HEAD"):
        return Expected(405, detail=METHOD_NOT_ALLOWED.detail)
    if len(case.path) + len(case.query) > MAX_URL_LENGTH:
        return Expected(414, detail=URL_TOO_LONG.detail)
    answer = route(case.path, case.query, SIZES)
    if isinstance(answer, Problem):
        return Expected(answer.status, detail=answer.detail)
    for key in answer.keys:
        path = root / key
        if path.resolve().is_relative_to(root.resolve()) and path.is_file():
            return Expected(200, key)
    return Expected(answer.missing.status, detail=answer.missing.detail)


def nginx_expected(case: Case, root: Path) -> Expected:
    """The expected answer of nginx, which refuses an encoded market, token or cursor, because it cannot decode it."""
    known = expected(case, root)
    if known.status in (204, 405, 414):
        return known
    if refused_by_nginx_itself(case.path):
        return Expected(400)
    if not isinstance(route(case.path, "", SIZES), Served):
        return known
    pairs: dict[str, str] = {}
    for pair in case.query.split("&"):
        name, _, value = pair.partition("=")
        pairs.setdefault(unquote_plus(name), value)
    strkey, cursor = r"C[A-Z2-7]{55}", r"[A-Za-z0-9_-]{1,128}"
    patterns = {"cursor": cursor} if pairs.get("cursor") else {"market": strkey, "token": strkey}
    lists = [route(path, "", SIZES) for path in ("/v1/assets", "/v1/pools")]
    listing = case.path.endswith("/history") or route(case.path, "", SIZES) in lists
    for name, pattern in patterns.items():
        sent = pairs.get(name, "")
        history = case.path.endswith("/history") and name != "cursor"
        if listing and not history and "%" in sent and re.fullmatch(pattern, unquote_plus(sent)):
            return Expected(400)
    return known


def refused_by_nginx_itself(path: str) -> bool:
    """Whether nginx refuses a path before any rule: a NUL, invalid encoding, or a climb out of the root."""
    if "%00" in path or re.search(r"%(?![0-9A-Fa-f]{2})", path):
        return True
    depth = 0
    for segment in unquote(path).split("/")[1:]:
        depth += {"": 0, ".": 0, "..": -1}.get(segment, 1)
        if depth < 0:
            return True
    return False


def cloudfront_expected(case: Case, root: Path) -> Expected:
    """The expected answer of CloudFront, which gives the index or the empty page for any missing file of a listing."""
    known = expected(case, root)
    answer = route(case.path, case.query, SIZES)
    if known.status == 404 and isinstance(answer, Served):
        file = re.compile(
            r"(v1/assets/(?:(?:market|token)/.*/)?|v1/pools/(?:market|token)/.*/)(?:index|limit/[0-9]+)\.json"
        )
        for found in filter(None, map(file.fullmatch, answer.keys)):
            index = f"{found[1]}index.json"
            return Expected(200, index if (root / index).is_file() else EMPTY_PAGE_KEY)
        return replace(known, detail=None)  # known from the key, which may have been asked for as such
    return known


def faults(case: Case, wanted: Expected, answer: Answer, root: Path) -> list[str]:
    """Everything in which an answer is not as expected."""
    found: dict[str, tuple[Any, Any]] = {"status": (wanted.status, answer.status)}
    headers = {"cache-control": "", **answer.headers}
    if wanted.status != answer.status:
        return _differences(case, found)
    if wanted.status == 405:
        found["allow"] = ("GET, HEAD, OPTIONS", headers.get("allow"))
    if case.headers.get("origin") or wanted.status >= 400 or wanted.status == 204:
        found["CORS"] = ("*", headers.get("access-control-allow-origin"))
        exposed = headers.get("access-control-expose-headers", "").split(", ")
        found["exposed"] = (["Accept-Ranges", "Content-Length", "Content-Range", "ETag"], exposed)
    if wanted.key is not None:
        found["body"] = (b"" if case.method == "HEAD" else (root / wanted.key).read_bytes(), answer.body)
        found["type"] = (content_type(wanted.key), headers.get("content-type"))
        found["lifetime"] = (cache_control(kind_of(wanted.key)), headers.get("cache-control"))
        found["etag"] = (True, "etag" in headers)
    elif wanted.status == 204:
        found["body"] = (b"", answer.body)
        for name, value in (("methods", "GET, HEAD, OPTIONS"), ("headers", "If-None-Match, Range")):
            found[name] = (value, headers.get(f"access-control-allow-{name}"))
        found["remembered"] = ("86400", headers.get("access-control-max-age"))
    else:
        page = wanted.status == 404 and is_site_path((answer.asked or case.url).partition("?")[0])
        kind = "text/html; charset=utf-8" if page else "application/problem+json"
        found["type"] = (kind, headers.get("content-type"))
        found["lifetime"] = (ERROR_CACHE_CONTROL if wanted.status in (400, 404) else UNCACHED, headers["cache-control"])
        found["etag"] = (False, "etag" in headers)
        if page:
            found["body"] = (b"" if case.method == "HEAD" else MISSING_PAGE.encode(), answer.body)
        else:
            found |= _problem_faults(case, wanted, answer)
    return _differences(case, found)


def _problem_faults(case: Case, wanted: Expected, answer: Answer) -> dict[str, tuple[Any, Any]]:
    if case.method == "HEAD":
        return {"body": (b"", answer.body)}
    document = msgspec.json.decode(answer.body, type=Problem)
    found: dict[str, tuple[Any, Any]] = {"problem": (wanted.status, document.status)}
    if wanted.detail is not None:  # a rule at the edge does not repeat the client's own value
        found["detail"] = _without_value(wanted.detail), _without_value(document.detail)
    return found


def _without_value(detail: str) -> str:
    return detail.partition("; got ")[0].rstrip(".")


def _differences(case: Case, found: dict[str, tuple[Any, Any]]) -> list[str]:
    return [
        f"{case.method} {case.url[:200]} {case.headers}: {name} {is_!r:.300}, expected {wanted!r:.300}"
        for name, (wanted, is_) in found.items()
        if wanted != is_
    ]


def _urls() -> Iterable[str]:
    for query, *_ in (*test_routes.OF_ASSETS, *test_routes.BAD_VALUES):
        yield f"/v1/assets?{query}"
    for path, query, *_ in (*test_routes.REFUSED_NAMES, *test_routes.IGNORED_NAMES, *test_routes.REFUSED):
        yield f"{path}?{query}"
    for path, _ in test_routes.PATHS:
        yield path
        yield f"{path}?limit=bad&market=bad"
    for query in [
        *(query for query, _ in (*test_routes.OF_POOLS, *test_routes.OF_POOLS_OF_ONE, *test_routes.POOLS_REFUSED)),
        f"market={test_serve.BIG}",
        f"token={test_serve.COMMON}",
        f"market={test_serve.BIG.replace('C', '%43', 1)}",
    ]:
        yield f"/v1/pools?{query}"
    yield from (f"/v1/pools/market/{test_serve.BIG}", f"/v1/pools/token/{test_serve.STRANGER}")
    yield from (f"{path}?{query}" for path, query, _ in test_routes.WAYS_THAT_WORK)
    yield from (f"/v1/pool-pages/{test_routes.TOKEN}", "/v1/pool-pages/unknown", "/v1/pools/open", "/v1/pools/nothing")
    histories = [query for query, _ in test_routes.OF_HISTORIES]
    for market, pool in ((test_routes.M, test_routes.T), (test_serve.BIG, test_serve.COMMON)):
        yield from (f"/v1/assets/{market}/{pool}/history?{query}" for query in histories)
    totals = (*test_routes.HISTORIES, f"/v1/markets/{test_serve.BIG}", f"/v1/tokens/{test_serve.COMMON}")
    for path in (*totals, "/v1/protocols/a.b", "/v1/protocols/nobody"):
        yield from (f"{path}/history?{query}" for query in histories)
        yield from (
            f"{path}/history?{query}" for query in ("bucket=2h", "cursor=a.b", "cursor=unknown", "%62ucket=%36h")
        )
        yield f"{path}/history/1h.json"
    yield from (f"/v1/tokens?{query}" for query, _ in test_routes.OF_TOKENS)
    yield from (f"/v1/tokens?symbol={symbol}" for symbol in (*test_routes.SYMBOLS_REFUSED, "nobody", "%75sdc"))
    yield from (
        "/v1/tokens/symbol/usdc",
        "/v1/tokens/symbol/usdc.json",
        "/v1/tokens/symbol/nobody",
        "/v1/tokens/symbol",
    )
    yield from test_serve.URLS
    yield from ("/v1", "/v1/", "/v1?x=1", "/v1/?x=1", "/v1//", "/v1/index.json", "/v1.json")
    yield from test_serve.MISSING_PAGES
    yield from test_routes.TRAVERSALS
    yield from (
        f"/{key}" for key in ("index.html", "style.css", test_serve.PARQUET, "v1/errors/404.json", "v1/errors/404")
    )
    big, common = test_serve.BIG, test_serve.COMMON
    yield from (f"/v1/tokens/{common}", f"/v1/tokens/{common}.json", f"/v1/tokens/{test_serve.STRANGER}")
    yield from (f"/v1/assets/{big}/{common}", f"/v1/assets/{big}/{common}.json", f"/v1/assets/{big}/{'a' * 100}")
    yield from (f"/v1/assets/{big}/{common}/history", f"/v1/assets/{big}/{common}/history/1d", f"/v1/markets/{big}")
    yield from (f"/v1/assets/market/{big}", f"/v1/assets/market/{big}/token/{common}", "/v1/assets/limit/20")
    yield from (f"/v1/assets/market/{test_serve.STRANGER}/index.json", f"/v1/assets/token/{test_serve.STRANGER}")
    yield f"/v1/assets?{'x' * (MAX_URL_LENGTH - 10)}"
    yield f"/v1/assets?{'x' * (MAX_URL_LENGTH - 9)}"
    yield f"/v1/assets?{'&' * 4000}limit=5"
    yield f"/v1/assets?{'limit=&' * 1000}limit=5"
    yield f"/v1/assets?{'a=b&' * 2000}limit=5"


def table() -> list[Case]:
    """Every request that the tests of the rule and the preview server make, some of them with other methods."""
    cases = [Case(url, headers=ORIGIN) for url in dict.fromkeys(_urls())]
    for url in (
        "/v1/assets",
        "/v1/assets?limit=bad",
        "/v1/assets?cursor=unknown",
        f"/{test_serve.PARQUET}",
        "/v1/x/.y",
        "/nothing",
        "/nothing.html",
        "/x/.y",
        "/v1/assets?sort=tvl",
    ):
        for method in ("HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "PROPFIND"):
            cases.append(Case(url, method, ORIGIN))
    return cases


def can_be_sent(case: Case) -> bool:
    """Whether an HTTP client can ask for a URL: it begins with a slash and is of visible ASCII."""
    return re.fullmatch(r"/[\x21-\x7e]*", case.url) is not None
