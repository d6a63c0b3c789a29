"""Says which file answers a public URL. The API's rule is a pure function here, which knows no file system.

The preview server applies it. The rules for nginx, CloudFront Functions and Cloudflare Workers are ports of it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from urllib.parse import unquote, unquote_plus

from msgspec import Struct

from exporter.tree import families
from exporter.tree.files import is_key
from exporter.tree.headers import content_type
from exporter.tree.problems import (
    MUTUALLY_EXCLUSIVE,
    UNKNOWN_BUCKET_PAGE,
    UNKNOWN_CURSOR,
    Problem,
    invalid_parameter,
    not_a_parameter,
    not_found,
    unknown_market,
    unknown_pool,
    unknown_protocol,
    unknown_symbol,
    unknown_token,
)
from exporter.tree.values import BUCKET_NAMES, CONTRACT, CURSOR, DEFAULT_BUCKET, POOL, PROTOCOL, SYMBOL

MAX_LIMIT = 2**31 - 1
"""The largest value of `limit`, which is an int32."""

_CONTRACT, _POOL, _CURSOR, _PROTOCOL, _SYMBOL = (
    re.compile(form) for form in (CONTRACT, POOL, CURSOR, PROTOCOL, SYMBOL)
)
_DIGITS = re.compile(r"[0-9]+")
STRKEY_ACCEPTED = (
    "a contract address: C and 55 characters of A-Z and 2-7; /v1/markets and /v1/tokens have them next to the names"
)
POOL_ACCEPTED = (
    "a pool id: 1 to 128 letters, digits, '_' and '-', beginning with a letter or digit; "
    "/v1/pools?market= has those of a market"
)
BUCKET_ACCEPTED = f"one of {', '.join(BUCKET_NAMES)}"
DAY_ACCEPTED = DEFAULT_BUCKET
LIMIT_ACCEPTED = f"an integer from 0 to {MAX_LIMIT}, in digits"
PROTOCOL_ACCEPTED = "the name of a protocol in /v1/protocols, such as blend"
OPEN_ACCEPTED = "open, or left out for all pools"
SYMBOL_ACCEPTED = "1 to 32 of A-Z, a-z, 0-9, '.', '_' and '-', or else /v1/tokens/{address}"
LISTS: Mapping[str, tuple[str, ...]] = {
    "assets": ("market", "token", "limit", "cursor"),
    "pools": ("protocol", "status", "market", "token", "cursor"),
    "tokens": ("symbol",),
    **dict.fromkeys(("markets", "protocols", "changes", "yields/pools", "yields/borrow"), ()),
}
"""The parameters of each list, by its path below `/v1/`."""
UNSUPPORTED_FILTERS = (
    *("protocol", "symbol", "status", "sort", "order", "offset", "page", "per_page", "fields", "pool", "asset", "name"),
    *("limit", "market", "token", "cursor"),
)
"""Names that a client may take for a filter, an order or a page of a list.

Those that are not parameters of the path are refused, because ignoring them would answer another question. Other
unknown names, such as cache busters, are ignored.
"""

_FILTER_FOLDERS = frozenset({"limit", "market", "token"})


class Served(Struct, frozen=True):
    """The answer is the first file of `keys` that exists. If none exists, it is the problem `missing`."""

    keys: tuple[str, ...]
    missing: Problem


def route(path: str, query: str, sizes: Sequence[int]) -> Served | Problem:
    """The file that answers a URL, or the problem that does.

    Args:
        path: the path as it was sent, percent-encoded.
        query: what follows the question mark.
        sizes: the page sizes of the published run, ascending, beginning with 1.
    """
    segments = _segments(path)
    if segments is None:
        return not_found()
    match segments:
        case []:
            return Served(("index.html",), not_found())
        case ["v1"]:
            return Served((families.API_INDEX.only_key,), not_found())
        case ["v1", "assets"]:
            return _route_assets(query, sizes)
        case ["v1", "pools"]:
            return _route_pools(query)
        case ["v1", "tokens"]:
            return _route_tokens(query)
        case ["v1", *rest] if (refused := _unsupported(_parameters(query), "/".join(rest))) is not None:
            return refused
        case ["v1", "markets" | "tokens" as kind, address, *rest] if rest == ["history"] or (
            not rest and not address.endswith(".json")
        ):
            if not _CONTRACT.fullmatch(address):
                return invalid_parameter("market" if kind == "markets" else "address", address, STRKEY_ACCEPTED)
            missing = unknown_market(address) if kind == "markets" else unknown_token(address)
            if rest:
                return _route_history(segments, query, families.TOTALS_PAGE, missing)
            return Served((f"v1/{kind}/{address}.json",), missing)
        case ["v1", "assets", market, pool] if market not in _FILTER_FOLDERS and not pool.endswith(".json"):
            return _invalid_pool(market, pool) or Served(
                (families.POOL_DOCUMENT.key(market=market, pool=pool),), unknown_pool(market, pool)
            )
        case ["v1", "assets", market, pool, "history"] if market not in _FILTER_FOLDERS:
            return _invalid_pool(market, pool) or _route_history(
                segments, query, families.BUCKET_PAGE, unknown_pool(market, pool)
            )
        case ["v1", "protocol", "summary", "history"]:
            return _route_history(segments, query, families.TOTALS_PAGE, not_found())
        case ["v1", "protocols", name, "history"] if _PROTOCOL.fullmatch(name):
            return _route_history(segments, query, families.TOTALS_PAGE, not_found())
    key = "/".join(segments)
    if not is_key(key):
        return not_found()
    if "." in segments[-1]:
        return Served((key,), not_found()) if content_type(key) else not_found()
    for page, missing in (
        (families.PAGE, UNKNOWN_CURSOR),
        (families.POOLS_PAGE, UNKNOWN_CURSOR),
        (families.BUCKET_PAGE, UNKNOWN_BUCKET_PAGE),
    ):
        if f"{key}/".startswith(page.prefix):
            return Served((f"{key}.json",), missing)
    return Served((f"{key}.json", f"{key}/index.json"), not_found())


def _segments(path: str) -> list[str] | None:
    """The decoded segments of a path. None if one of them could mean anything else than a plain name in the tree."""
    if not path.startswith("/"):
        return None
    if path == "/":
        return []
    if path == "/v1/":
        return ["v1"]
    segments = [unquote(segment) for segment in path[1:].split("/")]
    return segments if all(map(_is_harmless, segments)) else None


def _is_harmless(segment: str) -> bool:
    """Whether a segment can neither leave its folder nor name a hidden file, which begins with a dot."""
    if not segment or segment.startswith("."):
        return False
    return not any(character in "/\\" or ord(character) < 0x20 for character in segment)


def _parameters(query: str) -> dict[str, str]:
    """The parameters of a query. Of a repeated one the first counts, and an empty one counts as absent."""
    first: dict[str, str] = {}
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        first.setdefault(unquote_plus(name), unquote_plus(value))
    return {name: value for name, value in first.items() if value}


def _page(family: families.Family, cursor: str, missing: Problem) -> Served | Problem:
    """The page of a cursor. The cursor fixes the run, the filter and the size, so other parameters are ignored."""
    return Served((family.key(cursor=cursor),), missing) if _CURSOR.fullmatch(cursor) else missing


def _invalid_addresses(parameters: Mapping[str, str]) -> Problem | None:
    for name in ("market", "token"):
        if name in parameters and not _CONTRACT.fullmatch(parameters[name]):
            return invalid_parameter(name, parameters[name], STRKEY_ACCEPTED)
    return None


def _route_assets(query: str, sizes: Sequence[int]) -> Served | Problem:
    parameters = _parameters(query)
    if cursor := parameters.get("cursor"):
        return _page(families.PAGE, cursor, UNKNOWN_CURSOR)
    if refused := _unsupported(parameters, "assets") or _invalid_addresses(parameters):
        return refused
    market, token, limit = (parameters.get(name) for name in ("market", "token", "limit"))
    folder = families.assets_folder(market, token)
    keys = [f"{folder}/index.json"]
    if limit is not None:
        size = _size_for(limit, sizes)
        if size is None:
            return invalid_parameter("limit", limit, LIMIT_ACCEPTED)
        # The page of a size is missing if it would repeat the index. A market's pools of one token have no empty page.
        keys = [] if size == 0 and market and token else [f"{folder}/limit/{size}.json", *keys]
    unfiltered = market is None and token is None
    return Served(tuple(keys) if unfiltered else (*keys, families.EMPTY_PAGE_KEY), not_found())


def _route_pools(query: str) -> Served | Problem:
    parameters = _parameters(query)
    if cursor := parameters.get("cursor"):
        return _page(families.POOLS_PAGE, cursor, UNKNOWN_CURSOR)
    if refused := _unsupported(parameters, "pools") or _invalid_addresses(parameters):
        return refused
    market, token, protocol, status = (parameters.get(name) for name in ("market", "token", "protocol", "status"))
    missing = not_found()
    if protocol is not None:
        if not _PROTOCOL.fullmatch(protocol):
            return invalid_parameter("protocol", protocol, PROTOCOL_ACCEPTED)
        protocol = protocol.lower()
        missing = unknown_protocol(protocol)
    if status not in (None, "open"):
        return invalid_parameter("status", status, OPEN_ACCEPTED)
    if market is None and token is None:
        return Served((families.pools_key(protocol, only_open=status is not None),), missing)
    if [market, token, protocol, status].count(None) < 3:
        return MUTUALLY_EXCLUSIVE
    # A filter that matches nothing has the same empty page as in /v1/assets.
    return Served((families.pools_of_key(market, token), families.EMPTY_PAGE_KEY), not_found())


def _route_tokens(query: str) -> Served | Problem:
    parameters = _parameters(query)
    if refused := _unsupported(parameters, "tokens"):
        return refused
    symbol = parameters.get("symbol")
    if symbol is None:
        return Served(("v1/tokens.json",), not_found())
    if not _SYMBOL.fullmatch(symbol):
        return invalid_parameter("symbol", symbol, SYMBOL_ACCEPTED)
    lower = symbol.lower()
    return Served((families.TOKENS_OF_SYMBOL.key(symbol=lower),), unknown_symbol(lower))


def _unsupported(parameters: Mapping[str, str], path: str) -> Problem | None:
    """The problem of the first parameter that looks like a filter and is not one of this list; None without one."""
    accepted = LISTS.get(path)
    if accepted is None:
        return None
    named = next((name for name in UNSUPPORTED_FILTERS if name in parameters and name not in accepted), None)
    return None if named is None else not_a_parameter(named, f"/v1/{path}", accepted)


def _invalid_pool(market: str, pool: str) -> Problem | None:
    if not _CONTRACT.fullmatch(market):
        return invalid_parameter("market", market, STRKEY_ACCEPTED)
    if not _POOL.fullmatch(pool):
        return invalid_parameter("pool", pool, POOL_ACCEPTED)
    return None


def _route_history(path: Sequence[str], query: str, page: families.Family, missing: Problem) -> Served | Problem:
    parameters = _parameters(query)
    if cursor := parameters.get("cursor"):
        return _page(page, cursor, UNKNOWN_BUCKET_PAGE)
    bucket = parameters.get("bucket", DEFAULT_BUCKET)
    names, accepted = (
        (BUCKET_NAMES, BUCKET_ACCEPTED) if page is families.BUCKET_PAGE else ((DEFAULT_BUCKET,), DAY_ACCEPTED)
    )
    if bucket not in names:
        return invalid_parameter("bucket", bucket, accepted)
    return Served((f"{'/'.join(path)}/{bucket}.json",), missing)


def _size_for(limit: str, sizes: Sequence[int]) -> int | None:
    """The largest page size that is not above the limit. 0 for a limit of 0; None if the limit is not valid."""
    if not _DIGITS.fullmatch(limit):
        return None
    # The length is compared first, because Python refuses to convert more than 4,300 digits.
    digits = limit.lstrip("0") or "0"
    if len(digits) > len(str(MAX_LIMIT)) or int(digits) > MAX_LIMIT:
        return None
    number = int(digits)
    return sizes[bisect_right(sizes, number) - 1] if number else 0
